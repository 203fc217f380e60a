#include "cli/greta_db/canned.h"

#include <algorithm>
#include <stdexcept>

#include "db/schema.h"

namespace greta {
namespace {

constexpr std::string_view kFolder = "queries/canned/";

/// Reads ":name (default) explanation".
CannedParameter parse_parameter(std::string_view text) {
  CannedParameter parameter;
  size_t end = std::min(text.find(' '), text.size());
  parameter.name = text.substr(1, end - 1);
  text.remove_prefix(std::min(text.find_first_not_of(' ', end), text.size()));
  if (text.starts_with('(')) {
    size_t close = std::min(text.find(')'), text.size() - 1);
    parameter.default_value = std::string(text.substr(1, close - 1));
    text.remove_prefix(std::min(text.find_first_not_of(' ', close + 1), text.size()));
  }
  parameter.explanation = text;
  return parameter;
}

CannedQuery parse(const std::string_view name, std::string_view sql) {
  CannedQuery query{std::string(name), "", {}, std::string(sql)};
  while (sql.starts_with("--")) {
    std::string_view line = sql.substr(0, sql.find('\n'));
    sql.remove_prefix(std::min(line.size() + 1, sql.size()));
    line.remove_prefix(std::min(line.find_first_not_of("- "), line.size()));
    if (line.starts_with(':')) {
      query.parameters.push_back(parse_parameter(line));
    } else if (query.description.empty()) {
      query.description = line;
    }
  }
  return query;
}

}  // namespace

const std::vector<CannedQuery>& canned_queries() {
  static const std::vector<CannedQuery> queries = [] {
    std::vector<CannedQuery> found;
    for (const SqlFile& file : sql_files()) {
      if (!file.path.starts_with(kFolder)) continue;
      std::string_view name = file.path.substr(kFolder.size());
      name.remove_suffix(4);
      found.push_back(parse(name, file.text));
    }
    std::sort(found.begin(), found.end(),
              [](const CannedQuery& a, const CannedQuery& b) { return a.name < b.name; });
    return found;
  }();
  return queries;
}

const CannedQuery* find_canned_query(std::string_view name) {
  for (const CannedQuery& query : canned_queries()) {
    if (query.name == name) return &query;
  }
  return nullptr;
}

const CannedQuery& canned_query(std::string_view name) {
  const CannedQuery* query = find_canned_query(name);
  if (query == nullptr) throw std::logic_error("no canned query " + std::string(name));
  return *query;
}

}  // namespace greta
