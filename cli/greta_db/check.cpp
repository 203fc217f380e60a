#include "db/check.h"

#include "cli/greta_db/commands.h"
#include "cli/warehouse/sql_query.h"
#include "common/json_text.h"
#include "db/database.h"
#include "db/judge.h"
#include "db/schema.h"

namespace greta {
namespace {

constexpr const char* kCounted[] = {"run",        "prompt",    "source",
                                    "trace_row",  "sample",    "report_pair",
                                    "run_metric", "log_event", "ingest_error"};

struct CheckArguments {
  bool deep = false, repair = false;
};

/// Opened as it is where what the file defines is the first of its problems.
SQLite::Database open_for_check(const std::string& file, std::vector<std::string>& problems) {
  try {
    return open_for_reading(file);
  } catch (const DefinitionError& error) {
    problems.emplace_back(error.what());
    return open_unchanged(file);
  }
}

/// Runs whose verdict is kept wrong, on a connection of its own; says on a terminal how far it is.
std::vector<int64_t> kept_wrong(const std::string& file) {
  SQLite::Database db = open_for_reading(file);
  ProgressLine line;
  return runs_kept_wrong(db, [&line](int64_t done, int64_t all) {
    line.show(
        [&] { return "judging run " + std::to_string(done + 1) + " of " + std::to_string(all); });
  });
}

std::vector<std::string> wrong_verdicts(const std::string& file) {
  std::vector<std::string> problems;
  const std::vector<int64_t> wrong = kept_wrong(file);
  SQLite::Database db = open_for_reading(file);
  for (const int64_t id : wrong) {
    SQLite::Statement name(db, "SELECT name FROM run WHERE id = ?");
    name.bind(1, id);
    problems.push_back("verdict: what is kept of run " +
                       (name.executeStep() ? name.getColumn(0).getString() : std::to_string(id)) +
                       " is not what its rows say");
  }
  return problems;
}

std::vector<std::string> repair(const std::string& file) {
  std::vector<std::string> done;
  try {
    open_for_reading(file);
  } catch (const DefinitionError&) {
    open_for_repair(file);
    done.emplace_back("views, triggers and indexes are greta's again, and no verdict is kept");
  }
  const std::vector<int64_t> wrong = kept_wrong(file);
  SQLite::Database db = open_for_writing(file);
  for (const std::string& line : repair_database(db, wrong)) done.push_back(line);
  make_durable(db);
  return done;
}

/// Ingests that have not ended, each in a line: their runs are INCOMPLETE.
std::vector<std::string> open_ingests(SQLite::Database& db) {
  std::vector<std::string> lines;
  if (!db.tableExists("ingest")) return lines;
  SQLite::Statement rows(db, "SELECT started_at, pid, host, paths FROM ingest ORDER BY id");
  while (rows.executeStep()) {
    lines.push_back(
        "begun " + rows.getColumn(0).getString() + " by process " + rows.getColumn(1).getString() +
        " on " + rows.getColumn(2).getString() + " of " + rows.getColumn(3).getString() +
        "; if it was interrupted `ingest --resume` finishes it, and with --give-up ends "
        "it without the paths that are gone");
  }
  return lines;
}

int check(Options& options, const CheckArguments& arguments) {
  const std::vector<std::string> repaired =
      arguments.repair ? repair(options.database) : std::vector<std::string>();
  std::vector<std::string> problems, same;
  {
    SQLite::Database db = open_for_check(options.database, problems);
    if (problems.empty()) problems = check_database(db);
  }  // closed, as a connection may have the file to itself (is_alone)
  if (problems.empty() && arguments.deep) problems = wrong_verdicts(options.database);
  SQLite::Database db = open_for_check(options.database, same);
  int64_t version = db.execAndGet("PRAGMA user_version").getInt64();
  std::vector<std::pair<const char*, int64_t>> counts;
  for (const char* table : kCounted) {
    if (!db.tableExists(table)) continue;
    counts.emplace_back(table,
                        db.execAndGet(std::string("SELECT count(*) FROM ") + table).getInt64());
  }
  if (options.format == Format::kJson) {
    JsonObject object, of_tables;
    for (auto [table, count] : counts) of_tables.add(table, count);
    object.add("ok", problems.empty()).add("schema_version", version);
    object.raw("problems", json_of_texts(problems)).raw("rows", of_tables.str());
    object.raw("open_ingests", json_of_texts(open_ingests(db)));
    if (arguments.repair) object.raw("repaired", json_of_texts(repaired));
    options.out.write(object.str() + "\n");
  } else {
    RowPrinter printer(options.out, options.format, {"check", "result"});
    printer.row({"database", problems.empty() ? "ok" : "damaged"});
    printer.row({"schema version", version});
    for (const std::string& line : repaired) printer.row({"repaired", line});
    for (const std::string& problem : problems) printer.row({"problem", problem});
    for (const std::string& line : open_ingests(db)) printer.row({"open ingest", line});
    for (auto [table, count] : counts) printer.row({table, count});
    printer.finish();
  }
  if (problems.empty()) return kExitDone;
  options.out.flush();
  throw UsageError(
      options.database + " is damaged (" + std::to_string(problems.size()) +
      " problems): `check --repair` corrects what it can; else restore a copy, or ingest "
      "the sources again");
}

// ---- upgrade

/// Version 10 made one verdict lead; before it, the strict one did.
constexpr const char* kNews =
    "`verdict` and `first_fail` are now those to act on: the strict ones where the mode promises "
    "equal\n"
    "bits, or where no difference has a distance, else the numeric ones. Exit statuses follow "
    "them.\n"
    "The former `verdict` is now `strict_verdict`; `--gate strict` asks for it.\n";

int upgrade(Options& options, const std::string& named) {
  const std::string& file = named.empty() ? options.database : named;
  const int64_t before = [&file] {
    SQLite::Database db = open_unchanged(file);
    return pragma(db, "user_version");
  }();
  SQLite::Database db = open_for_writing(file);
  judge_rest(db);
  const int64_t after = pragma(db, "user_version"),
                runs = db.execAndGet("SELECT count(*) FROM run_verdict").getInt64();
  if (options.format == Format::kJson) {
    JsonObject object;
    object.add("version_before", before).add("version", after).add("runs", runs);
    options.out.write(object.str() + "\n");
    return kExitDone;
  }
  if (before == after) {
    options.out.write(file + " has format version " + std::to_string(after) + " already\n");
    return kExitDone;
  }
  options.out.write(file + ": format version " + std::to_string(before) + " -> " +
                    std::to_string(after) + ", " + std::to_string(runs) + " runs judged again\n" +
                    kNews);
  return kExitDone;
}

}  // namespace

void add_check_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "check", "Whether the database is sound and greta's own: to run on a file from elsewhere");
  CheckArguments& a = add_action(*command, options, check);
  command->add_flag("--deep", a.deep,
                    "Also judge every run anew whose verdict is kept, and compare");
  command->add_flag(
      "--repair", a.repair,
      "Restore views, triggers and indexes, drop kept verdicts that are wrong, correct "
      "what is noted of places and positions; then check");
}

void add_upgrade_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "upgrade", "Bring a database to the format of this build, and say what that changes");
  add_option(*command, "file FILE", add_action(*command, options, upgrade),
             "The database; else that of --db");
  command->footer("Example: greta-db upgrade old.db");
}

}  // namespace greta
