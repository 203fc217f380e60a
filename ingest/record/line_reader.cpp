#include "ingest/record/line_reader.h"

#include <algorithm>
#include <cmath>

#include "common/json_text.h"
#include "ingest/record/parser.h"
#include "ingest/text.h"
#include "kernels/fingerprint/fingerprint.h"

namespace greta::record {
namespace {

constexpr size_t kMaxPhaseName = 64;

bool is_gap(char c) { return c == '_' || c == '-' || c == ' ' || c == '.'; }

bool names_a_side(std::string_view name) {
  return name.starts_with("prefill") || name.starts_with("decode");
}

/// decode0 is the first decode step, and every later one is decode.
std::optional<std::string> numbered_decode(std::string_view name) {
  name.remove_prefix(std::string_view("decode").size());
  if (name.empty() || name.find_first_not_of("0123456789") != name.npos) return std::nullopt;
  return name.find_first_not_of('0') == name.npos ? "decode0" : "decode";
}

}  // namespace

std::optional<std::string> phase_meant(std::string_view written) {
  if (written.size() > kMaxPhaseName) return std::nullopt;
  std::string spaced = text::to_lower(text::trim(written)), joined;
  for (char& c : spaced) {
    if (is_gap(c)) c = '_';
    if (!text::is_word(c)) return std::nullopt;
    if (c != '_') joined += c;
  }
  if (joined == "repeatprefill") return "repeat_prefill";  // of neither side: compared with nothing
  if (joined == "repeatdecode") return "repeat_decode";
  if (!names_a_side(joined)) return std::nullopt;
  if (joined == "prefilllast") return "prefill_last";
  if (joined == "prefill" || joined == "decode") return joined;
  if (joined.starts_with("decode")) {
    if (auto phase = numbered_decode(joined)) return phase;
  }
  return names_a_side(spaced) ? spaced : joined;
}

namespace {

constexpr std::string_view kLegacyHash = "fnv-256";
constexpr size_t kMaxCachedContexts = 100'000;
constexpr size_t kMaxCachedContextBytes = 8u << 20;

}  // namespace

void LineReader::begin(std::string_view new_line, int64_t new_line_no, RecordBatch& new_batch) {
  batch = &new_batch;
  line = new_line;
  line_no = new_line_no;
  doubts.as_written.clear();
  doubts.flags = 0;
  line_warned = false;
  refusal.clear();
  before = {batch->rows.size(),     batch->readouts.size(), batch->differences.size(),
            batch->events.size(),   batch->samples.size(),  batch->sketches.size(),
            batch->findings.size(), batch->kept_bytes};
}

void LineReader::end() {
  if (!refusal.empty()) {
    batch->rows.resize(before.rows);
    batch->readouts.resize(before.readouts);
    batch->differences.resize(before.differences);
    batch->events.resize(before.events);
    batch->samples.resize(before.samples);
    batch->sketches.resize(before.sketches);
    batch->findings.resize(before.findings);
    add_finding(true, std::move(refusal));
  }
  const bool gave_something =
      batch->rows.size() > before.rows || batch->readouts.size() > before.readouts ||
      batch->differences.size() > before.differences || batch->events.size() > before.events;
  if (gave_something || batch->findings.size() == before.findings) return;
  if (++kept <= RecordParser::kMaxKeptLines) return;
  if (not_kept.count++ == 0) not_kept.first_line = line_no;
  not_kept.any_error |= batch->findings.back().is_error;
  batch->findings.resize(before.findings);
  batch->kept_bytes = before.kept_bytes;
}

bool LineReader::may_add(const SymbolTable& table, std::string_view text, size_t limit,
                         const char* what) {
  if (text.size() <= kMaxNameBytes && table.size() < limit &&
      table.bytes() + text.size() <= kMaxSymbolBytes) {
    return true;
  }
  refusal = text.size() > kMaxNameBytes
                ? "a name of more than " + std::to_string(kMaxNameBytes) + " bytes"
                : "more " + std::string(what) + " than one file may name (" +
                      std::to_string(limit) + ", " + std::to_string(kMaxSymbolBytes >> 20) +
                      " MiB)";
  return false;
}

void LineReader::reject(Key k, bool is_error, const char* why) {
  std::string& text = doubts.as_written;
  text += text.empty() ? "" : ",";
  append_json(text, kKeyNames[k]);
  text += ':';
  append_json(text, unquoted(fields.token[k]));
  doubts.flags |= kFlagRejectedField;
  std::string reason =
      std::string(kKeyNames[k]) + " " + std::string(fields.token[k].substr(0, 64)) + " " + why;
  is_error ? add_finding(true, std::move(reason)) : warn(std::move(reason));
}

std::optional<int64_t> LineReader::integer_field(Key k) {
  if (!fields.states(k)) return std::nullopt;
  auto value = integer(fields.take(k));
  if (!value) reject(k, false, "is not a 64-bit integer");
  return value;
}

std::optional<double> LineReader::real_field(Key k) {
  if (!fields.states(k)) return std::nullopt;
  std::string_view token = unquoted(fields.take(k));
  auto value = real(token);
  if (value && std::isfinite(*value)) return value;
  reject(k, false, "is not a finite number; kept as text");
  if (value || is_nonfinite_literal(token)) doubts.flags |= kFlagNonfiniteStatistic;
  return std::nullopt;
}

/// A number about the row's values. One that is there and cannot be read may be anything.
std::optional<double> LineReader::statistic_field(Key k) {
  const std::optional<double> value = real_field(k);
  if (!value && fields.states(k)) doubts.flags |= kFlagNonfiniteStatistic;
  return value;
}

/// How many values are not finite. What is no count says that nobody knows: null too, which is how
/// some writers print a NaN.
std::optional<int64_t> LineReader::nonfinite_count(Key k) {
  if (fields.token[k].empty()) return std::nullopt;
  auto value = count(fields.take(k));
  if (!value) reject(k, false, "is no count; the row counts as not finite");
  return value;
}

/// True if the line says, or leaves open, that values of a row are not finite, and the row itself
/// does not say so.
bool LineReader::states_nonfinite(Key k, const std::optional<int64_t>& counted) const {
  if (fields.token[k].empty() || fields.token[k] == "0") return false;
  const std::optional<int64_t> stated = count(fields.token[k]);
  return !stated || (*stated > 0 && counted.value_or(0) <= 0);
}

std::optional<uint64_t> LineReader::hash_field(Key k) {
  if (!fields.states(k)) return std::nullopt;
  auto value = text::number<uint64_t>(unquoted(fields.take(k)));
  if (!value) {
    reject(k, true, "is not an unsigned 64-bit hash; the row is kept without it");
    return std::nullopt;
  }
  if (line_algo.empty()) {
    reject(k, false, "is by a hash_algo that greta does not know; the row is kept without it");
    return std::nullopt;
  }
  if (file_algo.empty()) file_algo = line_algo;
  batch->hash_algo = file_algo;
  return value;
}

/// Which hash the line speaks of: said by hash_algo, else that of lines that say nothing.
void LineReader::take_hash_algo() {
  line_algo = kLegacyHash;
  if (!fields.states(kHashAlgo)) return;
  std::string_view name = unquoted(fields.take(kHashAlgo));
  line_algo = name == kWholeRowHash ? kWholeRowHash : name == kLegacyHash ? kLegacyHash : "";
  if (line_algo.empty())
    reject(kHashAlgo, false, "is no hash that greta knows; the row is kept without its hash");
}

void LineReader::warn_of_contradictions() {
  for (Key k : fields.contradicted) {
    warn(std::string(kKeyNames[k]) + " is written twice with different values; both are kept");
  }
}

/// A field of the key: absent leaves `out`; false when the line must be rejected for it.
bool LineReader::key_field(Key k, int64_t low, int64_t high, int64_t& out) {
  if (!fields.states(k)) return true;
  auto value = integer(fields.take(k));
  if (value && *value >= low && *value <= high) {
    out = *value;
    return true;
  }
  add_finding(true, std::string(kKeyNames[k]) + " " + std::string(fields.token[k].substr(0, 64)) +
                        " is not an integer from " + std::to_string(low) + " to " +
                        std::to_string(high));
  return false;
}

std::string LineReader::extra_json(std::string_view only_prefix,
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

int64_t LineReader::context(RowContext&& c, std::string&& extra) {
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
    batch->contexts_from = contexts.next();
    context_bytes = 0;
  }
  if (const auto known = contexts.find(key)) return *known;
  context_bytes += key.size();
  batch->kept_bytes += key.size();
  batch->contexts.push_back(std::move(c));
  return contexts.add(key);
}

/// The phase that the line states, else `otherwise`. Nothing when it cannot be read, or is not
/// there and `otherwise` is "": rows without a side are compared with nothing, so the line is
/// rejected.
std::optional<LinePhase> LineReader::line_phase(std::string_view otherwise) {
  const std::string_view token = fields.take(kPhase);
  if (is_absent(token)) {
    if (!otherwise.empty()) return LinePhase{otherwise, std::string(otherwise)};
    add_finding(true, "readout without phase");
    return std::nullopt;
  }
  const std::string_view raw = unquoted(token);
  if (token == last_phase.token) return LinePhase{raw, last_phase.name};
  auto name = phase_meant(raw.find('\\') == raw.npos ? std::string(raw) : unescaped(token));
  if (!name) {
    add_finding(true,
                "phase " + std::string(token.substr(0, 64)) + " is neither prefill nor decode");
    return std::nullopt;
  }
  last_phase = {std::string(token), *name};
  return LinePhase{raw, *std::move(name)};
}

void LineReader::set_phase(TraceRow& row, RowContext& c, const LinePhase& of_line) {
  const std::string_view canonical = of_line.name;
  row.phase_id = phase(canonical);
  if (of_line.raw != canonical) c.phase_raw = std::string(of_line.raw);
  bool is_prefill = canonical.starts_with("prefill"), is_decode = canonical.starts_with("decode");
  phase_conflict |=
      (source.leg == "prefill" && is_decode) || (source.leg == "decode" && is_prefill);
}

/// A null of a row that states something of its values is how some writers print a NaN; a row of
/// nothing but nulls has no statistics, and one that counts its NaN may have none to state.
void LineReader::set_statistics(TraceRow& row, Key hash, Key min, Key max, Key mean, Key abs_sum) {
  row.hash = hash_field(hash);
  row.min = statistic_field(min);
  row.max = statistic_field(max);
  row.mean = statistic_field(mean);
  if (abs_sum != kNoKey) row.abs_sum = statistic_field(abs_sum);
  if (!fields.states(hash) && !row.min && !row.max && !row.mean && !row.abs_sum) return;
  if (count(fields.token[kNan]).value_or(0) > 0 || count(fields.token[kInf]).value_or(0) > 0)
    return;
  for (const Key k : {min, max, mean, abs_sum}) {
    if (k == kNoKey || fields.token[k] != "null") continue;
    reject(k, false, "is no number; the row counts as not finite");
    doubts.flags |= kFlagNonfiniteStatistic;
  }
}

/// Two equal hashes of no values say nothing, and neither do two that nobody has worked out: of
/// more than one value, 0 is what a hash is before that.
void LineReader::doubt_hash_of_nothing(TraceRow& row, Key hash) {
  if (!row.hash || !row.n) return;
  if (*row.n <= 0) {
    reject(hash, false, "is of no values, by its n; the row is kept without it");
  } else if (*row.hash == 0 && !(line_algo == kWholeRowHash && *row.n == 1)) {
    reject(hash, false, "is that of no row; the row is kept without it");
  } else {
    return;
  }
  row.hash.reset();
}

/// A number that tells rows apart, as a token does: where it cannot be read, the row would meet
/// those that have none.
bool LineReader::number_of_row(Key k, std::optional<int64_t>& out) {
  if (!fields.states(k)) return true;
  int64_t value = 0;
  if (!key_field(k, INT32_MIN, INT32_MAX, value)) return false;
  out = value;
  return true;
}

/// True if the line says something of the values of a row, or of which row it is.
bool LineReader::speaks_of_a_row() const {
  for (const Key k :
       {kHash, kMin, kMax, kMean, kAbsSum, kNan, kInf, kNzCount, kHiddenHash, kLogitsHash}) {
    if (fields.states(k)) return true;
  }
  return fields.states(kPoint) && fields.states(kLayer);
}

/// The line's own sketch of a row of n values; false when it has none that can be taken.
bool LineReader::take_sketch(RowSketch& sketch, int64_t n) {
  if (fields.sketch.empty()) return false;
  bool finite = std::all_of(fields.sketch.begin(), fields.sketch.end(),
                            [](double x) { return std::isfinite(x); });
  if (!finite) doubts.flags |= kFlagNonfiniteStatistic;
  std::optional<double> sum_sq = statistic_field(kSumSq);
  if (fields.sketch.size() != sketch.bucket.size() || !finite || !sum_sq || n <= 0) {
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
/// has none. A sketch of the line's own is that of the whole row. Samples of nothing are not
/// stored.
void LineReader::set_values(TraceRow& row) {
  RowSketch own;
  if (take_sketch(own, row.n.value_or(-1))) row.sketch = &batch->sketches.emplace_back(own);
  if (fields.values_key == kNoKey) return;
  if (!row.sketch) derive_from_values(row);
  const bool may_be_nonfinite =
      line_algo == kWholeRowHash &&
      (row.nan.value_or(0) + row.inf.value_or(0) > 0 || says_masked(fields.token[kExtra]));
  if (fields.values_nonfinite && !may_be_nonfinite) {
    row.flags |= kFlagNonfiniteStatistic;
  }
  batch->kept_bytes += fields.values.size() * sizeof(float);
  row.sample = batch->samples.emplace_back(std::move(fields.values));
  fields.values = {};
}

void LineReader::derive_from_values(TraceRow& row) {
  Fingerprint f = fingerprint(fields.values);
  bool has_statistics = row.hash || row.min || row.max || row.mean || row.abs_sum || row.nan ||
                        row.inf || row.nz_count;
  if (!has_statistics) {
    const auto stated_n = row.n;
    set_statistics_of(row, f);
    if (stated_n && *stated_n <= 0) row.n = stated_n;
    row.flags |= kFlagDerived;
  }
  if (f.n > 0) row.sketch = &batch->sketches.emplace_back(sketch_of(f, true));
}

/// An earlier hash covers the first values of a row. Where these are not all of it, the sample has
/// some of them.
bool LineReader::is_still_hash(const TraceRow& row, bool covers_n) {
  if (covers_n) return still_hash.has_seen(row);
  if (line_algo != kLegacyHash) return false;
  if (row.n && *row.n <= static_cast<int64_t>(kLegacyHashValues)) return still_hash.has_seen(row);
  if (row.sample.empty() || row.sample.size() > kLegacyHashValues) return false;
  TraceRow hashed;
  set_statistics_of(hashed, fingerprint(row.sample));
  hashed.hash = row.hash;
  return still_hash.has_seen(hashed);
}

void LineReader::add_in_doubt(TraceRow& row, RowContext&& c, std::string&& extra,
                              const Doubts& of_row) {
  if (!of_row.as_written.empty())
    extra += (extra.empty() ? "" : ",") + ("\"as_written\":{" + of_row.as_written + "}");
  row.flags |= of_row.flags;
  if (row.hash && line_algo != file_algo) row.flags |= kFlagOtherHash;
  // in the row format every number is one, `extra` is the writer's own, and a mask may be infinite
  if (!row_format.has_begun && (states_nonfinite(kNan, row.nan) ||
                                states_nonfinite(kInf, row.inf) || hints_at_nonfinite(fields))) {
    row.flags |= kFlagNonfiniteStatistic;
  }
  const bool covers_n = line_algo == kWholeRowHash && !says_masked(extra);
  if (std::string fault = fault_of(row, covers_n); !fault.empty()) {
    refusal = "a row that contradicts itself: its " + fault;
  } else if (std::string doubt = doubt_of(row, covers_n); !doubt.empty()) {
    warn("a row that is hard to believe: its " + doubt);
  }
  if (const std::string doubt = sketch_doubt(row); !doubt.empty()) {
    warn("a sketch that is not taken: it " + doubt);
    row.sketch = nullptr;
  }
  if (is_still_hash(row, covers_n)) {
    refusal = "a hash that stands still: that of " + std::to_string(StillHash::kRows) +
              " rows whose values are others";
  }
  row.context_id = context(std::move(c), std::move(extra));
  row.line = line_no;
  batch->rows.push_back(row);
}

/// step and position, the first of `position` that is there; false when the line was rejected.
bool LineReader::step_and_position(TraceRow& row, std::initializer_list<Key> position) {
  if (!key_field(kStep, -1, INT32_MAX, row.step)) return false;
  for (Key k : position) {
    if (!fields.states(k)) continue;
    if (!key_field(k, -1, kMaxPosition, row.pos_id)) return false;
    if (row.pos_id >= 0) row.logical_tok_idx = row.pos_id;
    break;
  }
  return true;
}

/// A row of a line that holds several tensors; a legacy hash covers what legacy hashes cover.
PartRow LineReader::part_row(const TraceRow& base, std::string_view tensor, const PartKeys& keys) {
  PartRow part{base, {}};
  TraceRow& row = part.row;
  row.name_id = name(tensor);
  part.doubts = rejected_by([&] {
    set_statistics(row, keys.hash, keys.min, keys.max, keys.mean);
    row.n = line_algo == kWholeRowHash ? integer_field(keys.n)
                                       : static_cast<int64_t>(kLegacyHashValues);
    doubt_hash_of_nothing(row, keys.hash);
    row.ptr = integer_field(keys.ptr);
    row.offset_bytes = integer_field(keys.offset_bytes);
  });
  return part;
}

/// An empty readout under the key of a row.
Readout LineReader::readout_of(const TraceRow& row) {
  Readout out;
  out.prompt_id = row.prompt_id;
  out.phase_id = row.phase_id;
  out.name_id = row.name_id;
  out.step = row.step;
  out.pos_id = row.pos_id;
  out.line = line_no;
  return out;
}

}  // namespace greta::record
