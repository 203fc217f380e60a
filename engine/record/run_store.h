#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "db/run_records.h"
#include "db/trace_writer.h"
#include "engine/forward/trace_sink.h"

namespace greta {

/// One run of an engine as it stands in a greta database. All calls happen inside a transaction
/// that the caller owns; after a rollback only finish() is of use. Throws SQLite::Exception.
class RunStore {
 public:
  /// Adds the run, status running, under base_run_name(run) or the next free name, with its source
  /// and its attributes. The database must outlive the object.
  RunStore(SQLite::Database& db, const RunRecord& run);

  const std::string& run_name() const { return run_name_; }
  int64_t run_id() const { return run_id_; }
  int64_t rows() const { return rows_; }            ///< given to add_rows
  int64_t prompt_id() const { return prompt_id_; }  ///< of the prompt added last; 0: there is none

  /// Adds the prompt with its plan; rows and readouts that follow belong to it.
  void add_prompt(const PromptRecord& prompt);
  void add_rows(std::span<const TraceRecord> records);
  void add_readout(const ReadoutRecord& readout);
  void add_attribute(const std::string& name, const std::string& value);

  /// Relative L2 distances up to which a difference is rounding in this run, by TracePoint.
  std::vector<double> tolerances();

  /// Sets how the run ended (ISO 8601 UTC) and how many rows it has.
  void finish(bool complete, const std::string& finished_at);

 private:
  void add_attributes(const RunRecord& run);
  TraceRow row_of(const TraceRecord& record);
  void add_difference(const TraceRecord& record);
  const PhaseId& phase_id(Phase phase);
  int64_t context_id(const TraceRecord& record);

  SQLite::Database& db_;
  RunRecords records_;
  TraceWriter writer_;
  std::string run_name_;
  int64_t run_id_ = 0, source_id_ = 0, prompt_id_ = 0;
  int64_t rows_ = 0, readouts_ = 0;
  std::array<TensorId, kTracePoints> tensors_{};
  std::array<std::optional<PhaseId>, kPhaseCount>
      phases_{};  // by Phase; those that rows had so far
  std::unordered_map<std::string, int64_t> contexts_;
  std::string context_key_;
  size_t context_bytes_ = 0;          // in contexts_
  std::vector<TraceRow> trace_rows_;  // of one call, kept for their memory
  std::vector<RowSketch> sketches_;
};

}  // namespace greta
