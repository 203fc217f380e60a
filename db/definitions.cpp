#include "db/definitions.h"

#include <sqlite3.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>

#include "common/utf8.h"
#include "db/row_statement.h"
#include "db/schema.h"

namespace greta {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

/// Without blanks and comments.
std::string essence(std::string_view sql) {
  std::string text;
  bool is_comment = false;
  for (size_t at = 0; at < sql.size(); ++at) {
    if (sql[at] == '\n') is_comment = false;
    if (sql.substr(at, 2) == "--") is_comment = true;
    if (!is_comment && !is_blank(sql[at])) text += sql[at];
  }
  return text;
}

/// Without the blanks and comments before it.
std::string_view stripped(std::string_view sql) {
  while (!sql.empty() && (is_blank(sql.front()) || sql.starts_with("--"))) {
    sql.remove_prefix(is_blank(sql.front()) ? 1 : std::min(sql.find('\n'), sql.size()));
  }
  return sql;
}

/// Statements of a file, without their semicolons.
std::vector<std::string> statements(std::string_view sql) {
  std::vector<std::string> all;
  sql = stripped(sql);
  for (size_t end = 0; (end = sql.find(';', end)) != std::string_view::npos; ++end) {
    std::string statement(sql.substr(0, end + 1));
    if (sqlite3_complete(statement.c_str()) == 0) continue;  // within a trigger, text or comment
    statement.pop_back();
    all.push_back(std::move(statement));
    sql = stripped(sql.substr(end + 1));
    end = static_cast<size_t>(-1);
  }
  return all;
}

std::string lower(std::string_view text) {
  std::string all(text);
  std::transform(all.begin(), all.end(), all.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return all;
}

std::vector<Definition> make_definitions() {
  std::vector<Definition> all;
  for (const SqlFile& file : sql_files()) {
    if (file.path != "db/schema.sql" &&
        (!file.path.starts_with("queries/") || file.path.starts_with("queries/canned/"))) {
      continue;
    }
    for (const std::string& statement : statements(file.text)) {
      std::istringstream words(statement);
      std::string create, type, name;
      words >> create >> type;
      if (create != "CREATE") continue;
      if (type == "UNIQUE") words >> type;
      words >> name;
      all.push_back({lower(type), name.substr(0, name.find('(')), statement});
    }
  }
  // of tables and views, which must be there
  std::stable_partition(all.begin(), all.end(),
                        [](const Definition& one) { return one.type != "trigger"; });
  return all;
}

bool is_same(const Definition& ours, std::string_view type, std::string_view sql) {
  if (type != ours.type) return false;
  return sql == ours.sql || (type == "table" && essence(sql) == essence(ours.sql));
}

/// True if an object of somebody else acts on what greta writes.
bool acts_on_ours(std::string_view type, std::string_view table, std::string_view sql) {
  return type == "trigger" ||
         (type == "index" && sql.starts_with("CREATE UNIQUE") && find_definition(table) != nullptr);
}

/// Type of a difference in the rows of a dictionary.
constexpr const char* kRowsOf = "rows of";

/// Dictionaries that say what a comparison counts for: nobody's to change.
constexpr const char* kJudgements[] = {"status", "class", "measure", "origin", "phase"};

/// The statement of db/dictionary.sql that fills a table, "INSERT INTO table(columns) VALUES ...".
std::string filling_statement(const std::string& table) {
  for (const SqlFile& file : sql_files()) {
    if (file.path != "db/dictionary.sql") continue;
    const size_t begin = file.text.find("\nINSERT INTO " + table + "(");
    if (begin == std::string_view::npos) continue;
    return std::string(file.text.substr(begin + 1, file.text.find(";\n", begin) - begin - 1));
  }
  throw std::logic_error("db/dictionary.sql does not fill " + table);
}

/// One that runs add names to; those that are ours say which side a row is of, and what must pair.
constexpr const char* kPhases = "phase";

/// Whether it has them as they are, and no others unless it is kPhases.
bool has_our_rows(SQLite::Database& db, const std::string& table) {
  const std::string statement = filling_statement(table);
  const size_t open = statement.find('('), close = statement.find(')');
  const std::string theirs =
      "SELECT " + statement.substr(open + 1, close - open - 1) + " FROM " + table;
  const std::string ours = "SELECT * FROM (" + shipped_rows(table) + ")";
  const std::string all_there = "SELECT NOT EXISTS (" + ours + " EXCEPT " + theirs + ")";
  const std::string no_others = " AND NOT EXISTS (" + theirs + " EXCEPT " + ours + ")";
  return db.execAndGet(table == kPhases ? all_there : all_there + no_others).getInt() != 0;
}

void restore_rows(SQLite::Database& db, const std::string& table) {
  std::string filling = filling_statement(table);
  if (table == kPhases) {
    filling.insert(sizeof "INSERT" - 1, " OR REPLACE");  // rows refer to the others
  } else {
    db.exec("DELETE FROM " + table);
  }
  db.exec(filling);
}

}  // namespace

const std::vector<Definition>& definitions() {
  static const std::vector<Definition> all = make_definitions();
  return all;
}

const Definition* find_definition(std::string_view name) {
  static const auto by_name = [] {
    std::map<std::string_view, const Definition*> map;
    for (const Definition& definition : definitions()) map.emplace(definition.name, &definition);
    return map;
  }();
  const auto found = by_name.find(lower(name));
  return found == by_name.end() ? nullptr : found->second;
}

std::string shipped_rows(const std::string& table) {
  const std::string statement = filling_statement(table);
  return statement.substr(statement.find(')') + 1);
}

std::string definitions_version() {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const Definition& definition : definitions()) {
    for (unsigned char c : definition.sql) hash = (hash ^ c) * 1099511628211u;
  }
  return std::to_string(hash);
}

std::vector<DefinitionDifference> definition_differences(SQLite::Database& db) {
  std::vector<DefinitionDifference> all;
  std::set<const Definition*> seen;
  RowStatement objects(db, "SELECT type, name, tbl_name, sql FROM main.sqlite_schema");
  while (objects.step()) {
    const std::string type(objects.bytes(0)), name(objects.bytes(1));
    const Definition* ours = find_definition(name);
    if (ours == nullptr) {
      if (acts_on_ours(type, objects.bytes(2), objects.bytes(3))) {
        all.push_back({type, name, "added"});
      }
      continue;
    }
    seen.insert(ours);
    if (!is_same(*ours, type, objects.bytes(3))) {
      all.push_back({ours->type == "table" ? "table" : type, name, "changed"});
    }
  }
  for (const Definition& ours : definitions()) {
    if (!seen.contains(&ours)) all.push_back({ours.type, ours.name, "missing"});
  }
  if (any_table(all)) return all;
  for (const char* table : kJudgements) {
    if (!has_our_rows(db, table)) all.push_back({kRowsOf, table, "changed"});
  }
  return all;
}

bool any_table(const std::vector<DefinitionDifference>& differences) {
  return std::any_of(differences.begin(), differences.end(),
                     [](const DefinitionDifference& one) { return one.type == "table"; });
}

std::string text_of(const std::vector<DefinitionDifference>& differences) {
  constexpr size_t kTold = 5;
  std::string text;
  for (size_t i = 0; i < std::min(differences.size(), kTold); ++i) {
    const DefinitionDifference& one = differences[i];
    text += (i == 0 ? "" : ", ") + utf8::printable(one.type + " " + one.name) + " " + one.how;
  }
  if (differences.size() > kTold) {
    text += " and " + std::to_string(differences.size() - kTold) + " more";
  }
  return text;
}

void restore_definitions(SQLite::Database& db,
                         const std::vector<DefinitionDifference>& differences) {
  SQLite::Statement drop(db, "SELECT printf('DROP %s IF EXISTS \"%w\"', ?, ?)");
  for (const DefinitionDifference& one : differences) {
    if (one.type == kRowsOf || one.how == "missing") continue;
    drop.bind(1, one.type);
    drop.bind(2, one.name);
    drop.executeStep();
    const std::string sql = drop.getColumn(0);
    drop.reset();
    db.exec(sql);
  }
  SQLite::Statement there(db, "SELECT 1 FROM main.sqlite_schema WHERE name = ?");
  for (const Definition& ours : definitions()) {  // a view takes its triggers along
    there.bind(1, ours.name);
    const bool is_there = there.executeStep();
    there.reset();
    if (!is_there) db.exec(ours.sql);
  }
  for (const DefinitionDifference& one : differences) {
    if (one.type == kRowsOf) restore_rows(db, one.name);
  }
  db.exec(
      "DELETE FROM run_change; DELETE FROM verdict; DELETE FROM lineage_member;"
      " INSERT INTO lineage_member SELECT * FROM run_lineage");
}

}  // namespace greta
