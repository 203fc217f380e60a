#include "trace/arguments.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "common/json_document.h"
#include "common/run_name_rule.h"
#include "common/utc_time.h"
#include "common/utf8.h"
#include "db/run_records.h"
#include "db/trace_row.h"
#include "kernels/fingerprint/fingerprint.h"

namespace greta::trace {
namespace {

constexpr size_t kMaxExtraBytes = 64u << 10;
constexpr size_t kMaxRouteBytes = 64;
constexpr size_t kMaxTokens = size_t{1} << 20;
constexpr size_t kMaxAttributeBytes = 8u << 10;  // six times as many where each is escaped
constexpr uint32_t kMaxSampleValues = 256;

std::string sha256_text(const char* text, const char* what) {
  std::string hash = text_of(text, what);
  for (char& c : hash) c = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  if (!hash.empty() &&
      (hash.size() != 64 || hash.find_first_not_of("0123456789abcdef") != hash.npos)) {
    throw BadArgument(std::string(what) + " is not 64 hexadecimal digits: " + hash.substr(0, 80));
  }
  return hash;
}

/// Also of a run that has a name of its own.
std::string name_part(const std::string& text, const char* what) {
  if (!is_name_part(text)) {
    throw BadArgument(std::string(what) + " '" + text + "': " + std::string(kNamePartRule));
  }
  return text;
}

std::string date_of(const char* text) {
  std::string date = text_of(text, "date");
  if (date.empty()) return utc_day_before(0);
  if (!is_day(date)) throw BadArgument("date is not YYYY-MM-DD: " + date.substr(0, 40));
  return date;
}

int64_t in_range(int64_t value, int64_t low, int64_t high, const char* what) {
  if (value >= low && value <= high) return value;
  throw BadArgument(std::string(what) +
                    (value == GRETA_UNSET
                         ? " is not set"
                         : " " + std::to_string(value) + " is not from " + std::to_string(low) +
                               " to " + std::to_string(high)));
}

/// One line of JSON.
std::string extra_of(const char* text) {
  if (text == nullptr || *text == '\0') return "";
  const size_t size = strnlen(text, kMaxExtraBytes + 1);
  if (size > kMaxExtraBytes) throw BadArgument("extra is longer than 64 KiB");
  nlohmann::json extra;
  const std::string why = parse_json({text, size}, kMaxExtraBytes, extra);
  if (!why.empty()) throw BadArgument("extra is not taken: " + why);
  if (!extra.is_object()) throw BadArgument("extra is not a JSON object");
  return extra.empty() ? "" : extra.dump();
}

}  // namespace

std::string text_of(const char* text, const char* what, size_t max_bytes) {
  if (text == nullptr) return "";
  const std::string_view view(text, strnlen(text, max_bytes + 1));
  if (view.size() > max_bytes) {
    throw BadArgument(std::string(what) + " is longer than " + std::to_string(max_bytes) +
                      " bytes");
  }
  if (!utf8::is_valid(view)) throw BadArgument(std::string(what) + " is not UTF-8");
  const bool controls = std::any_of(view.begin(), view.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  if (controls) throw BadArgument(std::string(what) + " has control characters");
  return std::string(view);
}

std::string required_text(const char* text, const char* what, size_t max_bytes) {
  std::string known = text_of(text, what, max_bytes);
  if (known.empty()) throw BadArgument(std::string(what) + " is missing");
  return known;
}

ValueType value_type_of(greta_dtype dtype) {
  switch (static_cast<int>(dtype)) {
    case GRETA_F32:
      return ValueType::kF32;
    case GRETA_F16:
      return ValueType::kF16;
    case GRETA_BF16:
      return ValueType::kBf16;
    default:
      throw BadArgument("dtype " + std::to_string(static_cast<int>(dtype)) + " is no greta_dtype");
  }
}

Phase phase_of(int32_t phase) {
  constexpr std::array kPhases{Phase::kPrefillLast, Phase::kPrefill, Phase::kDecode0,
                               Phase::kDecode};
  if (phase == 0) throw BadArgument("phase is not set");
  return kPhases[static_cast<size_t>(in_range(phase, GRETA_PREFILL_LAST, GRETA_DECODE, "phase") -
                                     GRETA_PREFILL_LAST)];
}

int layer_of(int32_t layer) {
  return static_cast<int>(in_range(layer, kLayerAfterStack, kMaxLayer, "layer"));
}

RunRecord::Attribute attribute_of(const char* name, const char* value) {
  RunRecord::Attribute fact{required_text(name, "name of an attribute"),
                            required_text(value, "value of an attribute", 64u << 10)};
  for (const char* own : {"experiment", "date", "commit", "mode", "dtype", "seed", kTraceRows}) {
    if (fact.first == own) {
      throw BadArgument("attribute " + fact.first + ": the run says that elsewhere");
    }
  }
  return fact;
}

RunRecord run_record_of(const greta_run_info& info) {
  RunRecord run;
  run.name = text_of(info.run, "run");
  run.experiment = name_part(required_text(info.experiment, "experiment"), "experiment");
  run.date = date_of(info.date);
  run.commit_sha = text_of(info.commit, "commit");
  run.mode = text_of(info.mode, "mode");
  if (!run.mode.empty()) name_part(run.mode, "mode");
  run.dtype = text_of(info.dtype, "dtype");
  run.seed = info.seed;
  run.started_at = utc_now();
  const auto add = [&run](const char* name, std::string value) {
    if (!value.empty()) run.attributes.emplace_back(name, std::move(value));
  };
  add("backend", text_of(info.backend, "backend"));
  add("model", text_of(info.model, "model"));
  add("model_sha256", sha256_text(info.model_sha256, "model_sha256"));
  add("model_root", sha256_text(info.model_root, "model_root"));
  const char* const* a = info.attributes;
  size_t bytes = 0;
  for (; a != nullptr && *a != nullptr; a += 2) {
    run.attributes.push_back(attribute_of(a[0], a[1]));
    bytes += run.attributes.back().first.size() + run.attributes.back().second.size() + 8;
    if (bytes > kMaxAttributeBytes) {
      throw BadArgument("attributes are longer than 8 KiB: add the others when the run has begun");
    }
  }
  if (info.sample_values > kMaxSampleValues) {
    throw BadArgument("sample_values is more than " + std::to_string(kMaxSampleValues));
  }
  return run;
}

PromptRecord prompt_record_of(const greta_prompt& prompt) {
  PromptRecord record;
  record.name = required_text(prompt.name, "name of a prompt");
  record.text_sha256 = sha256_text(prompt.text_sha256, "text_sha256");
  if (prompt.token_ids == nullptr) return record;
  if (prompt.n_tokens > kMaxTokens) throw BadArgument("n_tokens is more than 2^20");
  record.token_ids.assign(prompt.token_ids, prompt.token_ids + prompt.n_tokens);
  for (const int32_t id : record.token_ids) in_range(id, 0, INT32_MAX, "a token id");
  return record;
}

TraceRecord record_of(const greta_row& row, size_t n_rows) {
  TraceRecord record;
  record.phase = phase_of(row.phase);
  record.layer = layer_of(row.layer);
  record.pos_id = in_range(row.pos_id, kUnknownPosition, kMaxPosition, "pos_id");
  record.step = in_range(row.step, kUnknownStep, INT32_MAX, "step");
  record.token_id = static_cast<int32_t>(in_range(row.token_id, -1, INT32_MAX, "token_id"));
  const int64_t index = in_range(row.logical_tok_idx, -1, INT32_MAX, "logical_tok_idx");
  if (index >= 0) record.logical_tok_idx = index;
  record.route = text_of(row.route, "route", kMaxRouteBytes);
  record.extra = extra_of(row.extra);
  if (n_rows <= 1) return record;
  if (record.pos_id < 0) throw BadArgument("several rows need positions");
  if (n_rows > static_cast<size_t>(kMaxPosition - record.pos_id) + 1) {
    throw BadArgument("more rows than there are positions");
  }
  return record;
}

namespace {

/// The API's own struct and that of the kernels have the same fields.
template <class From, class To>
void copy_fields(const From& from, To& to) {
  to.n = from.n;
  to.hash = from.hash;
  to.min = from.min;
  to.max = from.max;
  to.mean = from.mean;
  to.abs_sum = from.abs_sum;
  to.sum_sq = from.sum_sq;
  to.nan = from.nan;
  to.inf = from.inf;
  to.nz_count = from.nz_count;
  std::copy(std::begin(from.sketch), std::end(from.sketch), std::begin(to.sketch));
}

}  // namespace

Fingerprint fingerprint_of(const greta_fingerprint& given) {
  Fingerprint f;
  copy_fields(given, f);
  if (const char* fault = fault_of(f)) {
    throw BadArgument(std::string("no values have this fingerprint: ") + fault);
  }
  return f;
}

void set_fingerprint(greta_fingerprint& to, const Fingerprint& from) { copy_fields(from, to); }

}  // namespace greta::trace
