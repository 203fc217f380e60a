#pragma once
#include <array>
#include <bitset>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// One line of JSON taken apart: the keys that record shapes know, and their raw tokens. Values
/// are converted where they are wanted, for only there is known what they must be.
namespace greta::record {

/// What a line may hold beside its values; no row needs a hundredth of it.
inline constexpr size_t kMaxPlainLineBytes = 4u << 20;

// clang-format off
enum Key : uint8_t {
  kEvent, kPromptId, kPrompt, kPhase, kPoint, kTensorName, kMetric, kTag, kLayer, kStep, kPosId,
  kLogicalTokIdx, kTokenId, kTokenIdx, kTokenIndex, kSeqLen, kSeqLenUsed, kTokensTotal, kKvPos,
  kStrideElems, kAllocBytes, kPromptTokens, kDecodeStep, kSampleN, kN, kPtr, kSrcPtr, kOffsetBytes,
  kBytesOffset, kHash, kMin, kMax, kMean, kAbsSum, kNan, kInf, kNzCount, kRoute, kSrcKind, kSrcEnum,
  kHiddenHash, kHiddenMin, kHiddenMax, kHiddenMean, kHiddenPtr, kHiddenSrcPtr, kHiddenOffset,
  kHiddenOffsetBytes, kRmsHash, kRmsMin, kRmsMax, kRmsMean, kRmsOutPtr, kRmsOffsetBytes,
  kLogitsHash, kLogitsMin, kLogitsMax, kLogitsMean, kLogitsPtr, kLogitsOffset, kLogitsOffsetBytes, kTop1Id,
  kTop1Logit, kTop2Id, kTop2Logit, kGap, kVocab, kExpectedLastIndex, kLogicalLastIndex,
  kLmHeadRoute, kCpuProbeTop1, kCpuProbeAgrees, kNormError, kLogitsError, kHashAlgo, kSumSq, kHiddenN, kRmsN, kLogitsN,
  kSample, kData, kLogits, kSketch, kExtra, kTop1, kTop2,
  kKeyCount, kNoKey = kKeyCount
};

constexpr std::array<std::string_view, kKeyCount> kKeyNames = {
  "event", "prompt_id", "prompt", "phase", "point", "tensor_name", "metric", "tag", "layer", "step",
  "pos_id", "logical_tok_idx", "token_id", "token_idx", "token_index", "seq_len", "seq_len_used",
  "tokens_total", "kv_pos", "stride_elems", "alloc_bytes", "prompt_tokens", "decode_step",
  "sample_n", "n", "ptr", "src_ptr", "offset_bytes", "bytes_offset", "hash", "min", "max", "mean",
  "abs_sum", "nan", "inf", "nz_count", "route", "src_kind", "src_enum", "hidden_hash", "hidden_min",
  "hidden_max", "hidden_mean", "hidden_ptr", "hidden_src_ptr", "hidden_offset",
  "hidden_offset_bytes", "rms_hash", "rms_min", "rms_max", "rms_mean", "rms_out_ptr",
  "rms_offset_bytes", "logits_hash", "logits_min", "logits_max", "logits_mean", "logits_ptr",
  "logits_offset", "logits_offset_bytes", "top1_id", "top1_logit", "top2_id", "top2_logit", "gap",
  "vocab", "expected_last_index", "logical_last_index", "lm_head_route", "cpu_probe_top1_id",
  "cpu_probe_agrees_gpu", "norm_error", "logits_error", "hash_algo", "sum_sq", "hidden_n", "rms_n", "logits_n", "sample", "data",
  "logits", "sketch", "extra", "top1", "top2"};
// clang-format on

/// s without blanks and control characters around it.
inline std::string_view trimmed(std::string_view s) {
  while (!s.empty() && static_cast<unsigned char>(s.back()) <= ' ') s.remove_suffix(1);
  while (!s.empty() && static_cast<unsigned char>(s.front()) <= ' ') s.remove_prefix(1);
  return s;
}

inline bool is_quoted(std::string_view t) {
  return t.size() >= 2 && t.front() == '"' && t.back() == '"';
}
inline std::string_view unquoted(std::string_view t) {
  return is_quoted(t) ? t.substr(1, t.size() - 2) : t;
}
/// A string token without its quotes and escapes; as written when it is not valid JSON.
std::string unescaped(std::string_view t);
inline bool is_absent(std::string_view t) { return t.empty() || t == "null"; }

/// nan, -nan, inf, -inf, NaN, Infinity, -Infinity, as C++ streams and Python print them.
inline bool is_nonfinite_literal(std::string_view t) {
  if (!t.empty() && (t.front() == '-' || t.front() == '+')) t.remove_prefix(1);
  return t == "nan" || t == "NaN" || t == "inf" || t == "Infinity" || t == "nan(ind)";
}

/// A whole 64-bit integer, plain, quoted or as "0x..." hex.
std::optional<int64_t> integer(std::string_view t);
/// A count as any writer spells it: 256, "256", 256.0, 2.56e2; nothing when it is none.
std::optional<int64_t> count(std::string_view t);
/// A number, infinite where it is beyond a double; also what from_chars takes for NaN and infinity.
/// Eight bytes beyond t must be readable.
std::optional<double> real(std::string_view t);

/// Parses the JSON number at p; returns its end, or null when there is none. Eight bytes beyond the
/// number must be readable.
const char* parse_decimal(const char* p, double& value);

/// Reads an array of numbers, with its brackets, NaN and infinities as is_nonfinite_literal takes
/// them; returns why it is none, "" when it is. `name` is what messages call it.
std::string numbers(std::string_view array, std::string_view name, std::vector<double>& out);

/// True if a text is one JSON value.
bool is_json(std::string_view t);
/// True if a scalar can be copied into JSON as it stands.
bool is_valid_scalar(std::string_view t);

/// A field that no key of ours names, or that its line has no place for.
struct ExtraField {
  std::string_view key;  ///< as written between its quotes
  std::string_view raw;
  bool is_nested;  ///< an object or array
};

/// A line taken apart; views into the line. One object serves all lines of a file: it learns the
/// order of their keys.
struct Fields {
  Fields();
  ~Fields();

  /// Splits a line into fields; "" or why it is not one JSON object. readable_bytes is how far
  /// memory reaches from line.data(): 64 beyond the line at least. A key that a row is made of must
  /// not be there twice, however it is spelt: which of them a reader takes is anybody's guess.
  std::string take_apart(std::string_view line, size_t readable_bytes);

  /// An array of this name counts as values, not as what a line has beside them; extra has it.
  std::string_view values_name;

  std::array<std::string_view, kKeyCount> token;
  std::bitset<kKeyCount> present, taken;  ///< what the line has, what its shape has a place for
  std::vector<Key> order;  ///< keys of the line before, in its order: lines of a file repeat it
  std::vector<ExtraField> extra;
  std::vector<float> values;   ///< of the first of sample, data, logits
  size_t expected_values = 0;  ///< as many as the line before had
  Key values_key = kNoKey;
  bool values_nonfinite = false;
  std::vector<double> sketch;     ///< its numbers; extra has it too, until a shape takes it
  std::vector<Key> contradicted;  ///< addresses written twice with different values

  /// True if the line says anything of a key.
  bool states(Key k) const { return !is_absent(token[k]); }
  /// True if it says it in one word: no object and no array.
  bool has(Key k) const { return states(k) && token[k].front() != '{' && token[k].front() != '['; }
  std::string_view take(Key k) {
    taken[k] = true;
    return token[k];
  }
  /// What no column took is extra too.
  void move_rest_to_extra();
  /// String value without its quotes; escapes are kept as written, names do not use them.
  std::optional<std::string> text(Key k) {
    if (!has(k)) return std::nullopt;
    return std::string(unquoted(take(k)));
  }

 private:
  struct Parser;  // simdjson's
  void clear();
  std::bitset<kKeyCount> seen_;
  std::unique_ptr<Parser> parser_;
};

/// True if a field that no column has, by its name, counts or reports values that are not finite,
/// and does not say that there are none: "nan_count", "hasInf", "NaN". As keys are spelled, so in
/// objects.
bool hints_at_nonfinite(const Fields& fields);

}  // namespace greta::record
