#include "engine/forward/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>

#include "engine/gguf/parser.h"

namespace greta {
namespace {

/// Number of the plane, not whole, that turns so many times over so many positions.
double plane_that_turns(double times, double theta, int64_t rope_dim, int64_t context) {
  const double turn = times * 2 * std::numbers::pi;
  return static_cast<double>(rope_dim) * std::log(static_cast<double>(context) / turn) /
         (2 * std::log(theta));
}

/// What is left of each plane's frequency. Where the ramp begins and ends is rounded as the
/// authors' code does.
std::vector<double> yarn_parts(double theta, int64_t rope_dim, const RopeScaling& s) {
  const auto plane = [&](double times) {
    return plane_that_turns(times, theta, rope_dim, s.original_context);
  };
  const double begin = std::max(0.0, std::floor(plane(s.beta_fast)));
  const double end = std::min(static_cast<double>(rope_dim - 1), std::ceil(plane(s.beta_slow)));
  std::vector<double> parts;
  for (int64_t i = 0; i < rope_dim / 2; ++i) {
    const double along = (static_cast<double>(i) - begin) / std::max(0.001, end - begin);
    const double stretched = std::clamp(along, 0.0, 1.0);
    parts.push_back(1 - stretched + stretched / s.factor);
  }
  return parts;
}

}  // namespace

double RopeScaling::magnitude() const {
  const bool grows = type == Type::kYarn && factor > 1;
  return (grows ? 1 + 0.1 * std::log(factor) : 1) * attn_factor;
}

std::string RopeScaling::text() const {
  char text[128] = "";
  if (type == Type::kLinear && factor != 1) {
    std::snprintf(text, sizeof text, "linear, %g times", factor);
  } else if (type == Type::kYarn) {
    std::snprintf(text, sizeof text, "yarn, %g times %lld positions", factor,
                  static_cast<long long>(original_context));
  }
  std::string whole = text;
  if (attn_factor != 1) {
    std::snprintf(text, sizeof text, "%sattention factor %g", whole.empty() ? "" : ", ",
                  attn_factor);
    whole += text;
  }
  return whole;
}

RopeScaling read_rope_scaling(const GgufFile& file, const Architecture& architecture,
                              int64_t context) {
  const auto key = [&](std::string_view rest) { return architecture.key(rest); };
  const auto above_0 = [&](const std::string& name, double value) {
    if (!(value > 0)) throw GgufError(file.name() + ": " + name + " is not above 0");
    return value;
  };
  const auto real = [&](std::string_view rest, double or_else) {
    return above_0(key(rest), file.real_value(key(rest), or_else));
  };
  RopeScaling scaling;
  scaling.attn_factor = real("rope.scaling.attn_factor", 1);
  const std::string_view type = file.string_value(key("rope.scaling.type"), "linear");
  if (type == "none") return scaling;
  if (type != "linear" && type != "yarn") {
    throw GgufError(file.name() + ": " + key("rope.scaling.type") + " is " + gguf_quoted(type) +
                    "; none, linear, yarn and rope_freqs.weight are supported");
  }
  scaling.type = type == "yarn" ? RopeScaling::Type::kYarn : RopeScaling::Type::kLinear;
  const std::string name = key("rope.scaling.factor"), older = key("rope.scale_linear");
  scaling.factor = file.real_value(file.find(name) != nullptr ? name : older, 1);
  if (scaling.factor == 0) scaling.factor = 1;  // llama.cpp's word for none
  above_0(name, scaling.factor);
  if (scaling.type != RopeScaling::Type::kYarn) return scaling;
  scaling.beta_fast = real("rope.scaling.yarn_beta_fast", scaling.beta_fast);
  scaling.beta_slow = real("rope.scaling.yarn_beta_slow", scaling.beta_slow);
  const std::string original = key("rope.scaling.original_context_length");
  scaling.original_context =
      static_cast<int64_t>(file.unsigned_value(original, static_cast<uint64_t>(context)));
  above_0(original, static_cast<double>(scaling.original_context));
  return scaling;
}

std::vector<double> rope_frequencies(double theta, int64_t rope_dim, const RopeScaling& scaling,
                                     std::span<const float> factors) {
  const bool yarn = scaling.type == RopeScaling::Type::kYarn;
  const std::vector<double> parts =
      yarn ? yarn_parts(theta, rope_dim, scaling) : std::vector<double>{};
  std::vector<double> angles(static_cast<size_t>(rope_dim / 2));
  for (size_t i = 0; i < angles.size(); ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(rope_dim);
    const double angle = std::pow(theta, exponent);
    angles[i] = yarn ? angle * parts[i] : angle / scaling.factor;
    if (!factors.empty()) angles[i] /= static_cast<double>(factors[i]);
  }
  return angles;
}

}  // namespace greta
