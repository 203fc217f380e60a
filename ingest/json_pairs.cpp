#include "ingest/json_pairs.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ingest/json_document.h"
#include "ingest/text.h"

namespace greta {
namespace {

using nlohmann::json;

/// Where objects begin: line of every '{' outside strings, in order.
std::vector<int64_t> object_lines(std::string_view text, int64_t line) {
  std::vector<int64_t> lines;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && in_string) {
      ++i;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (c == '{' && !in_string) {
      lines.push_back(line);
    } else if (c == '\n') {
      ++line;
    }
  }
  return lines;
}

std::string cell_of(const json& value) {
  return value.is_string() ? value.get_ref<const std::string&>() : json_text(value);
}

/// An object as a table of one row: its values, and those of the objects that it has for a side.
Table table_of(const json& object) {
  Table table;
  TableRow row;
  const auto add = [&](std::string name, const json& value) {
    if (value.is_structured() || row.cells.size() == kMaxCells) return;
    table.columns.push_back(std::move(name));
    row.cells.push_back(cell_of(value));
  };
  for (const auto& [key, value] : object.items()) {
    add(key, value);
    const std::string name = text::to_lower(key);
    if (!value.is_object() || !(name.starts_with("prefill") || name.starts_with("decode")))
      continue;
    for (const auto& [part, item] : value.items()) add(key + " " + part, item);
  }
  table.rows.push_back(std::move(row));
  return table;
}

}  // namespace

std::vector<ReportPair> json_pairs(std::string_view text, int64_t first_line) {
  const auto names = [&](std::string_view word) { return text.find(word) != text.npos; };
  if (!names("prefill") && !names("Prefill") && !names("PREFILL")) return {};
  std::string error;
  parse_json_document(text, error);
  if (!error.empty()) return {};

  std::vector<std::pair<size_t, ReportPair>> found;  // with the number of the object
  std::vector<size_t> open;
  size_t count = 0;
  const auto discarded = json::parse(text, [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) open.push_back(count++);
    if (event != json::parse_event_t::object_end || open.empty()) return true;
    const Table table = table_of(parsed);
    const auto columns = report_columns(table);
    if (columns && !columns->hashes.empty()) {
      if (auto pair = report_pair(table, table.rows[0], *columns)) {
        found.emplace_back(open.back(), *std::move(pair));
      }
    }
    open.pop_back();
    return true;
  });
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  const std::vector<int64_t> lines = object_lines(text, first_line);
  std::vector<ReportPair> pairs;
  for (auto& [number, pair] : found) {
    pair.line = number < lines.size() ? lines[number] : first_line;
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

}  // namespace greta
