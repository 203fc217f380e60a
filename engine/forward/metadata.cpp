
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <set>
#include <string>

#include "engine/forward/model.h"
#include "engine/gguf/parser.h"

namespace greta {
namespace {

[[noreturn]] void refuse(const GgufFile& file, std::string_view key, const std::string& why) {
  throw GgufError(file.name() + ": " + std::string(key) + " " + why);
}

/// Keys of an architecture that are honoured, and those that say nothing about the computation.
const std::set<std::string_view> kKnown = {
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_epsilon",  // of a LayerNorm, which these models do not have
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.value_length",
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.attn_factor",
    "rope.scaling.factor",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "tensor_data_layout",
    "vocab_size",
};
const std::set<std::string_view> kKnownOfTokenizers = {
    "tokenizer.chat_template",
    "tokenizer.ggml.add_bos_token",
    "tokenizer.ggml.add_eos_token",
    "tokenizer.ggml.add_sep_token",  // of encoders
    "tokenizer.ggml.add_space_prefix",
    "tokenizer.ggml.bos_token_id",
    "tokenizer.ggml.cls_token_id",
    "tokenizer.ggml.eom_token_id",
    "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.mask_token_id",
    "tokenizer.ggml.merges",
    "tokenizer.ggml.model",
    "tokenizer.ggml.padding_token_id",
    "tokenizer.ggml.pre",
    "tokenizer.ggml.remove_extra_whitespaces",  // of unigram vocabularies, which are refused
    "tokenizer.ggml.scores",
    "tokenizer.ggml.seperator_token_id",  // spelled so
    "tokenizer.ggml.token_type",
    "tokenizer.ggml.token_type_count",
    "tokenizer.ggml.tokens",
    "tokenizer.ggml.unknown_token_id",
    "tokenizer.huggingface.json",
};

/// Keys of an architecture with the only value that greta computes.
struct Neutral {
  std::string_view key;
  double value, or_value;
};
constexpr Neutral kNeutral[] = {
    {"attention.clamp_kqv", 0, 0},
    {"attention.max_alibi_bias", 0, 0},
    {"attention.scale", 0, 0},
    {"attn_logit_softcapping", 0, 0},
    {"embedding_scale", 1, 0},
    {"expert_count", 0, 0},
    {"expert_used_count", 0, 0},
    {"final_logit_softcapping", 0, 0},
    {"logit_scale", 1, 0},
    {"residual_scale", 1, 0},
    {"rope.scaling.alpha", 0, 0},
    {"rope.scaling.yarn_attn_factor", 1, 1},
    {"rope.scaling.yarn_ext_factor", 1, -1},
    {"rope.scaling.yarn_log_multiplier", 0, 0},
};

/// The same of keys that are true or false.
struct NeutralFlag {
  std::string_view key;
  bool value;
  std::string_view why;
};
constexpr NeutralFlag kNeutralFlags[] = {
    {"attention.causal", true, "is false; attention is causal here"},
    {"use_parallel_residual", false, "is true; not supported"},
};

double number_of(const GgufFile& file, std::string_view key) {
  const GgufValue* value = file.find(key);
  if (const auto* number = std::get_if<uint64_t>(value)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<int64_t>(value)) return static_cast<double>(*number);
  return file.real_value(key);
}

bool is_checked(std::string_view rest) {
  const auto is_it = [rest](const auto& neutral) { return neutral.key == rest; };
  return std::ranges::any_of(kNeutral, is_it) || std::ranges::any_of(kNeutralFlags, is_it);
}

bool is_known_of_tokenizers(std::string_view key) {
  // templates of chats and marks of infilling, which text completion does not use
  return kKnownOfTokenizers.contains(key) || key.starts_with("tokenizer.chat_template.") ||
         key.starts_with("tokenizer.ggml.fim_");
}

/// Number of the plane, not whole, that turns so many times over so many positions.
double plane_that_turns(double times, double theta, int64_t rope_dim, int64_t context) {
  const double turn = times * 2 * std::numbers::pi;
  return static_cast<double>(rope_dim) * std::log(static_cast<double>(context) / turn) /
         (2 * std::log(theta));
}

/// Factor on each plane's frequency. Where the ramp begins and ends is rounded as the
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

std::vector<std::string_view> check_metadata(const GgufFile& file,
                                             const Architecture& architecture) {
  for (const Neutral& neutral : kNeutral) {
    const std::string key = architecture.key(neutral.key);
    if (file.find(key) == nullptr) continue;
    const double value = number_of(file, key);
    if (value != neutral.value && value != neutral.or_value) {
      refuse(file, key, "is " + std::to_string(value) + "; what it asks for is not supported");
    }
  }
  for (const NeutralFlag& flag : kNeutralFlags) {
    const std::string key = architecture.key(flag.key);
    if (file.bool_value(key, flag.value) != flag.value) refuse(file, key, std::string(flag.why));
  }
  const std::string own = architecture.key("");
  std::vector<std::string_view> unknown;
  for (const auto& [key, value] : file.metadata()) {
    if (key.starts_with(own)) {
      const std::string_view rest = key.substr(own.size());
      if (!kKnown.contains(rest) && !is_checked(rest)) unknown.push_back(key);
    } else if (key.starts_with("tokenizer.") && !is_known_of_tokenizers(key)) {
      unknown.push_back(key);
    }
  }
  return unknown;
}

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
