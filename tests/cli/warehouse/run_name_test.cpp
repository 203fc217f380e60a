#include "cli/warehouse/run_name.h"

#include "common/exit_status.h"
#include "tests/cli/program.h"

namespace greta {
namespace {

std::string names(const std::vector<Run>& runs) {
  std::string text;
  for (const Run& run : runs) text += run.name + ";";
  return text;
}

std::string complaint(SQLite::Database& db, const std::string& name) {
  try {
    resolve_runs(db, name);
  } catch (const UsageError& error) {
    std::string text = error.what();
    for (const std::string& line : error.lines) text += "\n" + line;
    return text;
  }
  return "";
}

TEST(RunName, ExactNameBeatsExperimentBeatsPart) {
  Warehouse warehouse;
  warehouse.run({.name = "e", .experiment = "other"});
  warehouse.run({.name = "d/e/1", .experiment = "e"});
  warehouse.run({.name = "d/e/2", .experiment = "e"});
  warehouse.run({.name = "d/x/1", .experiment = "x"});
  EXPECT_EQ(names(resolve_runs(warehouse.db, "e")), "e;d/e/1;d/e/2;") << "it hides none";
  EXPECT_EQ(resolve_run(warehouse.db, "e").name, "e");
  EXPECT_EQ(names(resolve_runs(warehouse.db, "e", Repeats::kAll, Naming::kRun)), "e;");
  EXPECT_EQ(names(resolve_runs(warehouse.db, "e", Repeats::kAll, Naming::kExperiment)),
            "d/e/1;d/e/2;");
  EXPECT_EQ(names(resolve_runs(warehouse.db, "other")), "e;");
  warehouse.run({.name = "d/v/1", .experiment = "v"});
  warehouse.run({.name = "d/v/2", .experiment = "v"});
  EXPECT_EQ(names(resolve_runs(warehouse.db, "v")), "d/v/1;d/v/2;");
  EXPECT_THROW(resolve_run(warehouse.db, "v"), UsageError);
  EXPECT_EQ(names(resolve_runs(warehouse.db, "x")), "d/x/1;");
  EXPECT_EQ(names(resolve_runs(warehouse.db, "e/2")), "d/e/2;");
}

TEST(RunName, AmbiguousPartListsAtMostTwentyCandidates) {
  Warehouse warehouse;
  for (int i = 0; i < 25; ++i) warehouse.run({.name = "d/e/" + std::to_string(100 + i)});
  std::string text = complaint(warehouse.db, "d/e/1");
  EXPECT_NE(text.find("25 run names"), std::string::npos) << text;
  EXPECT_NE(text.find("d/e/119"), std::string::npos);
  EXPECT_EQ(text.find("d/e/120"), std::string::npos);
  EXPECT_NE(text.find("and 5 more"), std::string::npos);
}

TEST(RunName, UnknownNameSuggestsNearOnes) {
  Warehouse warehouse;
  warehouse.run({.name = "2026-02-07/b3_66", .experiment = "b3_66"});
  EXPECT_NE(complaint(warehouse.db, "b3_67").find("b3_66"), std::string::npos);
  EXPECT_NE(complaint(warehouse.db, "B3_66").find("b3_66"), std::string::npos);
  EXPECT_NE(complaint(warehouse.db, "nothing like it").find("no run or experiment"),
            std::string::npos);
}

TEST(RunName, NothingIsAWildcard) {
  Warehouse warehouse;
  warehouse.run({.name = "d/abc"});
  EXPECT_NE(complaint(warehouse.db, "a%c"), "");
  EXPECT_NE(complaint(warehouse.db, "a_c"), "");
  EXPECT_NE(complaint(warehouse.db, "a*"), "");
}

TEST(RunName, DirectoryLevelIsNotARun) {
  Warehouse warehouse;
  warehouse.run({.name = "d/e", .experiment = "e"});
  warehouse.run({.name = "d/e/1", .experiment = "e"});
  EXPECT_EQ(names(resolve_runs(warehouse.db, "e")), "d/e/1;");
  EXPECT_EQ(names(resolve_runs(warehouse.db, "d/e")), "d/e/1;");
  EXPECT_EQ(names(resolve_runs_or_all(warehouse.db, "")), "d/e/1;");
}

TEST(RunName, DirectoryLevelWithRowsOfItsOwnIsARun) {
  Warehouse warehouse;
  warehouse.run({.name = "d/e", .experiment = "e"});
  warehouse.match("attn_out", 0);
  warehouse.run({.name = "d/e/1", .experiment = "e"});
  EXPECT_EQ(names(resolve_runs(warehouse.db, "d/e")), "d/e;");
}

void add_repeated(Warehouse& warehouse) {
  for (const char* name :
       {"d/e/m#2", "d/e/m", "d/e/m#10", "d/e/m#x", "d/e/m#02", "d/e/n", "d/e/mm"}) {
    warehouse.run({.name = name, .experiment = "e"});
    warehouse.match("attn_out", 0);
  }
}

TEST(RunName, LatestIsTheHighestNumberOfAName) {
  Warehouse warehouse;
  add_repeated(warehouse);
  const auto latest = [&](const char* text) {
    return names(resolve_runs(warehouse.db, text, Repeats::kLatest));
  };
  EXPECT_EQ(latest("d/e/m"), "d/e/m#10;");
  EXPECT_EQ(latest("d/e/m#2"), "d/e/m#10;");
  EXPECT_EQ(latest("d/e/n"), "d/e/n;");
  EXPECT_EQ(latest("d/e/m#x"), "d/e/m#x;");
  EXPECT_EQ(latest("e"), "d/e/m#10;d/e/m#x;d/e/m#02;d/e/n;d/e/mm;");
  EXPECT_EQ(names(resolve_runs_or_all(warehouse.db, "", Repeats::kLatest)), latest("e"));
  EXPECT_EQ(names(resolve_runs(warehouse.db, "d/e/m")), "d/e/m;");
  warehouse.run({.name = "x/only#2", .experiment = "x"});
  warehouse.run({.name = "x/only#3", .experiment = "x"});
  EXPECT_EQ(latest("only"), "x/only#3;");  // a part of both
  EXPECT_EQ(complaint(warehouse.db, "only").find("part of 2"), 10u);
}

TEST(RunName, LaterRunsAreThoseOfHigherNumbers) {
  Warehouse warehouse;
  add_repeated(warehouse);
  EXPECT_EQ(names(later_runs(warehouse.db, {0, "d/e/m"})), "d/e/m#2;d/e/m#10;");
  EXPECT_EQ(names(later_runs(warehouse.db, {0, "d/e/m#2"})), "d/e/m#10;");
  EXPECT_EQ(names(later_runs(warehouse.db, {0, "d/e/m#10"})), "");
  EXPECT_EQ(names(later_runs(warehouse.db, {0, "d/e/n"})), "");
}

class HostileRunName : public ProgramTest, public testing::WithParamInterface<const char*> {};

TEST_P(HostileRunName, IsFoundByItsExactNameAndPrintedSafely) {
  Warehouse warehouse(database());
  warehouse.run({.name = GetParam()});
  warehouse.match("attn_out", 0);
  for (const char* command : {"firstfail", "pairs", "trace"}) {
    Result result = run({command, "--run", GetParam(), "--format", "json"});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.json()[0]["run"], GetParam());
  }
  Result table = run({"firstfail", "--run", GetParam()});
  EXPECT_EQ(table.out.find('\x1b'), std::string::npos);
  EXPECT_EQ(run({"query", "worst_pairs", "--param", std::string("run=") + GetParam()}).status, 0);
  warehouse.run({.name = "another one"});
  warehouse.match("attn_out", 0);
  EXPECT_EQ(run({"compare", GetParam(), "another one"}).status, 0);
  Warehouse again(database());
  EXPECT_EQ(again.rows("SELECT count(*) FROM run"), "2");
}

INSTANTIATE_TEST_SUITE_P(Names, HostileRunName,
                         testing::Values("it's", "\"q\"", "a;DROP TABLE run;--", "two\nlines", "%",
                                         "*", "\x1b[31mred", "日本語/é", "--help", " "));

class RunOption : public ProgramTest {};

TEST_F(RunOption, FirstfailNamesLaterRunsOfTheName) {
  {
    Warehouse warehouse(database());
    add_repeated(warehouse);
  }
  const std::string later = "d/e/m#2, d/e/m#10; --latest takes the newest\n";
  EXPECT_TRUE(run({"firstfail", "--run", "d/e/m"}).says("  later     " + later));
  for (const char* format : {"json", "csv", "tsv", "md"}) {
    const Result result = run({"firstfail", "--run", "d/e/m", "--format", format});
    EXPECT_EQ(result.err, "greta-db: later runs: " + later) << format;
    EXPECT_EQ(result.out.find("#2"), std::string::npos) << format;
  }
  EXPECT_FALSE(run({"firstfail", "--run", "d/e/m#10"}).says("latest"));
  EXPECT_FALSE(run({"firstfail", "--run", "d/e/n"}).says("latest"));
  EXPECT_FALSE(run({"firstfail", "--run", "e"}).says("latest"));  // all are shown
}

TEST_F(RunOption, EveryCommandThatTakesRunTakesLatest) {
  {
    Warehouse warehouse(database());
    add_repeated(warehouse);
  }
  for (const char* command : {"firstfail", "pairs", "trace", "runs", "report"}) {
    const Result result = run({command, "--run", "d/e/m", "--latest"});
    EXPECT_EQ(result.status, 0) << command << result.err;
    EXPECT_TRUE(result.says("d/e/m#10")) << command;
    EXPECT_FALSE(result.says("d/e/m#2")) << command;
  }
  EXPECT_FALSE(run({"runs", "--latest"}).says("d/e/m#2"));
}

}  // namespace
}  // namespace greta
