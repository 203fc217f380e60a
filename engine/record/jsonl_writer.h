#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "engine/run/trace_sink.h"

namespace greta {

/// Writes a run as JSON lines that `greta-db ingest` reads, with the verdicts of the direct write.
/// The files are:
///
///   <folder>/<run name>/run.jsonl
///       run_start, a run_prompt with its plan for each prompt, run_end (ingest/record/run_event.h)
///   <folder>/<run name>/traces/<prompt>_trace.jsonl
///       a stage_trace line per row, a difference line per pair whose rows differ, a readout line
///       per row of logits (ingest/record/parser.h)
///
/// The run name is base_run_name, #2, #3, ... when the folder has such a run. Numbers read back as
/// they were; a sample with values that are not finite says NaN and Infinity, which strict JSON
/// readers refuse. An export without its run_end is INCOMPLETE: that line is written last, and by
/// the destructor, as failed, when end() was not called. Throws std::system_error.
class JsonlWriter : public TraceSink {
 public:
  /// Throws std::invalid_argument for a name that no run can have.
  JsonlWriter(const std::filesystem::path& folder, const RunRecord& run);
  ~JsonlWriter() override;

  const std::filesystem::path& run_folder() const;  ///< <folder>/<run name>

  void begin_prompt(const PromptRecord& prompt) override;
  void rows(std::vector<TraceRecord> rows) override;
  void readout(const ReadoutRecord& readout) override;
  void attribute(const std::string& name, const std::string& value) override;
  void end(bool complete) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace greta
