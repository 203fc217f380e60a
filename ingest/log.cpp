#include "ingest/log.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <limits>

#include "common/utf8.h"
#include "ingest/text.h"

namespace greta {
namespace {

using text::is_digit;
using text::is_letter;
using text::is_upper;
using text::is_word;
using text::trim;

constexpr size_t kMaxTag = 64;
constexpr size_t kMaxFacts = 10'000;
constexpr std::string_view kHexTag = "D2H_CHECK";
constexpr std::string_view kTopTokens = "Top tokens:";
constexpr std::string_view kTopTag = "SAMPLE DEBUG TOP";

// The tag of "[TAG]" at the start of `s`, "" if there is none.
std::string_view tag_at(std::string_view s) {
  if (s.size() < 3 || s[0] != '[' || !is_letter(s[1])) return {};
  const size_t end = s.substr(0, kMaxTag + 2).find(']');
  if (end == std::string_view::npos) return {};
  const std::string_view tag = s.substr(1, end - 1);
  const bool named =
      std::all_of(tag.begin(), tag.end(), [](char c) { return is_word(c) || c == ' '; });
  return named ? tag : std::string_view();
}

bool is_upper_tag(std::string_view tag) {
  return tag.size() >= 3 &&
         std::none_of(tag.begin(), tag.end(), [](char c) { return is_letter(c) && !is_upper(c); });
}

// "key=value"; nullopt for any other word.
std::optional<std::pair<std::string_view, std::string_view>> field_of(std::string_view word) {
  const size_t equals = word.find('=');
  if (equals == std::string_view::npos || equals == 0 || !is_letter(word[0])) return std::nullopt;
  const std::string_view key = word.substr(0, equals);
  std::string_view value = word.substr(equals + 1);
  if (!std::all_of(key.begin(), key.end(), is_word)) return std::nullopt;
  while (value.ends_with(',') || value.ends_with(';')) value.remove_suffix(1);
  return std::pair(key, value);
}

// Calls `visit(word)` for each word between blanks until it returns false.
template <typename Visit>
void each_word(std::string_view s, Visit visit) {
  while (!(s = trim(s)).empty()) {
    const size_t end = s.find_first_of(" \t");
    if (!visit(s.substr(0, end)) || end == std::string_view::npos) return;
    s.remove_prefix(end);
  }
}

bool has_field(std::string_view s) {
  bool found = false;
  each_word(s, [&](std::string_view word) { return !(found = field_of(word).has_value()); });
  return found;
}

// The decimal form of a hexadecimal number, the text itself if it is none.
std::string from_hex(std::string_view key, std::string_view value) {
  std::string_view digits = value;
  if (digits.starts_with("0x") || digits.starts_with("0X")) digits.remove_prefix(2);
  uint64_t number = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) {
    return std::string(value);
  }
  const bool is_signed = key == "step" || key == "layer";
  if (is_signed && number <= std::numeric_limits<uint32_t>::max()) {
    return std::to_string(static_cast<int32_t>(static_cast<uint32_t>(number)));
  }
  return std::to_string(number);
}

LogEvent make_event(int64_t line_no, std::string_view tag, std::string_view body) {
  LogEvent event;
  event.line = line_no;
  event.tag = tag;
  event.text = trim(body);
  const bool hex = tag == kHexTag;
  each_word(body, [&](std::string_view word) {
    const auto field = field_of(word);
    if (!field) return true;
    const auto [key, value] = *field;
    event.fields.emplace_back(key,
                              hex && key != "tensor" ? from_hex(key, value) : std::string(value));
    if (key == "step" && !event.step) event.step = text::parse_int(event.fields.back().second);
    return true;
  });
  return event;
}

// "79(12.0042) 18(11.0106)": a word cut by another thread's output is only in the text.
LogEvent make_top_tokens(int64_t line_no, std::string_view body) {
  LogEvent event;
  event.line = line_no;
  event.tag = kTopTag;
  event.text = trim(body);
  size_t rank = 0;
  each_word(body, [&](std::string_view word) {
    const size_t open = word.find('(');
    if (open == std::string_view::npos || !word.ends_with(')') ||
        !text::parse_int(word.substr(0, open))) {
      return true;
    }
    const std::string name = "top" + std::to_string(++rank);
    event.fields.emplace_back(name + "_id", word.substr(0, open));
    event.fields.emplace_back(name + "_logit", word.substr(open + 1, word.size() - open - 2));
    return true;
  });
  return event;
}

struct Record {
  size_t start;  // of the '['
  std::string_view tag;
};

// Every tag of the line that starts a record: the one it begins with, and upper-case ones further
// on whose text has a field before the next such tag.
std::vector<Record> find_records(std::string_view line) {
  std::vector<Record> found;
  for (size_t i = line.find('['); i != std::string_view::npos; i = line.find('[', i + 1)) {
    const std::string_view tag = tag_at(line.substr(i));
    if (!tag.empty() && (i == 0 || is_upper_tag(tag))) found.push_back({i, tag});
  }
  std::vector<Record> records;
  for (size_t k = 0; k < found.size(); ++k) {
    const size_t body = found[k].start + found[k].tag.size() + 2;
    const size_t end = k + 1 < found.size() ? found[k + 1].start : line.size();
    if (found[k].start == 0 || has_field(line.substr(body, end - body))) {
      records.push_back(found[k]);
    }
  }
  return records;
}

std::string snake_case(std::string_view name) {
  std::string out;
  for (const char c : text::to_lower(name)) {
    if (is_word(c)) {
      out += c;
    } else if (c == '/') {
      out += "_per_";
    } else if (!out.empty() && out.back() != '_') {
      out += '_';
    }
  }
  return out;
}

// A name that a log prints before a colon: short, words only.
bool is_fact_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxTag && is_letter(name[0]) &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return is_word(c) || c == ' ' || c == '-' || c == '/'; });
}

}  // namespace

void LogParser::add_line(std::string_view line, int64_t line_no, std::vector<LogEvent>& out) {
  facts_.valid_utf8 = facts_.valid_utf8 && utf8::is_valid(line);
  const bool indented = line.starts_with(' ') || line.starts_with('\t');
  const std::string_view content = trim(line);
  if (content.empty()) {
    in_section_ = false;
    return;
  }
  const bool in_section = in_section_ && indented;
  if (content.starts_with("Prompt:")) return add_plain_line(content, in_section);
  if (content.starts_with(kTopTokens)) {
    out.push_back(make_top_tokens(line_no, content.substr(kTopTokens.size())));
    return;
  }
  const std::vector<Record> records = find_records(content);
  for (size_t k = 0; k < records.size(); ++k) {
    const size_t body = records[k].start + records[k].tag.size() + 2;
    const size_t end = k + 1 < records.size() ? records[k + 1].start : content.size();
    out.push_back(make_event(line_no, records[k].tag, content.substr(body, end - body)));
  }
  const std::string_view head = records.empty() ? content : content.substr(0, records[0].start);
  add_plain_line(trim(head), in_section);
}

// Facts outside the indented sections are known by name: any other "word: text" may be what the
// model generated.
void LogParser::add_plain_line(std::string_view line, bool in_section) {
  if (line == "Configuration:" || line == "Statistics:") {
    in_section_ = true;
    return;
  }
  if (line.starts_with("STATUS=")) return add_fact("status", line.substr(7));
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  const std::string_view name = trim(line.substr(0, colon));
  const std::string_view value = trim(line.substr(colon + 1));
  if (!is_fact_name(name)) return;
  const std::string lower = text::to_lower(name);
  if (lower == "model config") return add_config(value);
  if (lower.ends_with("error") || lower.starts_with("failed to")) return add_fact("error", line);
  constexpr std::string_view kKnown[] = {"prompt", "generated", "prompt tokens", "generated tokens",
                                         "loading weights from"};
  const bool known = std::find(std::begin(kKnown), std::end(kKnown), lower) != std::end(kKnown);
  if (!known && !in_section) return;
  if (lower == "prompt tokens" && !facts_.prompt_tokens) {
    facts_.prompt_tokens = text::parse_int(value);
  }
  add_fact(snake_case(name), value);
}

// "layers=32, dim=4096": each with its name.
void LogParser::add_config(std::string_view values) {
  each_word(values, [&](std::string_view word) {
    if (const auto field = field_of(word)) {
      add_fact("config_" + std::string(field->first), field->second);
    }
    return true;
  });
}

void LogParser::add_fact(std::string name, std::string_view value) {
  value = trim(value);
  for (const std::string_view unit : {"ms", "s"}) {
    const bool has_unit = value.size() > unit.size() + 1 && is_digit(value[0]) &&
                          value.ends_with(unit) && value[value.size() - unit.size() - 1] == ' ';
    if (!has_unit) continue;
    name += "_" + std::string(unit);
    value = trim(value.substr(0, value.size() - unit.size()));
    break;
  }
  if (value.size() >= 2 && value.starts_with('"') && value.ends_with('"')) {
    value = value.substr(1, value.size() - 2);
  }
  std::pair<std::string, std::string> fact(std::move(name), value);
  if (seen_.contains(fact)) return;
  if (seen_.size() == kMaxFacts) {
    ++facts_not_kept_;
    return;
  }
  if (seen_.insert(fact).second) facts_.facts.push_back(std::move(fact));
}

bool looks_like_log(std::string_view head) {
  text::FenceTracker fences;
  bool first = true;
  for (const std::string_view raw : text::split_lines(head)) {
    const bool outside = fences.next(raw) == text::FenceTracker::kOutside;
    const std::string_view line = trim(raw);
    if (line.empty()) continue;
    if (first && (line[0] == '#' || line[0] == '{')) return false;
    first = false;
    const std::string_view tag = tag_at(line);
    if (!outside || tag.empty() || !is_upper_tag(tag)) continue;
    const size_t after = tag.size() + 2;
    if (after == line.size() || line[after] == ' ') return true;
  }
  return false;
}

}  // namespace greta
