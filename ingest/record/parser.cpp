#include "ingest/record/parser.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "common/json_text.h"
#include "ingest/record/line.h"
#include "kernels/cpu/fingerprint.h"

namespace greta {

using namespace json_line;

namespace {

constexpr std::string_view kWholeRowHash = "greta-1", kLegacyHash = "fnv-256";
constexpr size_t kMaxCachedContexts = 100'000;
constexpr size_t kMaxCachedContextBytes = 16u << 20;

/// Numbers texts in order of first sight. Consecutive lines mostly repeat, so the last is
/// remembered.
class SymbolTable {
 public:
  /// The symbol, and whether it is new.
  std::pair<int64_t, bool> find_or_add(std::string_view text) {
    if (last_ >= 0 && text == last_text_) return {last_, false};
    auto it = symbols_.find(text);
    bool is_new = it == symbols_.end();
    if (is_new) it = symbols_.emplace(std::string(text), next_++).first;
    last_text_ = it->first;
    last_ = it->second;
    return {last_, is_new};
  }
  size_t size() const { return symbols_.size(); }
  /// Forgets the texts, not the numbers given.
  void clear() {
    symbols_.clear();
    last_ = -1;
  }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> symbols_;
  int64_t next_ = 0;
  std::string_view last_text_;  // into a key of symbols_
  int64_t last_ = -1;
};

}  // namespace

struct RecordParser::Impl {
  explicit Impl(RecordSource s) : source(std::move(s)) {}

  RecordSource source;
  Fields fields;
  std::string shape;
  bool phase_conflict = false;
  // symbols
  SymbolTable prompts, phases, names, contexts;
  std::string context_key;
  size_t context_bytes = 0;  // in contexts
  // readout segments
  std::unordered_map<std::string, int64_t> segment_of_opening;
  int64_t n_segments = 0;
  int64_t current_segment = -1;
  // per line
  RecordBatch* batch = nullptr;
  int64_t line_no = 0;
  std::string_view line;
  std::string rejected_raw;  // JSON members for row_context.extra
  bool line_warned = false;
  int line_flags = 0;
  std::string_view line_algo;  // of the line's hashes
  std::string file_algo;       // of the file's

  void find(bool is_error, std::string reason) {
    batch->findings.push_back({line_no, is_error, std::move(reason), std::string(line)});
    batch->kept_bytes += line.size();
  }
  /// One warning per line is enough: the raw line is kept with it.
  void warn(std::string reason) {
    if (!line_warned) find(false, std::move(reason));
    line_warned = true;
  }

  int64_t symbol(SymbolTable& table, std::vector<std::string>& fresh, std::string_view text) {
    auto [id, is_new] = table.find_or_add(text);
    if (is_new) fresh.emplace_back(text);
    return id;
  }
  int64_t phase(std::string_view text) { return symbol(phases, batch->phases, text); }
  int64_t name(std::string_view text) { return symbol(names, batch->names, text); }
  int64_t prompt(std::string_view text, bool is_segment = false,
                 std::optional<int64_t> n_tokens = std::nullopt) {
    auto [id, is_new] = prompts.find_or_add(text);
    if (is_new) batch->prompts.push_back({std::string(text), is_segment, n_tokens});
    return id;
  }

  void parse_line();
  void stage_trace();
  void metric();
  void readout();
  void prefill_decode();
  void landscape();
  void logits();
  void layer_trace();
  void readout_event();
  void run_event();

  // conversions that report what they reject
  std::optional<int64_t> integer_field(Key k);
  std::optional<double> real_field(Key k);
  std::optional<uint64_t> hash_field(Key k);
  bool key_field(Key k, int64_t low, int64_t high, int64_t& out);
  void reject(Key k, bool is_error, const char* why);

  TraceRow row_skeleton();
  void set_statistics(TraceRow& row, Key hash, Key min, Key max, Key mean);
  struct PartKeys {
    Key hash, min, max, mean, ptr, offset_bytes, n;
  };
  TraceRow part_row(const TraceRow& base, std::string_view tensor, const PartKeys& keys);
  Readout readout_of(const TraceRow& row);
  void set_values(TraceRow& row);
  void derive_from_values(TraceRow& row);
  bool take_sketch(RowSketch& sketch, int64_t n);
  void take_hash_algo();
  void take_choice(Readout& out);
  int64_t context(RowContext&& context, std::string&& extra);
  std::string extra_json(std::string_view only_prefix, std::initializer_list<std::string_view> but);
  void set_phase(TraceRow& row, RowContext& context, std::string_view raw,
                 std::string_view canonical);
  void add(TraceRow& row, RowContext&& context, std::string extra);
  void set_shape(const char* name) {
    if (shape.empty()) shape = name;
  }
  int64_t segment_prompt(bool opens);
  /// The prompt that the line names, else that of the source.
  int64_t line_prompt() {
    Key key = fields.has(kPromptId) ? kPromptId : kPrompt;
    if (!fields.has(key)) return prompt(source.prompt);
    std::string_view raw = fields.take(key);
    return raw.find('\\') == std::string_view::npos ? prompt(unquoted(raw))
                                                    : prompt(unescaped(raw));
  }
  bool step_and_position(TraceRow& row, std::initializer_list<Key> position);
};

RecordParser::RecordParser(RecordSource source)
    : impl_(std::make_unique<Impl>(std::move(source))) {}
RecordParser::~RecordParser() = default;
const std::string& RecordParser::shape() const { return impl_->shape; }
bool RecordParser::phase_conflict() const { return impl_->phase_conflict; }

void RecordParser::Impl::reject(Key k, bool is_error, const char* why) {
  rejected_raw += rejected_raw.empty() ? "" : ",";
  append_json(rejected_raw, kKeyNames[k]);
  rejected_raw += ':';
  append_json(rejected_raw, unquoted(fields.token[k]));
  line_flags |= kFlagRejectedField;
  std::string reason =
      std::string(kKeyNames[k]) + " " + std::string(fields.token[k].substr(0, 64)) + " " + why;
  is_error ? find(true, std::move(reason)) : warn(std::move(reason));
}

std::optional<int64_t> RecordParser::Impl::integer_field(Key k) {
  if (!fields.has(k)) return std::nullopt;
  auto value = integer(fields.take(k));
  if (!value) reject(k, false, "is not a 64-bit integer");
  return value;
}

std::optional<double> RecordParser::Impl::real_field(Key k) {
  if (!fields.has(k)) return std::nullopt;
  std::string_view token = unquoted(fields.take(k));
  auto value = number<double>(token);
  if (value && std::isfinite(*value)) return value;
  reject(k, false, "is not a finite number; kept as text");
  if (value || is_nonfinite_literal(token)) line_flags |= kFlagNonfiniteStatistic;
  return std::nullopt;
}

std::optional<uint64_t> RecordParser::Impl::hash_field(Key k) {
  if (!fields.has(k)) return std::nullopt;
  auto value = number<uint64_t>(unquoted(fields.take(k)));
  if (!value) {
    reject(k, true, "is not an unsigned 64-bit hash; the row is kept without it");
    return std::nullopt;
  }
  if (file_algo.empty()) file_algo = line_algo;
  if (line_algo.empty() || line_algo != file_algo) {  // hashes of two algorithms never compare
    reject(k, false, "is by another hash_algo than those before; the row is kept without it");
    return std::nullopt;
  }
  batch->hash_algo = file_algo;
  return value;
}

/// Which hash the line speaks of: said by hash_algo, else that of lines that say nothing.
void RecordParser::Impl::take_hash_algo() {
  line_algo = kLegacyHash;
  if (!fields.has(kHashAlgo)) return;
  std::string_view name = unquoted(fields.take(kHashAlgo));
  line_algo = name == kWholeRowHash ? kWholeRowHash : name == kLegacyHash ? kLegacyHash : "";
  if (line_algo.empty())
    reject(kHashAlgo, false, "is no hash that greta knows; the row is kept without its hash");
}

/// A field of the key: absent leaves `out`; false when the line must be rejected for it.
bool RecordParser::Impl::key_field(Key k, int64_t low, int64_t high, int64_t& out) {
  if (!fields.has(k)) return true;
  auto value = integer(fields.take(k));
  if (value && *value >= low && *value <= high) {
    out = *value;
    return true;
  }
  find(true, std::string(kKeyNames[k]) + " " + std::string(fields.token[k].substr(0, 64)) +
                 " is not an integer from " + std::to_string(low) + " to " + std::to_string(high));
  return false;
}

std::string RecordParser::Impl::extra_json(std::string_view only_prefix,
                                           std::initializer_list<std::string_view> but) {
  std::string out;
  if (std::string_view members = fields.token[kExtra];
      line_algo == kWholeRowHash && members.starts_with('{') && is_json(members)) {
    fields.take(kExtra);
    out = trimmed(members.substr(1, members.size() - 2));
  }
  fields.move_rest_to_extra();
  for (const ExtraField& field : fields.extra) {
    bool other = false;
    for (std::string_view prefix : but) other |= field.key.starts_with(prefix);
    if (other || !field.key.starts_with(only_prefix)) continue;
    if (!out.empty()) out += ',';
    std::string key = '"' + std::string(field.key) + '"';
    is_valid_scalar(key) ? void(out += key) : append_json(out, field.key);
    out += ':';
    bool valid = field.is_nested ? is_json(field.raw) : is_valid_scalar(field.raw);
    valid ? void(out += field.raw) : append_json(out, field.raw);
  }
  return out;
}

int64_t RecordParser::Impl::context(RowContext&& c, std::string&& extra) {
  if (!extra.empty()) c.extra = std::move(extra.insert(0, 1, '{').append(1, '}'));
  std::string& key = context_key;
  key.clear();
  auto put_text = [&key](const std::optional<std::string>& t) {
    if (t) key += *t;
    key += t ? '\x1f' : '\x1e';
  };
  put_text(c.route);
  put_text(c.src_kind);
  put_text(c.phase_raw);
  put_text(c.extra);
  struct {
    int64_t value[8];
    uint64_t present;
  } numbers{};
  size_t at = 0;
  for (const auto* i : {&c.seq_len, &c.tokens_total, &c.token_index, &c.kv_pos, &c.stride_elems,
                        &c.alloc_bytes, &c.prompt_tokens, &c.decode_step}) {
    numbers.value[at] = i->value_or(0);
    numbers.present |= uint64_t{i->has_value()} << at++;
  }
  key.append(reinterpret_cast<const char*>(&numbers), sizeof numbers);
  if (contexts.size() >= kMaxCachedContexts || context_bytes >= kMaxCachedContextBytes) {
    contexts.clear();  // then stored again: harmless
    context_bytes = 0;
  }
  auto [id, is_new] = contexts.find_or_add(key);
  if (is_new) {
    context_bytes += key.size();
    batch->kept_bytes += key.size();
    batch->contexts.push_back(std::move(c));
  }
  return id;
}

void RecordParser::Impl::set_phase(TraceRow& row, RowContext& c, std::string_view raw,
                                   std::string_view canonical) {
  row.phase_id = phase(canonical);
  if (raw != canonical) c.phase_raw = std::string(raw);
  bool is_prefill = canonical.starts_with("prefill"), is_decode = canonical.starts_with("decode");
  phase_conflict |=
      (source.leg == "prefill" && is_decode) || (source.leg == "decode" && is_prefill);
}

void RecordParser::Impl::set_statistics(TraceRow& row, Key hash, Key min, Key max, Key mean) {
  row.hash = hash_field(hash);
  row.min = real_field(min);
  row.max = real_field(max);
  row.mean = real_field(mean);
}

/// The line's own sketch of a row of n values; false when it has none that can be taken.
bool RecordParser::Impl::take_sketch(RowSketch& sketch, int64_t n) {
  if (fields.sketch.empty()) return false;
  bool finite = std::all_of(fields.sketch.begin(), fields.sketch.end(),
                            [](double x) { return std::isfinite(x); });
  std::optional<double> sum_sq = real_field(kSumSq);
  if (fields.sketch.size() != sketch.bucket.size() || !finite || !sum_sq || n < 0) {
    warn("a sketch must be 32 finite numbers, with n and sum_sq; it is kept as text");
    return false;
  }
  std::erase_if(fields.extra,
                [](const ExtraField& field) { return field.key == kKeyNames[kSketch]; });
  sketch.n = n;
  sketch.derived = false;
  sketch.sum_sq = *sum_sq;
  std::copy(fields.sketch.begin(), fields.sketch.end(), sketch.bucket.begin());
  return true;
}

/// Stores the line's values as the row's sample, with its sketch, and its statistics where the line
/// has none. A sketch of the line's own is that of the whole row.
void RecordParser::Impl::set_values(TraceRow& row) {
  RowSketch own;
  if (take_sketch(own, row.n.value_or(-1))) row.sketch = &batch->sketches.emplace_back(own);
  if (fields.values_key == kNoKey) return;
  if (!row.sketch) derive_from_values(row);
  if (fields.values_nonfinite && line_algo != kWholeRowHash) row.flags |= kFlagNonfiniteStatistic;
  batch->kept_bytes += fields.values.size() * sizeof(float);
  row.sample = batch->samples.emplace_back(std::move(fields.values));
  fields.values = {};
}

void RecordParser::Impl::derive_from_values(TraceRow& row) {
  Fingerprint f = fingerprint(fields.values);
  bool has_statistics = row.hash || row.min || row.max || row.mean || row.abs_sum || row.nan;
  if (!has_statistics) {
    bool is_finite = f.nan + f.inf < f.n;
    row.n = static_cast<int64_t>(f.n);
    if (is_finite) row.min = f.min, row.max = f.max, row.mean = f.mean;
    row.abs_sum = f.abs_sum;
    row.nan = static_cast<int64_t>(f.nan);
    row.inf = static_cast<int64_t>(f.inf);
    row.nz_count = static_cast<int64_t>(f.nz_count);
    row.flags |= kFlagDerived;
  }
  RowSketch& sketch = batch->sketches.emplace_back();
  sketch.n = static_cast<int64_t>(f.n);
  sketch.derived = true;
  sketch.sum_sq = f.sum_sq;
  sketch.bucket = f.sketch;
  row.sketch = &sketch;
}

void RecordParser::Impl::add(TraceRow& row, RowContext&& c, std::string extra) {
  if (!rejected_raw.empty())
    extra += (extra.empty() ? "" : ",") + ("\"as_written\":{" + rejected_raw + "}");
  row.flags |= line_flags;
  row.context_id = context(std::move(c), std::move(extra));
  row.line = line_no;
  batch->rows.push_back(row);
}

/// step and position, the first of `position` that is there; false when the line was rejected.
bool RecordParser::Impl::step_and_position(TraceRow& row, std::initializer_list<Key> position) {
  if (!key_field(kStep, -1, INT32_MAX, row.step)) return false;
  for (Key k : position) {
    if (!fields.has(k)) continue;
    if (!key_field(k, -1, kMaxPosition, row.pos_id)) return false;
    if (row.pos_id >= 0) row.logical_tok_idx = row.pos_id;
    break;
  }
  return true;
}

void RecordParser::Impl::stage_trace() {
  TraceRow row;
  if (!fields.has(kPoint) || !fields.has(kLayer))
    return find(true, "stage_trace without point or layer");
  fields.take(kEvent);
  if (!key_field(kLayer, -1, kMaxLayer, row.layer)) return;
  if (!step_and_position(row, {kPosId, kLogicalTokIdx})) return;
  if (fields.has(kLogicalTokIdx)) row.logical_tok_idx = integer_field(kLogicalTokIdx);
  RowContext c;
  row.prompt_id = line_prompt();
  row.name_id = name(unquoted(fields.take(kPoint)));
  std::string_view raw = unquoted(fields.take(kPhase));
  if (is_absent(raw)) raw = source.leg.empty() ? "unknown" : std::string_view(source.leg);
  set_phase(row, c, raw, raw);
  row.token_id = integer_field(kTokenId);
  set_statistics(row, kHash, kMin, kMax, kMean);
  row.abs_sum = real_field(kAbsSum);
  row.nan = integer_field(kNan);
  row.inf = integer_field(kInf);
  row.nz_count = integer_field(kNzCount);
  auto sample_n = integer_field(kSampleN);
  if (line_algo == kWholeRowHash || !sample_n) row.n = integer_field(kN);
  if (line_algo != kWholeRowHash && sample_n) row.n = sample_n;
  if (!sample_n) sample_n = row.n;
  size_t n_values = fields.values.size();
  if (fields.values_key != kNoKey && sample_n && *sample_n != static_cast<int64_t>(n_values)) {
    warn("sample_n is " + std::to_string(*sample_n) + ", the sample has " +
         std::to_string(n_values) + " values");
  }
  set_values(row);
  row.ptr = integer_field(fields.has(kPtr) ? kPtr : kSrcPtr);
  row.offset_bytes = integer_field(kOffsetBytes);
  c.route = fields.text(kRoute);
  c.src_kind = fields.text(kSrcKind);
  c.seq_len = integer_field(kSeqLen);
  c.tokens_total = integer_field(kTokensTotal);
  c.token_index = integer_field(kTokenIndex);
  c.kv_pos = integer_field(kKvPos);
  c.stride_elems = integer_field(kStrideElems);
  c.alloc_bytes = integer_field(kAllocBytes);
  c.prompt_tokens = integer_field(kPromptTokens);
  c.decode_step = integer_field(kDecodeStep);
  set_shape("stage_trace");
  add(row, std::move(c), extra_json({}, {}));
}

void RecordParser::Impl::metric() {
  TraceRow row;
  if (!fields.has(kTensorName) && !fields.has(kMetric))
    return find(true, "metric without tensor_name");
  if (!fields.has(kLayer)) return find(true, "metric without layer");
  if (!key_field(kLayer, -1, kMaxLayer, row.layer)) return;
  if (!step_and_position(row, {kPosId, kLogicalTokIdx})) return;
  row.logical_tok_idx = integer_field(kLogicalTokIdx);
  RowContext c;
  row.prompt_id = line_prompt();
  row.name_id = name(unquoted(fields.take(fields.has(kTensorName) ? kTensorName : kMetric)));
  if (fields.token[kMetric] == fields.token[kTensorName]) fields.take(kMetric);
  std::string_view raw = unquoted(fields.take(kPhase));
  if (is_absent(raw)) raw = source.leg.empty() ? "unknown" : std::string_view(source.leg);
  // The writer labels every decode step decode0: the step decides.
  set_phase(row, c, raw, raw == "decode0" && row.step > 1 ? "decode" : raw);
  set_values(row);
  row.ptr = integer_field(kSrcPtr);
  row.offset_bytes = integer_field(kBytesOffset);
  c.seq_len = integer_field(kSeqLenUsed);
  c.src_kind = fields.text(kSrcEnum);
  set_shape("metric");
  add(row, std::move(c), extra_json({}, {}));
}

/// Prompt of a readout line. Such files hold several prompts, one after the other and unnamed: a
/// prefill_last line opens the next one, or the same again when it repeats an earlier opening.
int64_t RecordParser::Impl::segment_prompt(bool opens) {
  if (opens) {
    auto [it, is_new] = segment_of_opening.try_emplace(std::string(line), n_segments);
    if (is_new) ++n_segments;
    current_segment = it->second;
  }
  if (current_segment < 0) current_segment = n_segments++;
  size_t i = static_cast<size_t>(current_segment);
  if (i < source.prompt_names.size()) return prompt(source.prompt_names[i]);
  std::optional<int64_t> length = opens ? integer(fields.token[kTokensTotal]) : std::nullopt;
  return prompt("seg" + std::to_string(i), true, length);
}

/// A row of a line that holds several tensors; a legacy hash covers what legacy hashes cover.
TraceRow RecordParser::Impl::part_row(const TraceRow& base, std::string_view tensor,
                                      const PartKeys& keys) {
  TraceRow row = base;
  row.name_id = name(tensor);
  set_statistics(row, keys.hash, keys.min, keys.max, keys.mean);
  row.n =
      line_algo == kWholeRowHash ? integer_field(keys.n) : static_cast<int64_t>(kLegacyHashValues);
  row.ptr = integer_field(keys.ptr);
  row.offset_bytes = integer_field(keys.offset_bytes);
  return row;
}

/// An empty readout under the key of a row.
Readout RecordParser::Impl::readout_of(const TraceRow& row) {
  Readout out;
  out.prompt_id = row.prompt_id;
  out.phase_id = row.phase_id;
  out.name_id = row.name_id;
  out.step = row.step;
  out.pos_id = row.pos_id;
  out.line = line_no;
  return out;
}

void RecordParser::Impl::take_choice(Readout& out) {
  out.top1_id = integer_field(kTop1Id);
  out.top1_logit = real_field(kTop1Logit);
  out.top2_id = integer_field(kTop2Id);
  out.top2_logit = real_field(kTop2Logit);
  out.gap = real_field(kGap);
  out.vocab = integer_field(kVocab);
  out.route = fields.text(kLmHeadRoute);
  out.cpu_top1_id = integer_field(kCpuProbeTop1);
  if (std::string_view agrees = fields.token[kCpuProbeAgrees];
      agrees == "true" || agrees == "false") {
    out.cpu_agrees = fields.take(kCpuProbeAgrees) == "true";
  }
}

/// A readout whose row of logits is a line of its own, if it was traced at all.
void RecordParser::Impl::readout_event() {
  fields.take(kEvent);
  TraceRow key;
  if (!step_and_position(key, {kPosId})) return;
  std::string_view raw = unquoted(fields.take(kPhase));
  if (is_absent(raw)) return find(true, "readout without phase");
  key.prompt_id = line_prompt();
  key.phase_id = phase(raw);
  key.name_id = name("logits");
  Readout out = readout_of(key);
  take_choice(out);
  set_shape("stage_trace");
  batch->readouts.push_back(std::move(out));
}

void RecordParser::Impl::run_event() {
  RunEvent event;
  if (std::string why = read_run_event(line, event); !why.empty()) return find(true, why);
  set_shape("run");
  batch->kept_bytes += line.size();
  batch->events.push_back(std::move(event));
}

void RecordParser::Impl::readout() {
  bool is_delta = fields.has(kLmHeadRoute);
  TraceRow base;
  base.layer = -1;
  if (!step_and_position(base, {kPosId})) return;
  if (!is_delta) {
    base.logical_tok_idx =
        integer_field(fields.has(kLogicalLastIndex) ? kLogicalLastIndex : kExpectedLastIndex);
  }
  std::string_view raw = unquoted(fields.take(kPhase));
  if (is_absent(raw)) return find(true, "readout without phase");
  base.prompt_id = fields.has(kPromptId) ? line_prompt() : segment_prompt(raw == "prefill_last");
  RowContext shared;
  set_phase(base, shared, raw, raw == "decode" && base.step == 1 ? "decode0" : raw);
  shared.seq_len = integer_field(kSeqLen);
  shared.tokens_total = integer_field(kTokensTotal);
  shared.token_index = integer_field(kTokenIndex);

  TraceRow hidden = part_row(base, "hidden",
                             {kHiddenHash, kHiddenMin, kHiddenMax, kHiddenMean, kHiddenSrcPtr,
                              kHiddenOffsetBytes, kHiddenN});
  TraceRow rms = part_row(
      base, "rms", {kRmsHash, kRmsMin, kRmsMax, kRmsMean, kRmsOutPtr, kRmsOffsetBytes, kRmsN});
  TraceRow logits_row = part_row(
      base, "logits",
      {kLogitsHash, kLogitsMin, kLogitsMax, kLogitsMean, kLogitsPtr, kLogitsOffsetBytes, kLogitsN});

  Readout out = readout_of(logits_row);
  take_choice(out);

  set_shape(is_delta ? "delta" : "readout");
  add(hidden, RowContext(shared), extra_json("hidden_", {}));
  add(rms, RowContext(shared), extra_json("rms_", {}));
  RowContext c = shared;
  c.route = fields.text(kLmHeadRoute);
  add(logits_row, std::move(c), extra_json({}, {"hidden_", "rms_"}));
  batch->readouts.push_back(std::move(out));
}

void RecordParser::Impl::prefill_decode() {
  TraceRow base;
  base.layer = -1;
  if (!step_and_position(base, {kTokenIndex})) return;
  std::string_view raw = unquoted(fields.take(kPhase));
  if (is_absent(raw)) return find(true, "prefill_decode line without phase");
  base.prompt_id = line_prompt();
  RowContext c;
  set_phase(base, c, raw,
            raw == "prefill"                    ? "prefill_last"
            : raw == "decode" && base.step == 1 ? "decode0"
                                                : raw);
  c.token_index = integer_field(kTokenIndex);

  TraceRow hidden = part_row(
      base, "hidden",
      {kHiddenHash, kHiddenMin, kHiddenMax, kHiddenMean, kHiddenPtr, kHiddenOffset, kHiddenN});
  TraceRow logits_row = part_row(
      base, "logits",
      {kLogitsHash, kLogitsMin, kLogitsMax, kLogitsMean, kLogitsPtr, kLogitsOffset, kLogitsN});
  set_shape("prefill_decode");
  add(hidden, RowContext(c), extra_json("hidden_", {}));
  add(logits_row, std::move(c), extra_json({}, {"hidden_"}));
}

void RecordParser::Impl::landscape() {
  TraceRow row;
  row.layer = -1;
  if (!step_and_position(row, {kPosId})) return;
  RowContext c;
  row.prompt_id = line_prompt();
  row.name_id = name("logits_topk");
  std::string_view phase_name = row.step == 0   ? "prefill_last"
                                : row.step == 1 ? "decode0"
                                                : "decode";
  set_phase(row, c, phase_name, phase_name);

  Readout out = readout_of(row);
  auto choice = [this](Key k, std::optional<int64_t>& id, std::optional<double>& logit) {
    auto json = nlohmann::json::parse(fields.token[k], nullptr, false);
    if (!json.is_object()) return;
    if (auto it = json.find("id"); it != json.end() && it->is_number_integer())
      id = it->get<int64_t>();
    if (auto it = json.find("logit"); it != json.end() && it->is_number())
      logit = it->get<double>();
    if (json.size() == size_t{id.has_value()} + size_t{logit.has_value()}) fields.take(k);
  };
  choice(kTop1, out.top1_id, out.top1_logit);
  if (fields.has(kTop2)) choice(kTop2, out.top2_id, out.top2_logit);
  if (!out.top1_id) return find(true, "top1 is not an object with an id");
  out.gap = real_field(kGap);
  set_shape("landscape");
  add(row, std::move(c), extra_json({}, {}));
  batch->readouts.push_back(std::move(out));
}

void RecordParser::Impl::logits() {
  TraceRow row;
  row.layer = -1;
  if (!step_and_position(row, {kTokenIdx})) return;
  RowContext c;
  row.prompt_id = line_prompt();
  row.name_id = name("logits");
  row.token_id = integer_field(kTokenId);
  std::string_view raw = unquoted(fields.take(kPhase));
  if (is_absent(raw)) raw = source.leg.empty() ? "unknown" : std::string_view(source.leg);
  set_phase(row, c, raw, raw);
  set_values(row);
  set_shape("logits");
  add(row, std::move(c), extra_json({}, {}));
}

void RecordParser::Impl::layer_trace() {
  TraceRow row;
  if (!key_field(kLayer, -1, kMaxLayer, row.layer)) return;
  if (!step_and_position(row, {kPosId, kLogicalTokIdx})) return;
  RowContext c;
  row.prompt_id = line_prompt();
  row.name_id = name(unquoted(fields.take(kTag)));
  std::string_view raw = unquoted(fields.take(kPhase));
  if (is_absent(raw)) raw = row.step == 0 ? "prefill_last" : row.step == 1 ? "decode0" : "decode";
  set_phase(row, c, raw, raw);
  set_statistics(row, kHash, kMin, kMax, kMean);
  row.abs_sum = real_field(kAbsSum);
  row.nan = integer_field(kNan);
  row.inf = integer_field(kInf);
  row.n = integer_field(kN);
  set_values(row);
  row.token_id = integer_field(kTokenId);
  set_shape("layer_trace");
  add(row, std::move(c), extra_json({}, {}));
}

void RecordParser::Impl::parse_line() {
  take_hash_algo();
  for (Key k : fields.contradicted) {
    warn(std::string(kKeyNames[k]) + " is written twice with different values; both are kept");
  }
  if (fields.has(kEvent)) {
    std::string_view event = unquoted(fields.token[kEvent]);
    if (event == "stage_trace") return stage_trace();
    if (event == "readout") return readout_event();
    if (is_run_event(event)) return run_event();
    return find(false, "event " + std::string(event.substr(0, 64)) +
                           " is not a shape greta knows; the line is kept as it is");
  }
  if (fields.has(kMetric) || fields.has(kTensorName)) return metric();
  if (fields.has(kHiddenHash)) return fields.has(kPosId) ? readout() : prefill_decode();
  if (fields.has(kTop1)) return landscape();
  if (fields.has(kTokenIdx) && fields.values_key == kLogits) return logits();
  if (fields.has(kTag) && fields.has(kLayer)) return layer_trace();
  find(false, "a JSON object of no shape greta knows; the line is kept as it is");
}

void RecordParser::parse(std::string_view line, size_t buffer_bytes, int64_t line_no,
                         RecordBatch& batch) {
  const char* start = line.data();
  line = trimmed(line);
  ++batch.lines;
  if (line.empty()) return;
  Impl& p = *impl_;
  p.batch = &batch;
  p.line = line;
  p.line_no = line_no;
  p.rejected_raw.clear();
  p.line_warned = false;
  p.line_flags = 0;
  if (line.front() != '{') return p.find(true, "not a JSON object");
  std::string why =
      p.fields.take_apart(line, buffer_bytes - static_cast<size_t>(line.data() - start));
  if (!why.empty()) return p.find(true, why);
  p.parse_line();
}

void RecordBatch::clear() {
  rows.clear();
  readouts.clear();
  prompts.clear();
  phases.clear();
  names.clear();
  contexts.clear();
  events.clear();
  hash_algo.clear();
  findings.clear();
  samples.clear();
  sketches.clear();
  lines = 0;
  kept_bytes = 0;
}

bool is_record_line(std::string_view line) {
  line = trimmed(line);
  if (!line.starts_with('{') || !line.ends_with('}')) return false;
  for (std::string_view key : {"\"event\"", "\"metric\"", "\"tensor_name\"", "\"hidden_hash\"",
                               "\"top1\"", "\"logits\"", "\"tag\""}) {
    if (line.find(key) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace greta
