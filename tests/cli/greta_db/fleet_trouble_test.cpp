// What goes wrong between greta-db and a warehouse, and what is said of it.
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "db/database.h"
#include "db/fleet/push.h"
#include "tests/cli/greta_db/fleet_fixture.h"

namespace greta {
namespace {

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
  {
    clickhouse::ClientOptions once;
    once.retries.attempts = 1;
    FleetServer server(clickhouse::parse_address(at), once);
    server.open();
    SQLite::Database db = open_for_reading(path("more.db"));
    EXPECT_THROW(push_runs(db, server, std::vector<int64_t>{1}, {}), clickhouse::Unavailable);
  }
  servers().start_server(1);
  expect_same("greta.db", at, "runs --format csv");
  expect_pushed(at, path("more.db"));
  EXPECT_EQ(run({"--db", at, "runs", "--format", "json"}).json().size(), 40u);
  expect_clean(at);
}

TEST_F(FleetTest, APushGoesOnWhenAShardIsThereAgain) {
  constexpr int kRuns = 500;
  tell_random_runs(database(), 1, kRuns);
  const std::string at = servers().address("broken");
  std::string waits_for;
  clickhouse::ClientOptions how;
  how.retries = {8, [&](const clickhouse::Unavailable& why) {
                   if (waits_for.empty()) servers().start_server(1);
                   waits_for = why.what();
                 }};
  FleetServer server(clickhouse::parse_address(at), how);
  server.create("pair");
  int64_t ended_at = 0;
  PushOptions options;
  options.progress = [&](const PushProgress& progress) {
    const bool is_within_an_insert = progress.rows % 4096 == 0;
    if (ended_at > 0 || progress.rows == 0 || !is_within_an_insert) return;
    servers().kill_server(1);
    ended_at = progress.rows;
  };
  SQLite::Database db = open_for_reading(database());
  std::vector<int64_t> runs(kRuns);
  std::iota(runs.begin(), runs.end(), 1);
  const PushSummary summary = push_runs(db, server, runs, options);
  EXPECT_EQ(ended_at, 4096);
  EXPECT_NE(waits_for, "");
  EXPECT_EQ(summary.runs, kRuns);
  expect_clean(at);
  expect_same("greta.db", at, "runs --format csv");
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
    EXPECT_TRUE(result.says(words));
    EXPECT_FALSE(result.says("secret"));
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
  expect_line(push(servers().address("newer"), database()), "use a newer greta-db");
  servers().execute("CREATE DATABASE older");
  servers().execute(
      "CREATE VIEW older.greta AS SELECT 'greta' AS purpose, toUInt64(1) AS version,"
      " '' AS cluster");
  for (const Result& result : {push(servers().address("older"), database()),
                               run({"--db", servers().address("older"), "runs"})}) {
    expect_line(result, "has tables of version 1, this program knows 3: push into a new database");
  }
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

TEST_F(FleetTest, WhoMayOnlyReadIsAnswered) {
  tell_random_runs(database(), 1, 20);
  const std::string at = servers().address("read", 0, "reader");
  expect_pushed(servers().address("read"), database(), "all --cluster pair");
  for (const char* command : {"runs --format csv", "firstfail --format json", "history"})
    expect_same("greta.db", at, command);
  expect_clean(at);
  EXPECT_EQ(shell("$G --db pulled.db pull --from " + quoted(at) + " --run run1").status, 0);
  EXPECT_TRUE(push(at, database(), "--replace all").answers(2, {"readonly"}));
}

TEST_F(FleetTest, AClusterThatSaysOfItsTablesWhatTheyAreNotIsSweptWhenItDoesNot) {
  tell_random_runs(database(), 1, 3);
  const std::string at = servers().address("said");
  expect_pushed(at, database(), std::string("all --cluster ") + FleetServers::kMisdeclared);
  expect_clean(at);
  servers().execute("INSERT INTO said.record (shard, push, kind) VALUES (0, 123456789, 'x')");
  const Result swept = run({"--db", at, "fleet", "sweep", "--older-than", "0"});
  EXPECT_EQ(swept.status, 2);
  EXPECT_TRUE(swept.says("cluster misdeclared says internal_replication"));
  EXPECT_EQ(std::count(swept.err.begin(), swept.err.end(), '\n'), 1) << swept.err;
}

TEST_F(FleetTest, AClockIn1970IsSaidAndNothingGoesByIt) {
  if (!std::filesystem::exists("/usr/bin/faketime")) GTEST_SKIP() << "faketime is not installed";
  tell_random_runs(database(), 1, 3);
  const std::string at = servers().address("clock");
  const std::string then = "faketime '1970-01-02 00:00:00' $G --db ";
  const Result pushed = shell(then + "greta.db push --to " + quoted(at) + " all");
  EXPECT_EQ(pushed.status, 0) << pushed.err;
  EXPECT_TRUE(pushed.says("days apart: nothing goes by them"));
  EXPECT_EQ(std::count(pushed.err.begin(), pushed.err.end(), '\n'), 1) << pushed.err;
  expect_clean(at);
  expect_same("greta.db", at, "runs --format csv");
  EXPECT_TRUE(shell(then + quoted(at) + " --format csv fleet sweep").says("\n0,0,0,0,yes"));
}

TEST_F(FleetTest, TlsIsVerified) {
  tell_random_runs(database(), 1, 3);
  const std::string at = servers().tls_address("tls");
  EXPECT_TRUE(push(at, database()).answers(2, {"TLS"}));
  EXPECT_EQ(shell("export GRETA_FLEET_CA=" + quoted(servers().certificate()) + "; $G push --to " +
                  at + " all && $G --db " + at + " fleet check")
                .status,
            0);
}

TEST_F(FleetTest, AFullDiskOfAShardLosesNothing) {
  tell_random_runs(database(), 1, 200);
  SQLite::Database(database(), SQLite::OPEN_READWRITE)
      .exec(
          "INSERT INTO attribute(run_id, dim, value, rank) SELECT id, 'noise',"
          " hex(randomblob(2000)), 0 FROM run");  // which does not compress
  const std::string at = servers().address("full");
  expect_pushed(at, database(), "--run run1 --cluster pair");
  servers().kill_server(1);
  servers().start_server(1, 20'000);
  const Result full = push(at, database());
  EXPECT_EQ(full.status, 2) << full.out;
  // and at most that it tries again, where the other server still had a connection to the killed
  // one
  const auto lines = std::count(full.err.begin(), full.err.end(), '\n');
  EXPECT_TRUE(lines == 1 || (lines == 2 && full.says("trying again"))) << full.err;
  servers().kill_server(1);
  servers().start_server(1);
  expect_pushed(at, database());
  expect_clean(at);
  expect_same("greta.db", at, "runs --format csv");
}

}  // namespace
}  // namespace greta
