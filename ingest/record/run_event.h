#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace greta {

/// What an engine's export says of its run in lines of their own, beside the rows:
///   {"event":"run_start","experiment":..,"date":..,"started_at":..,"attributes":{NAME:TEXT,..}}
///   {"event":"run_attributes","attributes":..}: what was not known at the start
///   {"event":"run_prompt","prompt_id":..,"n_tokens":..,"text_sha256":..,"token_ids":[..],
///    "plan":[{"side":"prefill"|"decode","layer":..,"points":[..]}]}
///   {"event":"run_end","status":"complete"|"failed","rows":..,"finished_at":..}
/// An attribute with several values has a list of texts. A run that started and has no end is still
/// running: its verdict is INCOMPLETE.
///
/// Those of the row format (docs/traces.md) say it at the start, and what they may say is checked:
///   {"event":"run_start","format":"greta-rows-1","run":..,"experiment":..,"date":..,"mode":..,..}
///   {"event":"run_prompt","prompt":..,..} {"event":"run_end","status":..,"rows":..}
struct RunEvent {
  using Attribute = std::pair<std::string, std::string>;  ///< name and value
  enum Kind { kStart, kAttributes, kPrompt, kEnd };
  struct Planned {
    bool decode = false;
    int64_t layer = 0;
    std::string tensor;
  };

  Kind kind = kStart;
  std::string experiment, date, started_at;  ///< of a start; "" not stated
  std::string run, mode;  ///< of a start of the row format; the mode is an attribute as well
  std::vector<Attribute> attributes;  ///< commit, dtype, ...
  std::string prompt;                 ///< of a prompt
  std::optional<int64_t> n_tokens;
  std::optional<std::string> text_sha256, token_ids;  ///< token_ids: JSON array
  std::vector<Planned> plan;
  bool complete = false;  ///< of an end
  std::string finished_at;
  std::optional<int64_t> rows;  ///< that the run wrote
  bool counts_lines = false;    ///< rows are lines, of which several may be one row
  std::string beside;  ///< a JSON object of the fields that none of these is; "" if there are none
};

/// Whether an event of this name is one of them.
bool is_run_event(std::string_view event);

/// Reads such a line; returns why it cannot be taken, "" when it can.
std::string read_run_event(std::string_view line, RunEvent& event);

/// What run_start calls the row format.
inline constexpr std::string_view kRowFormat = "greta-rows-1";

/// The same of a line of the row format, where a field that is not known is a mistake.
std::string read_row_format_event(std::string_view line, RunEvent& event);

/// What the first line of a content says that is of the row format; nothing where it is none, or
/// cannot be taken.
std::optional<RunEvent> row_format_start(std::string_view content);

}  // namespace greta
