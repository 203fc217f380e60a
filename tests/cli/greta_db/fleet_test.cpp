// greta-db against real ClickHouse servers: the same answers as over a file.
#include <algorithm>
#include <set>

#include "db/database.h"
#include "db/fleet/fleet_check.h"
#include "db/fleet/published.h"
#include "db/fleet/server.h"
#include "tests/cli/greta_db/fleet_fixture.h"
#include "tests/environment_folder.h"

namespace greta {
namespace {

/// Probes of the engine in every mode, clean and with a fault: kProbe and a mode are a name, and
/// further ones #2, #3, ...
class FleetOfProbes : public FleetTest {
 protected:
  inline static const std::string kProbe = "2026-01-02/b3_66_v2/";

  /// Rows of a view but for ids, which are a file's own, in no order.
  static std::vector<std::string> rows_of(SQLite::Database& db, const std::string& view) {
    SQLite::Statement query(db, "SELECT * FROM " + view);
    std::vector<int> columns;
    for (int i = 0; i < query.getColumnCount(); ++i) {
      const std::string name = query.getColumnName(i);
      const bool is_id = name == "ord" ||
                         (name.ends_with("_id") && name != "token_id" && !name.ends_with("pos_id"));
      if (!is_id) columns.push_back(i);
    }
    std::vector<std::string> rows;
    while (query.executeStep()) {
      std::string& row = rows.emplace_back();
      for (const int i : columns) row += bits_of(query.getColumn(i)) + "|";
    }
    std::sort(rows.begin(), rows.end());
    return rows;
  }

  void probe(const std::string& words) {
    const Result result =
        shell(quoted(GRETA_INFER_PROGRAM) +
              " probe --suite b3_66_v2 --date 2026-01-02 --model m.gguf --db greta.db " + words);
    ASSERT_LE(result.status, 1) << result.err;
  }
  /// Of a row of each prompt, layer and trace point, and as many more as there are steps.
  void make_probes(int decode_steps, const std::vector<const char*>& modes, size_t n_faults) {
    ASSERT_EQ(shell(quoted(GRETA_INFER_PROGRAM) + " synth --preset tiny --type q4_k_m --out m.gguf")
                  .status,
              0);
    for (const char* mode : modes) {
      const std::string in_mode =
          std::string("--mode ") + mode + " --decode-steps " + std::to_string(decode_steps);
      probe(in_mode + " --commit aaaaaaa1");
      probe(in_mode + " --commit aaaaaaa2");
      const std::vector<const char*> faults{
          "rope_theta@decode:layer=2",     "gqa_head_mapping@prefill:layer=0",
          "softmax_no_max@decode:layer=8", "lm_head_route@decode",
          "quant_scale@decode:layer=2",    "mask_off_by_one@decode:layer=2"};
      for (const char* fault :
           std::vector(faults.begin(), faults.begin() + static_cast<ptrdiff_t>(n_faults))) {
        probe(in_mode + " --inject " + quoted(fault));
      }
    }
  }
};

TEST_F(FleetOfProbes, SaysTheSameAsTheFile) {
  make_probes(1, {"as_designed", "kv_aligned", "batch_invariant"}, 6);
  const std::string at = servers().address("probes");
  expect_pushed(at, database(), "all --cluster pair");
  expect_clean(at);
  const std::string first = kProbe + "as_designed";
  const std::vector<std::string> commands{
      "runs",
      "runs --format csv",
      "runs --mode kv_aligned --verdict FAIL",
      "firstfail",
      "firstfail --format json",
      "firstfail --format csv",
      "history",
      "history --format json",
      "history --mode as_designed",
      "history --matrix",
      "regressions --format csv",
      "firstfail --run " + kProbe + "kv_aligned",
      "compare " + first + " " + first + "#2",
      "compare --format json " + first + " " + first + "#3",
      "compare --rows " + first + " " + first + "#4",
      "gate --format json --run " + first + "#2",
      "gate --format json --run " + first + "#2 --baseline " + first + "#3",
      "history --format html",
      "query 'SELECT run, tensor, differ, rel_l2 FROM drift'",
      "query 'SELECT name, mode FROM run ORDER BY id'",
      "query 'SELECT count(*), sum(rel_l2) FROM pair'",
      "query worst_pairs --param run=" + first + "#3",
      "query drift_by_layer --format csv --param run=" + first + "#4"};
  for (const std::string& command : commands) {
    expect_same("greta.db", at, command);
  }
}

TEST_F(FleetOfProbes, APulledRunIsEqualInEveryView) {
  // whatever a comparison can come to: of the oracle, as probes of a healthy engine come to little
  tell_random_runs(database(), 1, 40);
  make_probes(0, {"as_designed"}, 2);
  const std::string at = servers().address("pulled");
  expect_pushed(at, database(), "all --cluster pair");
  for (const char* experiment : {"e", "b3_66_v2"}) {
    const Result pulled =
        shell("$G --db pulled.db pull --from " + quoted(at) + " --run " + experiment);
    ASSERT_EQ(pulled.status, 0) << pulled.err;
  }
  SQLite::Database here = open_for_reading(database());
  SQLite::Database there = open_for_reading(path("pulled.db"));
  const std::string statuses =
      "SELECT group_concat(status) FROM (SELECT DISTINCT status FROM pair ORDER BY 1)";
  EXPECT_EQ(
      text_of(here, statuses),
      "AMBIGUOUS,CONFLICT,DECODE_ONLY,DRIFT,INCOMPARABLE,MATCH,MISSING,NONFINITE,PREFILL_ONLY");
  const std::string first = kProbe + "as_designed";
  const std::string two = " WHERE run_a = '" + first + "' AND run_b = '" + first + "#3'";
  std::vector<std::string> views{
      "trace",       "pair",         "run_verdict",   "first_fail", "failure_breakdown", "drift",
      "propagation", "kv_alignment", "lm_head_delta", "diagnosis",  "history",           "change",
      "lineage",     "regression",   "gate",          "gate_case",  "report_conflict"};
  for (const char* view : {"run_diff", "diff_verdict"}) views.push_back(std::string(view) + two);
  for (const std::string& view : views) {
    const std::vector<std::string> rows = rows_of(here, view);
    EXPECT_FALSE(rows.empty()) << view;
    EXPECT_TRUE(rows == rows_of(there, view)) << view << ": of " << rows.size() << " rows";
  }
  EXPECT_EQ(shell("$G --db pulled.db check").status, 0);
}

TEST_F(FleetTest, EveryRandomRunHasItsVerdict) {
  tell_random_runs(database(), 1, 1000);
  const std::string at = servers().address("oracle");
  expect_pushed(at, database(), "all --cluster pair");
  expect_clean(at);
  expect_same("greta.db", at, "runs --format csv");
  // rows of one shard and of the other
  EXPECT_GT(servers().number("SELECT count() FROM oracle.trace_row", 0), 1000u);
  EXPECT_GT(servers().number("SELECT count() FROM oracle.trace_row", 1), 1000u);
}

TEST_F(FleetTest, ALatePushThatAltersALineageIsComparedThere) {
  const auto tell = [](const std::string& file, const char* date, uint64_t hash) {
    const std::vector<float> values{static_cast<float>(hash), 1, 0, 0};
    Warehouse w{std::filesystem::path(file)};
    w.run({.name = std::string("of ") + date, .date = date, .status = "complete"});
    w.add_source(std::string(60, 'e') + std::string(date).substr(6, 4), "engine");
    w.add(prefill("x_in", 0, 1), decode("x_in", 0, 1));
    w.add(prefill("attn_out", 0, hash).sketched(values),
          decode("attn_out", 0, hash).sketched(values));
  };
  tell(database(), "2026-01-01", 5);
  tell(database(), "2026-01-03", 7);
  tell(path("late.db"), "2026-01-02", 7);
  const std::string at = servers().address("late");
  expect_pushed(at, database(), "all --cluster pair");
  EXPECT_EQ(run({"--db", at, "history", "--format", "json"}).json().size(), 2u);
  expect_pushed(at, path("late.db"));
  for (const char* file : {"greta.db", "late.db"})
    ASSERT_EQ(run({"--db", path("merged.db"), "merge", path(file)}).status, 0);
  const nlohmann::json rows = run({"--db", at, "history", "--format", "json"}).json();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[1]["change"], "CHANGED");
  EXPECT_EQ(rows[2]["change"], "SAME");
  EXPECT_EQ(rows[2]["baseline"], "of 2026-01-02");
  for (const char* command : {"history --format csv", "history --matrix", "regressions"})
    expect_same(path("merged.db"), at, command);
  // a run that grew is not what others were compared with
  {
    Warehouse w{std::filesystem::path(path("late.db"))};
    w.db.exec(
        "UPDATE source SET rows = rows + 1; UPDATE trace_row SET hash = 9 WHERE hash = 7;"
        "UPDATE sketch SET b0 = b0 / 2");
  }
  expect_pushed(at, path("late.db"));
  EXPECT_EQ(run({"--db", at, "history", "--format", "json"}).json()[2]["change"], "CHANGED");
  expect_clean(at);
}

TEST_F(FleetTest, EveryHistoricalRunHasItsVerdict) {
  const auto artifacts = folder_from_environment("GRETA_ARTIFACTS");
  const auto bad = folder_from_environment("GRETA_BAD_INPUTS");
  if (!artifacts || !bad) GTEST_SKIP() << "GRETA_ARTIFACTS and GRETA_BAD_INPUTS name no folders";
  shell("$G --db greta.db ingest " + quoted((*artifacts / "artifacts_remote").string()));
  shell("$G --db greta.db ingest " + quoted(bad->string()));
  const std::string at = servers().address("historical");
  expect_pushed(at, database(), "all --cluster pair");
  expect_clean(at);
  for (const char* command :
       {"runs --format csv", "firstfail", "firstfail --format json", "history --format csv",
        "regressions", "runs --attributes --run b3_66", "query metrics --format csv",
        "query claims_without_evidence --format csv"}) {
    expect_same("greta.db", at, command);
  }
}

TEST_F(FleetTest, ACheckFindsAVerdictThatIsAnother) {
  tell_random_runs(database(), 1, 5);
  SQLite::Database(database(), SQLite::OPEN_READWRITE)
      .exec("UPDATE verdict SET pass = pass + 1 WHERE level = 'run' AND run_id = 3");
  const std::string at = servers().address("tampered");
  expect_pushed(at, database());
  const Result result = run({"--db", at, "--format", "json", "fleet", "check", "--sample", "1"});
  EXPECT_EQ(result.status, 2);
  ASSERT_EQ(result.json().size(), 1u) << result.out;
  EXPECT_EQ(result.json()[0]["run"], "run3");
  EXPECT_NE(result.json()[0]["pushed"], result.json()[0]["worked_out"]);
}

TEST_F(FleetTest, ARunMayBeCalledAnything) {
  const std::string name = "'; DROP TABLE run --\\";
  {
    Warehouse w{std::filesystem::path(database())};
    w.run({.name = name, .experiment = "e'`\\"});
    w.add(prefill("attn_out", 0, 5));
    w.add(decode("attn_out", 0, 6));
  }
  const std::string at = servers().address("we`ird");
  expect_pushed(at, database());
  expect_clean(at);
  expect_same("greta.db", at, "runs --format csv");
  expect_same("greta.db", at, "firstfail --format json --run " + quoted(name));
  expect_same("greta.db", at, "runs --format csv --experiment " + quoted("e'`\\"));
  EXPECT_EQ(run({"--db", at, "firstfail", "--run", name}).status, 1);
}

TEST_F(FleetTest, ASecondPushIsOneRunAndOneThatGrewTakesItsPlace) {
  tell_random_runs(database(), 1, 20);
  const std::string at = servers().address("again");
  expect_pushed(at, database());
  EXPECT_TRUE(push(at, database(), "all --format csv").says("\n0,20,0,0,0,"));
  expect_same("greta.db", at, "runs --format csv");
  // of another file, which has more runs of these names: the first stays what it was
  tell_random_runs(path("other.db"), 1, 25);
  expect_pushed(at, path("other.db"));
  EXPECT_EQ(run({"--db", at, "runs", "--format", "json"}).json().size(), 25u);
  expect_clean(at);
}

TEST_F(FleetTest, WhatWasNotPublishedIsNotThereAndIsSwept) {
  tell_random_runs(database(), 1, 10);
  const std::string at = servers().address("half");
  expect_pushed(at, database());
  const std::string& columns = fleet_tables()[kTraceRowTable].names;
  const std::string copy = "INSERT INTO half.trace_row (shard, push, " + columns +
                           ") SELECT shard, push + 1 AS push, " + columns + " FROM half.trace_row";
  const uint64_t rows = servers().number("SELECT count() FROM half.trace_row");
  servers().execute(copy);
  expect_same("greta.db", at, "runs --format csv");
  expect_clean(at);
  EXPECT_TRUE(run({"--db", at, "fleet", "sweep", "--format", "csv"}).says("\n0,0,0,0,yes"));
  {
    // what the server's clock says less that lies before 1970, as a day does by a clock in 1970
    FleetServer server(clickhouse::parse_address(at), {});
    server.open();
    EXPECT_TRUE(sweep_fleet(server, int64_t{100} * 365 * 24, false).pushes.empty());
  }
  const Result swept = run({"--db", at, "fleet", "sweep", "--older-than", "0", "--format", "csv"});
  EXPECT_EQ(swept.status, 0) << swept.err;
  EXPECT_EQ(servers().number("SELECT count() FROM half.trace_row"), rows) << swept.out;
  expect_clean(at);
}

TEST_F(FleetTest, FewerRowsThanWereSentAreAnError) {
  tell_random_runs(database(), 2, 10);
  const std::string at = servers().address("fewer");
  expect_pushed(at, database());
  mutate("ALTER TABLE fewer.trace_row DELETE WHERE side = 1");
  for (const char* command : {"firstfail", "fleet check"}) {
    EXPECT_TRUE(shell("$G --db " + quoted(at) + " " + command).answers(2, {"that were sent"}))
        << command;
  }
  mutate("ALTER TABLE fewer.record DELETE WHERE kind = 'attribute'");
  EXPECT_TRUE(run({"--db", at, "runs"}).answers(2, {"that were sent"}));
}

TEST_F(FleetTest, RunsOfFilesThatPushedInTurnsAreCheckedFileByFile) {
  tell_random_runs(database(), 1, 20);
  tell_random_runs(path("more.db"), 100, 20);
  SQLite::Database(path("more.db"), SQLite::OPEN_READWRITE)
      .exec("INSERT INTO phase(name, side) VALUES ('warmup', 2)");  // a dictionary of its own
  const std::string at = servers().address("turns");
  expect_pushed(at, database());
  expect_pushed(at, path("more.db"));
  FleetServer server(clickhouse::parse_address(at), {});
  server.open();
  const std::vector<Published> runs = published(server, {});
  std::set<uint64_t> dictionaries;
  size_t n_changes = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    dictionaries.insert(runs[i].rules);
    if (i > 0 && runs[i].rules != runs[i - 1].rules) ++n_changes;
  }
  ASSERT_EQ(dictionaries.size(), 2u);
  ASSERT_GT(n_changes, 1u);
  std::vector<int64_t> done;
  const FleetCheckSummary summary =
      check_fleet(server, runs, 1, [&](int64_t n) { done.push_back(n); });
  EXPECT_EQ(done, std::vector<int64_t>{40});
  EXPECT_EQ(summary.judged, 40);
  EXPECT_TRUE(summary.differences.empty());
  EXPECT_EQ(static_cast<uint64_t>(summary.rows),
            servers().number("SELECT toUInt64(sum(counts[1])) FROM turns.published"));
  const int64_t sampled = check_fleet(server, runs, 10).judged;
  EXPECT_EQ(sampled, 4);
}

}  // namespace
}  // namespace greta
