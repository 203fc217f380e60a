#include "engine/probe/held_prompt.h"

namespace greta {

void HeldPrompt::tell(TraceSink& sink) {
  for (Said& said : std::exchange(held_, {})) {
    if (const auto* prompt = std::get_if<PromptRecord>(&said)) sink.begin_prompt(*prompt);
    if (auto* rows = std::get_if<std::vector<TraceRecord>>(&said)) sink.rows(std::move(*rows));
    if (const auto* readout = std::get_if<ReadoutRecord>(&said)) sink.readout(*readout);
    if (const auto* text = std::get_if<std::pair<std::string, std::string>>(&said)) {
      sink.attribute(text->first, text->second);
    }
  }
}

}  // namespace greta
