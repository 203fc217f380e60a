#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <system_error>

#include "cli/greta_db/canned.h"
#include "cli/greta_db/commands.h"
#include "cli/warehouse/asked_database.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"
#include "common/completion.h"
#include "common/near_words.h"
#include "db/clickhouse/address.h"
#include "db/database.h"

namespace greta {
namespace {

struct QueryArguments {
  std::string text, file;
  std::vector<std::string> parameters;
  bool list = false;
};

/// Tables that a warehouse in ClickHouse sends only where they are asked for.
constexpr std::array<std::string_view, 7> kTablesOfRows = {
    "trace_row", "traced_position", "trace_repeat",   "sketch",
    "sample",    "difference",      "difference_part"};

/// sqlite3_set_authorizer callback: sets a bool where a statement, or a view of it, reads
/// kTablesOfRows.
int note_rows(void* needs_rows, int action, const char* table, const char*, const char*,
              const char* view) {
  // a run of a warehouse is no level of directories, whatever its rows
  const bool is_read = action == SQLITE_READ && table != nullptr &&
                       (view == nullptr || std::string_view(view) != "directory_level");
  if (is_read &&
      std::find(kTablesOfRows.begin(), kTablesOfRows.end(), table) != kTablesOfRows.end())
    *static_cast<bool*>(needs_rows) = true;
  return SQLITE_OK;
}

/// The statement of `sql`. Throws UsageError when it is not exactly one, or does not only read.
std::unique_ptr<Query> prepare_reading(SQLite::Database& db, std::string_view sql) {
  const auto refusal = [](const std::string& what) {
    return UsageError("refused " + what +
                      ": `query` takes one statement that only reads; use"
                      " sqlite3 to change a file");
  };
  try {
    std::string_view rest;
    auto query = std::make_unique<Query>(db, sql, &rest);
    if (query->empty()) throw UsageError("the SQL is empty: give a statement that reads");
    while (!rest.empty()) {
      std::string_view more = rest;
      if (!Query(db, more, &rest).empty()) throw refusal("a second statement");
    }
    if (!query->read_only() || query->columns() == 0) throw refusal("a statement that writes");
    return query;
  } catch (const SQLite::Exception& error) {
    throw UsageError(std::string("SQL error: ") + error.what());
  }
}

std::string read_all(const std::string& file) {
  std::ifstream in;
  if (file != "-") in.open(file, std::ios::binary);
  std::istream& stream = file == "-" ? std::cin : in;
  std::string text(std::istreambuf_iterator<char>(stream), {});
  if (!stream.good() && !stream.eof())
    throw UsageError("cannot read " + file + ": " + std::generic_category().message(errno));
  return text;
}

/// An integer or real when `text` is spelled as SQLite would print it, else text.
Value typed(const std::string& text) {
  const char* end = text.data() + text.size();
  int64_t integer = 0;
  auto read = std::from_chars(text.data(), end, integer);
  if (read.ec == std::errc() && read.ptr == end && std::to_string(integer) == text) return integer;
  double real = 0;
  auto read_real = std::from_chars(text.data(), end, real);
  bool digits = text.find_first_not_of("0123456789.eE+-") == std::string::npos;
  bool point = text.find_first_of(".eE") != std::string::npos;
  if (read_real.ec == std::errc() && read_real.ptr == end && digits && point) return real;
  return text;
}

/// --param name=value, by name.
std::map<std::string, Value> given_parameters(const std::vector<std::string>& parameters) {
  std::map<std::string, Value> given;
  for (const std::string& parameter : parameters) {
    size_t equals = parameter.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw UsageError("--param " + parameter + " is not name=value");
    }
    if (!given.emplace(parameter.substr(0, equals), typed(parameter.substr(equals + 1))).second) {
      throw UsageError("--param " + parameter.substr(0, equals) + " is given twice");
    }
  }
  return given;
}

/// Adds defaults, and takes a run as generously as --run does.
void complete_parameters(SQLite::Database& db, const CannedQuery& canned,
                         std::map<std::string, Value>& given) {
  for (const CannedParameter& parameter : canned.parameters) {
    auto found = given.find(parameter.name);
    if (found == given.end() && parameter.default_value) {
      const std::string& text = *parameter.default_value;
      given[parameter.name] = text.empty() ? Value(nullptr) : typed(text);
    } else if (found != given.end() && parameter.name.starts_with("run")) {
      if (auto* text = std::get_if<std::string>(&found->second)) {
        found->second = resolve_run(db, *text).name;
      }
    }
  }
}

void bind_parameters(Query& query, std::map<std::string, Value> given, const std::string& what) {
  std::string known;
  std::vector<std::string> missing;
  for (int i = 1; i <= query.parameters(); i++) {
    std::string name = query.parameter_name(i);
    if (name.empty() || name[0] == '?') {
      throw UsageError("parameter " + std::to_string(i) + " of " + what +
                       " has no name: write :name instead of ?");
    }
    name.erase(0, 1);
    known += (known.empty() ? "" : ", ") + name;
    auto value = given.extract(name);
    if (value.empty()) {
      missing.push_back(name);
    } else {
      query.bind(i, value.mapped());
    }
  }
  if (!missing.empty()) {
    throw UsageError(what + " needs --param " + missing.front() + "=VALUE");
  }
  if (!given.empty()) {
    throw UsageError(what + " has no parameter '" + given.begin()->first + "'" +
                     (known.empty() ? "" : "; it has " + known));
  }
}

void list_canned(Options& options) {
  RowPrinter printer(options.out, options.format, {"query", "parameters", "answers"});
  for (const CannedQuery& query : canned_queries()) {
    std::string parameters;
    for (const CannedParameter& parameter : query.parameters) {
      parameters += (parameters.empty() ? "" : " ") + parameter.name;
      if (parameter.default_value) parameters += "=" + *parameter.default_value;
    }
    printer.row({query.name, parameters, query.description});
  }
  printer.finish();
}

bool is_word(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; });
}

/// Of a warehouse in ClickHouse: runs that parameters name, else all, and their trace rows where
/// the statement reads what only these tell.
Question question_of(const std::string& database, const CannedQuery* canned, const std::string& sql,
                     const std::map<std::string, Value>& given) {
  Question question;
  if (!clickhouse::is_address(database)) return question;
  question.everything = true;
  SQLite::Database empty = open_temporary();
  sqlite3_set_authorizer(empty.getHandle(), note_rows, &question.rows);
  prepare_reading(empty, sql);
  sqlite3_set_authorizer(empty.getHandle(), nullptr, nullptr);
  if (canned == nullptr) return question;
  for (const auto& [name, value] : given) {
    const auto* text = std::get_if<std::string>(&value);
    if (name.starts_with("run") && text != nullptr) question.runs.push_back(*text);
  }
  return question;
}

int run_query(Options& options, const QueryArguments& arguments) {
  if (arguments.list) {
    list_canned(options);
    return kExitDone;
  }
  if (arguments.text.empty() == arguments.file.empty()) {
    throw UsageError(
        "query: give SQL text, the name of a canned query, or -f FILE; --list lists them");
  }
  const CannedQuery* canned = find_canned_query(arguments.text);
  if (canned == nullptr && arguments.file.empty() && is_word(arguments.text)) {
    std::vector<std::string> names;
    for (const CannedQuery& query : canned_queries()) names.push_back(query.name);
    throw unknown_name("canned query", arguments.text, names, "`greta-db query --list`");
  }
  std::map<std::string, Value> given = given_parameters(arguments.parameters);
  std::string sql = canned                   ? canned->sql
                    : arguments.file.empty() ? arguments.text
                                             : read_all(arguments.file);
  if (sql.find('\0') != std::string::npos) {
    throw UsageError("the SQL has a NUL byte: give text, of a file that is text");
  }
  AskedDatabase asked(options.database, question_of(options.database, canned, sql, given));
  SQLite::Database& db = asked.db();
  sort_on_disk(db);
  if (canned) complete_parameters(db, *canned, given);
  const std::unique_ptr<Query> query = prepare_reading(db, sql);
  bind_parameters(*query, std::move(given), canned ? canned->name : "the query");
  print_query(*query, options.out, options.format);
  return kExitDone;
}

}  // namespace

void add_query_command(CLI::App& app, Options& options) {
  CLI::App* command =
      app.add_subcommand("query", "Runs one SQL statement that reads, or a canned query by name");
  QueryArguments& a = add_action(*command, options, run_query, Takes::kFleet);
  add_option(*command, "sql SQL|NAME", a.text, "SQL text, or the name of a canned query")
      ->check(offers([] {
        std::vector<std::string> names;
        for (const CannedQuery& query : canned_queries()) names.push_back(query.name);
        return names;
      }));
  add_option(*command, "-f,--file FILE", a.file, "Read the SQL from a file; - is standard input");
  add_option(*command, "--param NAME=VALUE", a.parameters, "Value of :name; may be repeated")
      ->expected(1)
      ->take_all();
  command->add_flag("--list", a.list, "List the canned queries with their parameters");
}

}  // namespace greta
