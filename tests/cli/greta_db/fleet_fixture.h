// greta-db against real ClickHouse servers, which the first test of a program starts.
#pragma once
#include <bit>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "db/fleet/fleet_table.h"
#include "db/judge.h"
#include "tests/cli/program.h"
#include "tests/db/fleet/servers.h"
#include "tests/queries/harm/edit.h"
#include "tests/queries/harm/random_run.h"

namespace greta {

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
  /// All rows are those that were sent, and every run is judged as it was.
  void expect_clean(const std::string& at) {
    const Result result = run({"--db", at, "fleet", "check", "--sample", "1"});
    EXPECT_EQ(result.status, 0) << result.out << result.err;
    EXPECT_TRUE(result.says("judged again: the same verdicts"));
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

  /// The command answers the same of both, with the same exit status.
  void expect_same(const std::string& file, const std::string& at, const std::string& command) {
    const Result here = shell("$G --db " + quoted(file) + " " + command);
    const Result there = shell("$G --db " + quoted(at) + " " + command);
    EXPECT_NE(here.status, 2) << command << "\n" << here.err;
    EXPECT_EQ(here.status, there.status) << command << "\n" << there.err;
    EXPECT_EQ(here.out, there.out) << command;
  }

  /// Random runs, half of them edited, into a file. They are judged, as runs that end are,
  /// but for every tenth.
  void tell_random_runs(const std::string& file, uint64_t first, size_t n) {
    Warehouse w{std::filesystem::path(file)};
    harm::Teller teller(w);
    std::vector<int64_t> judged;
    w.db.exec("BEGIN");
    for (uint64_t seed = first; seed < first + n; ++seed) {
      harm::Random random(seed);
      harm::ToldRun run = harm::random_run(random);
      if (seed % 2 == 1) {
        while (!random.of(harm::edits()).apply(run, random)) {
        }
      }
      teller.tell("run" + std::to_string(seed), run);
      if (seed % 10 != 0) judged.push_back(w.current_run());
    }
    // what triggers do, where nobody has switched them off
    w.db.exec("INSERT OR IGNORE INTO lineage_member SELECT * FROM run_lineage; COMMIT");
    judge(w.db, judged);
  }

  /// A value by its type and all of its bits.
  static std::string bits_of(const SQLite::Column& cell) {
    if (cell.isNull()) return "NULL";
    if (cell.isFloat()) return "r" + std::to_string(std::bit_cast<uint64_t>(cell.getDouble()));
    if (cell.isInteger()) return std::to_string(cell.getInt64());
    return "'" + std::string(static_cast<const char*>(cell.getBlob()),
                             static_cast<size_t>(cell.getBytes()));
  }

  inline static std::unique_ptr<FleetServers> servers_;
};

}  // namespace greta
