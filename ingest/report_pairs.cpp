#include "ingest/report_pairs.h"

#include <limits>
#include <string_view>
#include <utility>

#include "ingest/text.h"

namespace greta {
namespace {

ReportColumns find_report_columns(const Table& table) {
  ReportColumns found;
  const std::pair<std::string_view, size_t*> known[] = {{"prompt", &found.prompt},
                                                        {"prompt_id", &found.prompt},
                                                        {"token_id", &found.token_id},
                                                        {"pos_id", &found.pos_id},
                                                        {"pos", &found.pos_id},
                                                        {"tok", &found.tok},
                                                        {"logical_tok_idx", &found.tok},
                                                        {"layer", &found.layer},
                                                        {"tensor", &found.tensor},
                                                        {"first_fail", &found.first_fail},
                                                        {"root_cause", &found.root_cause},
                                                        {"details", &found.details}};
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const std::string name = text::to_lower(text::plain(table.columns[i]));
    for (const auto& [known_name, column] : known) {
      if (name == known_name && *column == ReportColumns::kNone) *column = i;
    }
  }
  return found;
}

bool is_placeholder(std::string_view cell) { return text::to_lower(cell) == "tbd"; }

// The cell's value, "" when absent.
std::string value_at(const TableRow& row, size_t column) {
  std::string value = text::plain(row.cell(column));
  const std::string lower = text::to_lower(value);
  for (const std::string_view absent : {"-", "none", "null", "n/a"}) {
    if (lower == absent) return {};
  }
  return value;
}

// Details are the last column: a pipe that the writer did not escape belongs to them.
std::string details_at(const Table& table, const TableRow& row, size_t column) {
  if (column == ReportColumns::kNone) return {};
  std::string details(row.cell(column));
  if (column + 1 == table.columns.size()) {
    for (size_t i = column + 1; i < row.cells.size(); ++i) details += " | " + row.cells[i];
  }
  const std::string lower = text::to_lower(details);
  return lower == "none" || details == "-" || is_placeholder(details) ? std::string() : details;
}

// The text right of `'key':` in a printed dictionary, blanks skipped; "" without such a key.
std::string_view dictionary_value(std::string_view details, std::string_view key) {
  const size_t at = details.find(key);
  if (at == std::string_view::npos) return {};
  details.remove_prefix(at + key.size());
  const size_t start = details.find_first_not_of("'\" :=");
  return start == std::string_view::npos ? std::string_view() : details.substr(start);
}

std::string hash_prefix(std::string_view details, std::string_view key) {
  const std::string_view value = dictionary_value(details, key);
  const size_t end = value.find_first_not_of("0123456789");
  return std::string(value.substr(0, end));
}

}  // namespace

std::optional<ReportPair> report_pair(const Table& table, const TableRow& row,
                                      const ReportColumns& columns) {
  ReportPair pair;
  pair.line = row.line;
  pair.prompt = value_at(row, columns.prompt);
  pair.tensor = value_at(row, columns.tensor);
  pair.cause = value_at(row, columns.first_fail);
  pair.root_cause = value_at(row, columns.root_cause);
  if (pair.prompt.empty() || is_placeholder(pair.prompt) || is_placeholder(pair.cause)) {
    return std::nullopt;
  }
  if (is_placeholder(pair.tensor)) pair.tensor.clear();
  if (is_placeholder(pair.root_cause)) pair.root_cause.clear();
  pair.token_id = text::parse_int(value_at(row, columns.token_id));
  pair.pos_id = text::parse_int(value_at(row, columns.pos_id));
  pair.logical_tok_idx = text::parse_int(value_at(row, columns.tok));
  pair.layer = text::parse_int(value_at(row, columns.layer));
  pair.details = details_at(table, row, columns.details);
  pair.prefill_hash_prefix = hash_prefix(pair.details, "prefill_hash");
  pair.decode_hash_prefix = hash_prefix(pair.details, "decode_hash");

  const auto says = [&](std::string_view word) {
    return pair.cause.find(word) != std::string::npos ||
           pair.root_cause.find(word) != std::string::npos;
  };
  const std::string details = text::to_lower(pair.details);
  const bool mismatch = dictionary_value(details, "hash_mismatch").starts_with("true") ||
                        dictionary_value(details, "hash_match").starts_with("false");
  if (says("TRACE_OFFSET")) {
    pair.status = ReportPair::kMissing;
  } else if (!pair.cause.empty() || !pair.root_cause.empty() || mismatch) {
    pair.status = ReportPair::kDrift;
  } else if (!pair.tensor.empty() && columns.first_fail < row.cells.size()) {
    pair.status = ReportPair::kMatch;
  } else {
    return std::nullopt;
  }
  return pair;
}

std::optional<ReportColumns> report_columns(const Table& table) {
  const ReportColumns columns = find_report_columns(table);
  if (columns.prompt == ReportColumns::kNone || columns.first_fail == ReportColumns::kNone ||
      !table.repeated_columns().empty()) {
    return std::nullopt;
  }
  return columns;
}

std::optional<std::vector<ReportPair>> report_pairs(const Table& table) {
  const auto columns = report_columns(table);
  if (!columns) return std::nullopt;
  std::vector<ReportPair> pairs;
  for (const TableRow& row : table.rows) {
    if (auto pair = report_pair(table, row, *columns)) pairs.push_back(std::move(*pair));
  }
  return pairs;
}

}  // namespace greta
