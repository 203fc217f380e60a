// greta-db forget and prune.
#include "common/utc_time.h"
#include "tests/cli/program.h"

namespace greta {
namespace {

class ForgetProgram : public ProgramTest {
 protected:
  void add_run(Warehouse& w, const RunSpec& spec) {
    w.run(spec);
    w.match("x_in", 0);
  }
  /// Names of the runs that are left.
  std::string left() const {
    std::string names;
    for (const auto& row : run({"runs", "--format", "json"}).json())
      names += row["run"].get<std::string>() + ";";
    return names;
  }
};

TEST_F(ForgetProgram, NeedsAYesWhereNobodyCanBeAsked) {
  Warehouse w(database());
  for (const char* name : {"a", "b", "c"}) add_run(w, {.name = name});
  EXPECT_TRUE(
      shell("$G forget --run a b </dev/null").answers(2, {"2 runs with 4 trace rows", "--yes"}));
  EXPECT_EQ(left(), "a;b;c;");
  const Result done = run({"forget", "--run", "a", "--run", "b", "--yes"});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(done.out, "forgot 2 runs: 4 trace rows, 2 sources\n");
  EXPECT_EQ(left(), "c;");
  EXPECT_EQ(run({"check", "--deep"}).status, 0);
  const Result json = run({"forget", "--run", "c", "--yes", "--vacuum", "--format", "json"});
  EXPECT_EQ(json.json()["runs"], 1);
  EXPECT_EQ(json.json()["trace_rows"], 2);
  EXPECT_EQ(run({"check", "--deep"}).status, 0);
}

TEST_F(ForgetProgram, AsksOnATerminal) {
  Warehouse w(database());
  add_run(w, {.name = "a"});
  const Result no = on_terminal(GRETA_DB_PROGRAM, {"forget", "--run", "a"}, "n\n");
  EXPECT_TRUE(no.says("Forget 1 run with 2 trace rows for good? [y/N]"));
  EXPECT_TRUE(no.says("nothing was forgotten"));
  EXPECT_EQ(left(), "a;");
  EXPECT_TRUE(on_terminal(GRETA_DB_PROGRAM, {"forget", "--run", "a"}, "y\n")
                  .says("forgot 1 run: 2 trace rows"));
  EXPECT_EQ(left(), "");
}

TEST_F(ForgetProgram, ADryRunListsAndWritesNothing) {
  Warehouse w(database());
  add_run(w, {.name = "a", .experiment = "f", .date = "2026-02-07"});
  add_run(w, {.name = "b", .experiment = "f"});
  const Result dry = run({"forget", "--experiment", "f", "--dry-run", "--format", "json"});
  EXPECT_EQ(dry.status, 0) << dry.err;
  ASSERT_EQ(dry.json().size(), 2u);
  EXPECT_EQ(dry.json()[0]["run"], "a");
  EXPECT_EQ(dry.json()[0]["date"], "2026-02-07");
  EXPECT_EQ(dry.json()[0]["trace_rows"], 2);
  EXPECT_TRUE(run({"forget", "--experiment", "f", "--dry-run"}).says("nothing was written"));
  EXPECT_EQ(left(), "b;a;");
  EXPECT_EQ(run({"forget", "--dry-run"}).status, 2) << "of which run?";
  EXPECT_EQ(run({"forget", "--run", "a", "--dry-run", "--yes"}).status, 2);
  EXPECT_EQ(run({"forget", "--run", "nosuch", "--yes"}).status, 2);
}

TEST_F(ForgetProgram, APinnedBaselineIsNotForgottenUnawares) {
  Warehouse w(database());
  add_run(w, {.name = "a", .date = "2020-01-01"});
  add_run(w, {.name = "b", .date = "2020-01-02"});
  EXPECT_EQ(run({"baseline", "set", "a"}).status, 0);
  EXPECT_EQ(
      run({"waive", "--tensor", "x_in", "--run", "a", "--until", "2999-12-31", "--reason", "known"})
          .status,
      0);
  EXPECT_TRUE(
      run({"forget", "--run", "a", "--yes"}).answers(2, {"is the pinned baseline of", "--unpin"}));
  EXPECT_TRUE(run({"forget", "--run", "a", "--dry-run"})
                  .says("1 run with 2 trace rows, 1 pinned baseline, 1 waiver"));
  EXPECT_TRUE(run({"prune", "--keep", "1y", "--yes"})
                  .answers(0, {"run a stays: it is the pinned baseline of"}));
  EXPECT_EQ(left(), "a;");
  EXPECT_TRUE(run({"forget", "--run", "a", "--yes", "--unpin"})
                  .answers(0, {"with them went 1 pinned baseline, 1 waiver"}));
  EXPECT_EQ(left(), "");
}

TEST_F(ForgetProgram, LatestTakesTheNewestOfItsName) {
  Warehouse w(database());
  for (const char* name : {"a", "a#2", "a#3"}) add_run(w, {.name = name});
  EXPECT_EQ(run({"forget", "--run", "a", "--latest", "--yes"}).status, 0);
  EXPECT_EQ(left(), "a;a#2;");
}

TEST_F(ForgetProgram, LeavesARunThatMayStillBeWritten) {
  Warehouse w(database());
  add_run(w, {.name = "a", .date = "2020-01-01", .status = "running"});
  EXPECT_TRUE(run({"forget", "--run", "a", "--yes"}).answers(2, {"run a has not ended"}));
  EXPECT_EQ(run({"prune", "--keep", "1d", "--yes"}).status, 0);
  EXPECT_EQ(left(), "a;");
  EXPECT_EQ(run({"forget", "--run", "a", "--yes", "--running"}).status, 0);
  EXPECT_EQ(left(), "");
}

TEST_F(ForgetProgram, PruneKeepsWhatIsYoungOrHasNoDate) {
  Warehouse w(database());
  add_run(w, {.name = "old", .date = utc_day_before(91)});
  add_run(w, {.name = "just", .date = utc_day_before(90)});
  add_run(w, {.name = "undated"});
  add_run(w, {.name = "started"});
  w.db.exec("UPDATE run SET started_at = '2020-01-01T00:00:00Z' WHERE name = 'started'");
  add_run(w, {.name = "other", .experiment = "f", .date = "2020-01-01"});
  EXPECT_EQ(run({"prune", "--keep", "90d", "--experiment", "e", "--dry-run", "--format", "json"})
                .json()
                .size(),
            2u);
  EXPECT_TRUE(run({"prune", "--keep", "90d", "--experiment", "e", "--yes"})
                  .answers(0, {"1 run has no date and stays"}));
  EXPECT_EQ(left(), "undated;other;just;");
  EXPECT_EQ(run({"prune", "--keep", "1y", "--yes"}).status, 0);
  EXPECT_EQ(left(), "undated;just;");
  for (const char* age : {"90", "soon", "-3d", "1.5y", "99999y", ""}) {
    EXPECT_TRUE(run({"prune", "--keep", age, "--yes"}).answers(2, {"90d"})) << age;
  }
  EXPECT_EQ(run({"prune", "--yes"}).status, 2) << "no age";
}

TEST_F(ForgetProgram, PruneDoesNotPassOverInSilenceWhatHasNotEnded) {
  Warehouse w(database());
  w.run({.name = "killed", .date = "2020-01-01", .status = "running"});
  w.match("x_in", 0);
  EXPECT_TRUE(
      run({"prune", "--keep", "1y", "--yes"})
          .answers(0, {"1 run has not ended (--running, if what wrote it was killed) and stays"}));
  EXPECT_EQ(left(), "killed;");
  EXPECT_EQ(run({"prune", "--keep", "1y", "--running", "--yes"}).err, "");
  EXPECT_EQ(left(), "");
}

TEST_F(ForgetProgram, PruneKeepsFailingRunsWhenAskedTo) {
  Warehouse w(database());
  const auto add = [&](const char* name, const char* mode, auto make) {
    w.run({.name = name, .mode = mode, .date = "2020-01-01"});
    make();
  };
  add("pass", "as_designed", [&] { w.match("x_in", 0); });
  add("rounding", "as_designed", [&] { w.rounding("x_in", 0); });
  add("aligned", "kv_aligned", [&] { w.rounding("x_in", 0); });
  add("divergent", "as_designed", [&] { w.divergent("x_in", 0); });
  add("unmeasured", "as_designed", [&] { w.drift("x_in", 0); });
  add("bitwise", "batch_invariant", [&] { w.rounding("x_in", 0); });
  EXPECT_EQ(run({"prune", "--keep", "1y", "--keep-failing", "--yes"}).status, 0);
  EXPECT_EQ(left(), "divergent;unmeasured;bitwise;");
}

}  // namespace
}  // namespace greta
