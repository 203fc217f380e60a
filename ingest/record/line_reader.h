#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ingest/record/batch.h"
#include "ingest/record/line.h"

namespace greta::record {

/// Numbers texts in order of first sight. Consecutive lines mostly repeat, so the last is
/// remembered.
class SymbolTable {
 public:
  /// Nothing when the text was not seen yet.
  std::optional<int64_t> find(std::string_view text) {
    if (last_ >= 0 && text == last_text_) return last_;
    const auto it = symbols_.find(text);
    if (it == symbols_.end()) return std::nullopt;
    return remember(it);
  }
  /// Adds a text that find() does not know.
  int64_t add(std::string_view text) {
    bytes_ += text.size();
    return remember(symbols_.emplace(std::string(text), next_++).first);
  }
  size_t size() const { return symbols_.size(); }
  int64_t next() const { return next_; }   ///< number of the next text that is new
  size_t bytes() const { return bytes_; }  ///< of the texts
  /// Forgets the texts, not the numbers given.
  void clear() {
    symbols_.clear();
    last_ = -1;
    bytes_ = 0;
  }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  using Symbols = std::unordered_map<std::string, int64_t, Hash, std::equal_to<>>;

  int64_t remember(Symbols::const_iterator it) {
    last_text_ = it->first;
    return last_ = it->second;
  }

  Symbols symbols_;
  int64_t next_ = 0;
  size_t bytes_ = 0;
  std::string_view last_text_;  // into a key of symbols_
  int64_t last_ = -1;
};

/// The phase that a writer means, as greta spells it: prefill_last, prefill, decode0, decode or a
/// further one of either side ("prefill_chunk"). Case does not matter, nor what stands between the
/// words (Prefill-Last, "decode 0"); decode1 and later are decode. Nothing when the text names
/// neither side: rows of it would never be paired.
std::optional<std::string> phase_meant(std::string_view text);

struct LineReader;

/// State of a content in the row format so far (docs/traces.md): run_start, rows, run_end.
struct RowFormat {
  bool has_begun = false, has_ended = false;
  int64_t rows = 0;  ///< lines of rows, taken or not
  std::unordered_set<std::string> prompts;
};

/// True if the line at hand is of the row format: it, or a line before, says so, or it can be
/// nothing else.
bool is_row_format(const LineReader& in);

/// Takes a line of the row format, or says with one finding why it cannot be: nothing of it is
/// taken then.
void read_row_format(LineReader& in);

/// True if the members of a row's extra say that infinities of it are those of a mask, which n
/// alone counts.
inline bool says_masked(std::string_view extra) { return extra.find("\"masked\":") != extra.npos; }

/// Behind the last line.
void finish_row_format(LineReader& in);

/// Hash of all values of a row, as hash_algo spells it.
inline constexpr std::string_view kWholeRowHash = "greta-1";

/// What one file may name. Engines have some dozens of tensors; without an end, a file of nothing
/// but names would fill the memory, and the dictionary that all runs share.
inline constexpr size_t kMaxNames = 4'000, kMaxPhases = 100, kMaxPrompts = 100'000;
inline constexpr size_t kMaxNameBytes = 1'024, kMaxSymbolBytes = 8u << 20;

/// The phase of a line, as it writes it and as greta spells it.
struct LinePhase {
  std::string_view raw;
  std::string name;
};

/// What of a line's fields could not be taken as it stands.
struct Doubts {
  int flags = 0;           ///< of trace_row.flags
  std::string as_written;  ///< JSON members for row_context.extra
  Doubts& operator+=(const Doubts& other) {
    flags |= other.flags;
    if (!as_written.empty() && !other.as_written.empty()) as_written += ',';
    as_written += other.as_written;
    return *this;
  }
};

/// One of the rows of a line that holds several, with the doubts about it alone.
struct PartRow {
  TraceRow row;
  Doubts doubts;
};

/// The fields of the line at hand, made into rows of a batch: what the shapes of lines share. One
/// serves all lines of a file. Conversions report what they reject, and keep it as it was written.
struct LineReader {
  explicit LineReader(RecordSource s) : source(std::move(s)) {}

  RecordSource source;
  Fields fields;
  RowFormat row_format;
  std::string shape;
  bool phase_conflict = false;
  // symbols
  SymbolTable prompts, phases, names, contexts;
  std::string context_key;
  struct {
    std::string token, name;
  } last_phase;              ///< as written, and as greta spells it: most lines repeat it
  size_t context_bytes = 0;  ///< in contexts
  /// Prompts of readout lines that name none.
  struct {
    std::unordered_map<std::string, int64_t> of_opening;
    int64_t count = 0;
    int64_t current = -1;
  } segments;
  // per line
  RecordBatch* batch = nullptr;
  int64_t line_no = 0;
  std::string_view line;
  Doubts doubts;  ///< about all rows of the line
  bool line_warned = false;
  std::string_view line_algo;  ///< of the line's hashes
  std::string file_algo;       // of the file's
  StillHash still_hash;
  std::string refusal;  ///< why the line is not taken although it was read
  struct {
    size_t rows, readouts, differences, events, samples, sketches, findings, kept_bytes;
  } before{};  ///< sizes of the batch when the line began
  // of the file: lines that gave no row
  int64_t kept = 0;
  struct {
    int64_t count, first_line;
    bool any_error;
  } not_kept{};

  /// Ends the line at hand: what it gave goes when it is refused, its text when it gave nothing and
  /// enough such lines were kept.
  void end();

  /// Makes `line` the line at hand.
  void begin(std::string_view line, int64_t line_no, RecordBatch& batch);

  /// Reports the line, which is kept with it.
  void add_finding(bool is_error, std::string reason) {
    const std::string_view raw = kept_part(line);
    if (raw.size() < line.size()) reason += "; of the line its first MiB is kept";
    batch->findings.push_back({line_no, is_error, std::move(reason), std::string(raw)});
    batch->kept_bytes += raw.size();
  }
  /// One warning per line is enough: the raw line is kept with it.
  void warn(std::string reason) {
    if (!line_warned) add_finding(false, std::move(reason));
    line_warned = true;
  }

  /// True if a file may name `text`, one more of `limit` such names; else the line is refused.
  bool may_add(const SymbolTable& table, std::string_view text, size_t limit, const char* what);
  int64_t symbol(SymbolTable& table, std::vector<std::string>& fresh, std::string_view text,
                 size_t limit, const char* what) {
    if (const auto known = table.find(text)) return *known;
    if (!may_add(table, text, limit, what)) return 0;
    fresh.emplace_back(text);
    return table.add(text);
  }
  int64_t phase(std::string_view text) {
    return symbol(phases, batch->phases, text, kMaxPhases, "phases");
  }
  int64_t name(std::string_view text) {
    return symbol(names, batch->names, text, kMaxNames, "tensors");
  }
  int64_t prompt(std::string_view text, bool is_segment = false,
                 std::optional<int64_t> n_tokens = std::nullopt) {
    if (const auto known = prompts.find(text)) return *known;
    if (!may_add(prompts, text, kMaxPrompts, "prompts")) return 0;
    batch->prompts.push_back({std::string(text), is_segment, n_tokens});
    return prompts.add(text);
  }

  // conversions that report what they reject
  std::optional<int64_t> integer_field(Key k);
  std::optional<double> real_field(Key k);
  std::optional<double> statistic_field(Key k);
  std::optional<int64_t> nonfinite_count(Key k);
  std::optional<uint64_t> hash_field(Key k);
  bool key_field(Key k, int64_t low, int64_t high, int64_t& out);
  void reject(Key k, bool is_error, const char* why);

  void set_statistics(TraceRow& row, Key hash, Key min, Key max, Key mean, Key abs_sum = kNoKey);
  void doubt_hash_of_nothing(TraceRow& row, Key hash);
  bool number_of_row(Key k, std::optional<int64_t>& out);
  bool speaks_of_a_row() const;
  bool states_nonfinite(Key k, const std::optional<int64_t>& counted) const;
  struct PartKeys {
    Key hash, min, max, mean, ptr, offset_bytes, n;
  };
  PartRow part_row(const TraceRow& base, std::string_view tensor, const PartKeys& keys);
  /// What `read` rejects, which is then no doubt about the other rows of the line.
  template <class Read>
  Doubts rejected_by(Read read) {
    Doubts outer = std::exchange(doubts, {});
    read();
    return std::exchange(doubts, std::move(outer));
  }
  Readout readout_of(const TraceRow& row);
  void set_values(TraceRow& row);
  void derive_from_values(TraceRow& row);
  bool take_sketch(RowSketch& sketch, int64_t n);
  void take_hash_algo();
  void warn_of_contradictions();
  int64_t context(RowContext&& context, std::string&& extra);
  std::string extra_json(std::string_view only_prefix, std::initializer_list<std::string_view> but);
  std::optional<LinePhase> line_phase(std::string_view otherwise);
  void set_phase(TraceRow& row, RowContext& context, const LinePhase& phase);
  /// Prompt of the line, tensor and phase of its only row.
  void set_place(TraceRow& row, RowContext& context, std::string_view tensor,
                 const LinePhase& phase) {
    row.prompt_id = line_prompt();
    row.name_id = name(tensor);
    set_phase(row, context, phase);
  }
  /// What lines that state no phase are of, by their directory.
  std::string_view source_phase() const {
    return source.leg.empty() ? std::string_view("unknown") : source.leg;
  }
  void add(TraceRow& row, RowContext&& context, std::string extra) {
    add_in_doubt(row, std::move(context), std::move(extra), doubts);
  }
  void add(PartRow& part, RowContext&& context, std::string extra) {
    part.doubts += doubts;
    add_in_doubt(part.row, std::move(context), std::move(extra), part.doubts);
  }
  void set_shape(const char* name) {
    if (shape.empty()) shape = name;
  }
  /// The prompt that the line names, else that of the source.
  int64_t line_prompt() {
    Key key = fields.states(kPromptId) ? kPromptId : kPrompt;
    if (!fields.states(key)) return prompt(source.prompt);
    if (!fields.has(key)) refusal = std::string(kKeyNames[key]) + " is not a name";
    std::string_view raw = fields.take(key);
    return raw.find('\\') == std::string_view::npos ? prompt(unquoted(raw))
                                                    : prompt(unescaped(raw));
  }
  bool step_and_position(TraceRow& row, std::initializer_list<Key> position);

 private:
  bool is_still_hash(const TraceRow& row, bool covers_n);
  void add_in_doubt(TraceRow& row, RowContext&& context, std::string&& extra, const Doubts& of_row);
};

}  // namespace greta::record
