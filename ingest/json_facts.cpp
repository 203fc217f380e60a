#include "ingest/json_facts.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/json_document.h"
#include "ingest/known_claim.h"
#include "ingest/run_identity.h"
#include "ingest/text.h"

namespace greta {
namespace {

using nlohmann::json;

// Bounds what one leaf costs: its path and its dimensions are copied for every leaf.
constexpr size_t kMaxPath = 256;
constexpr size_t kMaxDimValue = 64;
constexpr size_t kMaxJsonClaims = 10'000;  // one failure is as good as all

struct Alias {
  std::string_view key, dim;
};

// Which run of the experiment.
constexpr Alias kDims[] = {
    {"span", "span"},     {"dtype", "dtype"},      {"kv_aligned", "kv_aligned"},
    {"seed", "seed"},     {"kv", "kv_aligned"},    {"ctx", "ctx"},
    {"batch", "batch"},   {"context", "ctx"},      {"context_len", "ctx"},
    {"repeat", "repeat"}, {"batch_size", "batch"}, {"profile", "profile"}};

// What else is known about a run.
constexpr Alias kAttributes[] = {
    {"prompt_len", "prompt_len"}, {"gen_len", "gen_len"},     {"layer", "layer"},
    {"layer_analyzed", "layer"},  {"timestamp", "timestamp"}, {"host", "host"},
    {"git_commit", "commit"},     {"commit", "commit"},       {"repo_branch", "repo_branch"}};

// Plurals that declare the values of a dimension.
constexpr Alias kPlurals[] = {{"spans", "span"},      {"dtypes", "dtype"},      {"seeds", "seed"},
                              {"contexts", "ctx"},    {"batches", "batch"},     {"modes", "mode"},
                              {"repeats", "repeat"},  {"batch_sizes", "batch"}, {"layers", "layer"},
                              {"profiles", "profile"}};

constexpr std::string_view kKinds[] = {"perf_summary", "drift_summary", "metadata",
                                       "config",       "perf",          "summary"};

template <size_t N>
std::string_view find_alias(const Alias (&aliases)[N], std::string_view key) {
  for (const Alias& alias : aliases) {
    if (alias.key == key) return alias.dim;
  }
  return {};
}

std::string kind_of(std::string_view file_stem) {
  const std::string stem = text::to_lower(file_stem);
  for (const std::string_view kind : kKinds) {
    if (stem == kind || stem.ends_with("_" + std::string(kind))) return std::string(kind);
  }
  return "other";
}

// A scalar as people write it: strings without quotes, numbers as JSON.
std::string scalar_text(const json& value) {
  return value.is_string() ? value.get_ref<const std::string&>() : json_text(value);
}

// As scalar_text, but the same for 128, 128.0 and "128", and for true and 1.
std::string dim_value(const json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "1" : "0";
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (std::abs(number) < 1e15 && std::floor(number) == number) {
      return std::to_string(static_cast<int64_t>(number));
    }
  }
  return std::string(text::trim(scalar_text(value)));
}

bool is_dim_value(const json& value) {
  return !value.is_structured() && !value.is_null() && !dim_value(value).empty() &&
         dim_value(value).size() <= kMaxDimValue;
}

// Numbers may be written as strings.
std::optional<double> number_of(const json& value) {
  double number = 0;
  if (value.is_number()) {
    number = value.get<double>();
  } else if (value.is_string()) {
    const std::string_view s = text::trim(value.get_ref<const std::string&>());
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), number);
    if (error != std::errc() || end != s.data() + s.size()) return std::nullopt;
  } else {
    return std::nullopt;
  }
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

bool is_number_name(std::string_view key) {
  return !key.empty() && key.size() <= 20 && key.find_first_not_of("0123456789") == key.npos;
}

std::string first_word(std::string_view s) {
  s = text::trim(s);
  return std::string(s.substr(0, s.find_first_of(" \t\r\n,;:(")));
}

// Statuses that are verdicts: PASS, FAIL_EQUIV, EXPECTED_DRIFT, ...; not OK or COMPLETE.
bool is_verdict_word(std::string_view s) {
  const std::string word = text::to_lower(first_word(s));
  for (const std::string_view head : {"pass", "fail", "inconclusive", "expected_drift"}) {
    if (word.starts_with(head)) return true;
  }
  return false;
}

bool all_objects(const json& array) {
  return !array.empty() &&
         std::all_of(array.begin(), array.end(), [](const json& item) { return item.is_object(); });
}

std::string join(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : path + "." + std::string(key);
}

// One run of the experiment as an entry of a list or of a keyed object describes it.
struct Scope {
  std::map<std::string, std::string> dims;
  std::string leg;
  std::string prefix;  // of metric names: "" or "scaling."
};

// "span_128_dtype_bf16_decode": dimensions, then maybe a leg; nullopt for any other name.
std::optional<Scope> parse_group_name(std::string_view name) {
  if (name.size() > kMaxPath) return std::nullopt;
  Scope scope;
  const auto dim_at = [&](size_t at) -> const Alias* {
    const Alias* longest = nullptr;
    for (const Alias& alias : kDims) {
      const std::string_view rest = name.substr(at);
      if (rest.starts_with(alias.key) && rest.substr(alias.key.size()).starts_with('_') &&
          (!longest || alias.key.size() > longest->key.size())) {
        longest = &alias;
      }
    }
    return longest;
  };
  for (size_t at = 0; at < name.size();) {
    if (is_leg(name.substr(at))) {
      scope.leg = name.substr(at);
      break;
    }
    const Alias* dim = dim_at(at);
    if (!dim) return std::nullopt;
    const size_t start = at + dim->key.size() + 1;
    size_t end = name.find('_', start);
    while (end != name.npos && !dim_at(end + 1) && !is_leg(name.substr(end + 1))) {
      end = name.find('_', end + 1);
    }
    const std::string_view value = name.substr(start, end == name.npos ? end : end - start);
    if (value.empty() || value.size() > kMaxDimValue) return std::nullopt;
    scope.dims.emplace(dim->dim, value);
    at = end == name.npos ? name.size() : end + 1;
  }
  return scope.dims.empty() ? std::nullopt : std::optional(std::move(scope));
}

bool is_row(const json& object) {
  const auto has = [&](std::initializer_list<const char*> keys) {
    return std::any_of(keys.begin(), keys.end(), [&](const char* k) { return object.contains(k); });
  };
  return has({"phase"}) && has({"layer"}) && has({"point", "tensor_name", "metric", "tag"}) &&
         has({"hash", "min", "max", "mean", "nan", "sample", "data"});
}

// Of a document whose nesting is bounded.
bool holds_rows(const json& value) {
  if (value.is_object() && is_row(value)) return true;
  return value.is_structured() && std::any_of(value.begin(), value.end(), holds_rows);
}

// Walks a document whose nesting is bounded, so that recursion is safe.
class FactsReader {
 public:
  explicit FactsReader(JsonFacts& facts) : facts_(facts) {}

  void read(const json& document) {
    if (facts_.kind == "other") return read_claims(document);
    const bool states = facts_.kind == "metadata" || facts_.kind == "config";
    if (facts_.kind == "perf") read_leg(document);
    for (const auto& [key, value] : document.items()) {
      if (states || key == "config") {
        look_for_failures({}, key, value);
        attribute(key, key, value);
      } else {
        top_level(key, value);
      }
    }
    look_at_counts({}, document);
  }

 private:
  /// All that is read of a document whose name says nothing.
  void read_claims(const json& document) {
    for (const auto& [key, value] : document.items()) {
      if (is_verdict(key, value)) {
        claim({}, value);
      } else {
        look_for_failures({}, key, value);
      }
    }
    look_at_counts({}, document);
  }

  static bool is_verdict(std::string_view key, const json& value) {
    return !value.is_structured() && (key == "global_verdict" || key == "verdict" ||
                                      (key == "status" && value.is_string() &&
                                       is_verdict_word(value.get_ref<const std::string&>())));
  }

  void read_leg(const json& document) {
    const auto mode = document.find("mode");
    if (mode != document.end() && mode->is_string() &&
        is_leg(mode->get_ref<const std::string&>())) {
      own_.leg = mode->get_ref<const std::string&>();
    }
  }

  void top_level(const std::string& key, const json& value) {
    if (is_verdict(key, value)) return claim({}, value);
    if (value.is_array() && all_objects(value)) return read_list(key, value);
    if (value.is_object()) return read_object(key, value);
    look_for_failures({}, key, value);
    if (number_of(value) && value.is_number() && !is_known(key)) {
      metric(own_, key, value);
    } else if (value.is_null() && !is_known(key)) {
      metric(own_, key, value);
    } else {
      attribute(key, key, value);
    }
  }

  static bool is_known(std::string_view key) {
    return !find_alias(kDims, key).empty() || !find_alias(kAttributes, key).empty() ||
           key == "mode" || key == "leg";
  }

  // Entries that describe one run each.
  void read_list(const std::string& key, const json& list) {
    size_t index = 0;
    for (const json& item : list) {
      Scope scope;
      if (key != "results") scope.prefix = clip(key) + ".";
      read_run(item, std::move(scope), clip(key) + "[" + std::to_string(index++) + "]");
    }
  }

  // An object of a summary: a group of runs, runs keyed by context length, or plain values.
  void read_object(const std::string& key, const json& object) {
    if (auto scope = parse_group_name(key)) return read_run(object, std::move(*scope), key);
    const bool by_context =
        !object.empty() && std::all_of(object.items().begin(), object.items().end(), [](auto item) {
          return is_number_name(item.key()) && item.value().is_object();
        });
    if (!by_context) {
      look_for_failures({}, key, object);
      return flatten_own(key, object);
    }
    for (const auto& [context, item] : object.items()) {
      Scope scope;
      scope.dims.emplace("ctx", context);
      read_run(item, std::move(scope), join(clip(key), context));
    }
  }

  // Numbers of the file's own run are metrics, the rest attributes.
  void flatten_own(const std::string& path, const json& object) {
    if (object.empty() || must_stop(path, object)) return attribute(path, "", object);
    for (const auto& [key, value] : object.items()) {
      const std::string child = join(path, key);
      if (value.is_object()) {
        flatten_own(child, value);
      } else if (value.is_number() || value.is_null()) {
        metric(own_, child, value);
      } else {
        attribute(child, "", value);
      }
    }
  }

  void read_run(const json& run, Scope scope, const std::string& path) {
    for (const auto& [key, value] : run.items()) {
      const std::string_view dim = find_alias(kDims, key);
      if (!dim.empty() && is_dim_value(value)) scope.dims.emplace(dim, dim_value(value));
      if (key == "mode" && scope.leg.empty() && is_leg(dim_value_or_empty(value))) {
        scope.leg = dim_value(value);
      }
    }
    look_at_counts(scope.dims, run);
    for (const auto& [key, value] : run.items()) {
      if (repeats_scope(scope, key, value)) continue;
      look_for_failures(scope.dims, key, value);
      if (is_verdict(key, value)) {
        claim(scope.dims, value);
      } else if ((key == "prefill_perf" || key == "decode_perf") && value.is_object()) {
        Scope leg = scope;
        leg.leg = key.substr(0, key.find('_'));
        for (const auto& [name, item] : value.items()) {
          if (!repeats_scope(leg, name, item)) flatten(leg, name, item);
        }
      } else {
        flatten(scope, key, value);
      }
    }
    if (run.empty()) attribute(path, "", run);
  }

  static std::string dim_value_or_empty(const json& value) {
    return is_dim_value(value) ? dim_value(value) : std::string();
  }

  // True if a value only says again which run, or which leg, it belongs to.
  static bool repeats_scope(const Scope& scope, const std::string& key, const json& value) {
    const std::string text = dim_value_or_empty(value);
    if (key == "mode") return !text.empty() && text == scope.leg;
    const auto dim = scope.dims.find(std::string(find_alias(kDims, key)));
    return dim != scope.dims.end() && dim->second == text;
  }

  void flatten(const Scope& scope, const std::string& path, const json& value) {
    if (!value.is_object() || value.empty() || must_stop(path, value)) {
      return metric(scope, path, value);
    }
    for (const auto& [key, item] : value.items()) flatten(scope, join(path, key), item);
  }

  void metric(const Scope& scope, const std::string& path, const json& value) {
    Metric metric;
    metric.dims = scope.dims;
    metric.leg = scope.leg;
    metric.name = scope.prefix + clip(path);
    metric.value = number_of(value);
    metric.text = scalar_text(value);
    facts_.metrics.push_back(std::move(metric));
  }

  void claim(const std::map<std::string, std::string>& dims, const json& value) {
    const std::string text = scalar_text(value);
    std::string word = value.is_null() ? std::string() : first_word(text);
    const bool fails = claims_failure("verdict", text) && !text::to_lower(word).starts_with("fail");
    facts_.claims.push_back({dims, fails ? "FAIL" : std::move(word), text});
  }

  void add_failure(const std::map<std::string, std::string>& dims, const std::string& claim) {
    if (facts_.claims.size() < kMaxJsonClaims) facts_.claims.push_back({dims, "FAIL", claim, true});
  }

  /// Those of an object itself; what it holds is looked through by look_for_failures.
  void look_at_counts(const std::map<std::string, std::string>& dims, const json& object) {
    if (has_fewer_than_total(object)) add_failure(dims, kFewerThanTotal);
  }

  void look_for_failures(const std::map<std::string, std::string>& dims, const std::string& key,
                         const json& value) {
    for_each_failure(key, value, [&](const std::string& claim) { add_failure(dims, claim); });
  }

  // `key` is the last part of the path, "" where known names do not count.
  void attribute(const std::string& path, std::string_view key, const json& value) {
    if (value.is_object() && !value.empty() && !must_stop(path, value)) {
      for (const auto& [name, item] : value.items()) {
        attribute(join(path, name), key.empty() ? std::string_view() : name, item);
      }
      return;
    }
    std::string dim = dim_name(path, key, value);
    std::string text = is_run_dim(dim) ? dim_value(value) : scalar_text(value);
    if (dim == "timestamp") keep_nearest(facts_.timestamp, timestamp_depth_, path, text);
    if (dim == "commit") {
      if (text::to_lower(text) == "synthetic") {
        facts_.synthetic = true;
        dim = "synthetic";
        text = "1";
      }
    }
    facts_.attributes.push_back({std::move(dim), std::move(text)});
  }

  static std::string dim_name(const std::string& path, std::string_view key, const json& value) {
    std::string name = clip(path.starts_with("config.") ? path.substr(7) : path);
    if (value.is_array()) {
      for (const std::string_view known : {find_alias(kPlurals, key), find_alias(kDims, key)}) {
        if (!known.empty()) return std::string(known) + "[]";
      }
      return (key == "mode" ? std::string(key) : name) + "[]";
    }
    if (is_dim_value(value)) {
      if (key == "mode") return is_leg(dim_value_or_empty(value)) ? "leg" : "mode";
      for (const std::string_view known : {find_alias(kDims, key), find_alias(kAttributes, key)}) {
        if (!known.empty()) return std::string(known);
      }
    }
    // null, "" and the like must not pass for a dimension's value.
    return is_known(name) && !is_dim_value(value) ? "invalid." + name : name;
  }

  static bool is_run_dim(std::string_view dim) {
    return std::any_of(std::begin(kDims), std::end(kDims),
                       [&](const Alias& alias) { return alias.dim == dim; });
  }

  static void keep_nearest(std::string& kept, size_t& depth, const std::string& path,
                           const std::string& text) {
    const size_t dots = static_cast<size_t>(std::count(path.begin(), path.end(), '.'));
    if (dots >= depth) return;
    depth = dots;
    kept = text;
  }

  // An object whose children would get a path too long is kept whole, as JSON text.
  static bool must_stop(const std::string& path, const json& object) {
    return std::any_of(object.items().begin(), object.items().end(),
                       [&](auto item) { return path.size() + 1 + item.key().size() > kMaxPath; });
  }

  static std::string clip(const std::string& name) {
    if (name.size() <= kMaxPath) return name;
    size_t end = kMaxPath;  // never inside a UTF-8 sequence
    while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0u) == 0x80u) --end;
    return name.substr(0, end) + "...";
  }

  JsonFacts& facts_;
  Scope own_;  // the file's own run: no dimensions, the leg of a perf file
  size_t timestamp_depth_ = std::numeric_limits<size_t>::max();
};

}  // namespace

JsonFacts read_json_facts(std::string_view text, std::string_view file_stem) {
  JsonFacts facts;
  facts.kind = kind_of(file_stem);
  const json document = parse_json_document(text, facts.error);
  if (!facts.error.empty()) return facts;
  FactsReader(facts).read(document);
  facts.holds_rows = holds_rows(document);
  return facts;
}

}  // namespace greta
