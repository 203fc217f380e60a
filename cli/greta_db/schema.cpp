#include "db/schema.h"

#include <algorithm>
#include <cctype>

#include "cli/greta_db/commands.h"
#include "cli/warehouse/sql_query.h"
#include "common/completion.h"
#include "common/near_words.h"
#include "db/database.h"

namespace greta {
namespace {

struct SchemaArguments {
  std::string name;
  bool sql = false;
};

struct Object {
  std::string name, kind;  ///< view, table
  std::string comment;     ///< header: what one row means
  std::string sql;         ///< its CREATE statement, comments included
  bool is_public = true;   ///< internal views serve the public ones
};

/// What a comment that begins with its two dashes says; it may begin with a minus: -1 is ...
std::string comment_text(std::string_view comment) {
  comment.remove_prefix(2);
  comment.remove_prefix(std::min(comment.find_first_not_of(' '), comment.size()));
  return std::string(comment);
}

/// The comment lines right above `at`, joined.
std::string comment_above(std::string_view text, size_t at) {
  std::vector<std::string> lines;
  while (at > 0) {
    size_t start = at >= 2 ? text.rfind('\n', at - 2) : std::string_view::npos;
    start = start == std::string_view::npos ? 0 : start + 1;
    std::string_view line = text.substr(start, at - 1 - start);
    if (!line.starts_with("--")) break;
    lines.insert(lines.begin(), comment_text(line));
    at = start;
  }
  std::string joined;
  for (const std::string& line : lines) joined += (joined.empty() ? "" : " ") + line;
  return joined;
}

/// All tables and views of this build, from an empty database; a file need not exist.
std::vector<Object> all_objects(SQLite::Database& db) {
  std::vector<Object> objects;
  Query query(db,
              "SELECT name, type, sql FROM sqlite_schema WHERE type IN ('table', 'view')"
              " AND name NOT LIKE 'sqlite%' ORDER BY type DESC, rowid");
  while (query.step()) {
    Object object{query.text(0), query.text(1), "", query.text(2), true};
    for (const SqlFile& file : sql_files()) {
      std::string head =
          (object.kind == "view" ? "CREATE VIEW " : "CREATE TABLE ") + object.name + " ";
      if (file.path.starts_with("queries/canned/")) continue;
      if (size_t at = file.text.find(head); at != std::string_view::npos) {
        object.comment = comment_above(file.text, at);
        object.is_public = !file.path.starts_with("queries/internal/");
      }
    }
    objects.push_back(std::move(object));
  }
  std::stable_sort(objects.begin(), objects.end(), [](const Object& a, const Object& b) {
    return std::pair(a.kind != "view", a.kind == "view" ? a.name : "") <
           std::pair(b.kind != "view", b.kind == "view" ? b.name : "");
  });
  return objects;
}

bool is_name_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// Whether `line` defines the column: "  name TYPE" in a table, "... AS name" in a view.
bool defines(std::string_view line, std::string_view column, bool is_view) {
  line = line.substr(0, line.find("--"));
  std::string needle = is_view ? " AS " + std::string(column) : std::string(column) + " ";
  for (size_t at = line.find(needle); at != std::string_view::npos;
       at = line.find(needle, at + 1)) {
    size_t end = at + needle.size();
    bool ends = !is_view || end == line.size() || !is_name_character(line[end]);
    bool begins = is_view || line.find_first_not_of(' ') == at;
    if (ends && begins) return true;
  }
  return false;
}

/// The `--` comment of the line that defines a column; "" when it has none.
std::string column_comment(const Object& object, std::string_view column) {
  std::string_view rest = object.sql;
  while (!rest.empty()) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (!defines(line, column, object.kind == "view")) continue;
    size_t at = line.find("--");
    if (at == std::string_view::npos) return "";
    return comment_text(line.substr(at));
  }
  return "";
}

void list_objects(Options& options, SQLite::Database& db) {
  RowPrinter printer(options.out, options.format, {"name", "kind", "one row"});
  for (const Object& object : all_objects(db)) {
    if (!object.is_public) continue;
    std::string first = object.comment.substr(0, object.comment.find(". "));
    printer.row({object.name, object.kind, first});
  }
  printer.finish();
}

void show_object(Options& options, SQLite::Database& db, const Object& object) {
  if (options.format == Format::kTable) {
    options.out.write(object.name + " (" + object.kind + ")\n" + object.comment + "\n\n");
  }
  Query columns(db, "SELECT name, type, pk FROM pragma_table_xinfo(?)");
  columns.bind(1, object.name);
  RowPrinter printer(options.out, options.format, {"column", "type", "key", "comment"});
  while (columns.step()) {
    std::string name = columns.text(0), comment = column_comment(object, name);
    printer.row({name, columns.text(1).empty() ? Cell() : columns.cell(1),
                 columns.integer(2) ? columns.cell(2) : Cell(),
                 comment.empty() ? Cell() : Cell(comment)});
  }
  printer.finish();
}

void print_sql(Output& out, const Object& object) {
  std::string_view comment = object.comment;
  if (!comment.empty()) out.write("-- " + std::string(comment) + "\n");
  out.write(object.sql + ";\n");
}

int schema(Options& options, const SchemaArguments& arguments) {
  SQLite::Database db = open_for_writing(":memory:");
  if (arguments.name.empty() && !arguments.sql) {
    list_objects(options, db);
    return kExitDone;
  }
  bool found = false;
  for (const Object& object : all_objects(db)) {
    if (!arguments.name.empty() && object.name != arguments.name) continue;
    found = true;
    if (arguments.sql) {
      print_sql(options.out, object);
    } else {
      show_object(options, db, object);
    }
  }
  if (!found) {
    std::vector<std::string> names;
    for (const Object& object : all_objects(db)) names.push_back(object.name);
    throw unknown_name("view or table", arguments.name, names, "`greta-db schema`");
  }
  return kExitDone;
}

}  // namespace

void add_schema_command(CLI::App& app, Options& options) {
  CLI::App* command =
      app.add_subcommand("schema", "Views and tables of a database, and what their columns mean");
  SchemaArguments& a = add_action(*command, options, schema);
  add_option(*command, "name NAME", a.name, "Show the columns of this view or table")
      ->check(offers_rows("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')"));
  command->add_flag("--sql", a.sql, "Print the SQL that creates it (all of them without NAME)");
}

}  // namespace greta
