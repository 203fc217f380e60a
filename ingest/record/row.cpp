#include <algorithm>
#include <array>
#include <cmath>

#include "common/json_document.h"
#include "common/near_words.h"
#include "ingest/record/shapes.h"
#include "ingest/text.h"
#include "kernels/fingerprint/fingerprint.h"

// A line of the row format that is a row. Nothing is guessed: what is not as docs/traces.md says is
// a finding, and the line gives no row.

namespace greta::record {
namespace {

constexpr size_t kMaxRouteBytes = 64, kMaxTensorBytes = 256;
constexpr size_t kMaxExtraBytes = 64u << 10;
constexpr size_t kMaxSample = 256;
constexpr std::array<std::string_view, 4> kPhases{"prefill_last", "prefill", "decode0", "decode"};

/// Why a row is not taken.
struct BadRow {
  std::string why;
};

constexpr std::array kRowKeys{kEvent,   kPrompt,        kPhase,  kLayer,  kPosId, kStep,
                              kTokenId, kLogicalTokIdx, kRoute,  kExtra,  kN,     kHash,
                              kMin,     kMax,           kMean,   kAbsSum, kSumSq, kNan,
                              kInf,     kNzCount,       kSketch, kSample};
constexpr std::array kStatisticKeys{kN, kHash, kMin, kMax, kMean, kAbsSum, kNan, kInf, kNzCount};

/// 5 of "5" and of "5.0".
std::optional<int64_t> whole_number(std::string_view token) {
  if (const auto value = text::number<int64_t>(token)) return value;
  const auto value = real(token);
  const bool is_whole = value && std::fabs(*value) <= 1e15 && *value == std::trunc(*value);
  return is_whole ? std::optional(static_cast<int64_t>(*value)) : std::nullopt;
}

/// The bits of a hash: decimal, unsigned or signed, or 0x and hexadecimal digits.
std::optional<uint64_t> hash_of(std::string_view token) {
  if (const auto value = text::number<uint64_t>(token)) return value;
  const auto value = integer(token);
  return value ? std::optional(static_cast<uint64_t>(*value)) : std::nullopt;
}

class RowLine {
 public:
  explicit RowLine(LineReader& in) : in_(in), fields_(in.fields) {}
  void read();

 private:
  void find_others();
  [[noreturn]] void refuse_unknown(std::string_view name) const;
  std::string word(std::string_view token, std::string_view name, size_t max_bytes) const;
  std::string_view required(Key key) const;
  int64_t whole(Key key, int64_t low, int64_t high) const;
  std::optional<int64_t> whole_if_known(Key key, int64_t low, int64_t high) const;
  double real_of(Key key) const;
  int64_t prompt();
  std::string phase() const;
  Fingerprint of_values();
  Fingerprint stated();
  void take_sketch(Fingerprint& f, bool may_be_spoilt);
  Fingerprint as_far_as_finite(const Fingerprint& f);
  void leave_masked_out(Fingerprint& f, std::string& extra);
  void set_sample(TraceRow& row, const Fingerprint& f);
  void set_fingerprint(TraceRow& row, const Fingerprint& f);

  LineReader& in_;
  Fields& fields_;
  std::string_view tensor_, values_, sketch_, masked_;                   // as written
  bool has_sketch_ = false, says_nonfinite_ = false, is_minus_ = false;  // all infinities: -inf
  uint64_t n_masked_ = 0;
};

/// A field is written once, and is one of the row's.
void RowLine::find_others() {
  for (size_t k = 0; k < kKeyCount; ++k) {
    const auto key = static_cast<Key>(k);
    const bool is_there = fields_.present[k] || fields_.values_key == key;
    if (is_there && std::find(kRowKeys.begin(), kRowKeys.end(), key) == kRowKeys.end()) {
      refuse_unknown(kKeyNames[k]);
    }
  }
  if (fields_.states(kSketch) || fields_.states(kSample)) {
    throw BadRow{"sketch or sample is no array"};
  }
  for (const ExtraField& field : fields_.extra) {
    std::string_view* to = field.key == "tensor"   ? &tensor_
                           : field.key == "values" ? &values_
                           : field.key == "sketch" ? &sketch_
                           : field.key == "masked" ? &masked_
                                                   : nullptr;
    if (to == nullptr) refuse_unknown(field.key);
    if (!to->empty()) throw BadRow{std::string(field.key) + " is written twice"};
    *to = field.raw;
  }
  if (values_ == "null") values_ = {};
}

void RowLine::refuse_unknown(std::string_view name) const {
  std::vector<std::string> known{"tensor", "values", "masked"};
  for (const Key key : kRowKeys) known.emplace_back(kKeyNames[key]);
  const std::vector<std::string> near = near_words(name.substr(0, 64), known);
  throw BadRow{"unknown field \"" + std::string(name.substr(0, 64)) + "\"" +
               (near.empty() ? "" : "; " + near.front() + " is one") +
               "; extra takes what has no field of its own"};
}

std::string RowLine::word(std::string_view token, std::string_view name, size_t max_bytes) const {
  if (is_absent(token)) throw BadRow{"a row without " + std::string(name)};
  if (!is_quoted(token)) throw BadRow{std::string(name) + " is not a text"};
  std::string text =
      token.find('\\') == token.npos ? std::string(unquoted(token)) : unescaped(token);
  if (text.empty()) throw BadRow{"a row without " + std::string(name)};
  if (text.size() > max_bytes) {
    throw BadRow{std::string(name) + " is longer than " + std::to_string(max_bytes) + " bytes"};
  }
  return text;
}

std::string_view RowLine::required(Key key) const {
  if (fields_.token[key].empty()) throw BadRow{"a row without " + std::string(kKeyNames[key])};
  return fields_.token[key];
}

int64_t RowLine::whole(Key key, int64_t low, int64_t high) const {
  const std::string_view token = required(key);
  const auto value = whole_number(token);
  if (value && *value >= low && *value <= high) return *value;
  throw BadRow{std::string(kKeyNames[key]) + " " + std::string(token.substr(0, 64)) +
               " is not an integer from " + std::to_string(low) + " to " + std::to_string(high)};
}

std::optional<int64_t> RowLine::whole_if_known(Key key, int64_t low, int64_t high) const {
  if (is_absent(fields_.token[key])) return std::nullopt;
  return whole(key, low, high);
}

/// NaN for null, and for what is not finite however it is spelled.
double RowLine::real_of(Key key) const {
  const std::string_view token = required(key);
  if (token == "null" || is_nonfinite_literal(token)) return std::nan("");
  if (const auto value = real(token)) return std::isfinite(*value) ? *value : std::nan("");
  throw BadRow{std::string(kKeyNames[key]) + " " + std::string(token.substr(0, 64)) +
               " is not a number"};
}

/// As greta_row.prompt: a name, or none where no second one was declared.
int64_t RowLine::prompt() {
  std::unordered_set<std::string>& declared = in_.row_format.prompts;
  if (is_absent(fields_.token[kPrompt])) {
    if (declared.empty()) declared.insert("prompt");
    if (declared.size() > 1) throw BadRow{"a row without prompt, and the run has several"};
    return in_.prompt(*declared.begin());
  }
  const std::string name = word(fields_.token[kPrompt], "prompt", kMaxNameBytes);
  return in_.prompt(name);  // its run_prompt line may come behind it
}

std::string RowLine::phase() const {
  const std::string name = word(fields_.token[kPhase], "phase", kMaxNameBytes);
  if (std::find(kPhases.begin(), kPhases.end(), name) != kPhases.end()) return name;
  throw BadRow{"phase \"" + name.substr(0, 64) +
               "\" is none of prefill_last, prefill, decode0, decode"};
}

Fingerprint RowLine::of_values() {
  for (const Key key : kStatisticKeys) {
    if (fields_.states(key)) {
      throw BadRow{"values, and " + std::string(kKeyNames[key]) + ", which follows from them"};
    }
  }
  if (fields_.states(kSumSq) || !sketch_.empty() || fields_.values_key != kNoKey) {
    throw BadRow{"values, and what follows from them"};
  }
  std::vector<double> numbers_of;
  if (std::string why = numbers(values_, "values", numbers_of); !why.empty()) throw BadRow{why};
  std::vector<float> row(numbers_of.size());
  for (size_t i = 0; i < row.size(); ++i) {
    row[i] = static_cast<float>(numbers_of[i]);
    if (std::isfinite(numbers_of[i]) && !std::isfinite(row[i])) {
      throw BadRow{"value " + std::to_string(i) + " is beyond f32"};
    }
  }
  is_minus_ = std::none_of(row.begin(), row.end(), [](float x) { return x == INFINITY; });
  return fingerprint(row);
}

Fingerprint RowLine::stated() {
  Fingerprint f;
  constexpr auto kMost = static_cast<int64_t>(kMaxFingerprintValues);
  f.n = static_cast<uint64_t>(whole(kN, 0, kMost));
  const auto hash = hash_of(unquoted(required(kHash)));
  if (!hash) throw BadRow{"hash is not a 64-bit integer"};
  f.hash = *hash;
  f.min = static_cast<float>(real_of(kMin));
  f.max = static_cast<float>(real_of(kMax));
  f.mean = real_of(kMean);
  f.abs_sum = real_of(kAbsSum);
  f.nan = static_cast<uint64_t>(whole(kNan, 0, kMost));
  f.inf = static_cast<uint64_t>(whole(kInf, 0, kMost));
  f.nz_count = static_cast<uint64_t>(whole(kNzCount, 0, kMost));
  Fingerprint checked = as_far_as_finite(f);
  take_sketch(f, f.nan + f.inf > 0 || says_nonfinite_);
  checked.sum_sq = f.sum_sq;
  checked.sketch = f.sketch;
  if (const char* fault = fault_of(checked)) {
    throw BadRow{std::string("no values have this fingerprint: ") + fault};
  }
  return f;
}

/// A sketch that NaN or infinities have spoilt is left out.
void RowLine::take_sketch(Fingerprint& f, bool may_be_spoilt) {
  const bool has_sum_sq = fields_.states(kSumSq);
  const double sum_sq = has_sum_sq ? real_of(kSumSq) : std::nan("");
  if (!sketch_.empty() && fields_.sketch.size() != f.sketch.size()) {
    throw BadRow{"a sketch is 32 numbers"};
  }
  const bool is_spoilt = !std::isfinite(sum_sq) || sketch_.empty() ||
                         !std::all_of(fields_.sketch.begin(), fields_.sketch.end(),
                                      [](double x) { return std::isfinite(x); });
  if (is_spoilt && may_be_spoilt) return;
  if (sketch_.empty() == has_sum_sq) throw BadRow{"sketch and sum_sq belong together"};
  if (!has_sum_sq) return;
  has_sketch_ = true;
  f.sum_sq = sum_sq;
  std::copy(fields_.sketch.begin(), fields_.sketch.end(), f.sketch.begin());
}

/// The fingerprint for fault_of(): what NaN or infinity has made of statistics is no contradiction.
/// A statistic that is not finite though no value is said to be tells that one was.
Fingerprint RowLine::as_far_as_finite(const Fingerprint& f) {
  Fingerprint checked = f;
  const bool all_finite = f.nan + f.inf == 0 && f.n > 0;
  const bool is_odd = std::isnan(f.min) || std::isnan(f.max) || std::isnan(f.mean);
  if (is_odd && all_finite) says_nonfinite_ = true;
  if (is_odd && f.nan + f.inf < f.n) {
    checked.min = checked.max = 0;
    checked.mean = 0;
  } else if (f.nan + f.inf == f.n) {
    checked.min = checked.max = std::nanf("");
    checked.mean = std::nan("");
  }
  if (std::isnan(f.abs_sum)) checked.abs_sum = f.nan + f.inf < f.nz_count ? 1 : 0;  // it overflowed
  return checked;
}

/// Infinities of a mask are as they should be: inf counts the others, and extra has their number.
void RowLine::leave_masked_out(Fingerprint& f, std::string& extra) {
  uint64_t masked = 0;
  if (masked_ == "true" ||
      (is_absent(masked_) && is_minus_ && unquoted(tensor_) == "attn_scores")) {
    masked = f.inf;
  } else if (masked_ != "false" && !is_absent(masked_)) {
    const auto n = whole_number(masked_);
    if (!n || *n < 0 || static_cast<uint64_t>(*n) > f.inf) {
      throw BadRow{"masked is true, false or a number of its infinities"};
    }
    masked = static_cast<uint64_t>(*n);
  }
  if (masked == 0 || f.nan + f.inf >= f.n) return;  // a row of nothing else is a fault
  f.inf -= masked;
  n_masked_ = masked;
  extra += (extra.empty() ? "\"masked\":" : ",\"masked\":") + std::to_string(masked);
}

void RowLine::set_sample(TraceRow& row, const Fingerprint& f) {
  if (fields_.values_key == kNoKey) return;
  if (fields_.values.size() > std::min<uint64_t>(kMaxSample, f.n)) {
    throw BadRow{"a sample of more values than the row, or than 256"};
  }
  const auto n_nonfinite = std::count_if(fields_.values.begin(), fields_.values.end(),
                                         [](float value) { return !std::isfinite(value); });
  if (static_cast<uint64_t>(n_nonfinite) > f.nan + f.inf + n_masked_) {
    row.flags |= kFlagNonfiniteStatistic;
  }
  in_.batch->kept_bytes += fields_.values.size() * sizeof(float);
  row.sample = in_.batch->samples.emplace_back(std::move(fields_.values));
  fields_.values = {};
}

void RowLine::set_fingerprint(TraceRow& row, const Fingerprint& f) {
  set_statistics_of(row, f);
  for (std::optional<double>* statistic : {&row.min, &row.max, &row.mean, &row.abs_sum}) {
    if (*statistic && !std::isfinite(**statistic)) statistic->reset();
  }
  if (says_nonfinite_) row.flags |= kFlagNonfiniteStatistic;
  if (f.n == 0) return;  // equal hashes of no values say nothing
  row.hash = f.hash;
  in_.file_algo = in_.line_algo;
  in_.batch->hash_algo = in_.file_algo;
  if (has_sketch_) row.sketch = &in_.batch->sketches.emplace_back(sketch_of(f));
}

void RowLine::read() {
  find_others();
  in_.line_algo = kWholeRowHash;
  TraceRow row;
  RowContext context;
  const std::string tensor = word(tensor_, "tensor", kMaxTensorBytes);
  row.layer = whole(kLayer, -1, kMaxLayer);
  required(kPosId);
  row.pos_id = whole_if_known(kPosId, 0, kMaxPosition).value_or(kUnknownPosition);
  row.step = whole_if_known(kStep, 0, INT32_MAX).value_or(kUnknownStep);
  row.token_id = whole_if_known(kTokenId, 0, INT32_MAX);
  row.logical_tok_idx = whole_if_known(kLogicalTokIdx, 0, INT32_MAX);
  if (!row.logical_tok_idx && row.pos_id >= 0) row.logical_tok_idx = row.pos_id;
  const std::string phase_name = phase();
  if (!is_absent(fields_.token[kRoute])) {
    context.route = word(fields_.token[kRoute], "route", kMaxRouteBytes);
  }
  std::string extra;
  if (const std::string_view more = fields_.token[kExtra]; !is_absent(more)) {
    const std::string object = with_quoted_nonfinite(more.substr(0, kMaxExtraBytes));
    if (more.size() > kMaxExtraBytes || !more.starts_with('{') || !is_json(object)) {
      throw BadRow{"extra is not a JSON object of at most 64 KiB"};
    }
    extra = trimmed(std::string_view(object).substr(1, object.size() - 2));
  }
  has_sketch_ = !values_.empty();
  Fingerprint f = values_.empty() ? stated() : of_values();
  leave_masked_out(f, extra);
  row.prompt_id = prompt();
  row.phase_id = in_.phase(phase_name);
  row.name_id = in_.name(tensor);
  set_fingerprint(row, f);
  set_sample(row, f);
  in_.set_shape("row");
  in_.add(row, std::move(context), std::move(extra));
}

}  // namespace

void read_row(LineReader& in) {
  try {
    RowLine(in).read();
  } catch (const BadRow& bad) {
    in.add_finding(true, bad.why);
  }
}

}  // namespace greta::record
