// What is kept of a verdict is what the view verdict_now works out, and goes when anything under it
// changes by hand.
#include <sqlite3.h>

#include <functional>
#include <map>
#include <set>

#include "tests/queries/warehouse.h"

namespace greta {
namespace {

std::string n_kept(Warehouse& w) { return w.kept("SELECT count(DISTINCT run_id) FROM verdict"); }

struct Scenario {
  const char* name;
  std::function<void(Warehouse&)> fill;
};

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> all = {
      {"no rows", [](Warehouse& w) { w.run(); }},
      {"match", [](Warehouse& w) { w.match("attn_out", 0); }},
      {"every status",
       [](Warehouse& w) {
         w.match("embed_out", 0);
         w.drift("x_in", 0);
         w.rounding("norm_out", 0);
         w.divergent("q_proj", 0);
         w.incomparable("k_proj", 0);
         w.add(prefill("v_proj", 0, 1).nans(1), decode("v_proj", 0, 1));
         w.add(prefill("k_cache", 0, 1), prefill("k_cache", 0, 2), decode("k_cache", 0, 1));
         w.add(prefill("attn_out", 0, 1), decode("mlp_out", 0, 1), decode("mlp_out", 0, 1).at(38));
         w.use_prompt("p1");
         w.match("q_pre_rope", 3);
         w.divergent("q_post_rope", 3);
         w.drift("logits", -1);
         w.divergent("gate_proj", 3);
       }},
      {"plan",
       [](Warehouse& w) {
         w.run({.status = "complete"});
         w.match("attn_out", 0);
         w.plan_what_is_there();
         w.plan("p0", 1, 2, "attn_out");
         w.plan("p9", 1, 2, "attn_out");
       }},
      {"report",
       [](Warehouse& w) {
         w.claim(w.report("final.tsv", 9,
                          {{.prompt = "p0", .layer = 1, .tensor = "x_in", .status = "DRIFT"},
                           {.prompt = "p0", .status = "MISSING"},
                           {.prompt = "p1", .status = "DRIFT", .cause = "Why \"\\\" not é"}}),
                 1, "PASS");
         w.report("v1.tsv", 1, {{.prompt = "p1", .layer = 1, .tensor = "x_in", .status = "MATCH"}});
       }},
      {"several runs", [](Warehouse& w) {
         w.run({.name = "e", .hash_algo = "fnv-256"});
         w.run({.name = "e/a", .mode = "kv_aligned", .date = "2026-02-07"});
         w.drift("k_cache", 0);
         w.run({.name = "e/b", .status = "running"});
         w.match("k_post_rope", 0);
       }}};
  return all;
}

TEST(Verdict, WhatIsKeptIsWhatTheViewWorksOut) {
  for (const Scenario& scenario : scenarios()) {
    SCOPED_TRACE(scenario.name);
    Warehouse w;
    scenario.fill(w);
    EXPECT_EQ(n_kept(w), "0");
    EXPECT_EQ(w.kept("SELECT count(*) FROM run_verdict WHERE verdict <> 'UNJUDGED'"), "0");
    w.judge();  // the warehouse compares in the end
    EXPECT_EQ(w.kept("SELECT count(*) FROM run WHERE id NOT IN (SELECT run_id FROM verdict)"), "0");
  }
}

TEST(Verdict, ANameOfAnyCharactersIsKeptAsItIsWritten) {
  for (const char* name : {"a\"b\\c,\",\"d'é%s", "a\nb",
                           "a\x01"
                           "b",
                           "", " ", "%n", "é\x7f"}) {
    Warehouse w;
    w.drift(name, 0);
    const std::string cause = w.rows("SELECT cause FROM pair");
    EXPECT_EQ(w.rows("SELECT verdict, fail, first_fail FROM run_verdict"), "FAIL|1|" + cause);
    EXPECT_EQ(w.rows("SELECT cause FROM failure_breakdown"), cause);
  }
}

TEST(Verdict, WhateverChangesUnderItByHandDeletesIt) {
  const char* changes[] = {
      "DELETE FROM trace_row WHERE side = 1",
      "UPDATE trace_row SET hash = 5 WHERE side = 1",
      "INSERT INTO trace_row(run_id, prompt_id, side, pos_id, layer, tensor_id, nth, phase_id, "
      "step,"
      " name_id, flags, source_id, line) SELECT run_id, prompt_id, side, pos_id, 9, tensor_id, nth,"
      " phase_id, step, name_id, flags, source_id, line FROM trace_row LIMIT 1",
      "UPDATE plan SET layer = 7 WHERE side = 1",
      "INSERT INTO plan SELECT run_id, prompt_id, 1, 9, 70 FROM plan LIMIT 1",
      "UPDATE run SET status = 'failed'",
      "REPLACE INTO run SELECT id, name, experiment, family, variant, date, commit_sha, synthetic,"
      " 'batch_invariant', dtype, seed, hash_algo, status, started_at, finished_at FROM run",
      "INSERT INTO ingest VALUES (1, '2026-01-01T00:00:00Z', 'h', 1, '', '', '[]');"
      " INSERT INTO ingest_run VALUES (1, 1)",
      "UPDATE sketch SET b0 = b0 + 1",
      "UPDATE run SET dtype = 'bf16'",
      "UPDATE run SET hash_algo = 'fnv-256'",
      "UPDATE run SET mode = 'batch_invariant'",
      "INSERT INTO attribute(run_id, dim, value, rank) VALUES (1, 'trace_rows', '9', 0)",
      "DELETE FROM tolerance",
      "UPDATE tolerance SET rel_l2 = 0.9",
      "INSERT INTO tolerance VALUES (70, NULL, 0.9)",
      "INSERT INTO readout(run_id, prompt_id, side, step, pos_id, name_id, norm_error, source_id,"
      " line) SELECT run_id, prompt_id, 0, 0, 0, 1, 0.5, source_id, 1 FROM trace_row LIMIT 1",
      "INSERT INTO prompt(run_id, name, token_ids) VALUES (1, 'announced', '[7]')",
      "UPDATE prompt SET token_ids = '[7]'",
      "INSERT INTO ingest_error(file, line, severity, reason) VALUES ('f', 1, 'error', 'no')",
      "INSERT INTO report_claim(source_id, run_id, line, kind, value, text)"
      " SELECT source_id, 1, 1, 'verdict', 'FAIL', 'FAIL' FROM trace_row LIMIT 1",
      "DELETE FROM report_pair WHERE line = 1",
      "UPDATE report_pair SET status = 'MATCH' WHERE line = 1",
      "INSERT INTO report_pair(source_id, line, run_id, prompt_id, status)"
      " SELECT source_id, 99, run_id, prompt_id, 'DRIFT' FROM report_pair LIMIT 1",
      "INSERT INTO difference SELECT NULL, run_id, prompt_id, pos_id, layer, tensor_id, 1, 2, 4, "
      "4, 0, 3, 0.1, 1, 1, 1, 0, 1"
      " FROM trace_row WHERE side = 0 LIMIT 1",
  };
  for (const char* change : changes) {
    Warehouse w;
    w.divergent("attn_out", 0);
    w.add(prefill("mlp_out", 0, 1).sampled({1}), decode("mlp_out", 0, 2).sampled({2}));
    w.plan_what_is_there();
    w.report("final.tsv", 1, {{.prompt = "p0", .layer = 1, .tensor = "x_in", .status = "DRIFT"}});
    w.judge();
    ASSERT_EQ(n_kept(w), "1");
    ASSERT_GT(w.db.exec(change), 0) << change;
    EXPECT_EQ(n_kept(w), "0") << change;
    EXPECT_EQ(w.kept("SELECT verdict FROM run_verdict"), "UNJUDGED") << change;
  }
}

TEST(Verdict, OfABaselineThatGoesThoseComparedWithItAreJudgedAgain) {
  Warehouse w;
  for (const char* day : {"01", "02", "03"}) {
    w.run({.name = day, .experiment = "e", .date = std::string("2026-01-") + day});
    w.match("attn_out", 0);
  }
  w.judge();
  EXPECT_EQ(w.kept("SELECT run, baseline, change FROM change"), "02|01|SAME\n03|02|SAME");
  w.db.exec("PRAGMA foreign_keys = OFF; DELETE FROM run WHERE name = '02'");
  EXPECT_EQ(w.kept("SELECT run, verdict FROM run_verdict"), "01|PASS\n03|UNJUDGED");
  EXPECT_EQ(w.kept("SELECT run, verdict FROM first_fail"), "03|UNJUDGED");
  EXPECT_EQ(w.rows("SELECT run, baseline, change FROM change"), "03|01|SAME");
}

TEST(Verdict, OfRowsWhosePromptIsGoneIsWorkedOutAllTheSame) {
  Warehouse w;
  w.match("attn_out", 0);
  w.db.exec("PRAGMA foreign_keys = OFF; DELETE FROM prompt");
  EXPECT_EQ(w.rows("SELECT count(*) FROM run_verdict"), "1");
  w.leave_unchecked();
}

TEST(Verdict, AChangeOfOneRunKeepsTheOthers) {
  Warehouse w;
  w.run({.name = "a"});
  w.match("attn_out", 0);
  const int64_t b = w.run({.name = "b"});
  w.match("attn_out", 0);
  w.judge();
  w.db.exec("DELETE FROM trace_row WHERE run_id = " + std::to_string(b));
  EXPECT_EQ(w.kept("SELECT name FROM run WHERE id IN (SELECT run_id FROM verdict)"), "a");
}

/// What is counted of a run, by the rows of one level.
std::string counts(Warehouse& w, const std::string& level) {
  std::string columns;
  for (const char* column : {"compared", "pairs", "pass", "fail", "drift", "nonfinite", "rounding",
                             "divergent", "unmeasured", "missing", "incomparable"})
    columns += std::string(columns.empty() ? "" : ", ") + "sum(" + column + ")";
  return w.kept("SELECT " + columns + " FROM verdict WHERE level = '" + level + "'");
}

TEST(Verdict, PromptsHaveTheirOwnAndSumUpToTheRun) {
  Warehouse w;
  w.run({.mode = "as_designed", .dtype = "bf16"});
  w.match("x_in", 0);
  w.use_prompt("rounds");
  w.match("x_in", 0);
  w.rounding("attn_out", 0);
  w.use_prompt("diverges");
  w.rounding("x_in", 0);
  w.divergent("attn_out", 1);
  w.use_prompt("lacks");
  w.match("x_in", 0);
  w.incomparable("mlp_out", 0);
  w.add(prefill("attn_out", 2, 1));
  EXPECT_EQ(
      w.rows("SELECT item, verdict, strict_verdict, numeric_verdict, pairs, first_fail, layer,"
             " strict_first_fail, strict_layer FROM verdict WHERE level = 'prompt'"
             " ORDER BY item"),
      "diverges|FAIL|FAIL|FAIL|2|ATTN_OUT_DRIFT|1|X_IN_DRIFT|0\n"
      "lacks|FAIL|FAIL|FAIL|2|TRACE_OFFSET|2|TRACE_OFFSET|2\n"
      "p0|PASS|PASS|PASS|1|-|-|-|-\n"
      "rounds|PASS|FAIL|PASS|2|-|-|ATTN_OUT_DRIFT|0");
  EXPECT_EQ(w.rows("SELECT prompt FROM first_fail"), "diverges\nlacks");
  EXPECT_EQ(counts(w, "prompt"), counts(w, "run"));
}

TEST(Verdict, CausesSumUpToWhatFails) {
  Warehouse w;
  w.drift("x_in", 0);
  w.drift("x_in", 1);
  w.divergent("attn_out", 0);
  w.rounding("attn_out", 1);
  w.match("attn_out", 2);
  w.add(prefill("mlp_out", 0, 1), prefill("wo_out", 0, 1).nans(1), decode("wo_out", 0, 1));
  EXPECT_EQ(w.rows("SELECT item, compared, rounding, unmeasured FROM verdict WHERE level = 'cause'"
                   " ORDER BY item"),
            "ATTN_OUT_DRIFT|2|1|0\nTRACE_OFFSET|1|0|0\nWO_OUT_DRIFT|1|0|0\nX_IN_DRIFT|2|0|2");
  EXPECT_EQ(
      w.rows("SELECT (SELECT sum(compared) FROM verdict WHERE level = 'cause') = fail + missing"
             " FROM run_verdict"),
      "1");
}

void waive(Warehouse& w, const std::string& tensor, const std::string& days) {
  w.db.exec("INSERT INTO waiver(tensor, until, reason, created_at, created_by) VALUES ('" + tensor +
            "', date('now', '" + days + " days'), 'known', '', '')");
}

TEST(Verdict, OfAGateIsKeptWhereAWaiverIsInForce) {
  constexpr const char* kGate =
      "SELECT verdict, strict_verdict, pairs, drift, until = date('now', '+1 days') FROM verdict"
      " WHERE level = 'gate'";
  constexpr const char* kAnswer =
      "SELECT answer, own_verdict, verdict, waived, waived_divergent FROM gate";
  Warehouse w;
  w.run({.mode = "as_designed", .dtype = "bf16", .date = "2026-01-01"});
  w.match("x_in", 0);
  w.divergent("attn_out", 0);
  EXPECT_EQ(w.rows(kGate), "");
  waive(w, "mlp_out", "-1");  // is over
  EXPECT_EQ(w.rows(kGate), "");
  waive(w, "attn_out", "+1");
  EXPECT_EQ(w.kept("SELECT verdict FROM run_verdict"), "UNJUDGED");
  EXPECT_EQ(w.rows(kGate), "PASS|PASS|1|0|1");
  EXPECT_EQ(w.rows(kAnswer), "PASS|PASS|FAIL|1|1");
  EXPECT_EQ(w.rows("SELECT verdict, divergent FROM run_verdict"), "FAIL|1");
  w.db.exec("UPDATE waiver SET until = '2026-01-01' WHERE tensor = 'attn_out'");
  EXPECT_EQ(w.rows(kGate), "");
  EXPECT_EQ(w.rows(kAnswer), "FAIL|FAIL|FAIL|0|0");
}

TEST(Verdict, OfAGateCountsNoMoreOnceItsLastDayIsOver) {
  Warehouse w;
  w.run({.mode = "as_designed", .dtype = "bf16", .date = "2026-01-01"});
  w.match("x_in", 0);
  w.divergent("attn_out", 0);
  waive(w, "attn_out", "+0");
  constexpr const char* kAnswer = "SELECT answer, own_verdict FROM gate";
  EXPECT_EQ(w.rows(kAnswer), "PASS|PASS");
  EXPECT_EQ(w.kept("SELECT count(*) FROM run WHERE id NOT IN (SELECT run_id FROM verdict)"), "0");
  w.db.exec(
      "UPDATE verdict SET until = date('now', '-1 days') WHERE level = 'gate'");  // a day later
  EXPECT_EQ(w.kept(kAnswer), "FAIL|FAIL") << "though nobody judged it again";
  EXPECT_EQ(unjudged_runs(w.db).size(), 1U);
}

/// sqlite3_set_authorizer callback: notes the tables of the file that a statement reads.
int note_table(void* tables, int action, const char* table, const char*, const char* database,
               const char*) {
  if (action == SQLITE_READ && database != nullptr)
    static_cast<std::set<std::string>*>(tables)->insert(table);
  return SQLITE_OK;
}

TEST(Verdict, EveryTableThatItIsMadeOfDeletesItWhenSomebodyChangesRowsByHand) {
  // Why nothing needs to be deleted when a row of it is ...
  const std::map<std::string, std::string> kExceptions = {
      {"plan DELETE", "the run stays INCOMPLETE, which is no PASS"},
      {"readout DELETE", "the run stays FAIL"},
      {"ingest_run UPDATE", "all of it is its key"},
      {"ingest_run DELETE", "the run stays INCOMPLETE"},
      {"ingest_error DELETE", "the run stays INCOMPLETE"},
      {"sketch INSERT", "a row that refers to it comes or changes"},
      {"sketch DELETE", "check finds rows that refer to none"},
  };
  // What the rows of these say is found by check --deep when somebody edits it: dictionaries, what
  // comes and goes with the rows that it is about, and what other tables repeat.
  const std::set<std::string> kChecked = {
      "phase",  "status",    "class",      "measure",         "tensor",          "tensor_name",
      "edge",   "cause",     "origin",     "sample",          "traced_position", "source",
      "report", "run_event", "run_metric", "difference_part", "source_location", "lineage_member"};
  Warehouse w;
  std::set<std::string> tables;
  sqlite3_set_authorizer(w.db.getHandle(), note_table, &tables);
  { SQLite::Statement verdict(w.db, "SELECT * FROM verdict_now"); }
  sqlite3_set_authorizer(w.db.getHandle(), nullptr, nullptr);
  std::set<std::string> unused;
  for (const auto& [exception, reason] : kExceptions) unused.insert(exception);
  int read = 0;
  for (const std::string& table : tables) {
    SQLite::Statement is_table(w.db,
                               "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?");
    is_table.bind(1, table);
    if (!is_table.executeStep()) continue;
    ++read;
    for (const char* event : {"INSERT", "UPDATE", "DELETE"}) {
      SQLite::Statement trigger(
          w.db,
          "SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1"
          " AND sql LIKE '% AFTER ' || ?2 || ' %' AND sql LIKE '%DELETE FROM verdict%'");
      trigger.bind(1, table);
      trigger.bind(2, event);
      const std::string change = table + " " + event;
      EXPECT_NE(trigger.executeStep(), kExceptions.contains(change) || kChecked.contains(table))
          << change;
      unused.erase(change);
    }
  }
  EXPECT_GT(read, 25);
  EXPECT_EQ(unused, std::set<std::string>());
  for (const std::string& table : kChecked) EXPECT_TRUE(tables.contains(table)) << table;
}

}  // namespace
}  // namespace greta
