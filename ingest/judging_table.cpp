#include "ingest/judging_table.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "ingest/content_name.h"
#include "ingest/failure_words.h"
#include "ingest/report_pairs.h"
#include "ingest/text.h"

namespace greta {
namespace {

constexpr size_t kMaxHeadBytes = 1024, kMaxColumnBytes = 32;
constexpr size_t kMaxColumnWords = 8;
constexpr char kDelimiters[] = {'\t', ',', ';'};

size_t cells_of(std::string_view line, char delimiter) {
  return static_cast<size_t>(std::count(line.begin(), line.end(), delimiter)) + 1;
}

/// Whether a line is such a head, and no sentence that names columns.
bool is_head(std::string_view line, char delimiter) {
  const Table head = read_delimited(line, delimiter);
  const bool has_names =
      std::all_of(head.columns.begin(), head.columns.end(), [](const std::string& column) {
        return column.size() <= kMaxColumnBytes && column.find(':') == column.npos;
      });
  return has_names && (report_columns(head) || status_columns(head));
}

/// Whether a line may be one: hardly any is.
bool may_be_head(std::string_view line) {
  if (line.size() > kMaxHeadBytes || line.find_first_of("\t,;") == line.npos) return false;
  const std::string lower = text::to_lower(line);
  return lower.find("tensor") != lower.npos || lower.find("hash") != lower.npos ||
         lower.find("first") != lower.npos;
}

}  // namespace

std::vector<Table> read_judging_tables(std::span<const std::string_view> lines) {
  std::vector<Table> tables;
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    if (!may_be_head(lines[i])) continue;
    const auto delimiter =
        std::find_if(std::begin(kDelimiters), std::end(kDelimiters), [&](char c) {
          const size_t n = cells_of(lines[i], c);
          return n > 1 && n == cells_of(lines[i + 1], c) && is_head(lines[i], c);
        });
    if (delimiter == std::end(kDelimiters)) continue;
    size_t last = i + 1;
    while (last + 1 < lines.size() && !text::trim(lines[last + 1]).empty()) ++last;
    const char* begin = lines[i].data();
    const char* end = lines[last].data() + lines[last].size();
    Table table = read_delimited({begin, static_cast<size_t>(end - begin)}, *delimiter);
    table.line += static_cast<int64_t>(i);
    for (TableRow& row : table.rows) row.line += static_cast<int64_t>(i);
    tables.push_back(std::move(table));
    i = last;
  }
  return tables;
}

bool lists_parts_of_a_run(const Table& table) {
  const std::vector<SaidWord> words = said_words(table.columns.front(), kMaxColumnWords);
  const bool names_parts = std::any_of(words.begin(), words.end(), [](const SaidWord& word) {
    return said::is_any_of(
        word.text,
        {"tensor",   "tensors", "prompt", "prompts", "layer", "layers", "token", "tokens",
         "position", "pos",     "step",   "phase",   "stage", "point",  "row",   "op",
         "operator", "kernel",  "test",   "tests",   "check", "checks", "case"});
  });
  // of a draft's tokens, what was rejected is no failure
  const bool is_of_drafts =
      std::any_of(table.columns.begin(), table.columns.end(), [](const std::string& column) {
        return text::to_lower(text::plain(column)).starts_with("accept");
      });
  return (names_parts || words.empty()) && !is_of_drafts && !status_columns(table);
}

bool is_of_another_run(std::string_view column) {
  const std::vector<SaidWord> words = said_words(column, kMaxColumnWords);
  return std::any_of(words.begin(), words.end(), [](const SaidWord& word) {
    return said::is_any_of(word.text,
                           {"before", "previous", "old", "baseline", "last", "expected"});
  });
}

char delimiter_of_table(const std::string& path, std::string_view text) {
  const char usual = lower_extension(path) == ".csv" ? ',' : '\t';
  text = text::without_mark(text);
  while (text.starts_with('#')) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  const std::string_view head = text.substr(0, text.find('\n')).substr(0, kMaxHeadBytes);
  if (cells_of(head, usual) > 1) return usual;
  const auto other = std::find_if(std::begin(kDelimiters), std::end(kDelimiters),
                                  [&](char c) { return cells_of(head, c) > 1; });
  return other == std::end(kDelimiters) ? usual : *other;
}

std::string_view with_plain_boxes(std::string_view text, std::string& made) {
  constexpr std::string_view kLead = "\xe2\x94", kHeavyLead = "\xe2\x95";
  if (text.find(kLead) == text.npos && text.find(kHeavyLead) == text.npos) return text;
  std::string& out = made;
  out.clear();
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t at = std::min(text.find('\xe2'), text.size());
    out += text.substr(0, at);
    text.remove_prefix(at);
    if (text.size() < 3) break;
    const auto last = static_cast<unsigned char>(text[2]);
    const bool is_light = text.starts_with(kLead), is_heavy = text.starts_with(kHeavyLead);
    if (!is_light && !is_heavy) {
      out += text[0];
      text.remove_prefix(1);
      continue;
    }
    // U+2500 and 2501 are horizontal, 2502 and 2503 vertical; 2550 and 2551 are of two lines
    const bool is_across = is_light ? last <= 0x81 : last == 0x90;
    const bool is_down = is_light ? last == 0x82 || last == 0x83 : last == 0x91;
    out += is_across ? '-' : is_down ? '|' : '+';
    text.remove_prefix(3);
  }
  out += text;
  return out;
}

}  // namespace greta
