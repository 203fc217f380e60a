// A push of one machine changes no answer about the runs of another.
#include <algorithm>

#include "db/definitions.h"
#include "db/fleet/server.h"
#include "tests/cli/greta_db/fleet_fixture.h"

namespace greta {
namespace {

class FleetShared : public FleetTest {
 protected:
  /// A run of a file of rows, whose decode is off by a hundredth.
  static void tell(const std::string& file, const char* name, const char* date, char content,
                   float off = 0.01F) {
    Warehouse w{std::filesystem::path(file)};
    w.run({.name = name, .dtype = "f32", .date = date, .status = "complete"});
    w.add_source(std::string(64, content), "row");
    const auto hash = static_cast<uint64_t>(content);
    w.add(prefill("attn_out", 0, hash).sketched({1, 1, 0, 0}),
          decode("attn_out", 0, hash + 1000).sketched({1 + off, 1, 0, 0}));
  }
  void expect_told(const Result& result, const std::string& text) {
    EXPECT_TRUE(result.says(text));
  }
  std::string column(const std::string& at, const char* name) {
    std::string values;
    for (const nlohmann::json& row : run({"--db", at, "runs", "--format", "json"}).json())
      values += row[name].get<std::string>() + " ";
    return values;
  }
};

TEST_F(FleetShared, TolerancesOfAFileStayWithIt) {
  tell(database(), "t1", "2026-01-01", 'a');
  tell(path("other.db"), "t2", "2026-01-02", 'b');
  ASSERT_EQ(run({"tolerance", "set", "--dtype", "f32", "0.5"}).status, 0);
  ASSERT_EQ(run({"firstfail", "--gate", "numeric"}).status, 0);
  const std::string at = servers().address("tolerances");
  const Result pushed = push(at, database());
  EXPECT_EQ(pushed.status, 0) << pushed.err;
  expect_told(pushed, "the tolerances of " + database() + " stay with it");
  const Result other = push(at, path("other.db"));
  EXPECT_EQ(other.status, 0) << other.err;
  EXPECT_FALSE(other.says("tolerances"));
  // as of one file with the tolerances that greta ships
  for (const char* file : {"other.db", "greta.db"})
    ASSERT_EQ(run({"--db", path("merged.db"), "merge", path(file)}).status, 0);
  for (const char* command :
       {"firstfail --gate numeric --run t1", "firstfail --gate numeric --run t2",
        "history --format csv", "regressions", "gate --run t2 --format json",
        "query 'SELECT run, tensor, tolerance FROM drift ORDER BY run'"})
    expect_same(path("merged.db"), at, command);
  EXPECT_EQ(run({"--db", at, "firstfail", "--gate", "numeric", "--run", "t1"}).status, 1);
  expect_clean(at);
  // the file keeps its own, and what is there is as it is here
  EXPECT_EQ(run({"firstfail", "--gate", "numeric"}).status, 0);
  expect_told(push(at, database(), "all --format csv"), "\n0,1,0,0,0,");
  ASSERT_EQ(run({"tolerance", "reset", "--all"}).status, 0);
  const Result reset = push(at, database(), "all --format csv");
  expect_told(reset, "\n0,1,0,0,0,");
  EXPECT_FALSE(reset.says("tolerances"));
}

TEST_F(FleetShared, TolerancesThatGretaShipsAreOfTheVersionOfTables) {
  // With others, kFleetVersion goes up: a warehouse has verdicts by one set of tolerances.
  EXPECT_EQ(kFleetVersion, 3);
  EXPECT_EQ(shipped_rows("tolerance"),
            " VALUES\n  (5, NULL, 0.0), (25, NULL, 0.0), (10, NULL, 0.0),\n"
            "  (NULL, 'f32', 1e-4), (NULL, 'fp32', 1e-4),\n"
            "  (NULL, 'f16', 1e-2), (NULL, 'fp16', 1e-2),\n"
            "  (NULL, 'bf16', 3e-2),\n"
            "  (NULL, NULL, 1e-2)");
}

TEST_F(FleetShared, RunsOfOneNameStayTwoAndTheOthersAreSent) {
  tell(database(), "ci", "2026-01-01", 'a', 0);
  tell(path("other.db"), "first", "2026-01-01", 'b');
  tell(path("other.db"), "ci", "2026-01-01", 'c');
  tell(path("other.db"), "last", "2026-01-01", 'd');
  const std::string at = servers().address("shared_names");
  expect_pushed(at, database());
  const std::string rows = run({"--db", at, "query", "SELECT * FROM trace"}).out;
  for (const char* words : {"all --format csv", "--replace all --format csv"}) {
    const Result pushed = push(at, path("other.db"), words);
    EXPECT_EQ(pushed.status, 0) << pushed.err;
    expect_told(pushed, "\n3,0,6,");
    EXPECT_EQ(pushed.says("ci is ci#2"), words[0] == 'a') << pushed.out;
    EXPECT_EQ(column(at, "run"), "ci first ci#2 last ");
  }
  EXPECT_EQ(column(at, "verdict"), "PASS FAIL FAIL FAIL ");
  EXPECT_EQ(run({"--db", at, "query", "SELECT * FROM trace WHERE run = 'ci'"}).out, rows);
  expect_clean(at);
  // each file finds its own again, and a third file with a run of the first is that run
  expect_told(push(at, database(), "all --format csv"), "\n0,1,0,0,0,");
  expect_told(push(at, path("other.db"), "all --format csv"), "\n0,3,0,0,0,");
  tell(path("third.db"), "ci", "2026-01-01", 'a', 0);
  expect_told(push(at, path("third.db"), "all --format csv"), "\n0,1,0,0,0,");
  // and so does a pull
  ASSERT_EQ(shell("$G --db other.db pull --from " + quoted(at) + " --run 'ci#2'").status, 0);
  EXPECT_EQ(column(path("other.db"), "run"), "first ci last ");
}

TEST_F(FleetShared, ARunThatCannotBeSentKeepsNoneBack) {
  const auto tell_found = [&](const std::string& file, const char* name, char content) {
    Warehouse w{std::filesystem::path(file)};
    w.run({.name = name, .status = "complete"});  // its name is all that tells what it is
    w.add_source(std::string(64, content), "stage_trace");
    w.add(prefill("attn_out", 0, static_cast<uint64_t>(content)),
          decode("attn_out", 0, static_cast<uint64_t>(content)));
  };
  tell_found(database(), "b", 'a');
  tell_found(path("other.db"), "a", 'b');
  tell_found(path("other.db"), "b", 'c');
  tell_found(path("other.db"), "c", 'd');
  const std::string at = servers().address("unsent");
  expect_pushed(at, database());
  const Result pushed = push(at, path("other.db"), "all --format csv");
  EXPECT_EQ(pushed.status, 2);
  expect_told(pushed, "\n2,0,4,");
  expect_told(pushed, "b has 2 sources at " + at + " that are not in this file");
  EXPECT_EQ(std::count(pushed.err.begin(), pushed.err.end(), '\n'), 1) << pushed.err;
  EXPECT_EQ(column(at, "run"), "a b c ");
  expect_told(push(at, database(), "all --format csv"), "\n0,1,0,0,0,");  // as it was
  // a pull brings the other half, and then it is sent
  ASSERT_EQ(shell("$G --db other.db pull --from " + quoted(at) + " --run b").status, 0);
  expect_told(push(at, path("other.db"), "all --format csv"), "\n1,2,");
  // an ingest that is under way is of its run only
  SQLite::Database(path("other.db"), SQLite::OPEN_READWRITE)
      .exec(
          "INSERT INTO ingest VALUES (1, '', '', 1, '', '', '[]');"
          "INSERT INTO ingest_run SELECT id, 1 FROM run WHERE name = 'a'");
  const Result open = push(at, path("other.db"), "--replace all --format csv");
  EXPECT_EQ(open.status, 2);
  expect_told(open, "\n2,0,");
  expect_told(open, "an ingest of a has not ended: `greta-db ingest --resume` finishes it");
  expect_clean(at);
}

}  // namespace
}  // namespace greta
