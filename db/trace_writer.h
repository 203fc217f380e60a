#pragma once
#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace greta {

inline constexpr int64_t kUnknownPosition = -1;
inline constexpr int64_t kUnknownStep = -1;
/// Limits of a key; first_at of the view `tally` packs them. A row beyond them is refused.
inline constexpr int64_t kMaxPosition = (int64_t{1} << 21) - 2;
inline constexpr int64_t kMaxLayer = 8189;

/// Attribute that says how many trace rows a run wrote: with fewer, its verdict is INCOMPLETE.
inline constexpr const char* kTraceRows = "trace_rows";

/// Side of the comparison a phase belongs to (phase.side).
enum class Side : int { kPrefill = 0, kDecode = 1, kNeither = 2 };

/// trace_row.flags.
inline constexpr int kFlagNonfiniteStatistic = 1;  ///< a statistic was written as NaN or inf
inline constexpr int kFlagDerived = 2;             ///< statistics computed from the sample
inline constexpr int kFlagRejectedField = 4;       ///< a field was rejected, see row_context.extra

/// Sketch of a row as stored: two maps of 16 buckets, scaled to the values' own unit.
struct RowSketch {
  int64_t n = 0;         ///< values covered
  bool derived = false;  ///< made from a stored sample
  double sum_sq = 0;     ///< squared L2 norm
  std::array<double, 32> bucket{};
};

/// One row of trace_row, with the ids of its dictionaries. sample and sketch are borrowed until
/// TraceWriter::write returns.
struct TraceRow {
  int64_t run_id = 0;
  int64_t prompt_id = 0;
  Side side = Side::kNeither;
  int64_t pos_id = kUnknownPosition;
  int64_t layer = 0;
  int64_t tensor_id = 0;
  int64_t phase_id = 0;
  int64_t step = kUnknownStep;
  int64_t name_id = 0;
  int64_t occurrence = 0;  ///< set by the writer

  std::optional<int64_t> token_id, logical_tok_idx, n;
  std::optional<uint64_t> hash;
  std::optional<double> min, max, mean, abs_sum;  ///< never NaN: SQLite would store NULL
  std::optional<int64_t> nan, inf, nz_count;
  int flags = 0;
  std::optional<int64_t> ptr, offset_bytes, context_id;
  int64_t source_id = 0;
  int64_t line = 0;  ///< 1-based; a source never gives one key twice on one line
  std::span<const float> sample;
  const RowSketch* sketch = nullptr;
};

/// Fields of row_context: what repeats from row to row.
struct RowContext {
  std::optional<std::string> route, src_kind, phase_raw;
  std::optional<int64_t> seq_len, tokens_total, token_index, kv_pos, stride_elems, alloc_bytes,
      prompt_tokens, decode_step;
  std::optional<std::string> extra;  ///< JSON object
};

struct PhaseId {
  int64_t id;
  Side side;
};

struct TensorId {
  int64_t name_id;    ///< tensor_name.id
  int64_t tensor_id;  ///< canonical
};

/// What write() did with the rows it got.
struct WriteCounts {
  int64_t inserted = 0;    ///< conflicts included
  int64_t duplicates = 0;  ///< equal content under an existing key: counted, not stored again
  std::vector<int64_t> conflict_lines;  ///< lines stored as a further occurrence of their key
};

/// The only writer of trace rows, for the engine and the importer. All calls happen inside a
/// transaction that the caller owns; nothing is buffered between calls. Throws SQLite::Exception
/// (disk full, busy) and std::invalid_argument (a key beyond the limits).
class TraceWriter {
 public:
  explicit TraceWriter(SQLite::Database& db);
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  /// Ids of dictionary entries, created when new. Entries made in a transaction that was rolled back
  /// must be forgotten: call forget() after every rollback.
  int64_t prompt_id(int64_t run_id, std::string_view name);
  PhaseId phase_id(std::string_view name);
  TensorId tensor_id(std::string_view name);
  int64_t add_context(const RowContext& context);
  void forget();

  /// Writes rows, in any order (sorted here, so that the tree grows at its end), and clears the kept
  /// tally of their runs. A row whose key exists is a duplicate when its content (n, hash, statistics,
  /// sample) is the same, else a further occurrence.
  WriteCounts write(std::span<TraceRow> rows);

 private:
  struct Statement;  // prepared sqlite3_stmt with typed binds
  struct Batch;      // what the table-valued functions of this writer show
  void add_function(const std::string& name, const void* table);
  size_t insert(std::span<TraceRow* const> rows, std::span<const int64_t> vectors);
  void place(TraceRow& row, int64_t vector_id, WriteCounts& counts);
  void count_repeat(const TraceRow& row);
  void store_vector(const TraceRow& row, int64_t vector_id);
  void insert_sketches();
  int64_t next_vector_id();

  SQLite::Database& db_;
  std::unique_ptr<Batch> batch_;
  std::unique_ptr<Statement> insert_, find_, repeat_, sketch_, sample_, context_;
  std::map<std::pair<int64_t, std::string>, int64_t, std::less<>> prompts_;
  std::unordered_map<std::string, PhaseId> phases_;
  std::unordered_map<std::string, TensorId> tensors_;
  int64_t last_vector_id_ = -1;  ///< -1: not read yet in this call
};

}  // namespace greta
