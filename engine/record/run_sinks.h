#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/record/run_writer.h"
#include "engine/run/trace_sink.h"

namespace greta {

/// Where a run is written; empty: not there.
struct RunTargets {
  std::string database;
  std::string jsonl_folder;  ///< every row, as JsonlWriter does
  std::string delta_file;    ///< the LM head's part, as DeltaWriter does
};

/// Gives a run to every target, and counts its rows. Without any target it only counts.
class RunSinks : public TraceSink {
 public:
  /// Throws what the writers throw when a target cannot be written.
  RunSinks(const RunTargets& targets, const RunRecord& run);

  const std::string& run_name() const { return run_name_; }  ///< in the database; empty without one
  int64_t n_rows() const { return n_rows_; }
  /// Of the database, as RunWriter::tolerances(); empty without one.
  const std::vector<double>& tolerances() const { return tolerances_; }

  void begin_prompt(const PromptRecord& prompt) override;
  void rows(std::vector<TraceRecord> rows) override;
  void readout(const ReadoutRecord& readout) override;
  void attribute(const std::string& name, const std::string& value) override;
  void end(bool complete) override;

 private:
  std::vector<std::unique_ptr<TraceSink>> sinks_;
  std::string run_name_;
  std::vector<double> tolerances_;
  int64_t n_rows_ = 0;
};

/// Leaves a run that could not begin in a database, as failed; empty: in none. Says nothing when
/// that fails too: who calls has an error to tell.
void leave_failed_run(const std::string& database, const RunRecord& run);

}  // namespace greta
