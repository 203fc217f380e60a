#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "db/run_records.h"
#include "db/trace_writer.h"
#include "engine/run/trace_sink.h"

namespace greta {

/// The name that a run was given is that of another one.
struct RunExists : std::invalid_argument {
  explicit RunExists(const std::string& name)
      : std::invalid_argument("the database has a run " + name + " already") {}
};

/// One run of an engine as it stands in a greta database. All calls happen inside a transaction
/// that the caller owns and in which it calls forget_verdict for the run; after a rollback only
/// finish() is of use. Throws SQLite::Exception.
class RunStore {
 public:
  /// Adds the run, status running, under base_run_name(run) or the next free name, with its source
  /// and its attributes. The database must outlive the object.
  RunStore(SQLite::Database& db, const RunRecord& run);

  const std::string& run_name() const { return run_name_; }
  int64_t run_id() const { return run_id_; }
  int64_t rows() const { return rows_; }  ///< taken
  size_t n_prompts() const { return prompt_ids_.size(); }
  int64_t prompt_id(size_t prompt) const { return prompt_ids_.at(prompt); }

  /// Adds a prompt with its plan, the next one by number.
  void add_prompt(const PromptRecord& prompt);
  void add_plan(size_t prompt, std::span<const PlannedRow> plan);
  /// Takes rows, which write_rows() writes together with those taken before; borrowed until then.
  /// Throws DatabaseError when the file has no room for another name of a tensor.
  void take_rows(size_t prompt, std::span<const TraceRecord> records);
  void write_rows();
  void add_readout(size_t prompt, const ReadoutRecord& readout);
  void add_attribute(const std::string& name, const std::string& value);

  /// Relative L2 distances up to which a difference is rounding in this run, by TracePoint.
  std::vector<double> tolerances();

  /// Sets how the run ended (ISO 8601 UTC) and how many rows it has.
  void finish(bool complete, const std::string& finished_at);

 private:
  void add_attributes(const RunRecord& run);
  TraceRow row_of(int64_t prompt_id, const TraceRecord& record);
  void add_difference(int64_t prompt_id, const TraceRecord& record);
  const PhaseId& phase_id(Phase phase);
  const TensorId& tensor_of(TracePoint point);
  std::optional<int64_t> context_id(const TraceRecord& record);

  SQLite::Database& db_;
  RunRecords records_;
  TraceWriter writer_;
  std::string run_name_;
  int64_t run_id_ = 0, source_id_ = 0;
  std::vector<int64_t> prompt_ids_;
  int64_t rows_ = 0, readouts_ = 0;
  std::vector<std::optional<TensorId>> tensors_;  // by TracePoint; those of other engines as met
  std::array<std::optional<PhaseId>, kPhaseCount>
      phases_{};  // by Phase; those that rows had so far
  std::unordered_map<std::string, int64_t> contexts_;
  std::string context_key_;
  size_t context_bytes_ = 0;          // in contexts_
  std::vector<TraceRow> trace_rows_;  // taken and not written; kept for their memory
  std::vector<RowSketch> sketches_;   // of trace_rows_
};

}  // namespace greta
