#pragma once

#include <filesystem>
#include <memory>

#include "engine/run/trace_sink.h"

namespace greta {

/// Writes what lies after the stack as JSON lines of the B3.13 delta shape: one line for
/// prefill_last, of the prompt's own last token, and one for decode0 of each prompt, appended to a
/// file.
///
/// hidden_*, rms_* and logits_* (n, hash, min, max, mean) come from the rows hidden, final_norm and
/// logits, rms_* and lm_head_* beside them from what those rows say in `extra`, top1_* to gap and
/// cpu_probe_* from the readouts. What was not traced has no keys. A prompt's lines are written
/// when the next one begins, or at the end. Throws std::system_error.
class DeltaWriter : public TraceSink {
 public:
  explicit DeltaWriter(const std::filesystem::path& file);
  ~DeltaWriter() override;

  void begin_prompt(const PromptRecord& prompt) override;
  void rows(std::vector<TraceRecord> rows) override;
  void readout(const ReadoutRecord& readout) override;
  void end(bool complete) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace greta
