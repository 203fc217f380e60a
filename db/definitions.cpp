#include "db/definitions.h"

#include <sqlite3.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "common/utf8.h"
#include "db/sql_files.h"
#include "db/sql_text.h"

namespace greta {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f'; }

/// Without blanks and comments, but for those in quotes.
std::string essence(std::string_view sql) {
  std::string text;
  for (size_t at = 0; at < sql.size();) {
    if (const size_t end = comment_end(sql, at); end > at) {
      at = end;
    } else if (std::string_view("'\"`[").find(sql[at]) != std::string_view::npos) {
      text += sql.substr(at, quoted_end(sql, at) - at);
      at = quoted_end(sql, at);
    } else {
      if (!is_blank(sql[at])) text += sql[at];
      ++at;
    }
  }
  return text;
}

/// Without the blanks and comments before it.
std::string_view stripped(std::string_view sql) {
  for (;;) {
    while (!sql.empty() && is_blank(sql.front())) sql.remove_prefix(1);
    const size_t comment = sql.empty() ? 0 : comment_end(sql, 0);
    if (comment == 0) return sql;
    sql.remove_prefix(comment);
  }
}

/// Where the semicolon of the first statement stands; npos when it has none. One that creates a
/// trigger has others in it, up to that which follows END.
size_t statement_end(std::string_view sql) {
  const bool has_others = sql.starts_with("CREATE TRIGGER ");
  size_t begin = 0;  // behind the last of these
  for (size_t at = 0; at < sql.size();) {
    switch (sql[at]) {
      case '-':
      case '/':
        at = std::max(comment_end(sql, at), at + 1);
        break;
      case '\'':
      case '"':
      case '`':
      case '[':
        at = quoted_end(sql, at);
        break;
      case ';':
        if (!has_others || stripped(sql.substr(begin, at - begin)) == "END") return at;
        begin = ++at;
        break;
      default:
        ++at;
    }
  }
  return std::string_view::npos;
}

/// Statements of a file, without their semicolons.
std::vector<std::string> statements(std::string_view sql) {
  std::vector<std::string> all;
  sql = stripped(sql);
  for (size_t end; (end = statement_end(sql)) != std::string_view::npos;) {
    all.emplace_back(sql.substr(0, end));
    sql = stripped(sql.substr(end + 1));
  }
  return all;
}

std::string_view next_word(std::string_view& sql) {
  const size_t end = std::min(sql.find_first_of(" (\n"), sql.size());
  const std::string_view word = sql.substr(0, end);
  sql.remove_prefix(std::min(sql.find_first_not_of(" \n", end), sql.size()));
  return word;
}

std::string lower(std::string_view text) {
  std::string all(text);
  std::transform(all.begin(), all.end(), all.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return all;
}

/// The statement's definition; one without a type when it creates nothing.
Definition definition_of(const std::string& sql) {
  std::string_view rest = sql;
  if (next_word(rest) != "CREATE") return {};
  std::string_view type = next_word(rest);
  if (type == "UNIQUE") type = next_word(rest);
  return {lower(type), std::string(next_word(rest)), sql};
}

bool is_definition_file(std::string_view path) {
  return path == "db/schema.sql" ||
         (path.starts_with("queries/") && !path.starts_with("queries/canned/"));
}

std::vector<Definition> make_definitions() {
  std::vector<Definition> all;
  for (const SqlFile& file : sql_files()) {
    if (!is_definition_file(file.path)) continue;
    for (const std::string& statement : statements(file.text)) {
      Definition definition = definition_of(statement);
      if (definition.type.empty()) continue;
      all.push_back(std::move(definition));
    }
  }
  return all;
}

bool is_same(const Definition& ours, std::string_view type, std::string_view sql) {
  if (type != ours.type) return false;
  return sql == ours.sql || (type == "table" && essence(sql) == essence(ours.sql));
}

/// Whether an object of somebody else is as harmless as it says: SQLite obeys the text, whatever
/// the other columns of sqlite_schema have.
bool is_harmless(std::string_view type, std::string_view table, std::string_view sql) {
  if (sql.empty()) return type == "index";  // of a table's own constraint
  const std::string text = lower(essence(sql));
  if (type == "table") return text.starts_with("createtable") || text.starts_with("createvirtual");
  if (type == "view") return text.starts_with("createview");
  if (type != "index") return false;
  return text.starts_with("createindex") ||
         (text.starts_with("createuniqueindex") && find_definition(table) == nullptr);
}

std::string_view text_at(sqlite3_stmt* row, int column) {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(row, column));
  return text == nullptr
             ? std::string_view()
             : std::string_view(text, static_cast<size_t>(sqlite3_column_bytes(row, column)));
}

/// Calls use(type, name, table, sql) for everything in the file.
template <class Use>
void for_each_object(SQLite::Database& db, Use&& use) {
  sqlite3_stmt* rows = nullptr;
  int rc =
      sqlite3_prepare_v2(db.getHandle(), "SELECT type, name, tbl_name, sql FROM main.sqlite_schema",
                         -1, &rows, nullptr);
  while (rc == SQLITE_OK || rc == SQLITE_ROW) {
    rc = sqlite3_step(rows);
    if (rc == SQLITE_ROW)
      use(text_at(rows, 0), text_at(rows, 1), text_at(rows, 2), text_at(rows, 3));
  }
  sqlite3_finalize(rows);
  if (rc != SQLITE_DONE) throw SQLite::Exception(db.getHandle(), rc);
}

std::string quoted_name(const std::string& name) {
  std::string text = "\"";
  for (char c : name) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + "\"";
}

bool has(SQLite::Database& db, const Definition& definition) {
  SQLite::Statement query(db, "SELECT 1 FROM sqlite_schema WHERE name = ? COLLATE NOCASE");
  query.bind(1, definition.name);
  return query.executeStep();
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
    std::unordered_map<std::string_view, const Definition*> map;
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
  using Kind = DefinitionDifference::Kind;
  std::vector<DefinitionDifference> all;
  std::unordered_map<const Definition*, int> seen;
  for_each_object(db, [&](auto type, auto name, auto table, auto sql) {
    const Definition* ours = find_definition(name);
    if (ours != nullptr && seen[ours]++ == 0) {
      if (!is_same(*ours, type, sql)) {
        all.push_back({ours->type == "table" ? ours->type : std::string(type), std::string(name),
                       Kind::kChanged});
      }
    } else if (ours != nullptr || !is_harmless(type, table, sql)) {
      all.push_back({std::string(type), std::string(name), Kind::kAdded});
    }
  });
  for (const Definition& ours : definitions()) {
    if (!seen.contains(&ours)) all.push_back({ours.type, ours.name, Kind::kMissing});
  }
  if (any_table(all)) return all;
  for (const char* table : kJudgements) {
    if (!has_our_rows(db, table)) all.push_back({kRowsOf, table, Kind::kChanged});
  }
  return all;
}

bool any_table(const std::vector<DefinitionDifference>& differences) {
  return std::any_of(differences.begin(), differences.end(),
                     [](const DefinitionDifference& one) { return one.type == "table"; });
}

std::string text_of(const std::vector<DefinitionDifference>& differences) {
  constexpr const char* kKinds[] = {" changed", " missing", " added"};
  constexpr size_t kTold = 5;
  std::string text;
  for (size_t i = 0; i < std::min(differences.size(), kTold); ++i) {
    const DefinitionDifference& one = differences[i];
    text += (i == 0 ? "" : ", ") + utf8::printable(one.type + " " + one.name) +
            kKinds[static_cast<int>(one.kind)];
  }
  if (differences.size() > kTold) {
    text += " and " + std::to_string(differences.size() - kTold) + " more";
  }
  return text;
}

void create_missing_tables(SQLite::Database& db) {
  for (const Definition& ours : definitions()) {
    if (ours.type == "table" && !has(db, ours)) db.exec(ours.sql);
  }
}

std::vector<DefinitionDifference> restore_definitions(SQLite::Database& db) {
  using Kind = DefinitionDifference::Kind;
  std::vector<DefinitionDifference> left = definition_differences(db);
  if (any_table(left)) return left;
  for (const DefinitionDifference& one : left) {
    const bool can_go = one.type == "view" || one.type == "trigger" || one.type == "index";
    if (can_go && one.kind != Kind::kMissing) {
      db.exec("DROP " + one.type + " IF EXISTS " + quoted_name(one.name));
    }
  }
  for (const DefinitionDifference& one : definition_differences(db)) {
    if (one.type == kRowsOf) restore_rows(db, one.name);
    if (one.kind == Kind::kMissing) db.exec(find_definition(one.name)->sql);
  }
  left = definition_differences(db);
  if (left.empty()) {
    db.exec(
        "DELETE FROM run_change; DELETE FROM verdict; DELETE FROM lineage_member;"
        " INSERT INTO lineage_member SELECT * FROM run_lineage");
  }
  return left;
}

}  // namespace greta
