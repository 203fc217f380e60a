#include "cli/greta_infer/combination.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "common/exit_status.h"

namespace greta {
namespace {

/// Options whose value is one word without a comma, those first that make the backend anew.
constexpr std::array<std::string_view, 10> kKeys{
    "backend", "threads",     "mode",         "batch", "sequences",
    "seed",    "max-seq-len", "decode-steps", "suite", "kv-cache"};
constexpr std::string_view kRoute = "route.";

bool is_route(std::string_view key) { return key.starts_with(kRoute) && key != kRoute; }

size_t rank_of(std::string_view key) {
  return std::min<size_t>(
      static_cast<size_t>(std::find(kKeys.begin(), kKeys.end(), key) - kKeys.begin()), 2);
}

std::string known_keys() {
  std::string text;
  for (const std::string_view key : kKeys) text.append(key).append(", ");
  return text + "route.OP";
}

/// The key in a run's name: an operation by its own.
std::string_view short_key(std::string_view key) {
  return is_route(key) ? key.substr(kRoute.size()) : key;
}

}  // namespace

Variation parse_variation(const std::string& text) {
  const size_t equals = text.find('=');
  Variation variation{text.substr(0, equals), {}};
  const std::string& key = variation.key;
  if (equals == std::string::npos ||
      (!is_route(key) && std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end())) {
    throw UsageError("--vary " + text + ": give KEY=VALUE,VALUE with a KEY of " + known_keys());
  }
  for (size_t at = equals + 1; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string value = text.substr(at, end - at);
    if (value.empty()) throw UsageError("--vary " + text + ": a value is empty");
    if (std::find(variation.values.begin(), variation.values.end(), value) !=
        variation.values.end()) {
      throw UsageError("--vary " + text + ": " + value + " is there twice");
    }
    variation.values.push_back(value);
    at = end + 1;
  }
  return variation;
}

std::vector<Combination> combinations(std::vector<Variation> variations, size_t max) {
  std::stable_sort(
      variations.begin(), variations.end(),
      [](const Variation& a, const Variation& b) { return rank_of(a.key) < rank_of(b.key); });
  std::vector<Combination> all(1);
  for (const Variation& variation : variations) {
    for (const auto& [key, value] : all.front()) {
      if (key == variation.key) throw UsageError("--vary " + key + " is given twice");
    }
    // sizes are below 2^20 each: command lines are not longer
    if (all.size() * variation.values.size() > max) {
      throw UsageError("these are more than " + std::to_string(max) +
                       " combinations: vary less, or allow more by --max-runs");
    }
    std::vector<Combination> longer;
    for (const Combination& combination : all) {
      for (const std::string& value : variation.values) {
        longer.push_back(combination);
        longer.back().emplace_back(variation.key, value);
      }
    }
    all = std::move(longer);
  }
  return all;
}

std::string label_of(const Combination& combination) {
  std::string label;
  for (const auto& [key, value] : combination) {
    if (key == "mode") continue;
    label.append(label.empty() ? "" : ".").append(short_key(key)).append("-");
    for (const char c : value) {
      const bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
      label += fits ? c : '_';
    }
  }
  return label;
}

std::string text_of(const Combination& combination) {
  std::string text;
  for (const auto& [key, value] : combination) {
    text.append(text.empty() ? "" : " ").append(key).append("=").append(value);
  }
  return text;
}

ProbeArguments varied(const ProbeArguments& base, const Combination& combination) {
  ProbeArguments arguments = base;
  arguments.label = label_of(combination);
  CLI::App command;  // so that a value means what it means to a probe
  add_probe_options(command, arguments);
  std::vector<std::string> words;
  for (const auto& [key, value] : combination) {
    const bool route = is_route(key);
    if (route) parse_route_choice(std::string(short_key(key)) + "=" + value);
    words.push_back(route ? "--route=" + std::string(short_key(key)) + "=" + value
                          : "--" + key + "=" + value);
  }
  std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
  command.parse(std::move(words));
  std::vector<std::string>& routes = arguments.compute.routes;
  if (routes != base.compute.routes) {
    routes.insert(routes.begin(), base.compute.routes.begin(), base.compute.routes.end());
  }
  if (arguments.compute.mode) parse_mode(*arguments.compute.mode);
  return arguments;
}

}  // namespace greta
