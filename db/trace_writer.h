#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "db/crowd.h"
#include "db/statements.h"
#include "db/stored_sketch.h"
#include "db/trace_batch.h"
#include "db/trace_row.h"

// The only writer of trace rows.

namespace greta {

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
  int64_t taken_over =
      0;  ///< of those, rows that count for this source from now on, not for theirs
  std::vector<int64_t> conflict_lines;  ///< lines stored as a further occurrence of their key
};

/// The only writer of trace rows, for the engine and the importer. All calls happen inside a
/// transaction that the caller owns; nothing is buffered between calls. It switches triggers off on
/// its connection: other writers there must call forget_verdict and refresh_lineage. Throws
/// SQLite::Exception (disk full, busy) and std::invalid_argument (a key beyond the limits).
class TraceWriter {
 public:
  explicit TraceWriter(SQLite::Database& db);
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  /// Ids of prompts, phases and trace points, which are entered when they are new.
  int64_t prompt_id(int64_t run_id, std::string_view name);
  /// A name that begins with prefill or decode is of that side.
  PhaseId phase_id(std::string_view name);
  /// A name that greta does not know becomes a trace point, last in its layer, with cause
  /// NAME_DRIFT. Throws std::invalid_argument when a database holds as many names as it can.
  TensorId tensor_id(std::string_view name);
  /// The same for a name in a file. A run may bring a 16th of the names that are free when it
  /// brings its first: some 4,000 of an empty database. Nothing beyond.
  std::optional<TensorId> tensor_id_of_run(int64_t run_id, std::string_view name);
  int64_t add_context(const RowContext& context);
  /// To be called after every rollback: ids that were entered in that transaction are gone.
  void forget();

  /// Writes rows, in any order (sorted here, so that the tree grows at its end), notes their
  /// positions in traced_position, and forgets the verdicts of their runs. A row of a key
  /// (place, side, phase, step and name) that exists is a duplicate when its content (tokens, n,
  /// hash, statistics, sample, without a hash the sketch) is the same, else a further occurrence.
  /// What is stored does not depend on the order of arrival: rows of a place are numbered by key
  /// and content, and of equal ones the first stands by its source's path.
  WriteCounts write(std::span<TraceRow> rows);

 private:
  struct RowStatements;
  void identify(std::span<TraceRow* const> rows);
  void note_positions(std::span<TraceRow* const> rows);
  size_t insert(std::span<TraceRow* const> rows, size_t first, size_t n);
  void place(std::span<TraceRow* const> rows, size_t first, size_t n, WriteCounts& counts);
  void repeat(const TraceRow& row, size_t at, const Crowd::Member& there, WriteCounts& counts);
  bool precedes(const TraceRow& row, const Crowd::Member& there);
  void take_over(const TraceRow& row, size_t at, const Crowd::Member& there);
  void store_sample_and_sketch(const TraceRow& row, size_t at);
  void store_sketch(size_t at);
  void insert_sketches();
  void note_sketches(std::span<TraceRow* const> rows);
  int64_t next_id();

  SQLite::Database& db_;
  Statements sql_;
  std::map<std::pair<int64_t, std::string>, int64_t> prompts_;
  std::unordered_map<std::string, PhaseId> phases_;
  std::unordered_map<std::string, TensorId> tensors_;
  std::unordered_map<int64_t, int64_t> names_left_;  // of runs that brought some
  std::unique_ptr<RowStatements> statements_;
  SketchIds sketch_ids_;
  // One entry for each row of this call.
  static constexpr size_t kStored = SIZE_MAX;
  std::vector<RowIds> ids_;
  std::vector<StoredSketch> sketches_;
  std::vector<size_t> owners_;   ///< row that had the same sketch first; kStored: another call's
  std::vector<bool> is_stored_;  ///< the sketch of this owner
  std::vector<size_t> new_;      ///< owners of sketches that no earlier call had
  bool is_writing_ = false;
  int64_t last_id_ = -1;  ///< of samples and sketches; -1: not read yet
};

}  // namespace greta
