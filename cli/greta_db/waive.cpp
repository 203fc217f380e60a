#include <unistd.h>

#include <optional>
#include <string>

#include "cli/greta_db/commands.h"
#include "cli/warehouse/known_value.h"
#include "cli/warehouse/sql_query.h"
#include "common/completion.h"
#include "common/environment.h"
#include "common/process.h"
#include "common/utc_time.h"
#include "common/utf8.h"
#include "db/database.h"
#include "db/transaction.h"

namespace greta {
namespace {

struct WaiveArguments {
  std::string tensor, until, reason, run, experiment, lineage;
  std::optional<int64_t> layer, remove;
  bool list = false;
};

std::string created_by() {
  std::string user;
  for (const char* name : {"USER", "LOGNAME"}) {
    if (user.empty()) user = environment_variable(name);
  }
  if (user.empty()) user = "uid " + std::to_string(getuid());
  return user + "@" + this_process().host;
}

/// "every layer of attn_out", "layer 3 of attn_out in runs of ...": as it is.
std::string place_of(const WaiveArguments& a) {
  std::string text = a.layer ? "layer " + std::to_string(*a.layer) : "every layer";
  text += " of " + a.tensor;
  if (!a.run.empty()) text += ", run " + a.run;
  if (!a.experiment.empty()) text += ", experiment " + a.experiment;
  if (!a.lineage.empty()) text += ", lineage " + a.lineage;
  return text;
}

/// Of runs that it is for: a waiver of what none of them traces would waive nothing.
void refuse_what_no_run_has(SQLite::Database& db, const WaiveArguments& a) {
  const std::string scope =
      " FROM run r CROSS JOIN traced_position p ON p.run_id = r.id WHERE (?1 = '' OR r.name = ?1)"
      " AND (?2 = '' OR r.experiment = ?2) AND (?3 = '' OR EXISTS (SELECT 1 FROM lineage_member m"
      " WHERE m.run_id = r.id AND m.lineage = ?3))";
  const auto any = [&](const std::string& condition) {
    Query query(db, "SELECT 1" + scope + condition + " LIMIT 1");
    query.bind(1, a.run).bind(2, a.experiment).bind(3, a.lineage);
    if (!condition.empty()) {
      query.bind(4, a.tensor);
      if (a.layer) query.bind(5, *a.layer);
    }
    return query.step();
  };
  if (!any("")) return;  // of documents, or none yet
  const std::string row =
      " AND EXISTS (SELECT 1 FROM trace_row x WHERE x.run_id = p.run_id AND x.prompt_id ="
      " p.prompt_id AND x.side = p.side AND x.pos_id = p.pos_id" +
      std::string(a.layer ? " AND x.layer = ?5" : "") +
      " AND x.tensor_id = (SELECT t.id FROM tensor t WHERE t.name = ?4))";
  if (any(row)) return;
  throw UsageError("no run that it would be for has " + a.tensor +
                   (a.layer ? " in layer " + std::to_string(*a.layer) : "") +
                   ": it would waive nothing; `greta-db trace --run RUN` shows what a run has");
}

void check(SQLite::Database& db, WaiveArguments& a) {
  if (a.tensor.empty()) throw UsageError("waive needs --tensor, --until and --reason");
  if (a.until.empty()) throw UsageError("waive needs --until YYYY-MM-DD, its last day");
  if (a.until.size() != 10) {
    throw UsageError("--until " + a.until + ": give a whole day, YYYY-MM-DD");
  }
  if (a.until < utc_now().substr(0, 10)) {
    throw UsageError("--until " + a.until + " has passed: the waiver would waive nothing");
  }
  if (!utf8::shows_something(a.reason)) {
    throw UsageError("waive needs --reason TEXT: who reads it later must know why");
  }
  check_known(db, NameOf::kTensor, a.tensor);
  Query canonical(db,
                  "SELECT t.name FROM tensor t WHERE t.id = coalesce((SELECT n.tensor_id FROM"
                  " tensor_name n WHERE n.name = ?1), (SELECT id FROM tensor WHERE name = ?1))");
  if (canonical.bind(1, a.tensor).step()) a.tensor = canonical.text(0);
  check_known(db, NameOf::kExperiment, a.experiment);
  if (!a.run.empty()) a.run = resolve_run(db, a.run, Naming::kRun).name;
  if (!a.lineage.empty()) {
    Query lineage(db, "SELECT 1 FROM lineage_member WHERE lineage = ?");
    if (!lineage.bind(1, a.lineage).step()) {
      throw UsageError("no run has the lineage " + a.lineage +
                       ": `greta-db baseline list` has them");
    }
  }
  refuse_what_no_run_has(db, a);
}

Value value_of(const std::string& text) { return text.empty() ? Value(nullptr) : Value(text); }

int add_waiver(Options& options, WaiveArguments& a) {
  SQLite::Database db = open_for_writing(options.database);
  check(db, a);
  int64_t id = 0;
  in_transaction(db, [&] {
    Query(db,
          "INSERT INTO waiver(tensor, layer, run, experiment, lineage, until, reason, created_at,"
          " created_by) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")
        .bind(1, a.tensor)
        .bind(2, a.layer ? Value(*a.layer) : Value(nullptr))
        .bind(3, value_of(a.run))
        .bind(4, value_of(a.experiment))
        .bind(5, value_of(a.lineage))
        .bind(6, a.until)
        .bind(7, a.reason)
        .bind(8, utc_now())
        .bind(9, created_by())
        .step();
    id = db.getLastInsertRowid();
  });
  options.out.write("waiver " + std::to_string(id) + ": differences in " +
                    utf8::printable(place_of(a)) + " do not fail the gate until " + a.until +
                    "; verdicts stay, and what is missing or not finite still fails\n");
  return kExitDone;
}

int remove_waiver(Options& options, int64_t id) {
  SQLite::Database db = open_for_writing(options.database);
  std::string tensor, until;
  in_transaction(db, [&] {
    Query found(db, "SELECT tensor, until FROM waiver WHERE id = ?");
    if (!found.bind(1, id).step()) {
      throw UsageError("there is no waiver " + std::to_string(id) +
                       ": `greta-db waive --list` has them");
    }
    tensor = found.text(0);
    until = found.text(1);
    Query(db, "DELETE FROM waiver WHERE id = ?").bind(1, id).step();
  });
  options.out.write("removed waiver " + std::to_string(id) + " of " + utf8::printable(tensor) +
                    " until " + utf8::printable(until) + "\n");
  return kExitDone;
}

int list_waivers(Options& options) {
  SQLite::Database db = open_for_reading(options.database);
  Query query(db,
              "SELECT id, tensor, layer, run, experiment, lineage, until,"
              " CASE WHEN until >= date('now') THEN 'in force' ELSE 'expired' END AS state,"
              " reason, created_by, created_at FROM waiver ORDER BY id");
  print_query(query, options.out, options.format);
  return kExitDone;
}

int waive(Options& options, WaiveArguments& a) {
  const bool adds = !a.tensor.empty() || !a.until.empty() || !a.reason.empty() || a.layer ||
                    !a.run.empty() || !a.experiment.empty() || !a.lineage.empty();
  if (a.list + a.remove.has_value() + adds > 1) {
    throw UsageError("--list and --remove stand alone");
  }
  if (a.list) return list_waivers(options);
  if (a.remove) return remove_waiver(options, *a.remove);
  return add_waiver(options, a);
}

}  // namespace

void add_waive_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "waive", "Accept a known difference until a day: it does not fail the gate, and is shown");
  WaiveArguments& a = add_action(*command, options, waive);
  add_option(*command, "--tensor NAME", a.tensor, "Trace point whose differences are accepted")
      ->check(offers_rows("SELECT name FROM tensor_name"));
  add_number_option(*command, "--layer N", a.layer, "Only of this layer (all)", -1);
  add_option(*command, "--until DATE", a.until,
             "Its last day, and of the runs that it is for (YYYY-MM-DD)")
      ->check([](const std::string& text) {
        return wrong_date(text).empty() ? "" : "'" + text + "' is no day: give YYYY-MM-DD";
      });
  add_option(*command, "--reason TEXT", a.reason, "Why, for whoever reads the verdict");
  add_option(*command, "--run NAME", a.run, "Only of this run")->check(offers_rows(kListRuns));
  add_option(*command, "--experiment NAME", a.experiment, "Only of runs of this experiment")
      ->check(offers_rows(kListExperiments));
  add_option(*command, "--lineage NAME", a.lineage,
             "Only of runs of this lineage, as `baseline list` has it");
  command->add_flag("--list", a.list, "List all waivers, expired ones too");
  add_number_option(*command, "--remove ID", a.remove, "Remove the waiver of this number", 1);
}

}  // namespace greta
