#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/run/trace_sink.h"

namespace greta {

/// Holds what is said of one prompt until a sink can take it: of prompts that are computed together
/// a sink is told one after the other.
class HeldPrompt final : public TraceSink {
 public:
  void begin_prompt(const PromptRecord& prompt) override { held_.emplace_back(prompt); }
  void rows(std::vector<TraceRecord> rows) override { held_.emplace_back(std::move(rows)); }
  void readout(const ReadoutRecord& readout) override { held_.emplace_back(readout); }
  void attribute(const std::string& name, const std::string& value) override {
    held_.emplace_back(std::pair(name, value));
  }
  void end(bool) override {}

  /// Says all of it, in its order, and forgets it.
  void tell(TraceSink& sink);

 private:
  using Said = std::variant<PromptRecord, std::vector<TraceRecord>, ReadoutRecord,
                            std::pair<std::string, std::string>>;
  std::vector<Said> held_;
};

}  // namespace greta
