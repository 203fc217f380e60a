#include "db/check.h"

#include "cli/greta_db/commands.h"
#include "cli/warehouse/sql_query.h"
#include "common/json_text.h"
#include "db/database.h"

namespace greta {
namespace {

constexpr const char* kCounted[] = {"run",        "prompt",    "source",
                                    "trace_row",  "sample",    "report_pair",
                                    "run_metric", "log_event", "ingest_error"};

int check(Options& options) {
  SQLite::Database db = open_for_reading(options.database);
  std::vector<std::string> problems = check_database(db);
  int64_t version = db.execAndGet("PRAGMA user_version").getInt64();
  std::vector<std::pair<const char*, int64_t>> counts;
  for (const char* table : kCounted) {
    counts.emplace_back(table,
                        db.execAndGet(std::string("SELECT count(*) FROM ") + table).getInt64());
  }
  if (options.format == Format::kJson) {
    JsonObject object, of_tables;
    std::vector<std::string> quoted;
    for (const std::string& problem : problems) append_json(quoted.emplace_back(), problem);
    for (auto [table, count] : counts) of_tables.add(table, count);
    object.add("ok", problems.empty()).add("schema_version", version);
    object.raw("problems", json_array(quoted)).raw("rows", of_tables.str());
    options.out.write(object.str() + "\n");
  } else {
    RowPrinter printer(options.out, options.format, {"check", "result"});
    printer.row({"database", problems.empty() ? "ok" : "damaged"});
    printer.row({"schema version", version});
    for (const std::string& problem : problems) printer.row({"problem", problem});
    for (auto [table, count] : counts) printer.row({table, count});
    printer.finish();
  }
  if (problems.empty()) return kExitDone;
  options.out.flush();
  throw UsageError(options.database + " is damaged (" + std::to_string(problems.size()) +
                   " problems): restore a copy, or ingest the sources again");
}

}  // namespace

void add_check_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "check", "Integrity, foreign keys, schema version and row counts of the database");
  command->callback([&options] { options.action = [&options] { return check(options); }; });
}

}  // namespace greta
