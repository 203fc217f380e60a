// greta-db against real ClickHouse servers: the same answers as over a file.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>

#include "db/clickhouse/quote.h"
#include "db/fleet/fleet_check.h"
#include "db/fleet/published.h"
#include "db/fleet/server.h"
#include "tests/cli/program.h"
#include "tests/db/fleet/servers.h"
#include "tests/queries/harm/harmful_edit.h"
#include "tests/queries/harm/random_run.h"

extern char** environ;

namespace greta {
namespace {

class FleetTest : public ProgramTest {
 protected:
  void SetUp() override {
    if (const std::string why = FleetServers::why_not(); !why.empty()) GTEST_SKIP() << why;
    if (!servers_) servers_ = std::make_unique<FleetServers>();
  }
  static FleetServers& servers() { return *servers_; }

  Result push(const std::string& to, const std::string& file, const std::string& more = "all") {
    return shell("$G --db " + quoted(file) + " push --to " + quoted(to) + " " + more);
  }
  void expect_pushed(const std::string& to, const std::string& file,
                     const std::string& more = "all") {
    const Result result = push(to, file, more);
    ASSERT_EQ(result.status, 0) << result.err;
  }
  void expect_clean(const std::string& at) {
    const Result result = run({"--db", at, "fleet", "check"});
    EXPECT_EQ(result.status, 0) << result.out << result.err;
    EXPECT_TRUE(result.says("every verdict is the one that SQLite gave")) << result.out;
  }

  /// However long that takes: what never comes true ends with the test's time.
  template <class Condition>
  static void wait_until(Condition is_true) {
    while (!is_true()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }

  /// An ALTER of rows, and its end.
  static void mutate(const std::string& sql) {
    servers().execute(sql);
    wait_until([] {
      return servers().number("SELECT count() FROM system.mutations WHERE NOT is_done") == 0;
    });
  }

  /// The command says the same of both, with the same exit status.
  void expect_same(const std::string& file, const std::string& at, const std::string& command) {
    const Result here = shell("$G --db " + quoted(file) + " " + command);
    const Result there = shell("$G --db " + quoted(at) + " " + command);
    EXPECT_EQ(here.status, there.status) << command << "\n" << there.err;
    EXPECT_EQ(here.out, there.out) << command;
  }

  /// Runs of the oracle, half of them harmed, into a file.
  void tell_random_runs(const std::string& file, uint64_t first, size_t n) {
    Warehouse w{std::filesystem::path(file)};
    harm::Teller teller(w);
    w.db.exec("BEGIN");
    for (uint64_t seed = first; seed < first + n; ++seed) {
      harm::Random random(seed);
      harm::Harm harm{.run = harm::random_run(random)};
      if (seed % 2 == 1) {
        const harm::ToldRun told = harm.run;
        do {
          harm = {.run = told};
        } while (!random.of(harm::edits()).apply(harm, random, harm::Via::kWriter));
      }
      teller.tell("run" + std::to_string(seed), harm.run);
    }
    w.db.exec("COMMIT");
  }

  /// On a terminal, where the password is typed when it is asked for; the exit status.
  int typed_password(std::vector<std::string> words, std::string& shown) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    int terminal = -1;
    const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
    if (child == 0) {
      execv(argv[0], argv.data());
      _exit(127);
    }
    bool is_typed = false;
    char buffer[4096];
    for (ssize_t n; (n = ::read(terminal, buffer, sizeof buffer)) > 0;) {
      shown.append(buffer, static_cast<size_t>(n));
      if (is_typed || shown.find("password of") == std::string::npos) continue;
      const std::string line = std::string(FleetServers::kPassword) + "\n";
      is_typed = ::write(terminal, line.data(), line.size()) > 0;
    }
    close(terminal);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  static std::unique_ptr<FleetServers> servers_;
};

std::unique_ptr<FleetServers> FleetTest::servers_;

/// Probes of the engine in every mode, clean and with a fault.
class FleetOfProbes : public FleetTest {
 protected:
  void probe(const std::string& words) {
    const Result result = shell(quoted(GRETA_INFER_PROGRAM) +
                                " probe --suite b3_66_v2 --model m.gguf"
                                " --db greta.db " +
                                words);
    ASSERT_LE(result.status, 1) << result.err;
  }
  void make_probes(const std::vector<const char*>& modes = {"as_designed", "kv_aligned",
                                                            "batch_invariant"},
                   size_t n_faults = 6) {
    ASSERT_EQ(shell(quoted(GRETA_INFER_PROGRAM) + " synth --preset tiny --type q4_k_m --out m.gguf")
                  .status,
              0);
    for (const char* mode : modes) {
      const std::string in_mode = std::string("--mode ") + mode;
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
  make_probes();
  const std::string at = servers().address("probes");
  expect_pushed(at, database(), "all --cluster pair");
  expect_clean(at);
  for (const char* command : {"runs",
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
                              "firstfail --run kv_aligned",
                              "compare as_designed 'as_designed#2'",
                              "compare --format json as_designed 'as_designed#3'",
                              "compare --rows as_designed 'as_designed#4'",
                              "gate --format json --run 'as_designed#2'",
                              "query 'SELECT name, mode FROM run ORDER BY id'",
                              "query 'SELECT count(*), sum(rel_l2) FROM pair'",
                              "query worst_pairs",
                              "query drift_by_layer --format csv"}) {
    expect_same("greta.db", at, command);
  }
}

TEST_F(FleetOfProbes, APulledRunIsEqualInEveryView) {
  make_probes({"as_designed"}, 2);
  const std::string at = servers().address("pulled");
  expect_pushed(at, database(), "all --cluster pair");
  const Result pulled = shell("$G --db pulled.db pull --from " + quoted(at) + " --run b3_66_v2");
  ASSERT_EQ(pulled.status, 0) << pulled.err;
  for (const char* view :
       {"trace", "pair", "run_verdict", "first_fail", "failure_breakdown", "drift", "propagation",
        "kv_alignment", "lm_head_delta", "diagnosis", "history", "change", "report_conflict"}) {
    const std::string columns = std::string("SELECT * FROM ") + view;
    // ids are a file's own
    const auto rows = [&](const std::string& file) {
      const Result result =
          shell("$G --db " + file + " --format json " + "query \"" + columns + "\"");
      EXPECT_EQ(result.status, 0) << view << result.err;
      std::multiset<std::string> all;
      for (nlohmann::json& row : nlohmann::json::parse(result.out)) {
        for (const char* id : {"run_id", "prompt_id", "baseline_id", "source_id", "ord"})
          row.erase(id);
        all.insert(row.dump());
      }
      return all;
    };
    const auto here = rows("greta.db"), there = rows("pulled.db");
    EXPECT_TRUE(here == there) << view << ": " << here.size() << " and " << there.size() << " rows";
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

TEST_F(FleetTest, EveryHistoricalRunHasItsVerdict) {
  const char* artifacts = std::getenv("GRETA_ARTIFACTS");
  const char* bad = std::getenv("GRETA_BAD_INPUTS");
  if (artifacts == nullptr || bad == nullptr)
    GTEST_SKIP() << "GRETA_ARTIFACTS and GRETA_BAD_INPUTS name no folders";
  shell("$G --db greta.db ingest " + quoted(std::string(artifacts) + "/artifacts_remote"));
  shell("$G --db greta.db ingest " + quoted(bad));
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
  const std::string at = servers().address("tampered");
  expect_pushed(at, database());
  mutate("ALTER TABLE tampered.trace_row UPDATE hash = 1 WHERE side = 0");
  const Result result = run({"--db", at, "fleet", "check"});
  EXPECT_EQ(result.status, 2);
  EXPECT_TRUE(result.says("pushed")) << result.out;
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
  const Result again = push(at, database(), "all --format csv");
  EXPECT_TRUE(again.says("\n0,20,0,0,0,")) << again.out;
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
  const std::string copy =
      "INSERT INTO half.trace_row SELECT shard, push + 1 AS push, prompt_id, pos_id, layer, "
      "tensor_id,"
      " side, nth, crowded, phase_id, step, name_id, token_id, logical_tok_idx, n, hash, min, max,"
      " mean, abs_sum, nan_count, inf_count, nz_count, flags, sketch_n, sketch_derived, sum_sq, "
      "sketch,"
      " sample_n, sample, ptr, offset_bytes, context_id, source_id, line, tolerance, pushed_at FROM"
      " half.trace_row";
  const uint64_t rows = servers().number("SELECT count() FROM half.trace_row");
  servers().execute(copy);
  expect_same("greta.db", at, "runs --format csv");
  expect_clean(at);
  EXPECT_TRUE(run({"--db", at, "fleet", "sweep", "--format", "csv"}).says("\n0,0,0,0,yes"));
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
    const Result result = shell("$G --db " + quoted(at) + " " + command);
    EXPECT_EQ(result.status, 2) << command;
    EXPECT_TRUE(result.says("that were sent")) << result.err;
  }
  mutate("ALTER TABLE fewer.record DELETE WHERE kind = 'attribute'");
  const Result runs = run({"--db", at, "runs"});
  EXPECT_EQ(runs.status, 2) << runs.out;
  EXPECT_TRUE(runs.says("that were sent")) << runs.err;
}

TEST_F(FleetTest, AShardThatDoesNotAnswerIsAnError) {
  tell_random_runs(database(), 1, 20);
  const std::string at = servers().address("shards");
  expect_pushed(at, database(), "all --cluster pair");
  servers().kill_server(1);
  for (const char* command : {"runs", "firstfail", "history", "fleet check"}) {
    const Result result = shell("$G --db " + quoted(at) + " " + command);
    EXPECT_EQ(result.status, 2) << command << result.out;
    EXPECT_EQ(result.out, "") << command;
    EXPECT_NE(result.err, "") << command;
  }
  tell_random_runs(path("more.db"), 100, 20);
  EXPECT_EQ(push(at, path("more.db")).status, 2);
  servers().start_server(1);
  expect_same("greta.db", at, "runs --format csv");
  expect_pushed(at, path("more.db"));
  EXPECT_EQ(run({"--db", at, "runs", "--format", "json"}).json().size(), 40u);
  expect_clean(at);
}

TEST_F(FleetTest, RunsOfFilesThatPushedInTurnsAreCheckedFileByFile) {
  tell_random_runs(database(), 1, 20);
  tell_random_runs(path("more.db"), 100, 20);
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
      check_fleet(server, runs, [&](int64_t n) { done.push_back(n); });
  EXPECT_EQ(done, (std::vector<int64_t>{20, 40}));
  EXPECT_TRUE(summary.differences.empty());
  const std::string rows = "SELECT toUInt64(sum(rows)) FROM turns.published";
  EXPECT_EQ(static_cast<uint64_t>(summary.rows), servers().number(rows));
}

TEST_F(FleetTest, ReplicasHoldTheSame) {
  tell_random_runs(database(), 1, 20);
  const std::string at = servers().address("twice");
  expect_pushed(at, database(), "all --cluster replicas");
  expect_clean(at);
  expect_same("greta.db", at, "runs --format csv");
  const uint64_t rows = servers().number("SELECT count() FROM twice.trace_row", 0);
  wait_until([&] { return servers().number("SELECT count() FROM twice.trace_row", 1) == rows; });
  servers().kill_server(1);  // the other one has everything
  expect_same("greta.db", at, "runs --format csv");
  servers().start_server(1);
}

TEST_F(FleetTest, TroubleIsOneClearLine) {
  tell_random_runs(database(), 1, 3);
  const auto expect_line = [&](const Result& result, const std::string& words) {
    EXPECT_EQ(result.status, 2) << result.out;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_TRUE(result.says(words)) << result.err;
    EXPECT_FALSE(result.says("secret")) << result.err;
  };
  const std::string guarded = servers().address("trouble", 0, "guarded");
  expect_line(shell("GRETA_FLEET_PASSWORD=secret2 $G push --to " + guarded + " all </dev/null"),
              "password is wrong");
  expect_line(push("clickhouse://a:secret@h/d", database()), "holds no password");
  expect_line(push(servers().address("trouble", 0, "blind"), database()), "blind");
  expect_line(run({"--db", servers().address("nothing"), "runs"}), "no warehouse at");
  expect_line(run({"--db", "clickhouse://127.0.0.1:1/d", "runs"}), "127.0.0.1");
  servers().execute("CREATE DATABASE others");
  servers().execute("CREATE TABLE others.cats (x UInt8) ENGINE = Memory");
  expect_line(push(servers().address("others"), database()), "of another purpose");
  servers().execute("CREATE DATABASE newer");
  servers().execute(
      "CREATE VIEW newer.greta AS SELECT 'greta' AS purpose, toUInt64(9) AS version,"
      " '' AS cluster");
  expect_line(push(servers().address("newer"), database()), "tables of version 9");
  expect_line(push(servers().address("trouble2"), database(), "all --cluster none"),
              "knows no cluster");
  expect_line(run({"--db", servers().address("d"), "pairs"}), "works on a file");

  write("password", std::string(FleetServers::kPassword) + "\n");
  const Result right = shell("GRETA_FLEET_PASSWORD_FILE=password $G push --to " + guarded + " all");
  EXPECT_EQ(right.status, 0) << right.err;
  EXPECT_FALSE((right.out + right.err).find("secret") != std::string::npos);
  std::string shown;
  EXPECT_EQ(typed_password({GRETA_DB_PROGRAM, "--db", guarded, "runs", "--format", "csv"}, shown),
            0)
      << shown;
  EXPECT_EQ(shown.find("secret"), std::string::npos) << shown;
}

TEST_F(FleetTest, TlsIsVerified) {
  tell_random_runs(database(), 1, 3);
  const std::string at = servers().tls_address("tls");
  const Result unknown = push(at, database());
  EXPECT_EQ(unknown.status, 2);
  EXPECT_TRUE(unknown.says("TLS")) << unknown.err;
  const Result known = shell("export GRETA_FLEET_CA=" + quoted(servers().certificate()) +
                             "; $G push --to " + at + " all && $G --db " + at + " fleet check");
  EXPECT_EQ(known.status, 0) << known.err;
}

TEST_F(FleetTest, AFullDiskOfAShardLosesNothing) {
  tell_random_runs(database(), 1, 200);
  const std::string at = servers().address("full");
  expect_pushed(at, database(), "--run run1 --cluster pair");
  servers().kill_server(1);
  servers().start_server(1, 20'000);
  const Result full = push(at, database());
  EXPECT_EQ(full.status, 2) << full.out;
  EXPECT_EQ(std::count(full.err.begin(), full.err.end(), '\n'), 1) << full.err;
  servers().kill_server(1);
  servers().start_server(1);
  expect_pushed(at, database());
  expect_clean(at);
  expect_same("greta.db", at, "runs --format csv");
}

/// kill -9 at any moment of a push, then the push again.
class FleetKilled : public FleetTest {
 protected:
  static constexpr size_t kRuns = 300;

  static int rounds() {
    const char* given = std::getenv("GRETA_FLEET_KILLS");
    return given == nullptr ? 3 : std::atoi(given);
  }

  pid_t begin_push(const std::string& at) {
    const std::vector<std::string> words{GRETA_DB_PROGRAM, "--db", database(), "push",
                                         "--to",           at,     "all"};
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (const int file : {1, 2})
      posix_spawn_file_actions_addopen(&actions, file, "/dev/null", O_WRONLY, 0);
    pid_t child = 0;
    if (posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ) != 0) child = 0;
    posix_spawn_file_actions_destroy(&actions);
    return child;
  }

  /// Whatever is there of a run is all of it.
  void expect_nothing_half(const std::string& at) {
    const Result result = run({"--db", at, "fleet", "check"});
    EXPECT_EQ(result.status, 0) << result.out << result.err;
  }

  /// `harm` is done at a moment of a push, of which there are `moments` milliseconds.
  template <class Harm, class Mend>
  void at_random_moments(const std::string& name, int moments, Harm harm, Mend mend) {
    tell_random_runs(database(), 1, kRuns);
    const std::string first = servers().address(name + "0");
    expect_pushed(first, database(), "all --cluster pair");
    const std::string content = content_of(name + "0");
    std::mt19937 random(7);
    for (int i = 1; i <= rounds(); ++i) {
      const std::string base = name + std::to_string(i), at = servers().address(base);
      expect_pushed(at, database(), "--run run1 --cluster pair");
      const pid_t push = begin_push(at);
      ASSERT_GT(push, 0);
      std::this_thread::sleep_for(
          std::chrono::milliseconds(random() % static_cast<unsigned>(moments)));
      harm(push);
      waitpid(push, nullptr, 0);
      mend();
      expect_nothing_half(at);
      expect_pushed(at, database());
      expect_clean(at);
      expect_same("greta.db", at, "runs --format csv");
      EXPECT_EQ(content_of(base), content) << base;
      EXPECT_EQ(run({"--db", at, "fleet", "sweep", "--older-than", "0"}).status, 0);
      EXPECT_EQ(servers().sum("SELECT uniqExact(push) FROM " + base + ".trace_row"),
                servers().sum("SELECT countIf(rows > 0) FROM " + base + ".published"));
      servers().execute("DROP DATABASE " + base + " ON CLUSTER pair");
    }
  }

  /// Of what is published: how many rows, and their hashes.
  std::string content_of(const std::string& base) {
    const std::string pushes = " WHERE push IN (SELECT push FROM " + base + ".published)";
    return std::to_string(servers().sum("SELECT count() FROM " + base + ".trace_row" + pushes)) +
           " " +
           std::to_string(
               servers().sum("SELECT sum(ifNull(hash, 0)) FROM " + base + ".trace_row" + pushes)) +
           " " + std::to_string(servers().sum("SELECT count() FROM " + base + ".record" + pushes));
  }
};

TEST_F(FleetKilled, AClientKilledAtAnyMomentLeavesNothingHalf) {
  at_random_moments(
      "client", 1500, [](pid_t push) { kill(push, SIGKILL); }, [] {});
}

TEST_F(FleetKilled, AServerKilledAtAnyMomentLeavesNothingHalf) {
  at_random_moments(
      "server", 1500, [](pid_t) { servers().kill_server(1); }, [] { servers().start_server(1); });
}

TEST_F(FleetKilled, AZooKeeperKilledAtAnyMomentLeavesNothingHalf) {
  at_random_moments(
      "keeper", 1500, [](pid_t) { servers().kill_zookeeper(); },
      [] { servers().start_zookeeper(); });
}

}  // namespace
}  // namespace greta
