#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Run logs of the predecessor's engine: tagged records and the facts around them, line by line.
/// Any bytes are accepted; time is linear in the line, memory in what is kept.
namespace greta {

/// One record: "[TAG] words k=v k=v".
struct LogEvent {
  int64_t line = 0;
  std::string tag;              ///< without brackets
  std::optional<int64_t> step;  ///< of a field step=N
  /// k=v in order; values are text ("true", "0x7f..."), except that D2H_CHECK prints hexadecimal
  /// numbers without a prefix: these are decimal here, and step and layer signed (ffffffff is -1).
  std::vector<std::pair<std::string, std::string>> fields;
  std::string text;  ///< the record as written, after the tag: the words, and the raw fields
};

struct LogFacts {
  std::optional<int64_t> prompt_tokens;
  /// (name, value) in file order, equal ones once. Names are the log's own in snake_case, with the
  /// unit when the log prints one: model, prompt, max_tokens, greedy, top_k, config_layers,
  /// config_vocab, prompt_tokens, generated_tokens, total_time_ms, tokens_per_second, status,
  /// generated, error.
  std::vector<std::pair<std::string, std::string>> facts;
  bool valid_utf8 = true;
};

/// Feed it the lines in order, without line ends (a CR is taken off). A line that starts with a
/// tag is an event. Threads share the output, so a tag further on in a line starts an event too
/// when k=v fields follow it; in the echo of a prompt it does not. "Top tokens: 79(12.0) 18(11.0)"
/// is an event SAMPLE DEBUG TOP with fields top1_id, top1_logit, top2_id, ....
class LogParser {
 public:
  void add_line(std::string_view line, int64_t line_no, std::vector<LogEvent>& out);
  LogFacts facts() const { return facts_; }
  /// Facts beyond the 10,000 that are kept.
  int64_t facts_not_kept() const { return facts_not_kept_; }

 private:
  void add_plain_line(std::string_view line, bool in_section);
  void add_config(std::string_view values);
  void add_fact(std::string name, std::string_view value);

  LogFacts facts_;
  int64_t facts_not_kept_ = 0;
  std::set<std::pair<std::string, std::string>> seen_;
  bool in_section_ = false;  // below a "Configuration:" or "Statistics:" line
};

/// Whether text whose first bytes are `head` is a log: it has a line that starts with an upper-case
/// tag, outside code fences, and does not begin like Markdown or JSON. 64 KiB are enough.
bool looks_like_log(std::string_view head);

}  // namespace greta
