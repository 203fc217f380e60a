// The search: which commits it asks for, what it takes for an answer, its log.
#include <map>

#include "tests/cli/greta_db/bisect_fixture.h"

namespace greta {
namespace {

using Json = nlohmann::json;

TEST_F(BisectCommand, SaysWhereWhatWasFoundPartsAndWhichRunsSaySo) {
  const GitHistory git = make(line(8, 5));
  record_ends(git);
  const Result result = bisect(ends(git) + kRun + "--log log");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(result.says("first bad commit  " + git.sha(5) +
                          "\n  subject  commit 5\n"
                          "  date     2026-01-01T05:00:00"))  // as git prints it: +00:00 or Z
      << result.out;
  EXPECT_TRUE(result.says("\n  authored 2026-01-01T05"));
  EXPECT_TRUE(result.says("prefill and decode at layer 0, attn_out, prompt p0, pos 1"));
  EXPECT_TRUE(result.says("  run      2026-01-01/toy/as_designed#"));
  EXPECT_TRUE(result.says("  log      log\n"));
  EXPECT_TRUE(result.says("left, about "));
}

// No verdict of a run says that both phases changed alike.
TEST_F(BisectCommand, LooksForChangedValuesWhereBothEndsPass) {
  const GitHistory git = make(line(20, 7, "changed"));
  record_ends(git);
  const Result result = bisect(ends(git) + kRun + kJson);
  ASSERT_EQ(result.status, 0) << result.err;
  const Json said = result.json();
  EXPECT_EQ(said["by"], "values");
  EXPECT_EQ(said["found"]["commit"], git.sha(7));
  EXPECT_EQ(said["found"]["tensor"], "x_out");
  EXPECT_EQ(said["found"]["layer"], 1);
  EXPECT_LE(asked(), 6u);
}

TEST_F(BisectCommand, NamesTheNextCommitToRunAndGoesOnWithItsRun) {
  const GitHistory git = make(line(10, 6));
  EXPECT_EQ(bisect(ends(git)).status, 2) << "there is no database";
  record_ends(git);
  std::vector<std::string> named;
  Result result = bisect(ends(git) + kJson);
  for (; result.status == 3 && named.size() < 9; result = bisect(ends(git) + kJson)) {
    named.push_back(result.json()["next"]["commit"]);
    const auto* const begin = &git.sha(0);
    record(named.back(),
           state_of(git, static_cast<size_t>(std::find(begin, begin + 10, named.back()) - begin)));
  }
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.json()["found"]["commit"], git.sha(6));
  EXPECT_LE(named.size(), 5u);
  EXPECT_EQ(result.json()["asked"], 0);
}

TEST_F(BisectCommand, AsksForARunOfAnEndThatHasNone) {
  const GitHistory git = make(line(6, 3));
  record(git.sha(5), "bad");
  EXPECT_TRUE(bisect(ends(git)).answers(3, {"next     " + git.sha(0), "has no run"}));
  EXPECT_EQ(bisect(ends(git) + kRun + kJson).json()["found"]["commit"], git.sha(3));
}

TEST_F(BisectCommand, UsesEveryRecordedRunBeforeItAsksForOne) {
  const GitHistory git = make(line(20, 11));
  for (size_t i = 0; i < git.size(); ++i)
    record(git.sha(i), state_of(git, i), "DIGITS=7; export DIGITS;");
  write("asked", "");
  const Result result = bisect(ends(git) + kRun + kJson);
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.json()["found"]["commit"], git.sha(11));
  EXPECT_EQ(asked(), 0u);
}

TEST_F(BisectCommand, NamesEveryCommitThatItMayBeWhenOnlySkippedOnesAreLeft) {
  std::vector<std::string> states(12, "good");
  std::fill(states.begin() + 5, states.begin() + 8, "nobuild");
  std::fill(states.begin() + 8, states.end(), "bad");
  const GitHistory git = make(line(states));
  record_ends(git);
  const Result result = bisect(ends(git) + kRun + kJson + "--log log");
  ASSERT_EQ(result.status, 3) << result.err;
  const Json said = result.json();
  EXPECT_EQ(said["status"], "only_skipped");
  std::vector<std::string> possible;
  for (const Json& one : said["possible"]) possible.push_back(one["commit"]);
  EXPECT_EQ(possible, (std::vector{git.sha(5), git.sha(6), git.sha(7), git.sha(8)}));
  const size_t before = asked();
  EXPECT_TRUE(
      bisect("--log log").says("only skipped commits are left to test; the first bad commit"));
  EXPECT_EQ(asked(), before);
}

TEST_F(BisectCommand, SkipsByHandWhatItIsTold) {
  const GitHistory git = make(line(9, 6));
  record_ends(git);
  const std::string next = bisect(ends(git) + kJson).json()["next"]["commit"];
  const Result other = bisect(ends(git) + kJson + "--log log --skip " + next.substr(0, 9));
  EXPECT_EQ(other.status, 3);
  EXPECT_NE(other.json()["next"]["commit"], next);
  EXPECT_EQ(bisect("--log log " + std::string(kJson)).json()["next"]["commit"],
            other.json()["next"]["commit"]);
  EXPECT_TRUE(bisect(ends(git) + "--skip " + git.sha(8)).answers(2, {"cannot be skipped"}));
  EXPECT_EQ(bisect(ends(git) + "--log l --skip " + git.sha(8)).status, 2);
  EXPECT_EQ(bisect(ends(git) + "--log l " + kRun).status, 0) << "it is not in the log";
}

TEST_F(BisectCommand, GoesOnFromItsLogAfterItWasKilled) {
  const GitHistory git = make(line(40, 23));
  record_ends(git);
  // The third probe kills greta-db, which is the parent of its shell's group.
  EXPECT_EQ(
      shell(variables() + "(exec $G bisect --repo repo " + ends(git) +
            "--log log --run 'if [ $(wc -l <\"$TOP/asked\") = 2 ]; then kill -9 $PPID; exit 1; fi;"
            " sh \"$TOP/probe.sh\"')")
          .status,
      128 + 9);
  const std::string log = read(path("log"));
  EXPECT_NE(log.find("\ngit bisect start "), std::string::npos) << log;
  const Result result = bisect("--log log " + std::string(kRun) + kJson);
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.json()["found"]["commit"], git.sha(23));
  EXPECT_LE(asked(), 7u);
  EXPECT_NE(read(path("log")).find("\n# first bad commit: [" + git.sha(23)), std::string::npos);
  EXPECT_EQ(shell("cd repo && git bisect replay ../log && git bisect log >../replayed").status, 0);
  EXPECT_TRUE(read(path("log")).ends_with(read(path("replayed")))) << read(path("replayed"));
  EXPECT_FALSE(std::filesystem::exists(path("log.new")));
}

TEST_F(BisectCommand, KeepsAnswersOfRunsThatAreGoneInItsLog) {
  const GitHistory git = make(line(12, 4));
  record_ends(git);
  ASSERT_EQ(bisect(ends(git) + kRun + "--log log").status, 0);
  ASSERT_GT(asked(), 0u);
  ASSERT_EQ(run({"forget", "--yes", "--experiment", "toy"}).status, 0);
  record(git.sha(0), "good");
  record(git.sha(11), "bad");
  write("asked", "");
  const Result again = bisect("--log log " + std::string(kJson));
  EXPECT_EQ(again.status, 0) << again.out << again.err;
  EXPECT_EQ(again.json()["found"]["commit"], git.sha(4));
}

TEST_F(BisectCommand, RefusesTheLogOfAnotherSearchAndWhatIsNone) {
  const GitHistory git = make(line(9, 6));
  record_ends(git);
  ASSERT_EQ(bisect(ends(git) + "--log log").status, 3);
  EXPECT_TRUE(bisect("--log log --good " + git.sha(1))
                  .answers(2, {"bisect needs --good REV and --bad REV"}));
  const Result ends_differ = bisect("--log log --good main~2 --bad main");
  EXPECT_EQ(ends_differ.status, 2);
  EXPECT_TRUE(ends_differ.says("log is not the log of this search") &&
              ends_differ.says("--good " + git.sha(0)));
  for (const char* more : {"--first-parent", "--gate strict", "--gate numeric"}) {
    EXPECT_EQ(bisect(ends(git) + "--log log " + more).status, 2) << more;
  }
  EXPECT_EQ(bisect("--log log").status, 3);
  write("nolog", "good-end " + git.sha(0) + "\nwhat is this\n");
  EXPECT_EQ(bisect("--log nolog").status, 2);
  EXPECT_EQ(bisect(ends(git) + "--log nolog").status, 2);
  EXPECT_TRUE(read(path("nolog")).ends_with("what is this\n")) << "it stays";
}

TEST_F(BisectCommand, SaysWhenTheEndsAreTheWrongWayRound) {
  const GitHistory git = make(line(10, 5));
  record_ends(git);
  EXPECT_TRUE(bisect("--bad " + git.sha(0) + " --good " + git.sha(9))
                  .answers(2, {"comes before the good one"}));
  const Result same = bisect("--bad " + git.sha(9) + " --good main");
  EXPECT_EQ(same.status, 2);
  EXPECT_TRUE(same.says("name the same commit"));
}

TEST_F(BisectCommand, SaysWhenTheGoodEndFailsAndTheBadOnePasses) {
  std::vector<std::string> states(10, "good");
  std::fill(states.begin(), states.begin() + 4, "bad");
  const GitHistory git = make(line(states));
  record(git.sha(0), "bad");
  record(git.sha(9), "good");
  EXPECT_TRUE(bisect(ends(git)).answers(2, {"wrong way round", "swap them and add --fix"}));
  const Result fix =
      bisect("--fix --bad " + git.sha(0) + " --good " + git.sha(9) + " " + kRun + kJson);
  ASSERT_EQ(fix.status, 0) << fix.err;
  EXPECT_EQ(fix.json()["found"]["commit"], git.sha(4));
}

TEST_F(BisectCommand, HasNothingToFindWhereBothEndsAreAlike) {
  const GitHistory git = make(line(6, 6));
  record_ends(git);
  EXPECT_TRUE(bisect(ends(git)).answers(3, {"nothing to bisect"}));
}

TEST_F(BisectCommand, ASubjectThatWouldActOnATerminalIsSpelledOut) {
  std::vector<MadeCommit> commits = line(5, 2);
  for (MadeCommit& commit : commits) commit.subject = "\x1b[31mred\x07 \u202e";
  const GitHistory git = make(commits);
  record_ends(git);
  const Result text = bisect(ends(git) + kRun + "--log log");
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_EQ((text.out + text.err + read(path("log"))).find('\x1b'), std::string::npos);
  EXPECT_TRUE(text.says("\\x1b[31mred"));
  const Result json = bisect(ends(git) + kJson);
  EXPECT_EQ(json.out.find('\x1b'), std::string::npos);
  EXPECT_EQ(json.json()["found"]["subject"], commits[2].subject);
}

TEST_F(BisectCommand, RunsThatDisagreeAreNoAnswer) {
  const GitHistory git = make(line(8, 5));
  record_ends(git);
  record(git.sha(4), "good");
  record(git.sha(4), "bad");
  const Result result = bisect(ends(git) + kRun + kJson);
  ASSERT_EQ(result.status, 3) << result.out;
  const Json said = result.json();
  EXPECT_EQ(said["status"], "only_skipped");
  EXPECT_EQ(said["possible"].size(), 2u);  // it, and the one after it
  EXPECT_TRUE(result.says("its runs disagree"));
  record(git.sha(0), "bad");
  const Result end = bisect(ends(git));
  EXPECT_EQ(end.status, 3);
  EXPECT_TRUE(end.says("the good end") && end.says("its runs disagree"));
}

TEST_F(BisectCommand, ARunThatDidNotEndIsNeverTakenForGood) {
  std::vector<std::string> states(12, "unfinished");
  states[0] = "good";
  states[11] = "bad";
  const GitHistory git = make(line(states));
  record_ends(git);
  for (size_t i = 1; i < 11; ++i) record(git.sha(i), "unfinished");
  write("asked", "");
  const Result next = bisect(ends(git));
  EXPECT_EQ(next.status, 3);
  EXPECT_TRUE(next.says("next     "));
  const Result result = bisect(ends(git) + kRun + kJson);
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(result.json()["possible"].size(), 11u);
  EXPECT_TRUE(result.says("is INCOMPLETE"));
}

TEST_F(BisectCommand, ACommandThatCannotBeRunEndsTheSearch) {
  for (const auto& [state, words] : std::map<std::string, std::string>{
           {"crash", "ended with exit status 126"},
           {"missing", "ended with exit status 127"},
           {"killed", "was ended by signal 9"},
           {"norun", "ended with exit status 1 and left no run of that commit"}}) {
    std::filesystem::remove_all(path("repo"));
    std::vector<std::string> states(5, state);
    states[0] = "good";
    states[4] = "bad";
    const GitHistory git = make(line(states));
    record_ends(git);
    EXPECT_TRUE(bisect(ends(git) + "--run 'exec sh \"$TOP/probe.sh\"'").answers(2, {words}))
        << state;
    EXPECT_EQ(asked(), 1u);
    EXPECT_TRUE(std::filesystem::is_empty(path("tmp"))) << state;
    EXPECT_EQ(git.git({"worktree", "list"}).find("bisect-"), std::string::npos);
  }
}

TEST_F(BisectCommand, ARunOfAnotherLineageIsNoAnswer) {
  const GitHistory git = make(line(5, 2));
  record_ends(git);
  EXPECT_TRUE(bisect(ends(git) + "--run 'EXPERIMENT=other sh \"$TOP/probe.sh\"'")
                  .answers(2, {"left no run of that commit in lineage toy/"}));
}

TEST_F(BisectCommand, TheFirstCallNeedsNoDatabaseYet) {
  const GitHistory git = make(line(5, 2));
  for (const bool empty : {false, true}) {
    std::filesystem::remove(path("greta.db"));
    if (empty) write("greta.db", "");
    EXPECT_TRUE(bisect(ends(git) + kRun).answers(0, {"first bad commit  " + git.sha(2)}));
  }
  std::filesystem::remove(path("greta.db"));
  EXPECT_TRUE(bisect(ends(git) + "--run 'exit 0'").answers(2, {"left no run"}));
}

TEST_F(BisectCommand, ARunOfAnEngineWithChangesIsNotTakenForItsCommitAlone) {
  const GitHistory git = make(line(5, 2));
  record_ends(git);
  Warehouse w(database());
  w.db.exec("INSERT INTO attribute(run_id, dim, value, rank) VALUES (1, 'dirty', '1', 0)");
  EXPECT_TRUE(
      bisect(ends(git) + kRun).answers(0, {"PASS, of an engine with changes that no commit has"}));
}

TEST_F(BisectCommand, AsksWhichOfSeveralLineagesIsMeant) {
  const GitHistory git = make(line(6, 3));
  record_ends(git);
  const std::string more = "EXPERIMENT=other; export EXPERIMENT;";
  record(git.sha(0), "good", more);
  EXPECT_EQ(bisect(ends(git)).status, 3) << "one of them has both ends";
  record(git.sha(5), "bad", more);
  EXPECT_TRUE(bisect(ends(git)).answers(
      2, {"--lineage 'other/as_designed/cpu/f32/m/-'", "--lineage 'toy/as_designed/cpu/f32/m/-'"}));
  EXPECT_EQ(bisect(ends(git) + kRun + kJson + "--lineage toy/as_designed/cpu/f32/m/-")
                .json()["found"]["commit"],
            git.sha(3));
  EXPECT_TRUE(bisect(ends(git) + "--lineage toy/as_designed/cpu/f32/n/-")
                  .answers(2, {"perhaps:\n  toy/as_designed/cpu/f32/m/-"}));
}

}  // namespace
}  // namespace greta
