// The search through real git repositories. What probes a commit is a script that leaves the rows
// of two tensors as an engine would, as the file `state` of that commit says.
#include <algorithm>
#include <map>

#include "tests/cli/child.h"
#include "tests/cli/git_history.h"
#include "tests/cli/program.h"

namespace greta {
namespace {

using Json = nlohmann::json;

// good, bad (decode alone), changed (both phases alike), unfinished; nobuild, crash, missing,
// killed and norun leave nothing.
constexpr const char* kProbe = R"sh(#!/bin/sh
set -eu
cd "$GRETA_BISECT_TREE"
state=$(cat state)
echo "$GRETA_BISECT_COMMIT" >>"$TOP/asked"
echo >>"$TOP/all"
n=$(wc -l <"$TOP/all")
x=1 d=1 end=1
case $state in
  bad) d=9 ;;
  changed) x=5 ;;
  unfinished) end=0 ;;
  nobuild) exit 125 ;;
  crash) exit 126 ;;
  missing) exit 127 ;;
  killed) kill -9 $$ ;;
  norun) exit 1 ;;
esac
echo built >product
r=$TOP/export.$n/2026-01-01/${EXPERIMENT:-toy}/as_designed#$n
mkdir -p "$r/traces"
{ echo '{"event":"run_start","experiment":"'${EXPERIMENT:-toy}'","date":"2026-01-01","attributes":{"mode":"as_designed","dtype":"f32","backend":"cpu","model":"m","commit":"'"$(echo $GRETA_BISECT_COMMIT | cut -c1-${DIGITS:-40})"'"}}'
  echo '{"event":"run_prompt","prompt_id":"p0","n_tokens":2,"plan":[{"layer":0,"points":["attn_out"],"side":"prefill"},{"layer":1,"points":["x_out"],"side":"prefill"},{"layer":0,"points":["attn_out"],"side":"decode"},{"layer":1,"points":["x_out"],"side":"decode"}]}'
  [ $end = 0 ] || echo '{"event":"run_end","status":"complete","rows":4}'
} >"$r/run.jsonl"
row() {
  echo '{"event":"stage_trace","prompt_id":"p0","phase":"'$1'","point":"'$2'","layer":'$3',"pos_id":1,"token_id":7,"hash_algo":"greta-1","n":4,"hash":'$(($4 * 1000 + $3))',"nan":0,"inf":0,"sample_n":4,"sample":['$4',2,3,4]}'
}
{ row prefill_last attn_out 0 1; row prefill_last x_out 1 $x; row decode0 attn_out 0 $d; row decode0 x_out 1 $x; } >"$r/traces/p0_trace.jsonl"
"$PROGRAM" --db "$GRETA_DB" ingest --quiet "$TOP/export.$n"
)sh";

class BisectCommand : public ProgramTest {
 protected:
  void SetUp() override {
    GRETA_NEEDS_GIT();
    write("probe.sh", kProbe);
    write("asked", "");
  }

  /// One commit after the other, each with the state of its place.
  static std::vector<MadeCommit> line(const std::vector<std::string>& states) {
    std::vector<MadeCommit> commits;
    for (const std::string& state : states) {
      commits.push_back({.state = state, .parents = {}, .subject = ""});
      if (commits.size() > 1) commits.back().parents = {commits.size() - 2};
    }
    return commits;
  }
  /// n commits, good before `first`.
  static std::vector<MadeCommit> line(size_t n, size_t first, const std::string& then = "bad") {
    std::vector<std::string> states(n, "good");
    std::fill(states.begin() + static_cast<long>(first), states.end(), then);
    return line(states);
  }
  GitHistory make(const std::vector<MadeCommit>& commits) const { return {path("repo"), commits}; }

  std::string variables() const {
    return "export TOP=" + quoted(folder_.path().string()) +
           " PROGRAM=" + quoted(GRETA_DB_PROGRAM) + " TMPDIR=" + quoted(path("tmp")) +
           "; mkdir -p tmp; ";
  }
  /// A run of that commit, as if it had this state.
  void record(const std::string& commit, const std::string& state,
              const std::string& more = "") const {
    const Result result = shell(variables() + more + " mkdir -p t; echo " + state + " >t/state;" +
                                " GRETA_BISECT_TREE=$TOP/t GRETA_BISECT_COMMIT=" + commit +
                                " GRETA_DB=$TOP/greta.db sh probe.sh");
    ASSERT_EQ(result.status, 0) << result.err;
  }
  void record_ends(const GitHistory& git) const {
    record(git.sha(0), "good");
    record(git.sha(git.size() - 1), state_of(git, git.size() - 1));
    write("asked", "");
  }
  static std::string state_of(const GitHistory& git, size_t commit) {
    const std::string text = git.git({"show", git.sha(commit) + ":state"});
    return text.substr(0, text.find('\n'));
  }
  size_t asked() const {
    const std::string text = read(path("asked"));
    return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  }

  Result bisect(const std::string& words) const {
    return shell(variables() + "$G bisect --repo repo " + words);
  }
  /// From the first to the last commit.
  static std::string ends(const GitHistory& git) {
    return "--good " + git.sha(0) + " --bad " + git.sha(git.size() - 1) + " ";
  }
  static constexpr const char* kRun = "--run 'sh \"$TOP/probe.sh\"' ";
  static constexpr const char* kJson = "--format json ";
};

TEST_F(BisectCommand, FindsTheFirstBadCommitInAsManyRunsAsHalvingTakes) {
  for (const size_t first : {1, 2, 17, 32, 38, 39}) {
    std::filesystem::remove_all(path("repo"));
    std::filesystem::remove(database());
    const GitHistory git = make(line(40, first));
    record_ends(git);
    const Result result = bisect(ends(git) + kRun + kJson);
    ASSERT_EQ(result.status, 0) << result.err;
    const Json said = result.json();
    EXPECT_EQ(said["status"], "found");
    EXPECT_EQ(said["by"], "verdict");
    EXPECT_EQ(said["found"]["commit"], git.sha(first));
    EXPECT_EQ(said["found"]["tensor"], "attn_out");
    EXPECT_EQ(said["found"]["layer"], 0);
    EXPECT_EQ(said["asked"], asked());
    EXPECT_LE(asked(), 6u) << first;  // of 39 candidates
  }
}

TEST_F(BisectCommand, SaysWhereWhatWasFoundPartsAndWhichRunsSaySo) {
  const GitHistory git = make(line(8, 5));
  record_ends(git);
  const Result result = bisect(ends(git) + kRun + "--log log");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(result.says("first bad commit  " + git.sha(5) +
                          "\n  subject  commit 5\n"
                          "  date     2026-01-01T05:00:00+00:00\n  authored 2026-01-01T05"))
      << result.out;
  EXPECT_TRUE(result.says("prefill and decode at layer 0, attn_out, prompt p0, pos 1"));
  EXPECT_TRUE(result.says("  run      2026-01-01/toy/as_designed#"));
  EXPECT_TRUE(result.says("of " + git.sha(4).substr(0, 12)));
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
  const Result empty = bisect(ends(git));
  EXPECT_EQ(empty.status, 2) << "there is no database";
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
  const Result result = bisect(ends(git));
  EXPECT_EQ(result.status, 3);
  EXPECT_TRUE(result.says("next     " + git.sha(0))) << result.out;
  EXPECT_TRUE(result.says("has no run")) << result.out;
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

TEST_F(BisectCommand, PassesOverWhatDoesNotBuild) {
  std::vector<std::string> states(16, "good");
  std::fill(states.begin() + 11, states.end(), "bad");
  states[7] = states[8] = "nobuild";
  const GitHistory git = make(line(states));
  record_ends(git);
  const Result result = bisect(ends(git) + kRun + kJson);
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.json()["found"]["commit"], git.sha(11));
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
  const Result end = bisect(ends(git) + "--skip " + git.sha(8));
  EXPECT_EQ(end.status, 2);
  EXPECT_TRUE(end.says("cannot be skipped"));
}

TEST_F(BisectCommand, GoesOnFromItsLogAfterItWasKilled) {
  const GitHistory git = make(line(40, 23));
  record_ends(git);
  // The third probe kills greta-db, which is the parent of its shell's group.
  const Result killed =
      shell(variables() + "(exec $G bisect --repo repo " + ends(git) +
            "--log log --run 'if [ $(wc -l <\"$TOP/asked\") = 2 ]; then kill -9 $PPID; exit 1; fi;"
            " sh \"$TOP/probe.sh\"')");
  EXPECT_EQ(killed.status, 128 + 9);
  const std::string log = read(path("log"));
  EXPECT_NE(log.find("good-end " + git.sha(0) + "\n"), std::string::npos) << log;
  EXPECT_NE(log.find("bad-end " + git.sha(39) + "\n"), std::string::npos) << log;
  EXPECT_NE(log.find("# commit "), std::string::npos) << log;
  const Result result = bisect("--log log " + std::string(kRun) + kJson);
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.json()["found"]["commit"], git.sha(23));
  EXPECT_LE(asked(), 7u);
  EXPECT_NE(read(path("log")).find("\nfound " + git.sha(23)), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path("log.new")));
}

TEST_F(BisectCommand, KeepsAnswersOfRunsThatAreGoneInItsLog) {
  const GitHistory git = make(line(12, 4));
  record_ends(git);
  ASSERT_EQ(bisect(ends(git) + kRun + "--log log").status, 0);
  ASSERT_GT(asked(), 0u);
  ASSERT_EQ(run({"forget", "--yes", "--run", "toy"}).status, 0);
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
  const Result other = bisect("--log log --good " + git.sha(1));
  EXPECT_EQ(other.status, 2);
  EXPECT_TRUE(other.says("log is the log of another search: its good end is " + git.sha(0)))
      << other.err;
  EXPECT_EQ(bisect("--log log --first-parent").status, 2);
  EXPECT_EQ(bisect("--log log --gate strict").status, 2);
  EXPECT_EQ(bisect("--log log --gate numeric").status, 3);
  write("nolog", "good-end " + git.sha(0) + "\nwhat is this\n");
  const Result none = bisect("--log nolog");
  EXPECT_EQ(none.status, 2);
  EXPECT_TRUE(none.says("nolog:2 is no line of a bisect's log")) << none.err;
}

TEST_F(BisectCommand, SaysWhenTheEndsAreTheWrongWayRound) {
  const GitHistory git = make(line(10, 5));
  record_ends(git);
  const Result swapped = bisect("--bad " + git.sha(0) + " --good " + git.sha(9));
  EXPECT_EQ(swapped.status, 2);
  EXPECT_TRUE(swapped.says("comes before the good one")) << swapped.err;
  const Result same = bisect("--bad " + git.sha(9) + " --good main");
  EXPECT_EQ(same.status, 2);
  EXPECT_TRUE(same.says("name the same commit")) << same.err;
}

TEST_F(BisectCommand, SaysWhenTheGoodEndFailsAndTheBadOnePasses) {
  std::vector<std::string> states(10, "good");
  std::fill(states.begin(), states.begin() + 4, "bad");
  const GitHistory git = make(line(states));
  record(git.sha(0), "bad");
  record(git.sha(9), "good");
  const Result swapped = bisect(ends(git));
  EXPECT_EQ(swapped.status, 2);
  EXPECT_TRUE(swapped.says("wrong way round")) << swapped.err;
  EXPECT_TRUE(swapped.says("swap them and add --fix")) << swapped.err;
  const Result fix =
      bisect("--fix --bad " + git.sha(0) + " --good " + git.sha(9) + " " + kRun + kJson);
  ASSERT_EQ(fix.status, 0) << fix.err;
  EXPECT_EQ(fix.json()["found"]["commit"], git.sha(4));
}

TEST_F(BisectCommand, HasNothingToFindWhereBothEndsAreAlike) {
  const GitHistory git = make(line(6, 6));
  record_ends(git);
  const Result result = bisect(ends(git));
  EXPECT_EQ(result.status, 3);
  EXPECT_TRUE(result.says("nothing to bisect")) << result.out;
}

TEST_F(BisectCommand, RefusesRevisionsAndFoldersThatAreNone) {
  const GitHistory git = make(line(6, 3));
  record_ends(git);
  const Result unknown = bisect("--good mian --bad " + git.sha(5));
  EXPECT_EQ(unknown.status, 2);
  EXPECT_TRUE(unknown.says("no commit 'mian'; perhaps:\n  main")) << unknown.err;
  EXPECT_EQ(bisect("--good --all --bad main").status, 2);
  EXPECT_EQ(bisect("--good main").status, 2);
  const Result folder = shell("$G bisect --repo nosuch --good a --bad b");
  EXPECT_EQ(folder.status, 2);
  EXPECT_TRUE(folder.says("nosuch is no folder")) << folder.err;
  const Result no_git =
      shell("mkdir empty; GIT_CEILING_DIRECTORIES=$PWD $G bisect --repo empty --good a --bad b");
  EXPECT_EQ(no_git.status, 2);
  EXPECT_TRUE(no_git.says("git finds no repository in")) << no_git.err;
}

TEST_F(BisectCommand, LeavesTheUsersWorkTreeIndexHeadAndRefsAsTheyAre) {
  const GitHistory git = make(line(12, 4));
  record_ends(git);
  write("repo/state", "edited\n");
  write("repo/new", "untracked\n");
  write("repo/staged", "staged\n");
  git.git({"add", "staged"});
  git.git({"checkout", "--quiet", "-b", "topic"});
  write("repo/.git/hooks/post-checkout", "#!/bin/sh\ntouch " + path("hooked") + "\n");
  std::filesystem::permissions(path("repo/.git/hooks/post-checkout"), std::filesystem::perms::all);
  const auto all = [&] {
    return git.git({"status", "--porcelain=v2", "--branch"}) + git.git({"show-ref", "--head"}) +
           git.git({"diff"}) + git.git({"reflog"}) + git.git({"worktree", "list"}) +
           git.git({"symbolic-ref", "HEAD"}) + read(path("repo/.git/index"));
  };
  const std::string before = all();
  git.git({"config", "core.fsmonitor", "touch " + path("hooked") + "; false"});
  ASSERT_EQ(bisect(ends(git) + kRun).status, 0);
  EXPECT_GT(asked(), 0u);
  git.git({"config", "--unset", "core.fsmonitor"});
  EXPECT_EQ(all(), before);
  EXPECT_FALSE(std::filesystem::exists(path("hooked")));
  EXPECT_TRUE(std::filesystem::is_empty(path("tmp")));
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
  EXPECT_TRUE(end.says("runs of the good end") && end.says("disagree")) << end.out;
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
  EXPECT_TRUE(next.says("next     ")) << next.out;
  const Result result = bisect(ends(git) + kRun + kJson);
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(result.json()["possible"].size(), 11u);
  EXPECT_TRUE(result.says("is INCOMPLETE"));
}

/// 0 - 1 - 2 ------- 6 - 7, where 6 merges 3 - 4 - 5, which began at 1: bad from 4 on.
std::vector<MadeCommit> with_a_branch() {
  return {{"good", {}, ""}, {"good", {0}, ""}, {"good", {1}, ""},   {"good", {1}, ""},
          {"bad", {3}, ""}, {"bad", {4}, ""},  {"bad", {2, 5}, ""}, {"bad", {6}, ""}};
}

TEST_F(BisectCommand, FindsACommitOfABranchAndItsMergeByFirstParents) {
  const GitHistory git = make(with_a_branch());
  record_ends(git);
  EXPECT_EQ(bisect(ends(git) + kRun + kJson).json()["found"]["commit"], git.sha(4));
  EXPECT_EQ(bisect(ends(git) + kRun + kJson + "--first-parent").json()["found"]["commit"],
            git.sha(6));
}

// Of the commits that halve the candidates best there may be several.
TEST_F(BisectCommand, HalvesAHistoryWithMergesAsWellAsGitDoes) {
  uint32_t random = 1;
  const auto next = [&random](size_t n) {
    random = random * 1'664'525 + 1'013'904'223;
    return (random >> 16) % n;
  };
  std::vector<MadeCommit> commits{{"good", {}, ""}};
  for (size_t i = 1; i < 80; ++i) {
    MadeCommit commit{
        .state = "good", .parents = {i - 1 - next(std::min<size_t>(i, 6))}, .subject = ""};
    const size_t other = i - 1 - next(std::min<size_t>(i, 6));
    if (next(3) == 0 && other != commit.parents[0]) commit.parents.push_back(other);
    commits.push_back(commit);
  }
  commits.push_back({.state = "bad", .parents = {79, 78, 77, 76}, .subject = ""});
  const GitHistory git = make(commits);
  record_ends(git);
  std::string good = git.sha(0);
  for (int step = 0; step < 4; ++step) {
    const std::string end = git.sha(80);
    const Result result = bisect("--good " + good + " --bad " + end + " " + kJson);
    ASSERT_EQ(result.status, 3) << result.err;
    const auto count = [&](const std::string& of) {
      return std::stol(git.git({"rev-list", "--count", of, "^" + good}));
    };
    const auto worse = [&](const std::string& commit) {
      return std::max(count(commit), count(end) - count(commit));
    };
    const std::string chosen = result.json()["next"]["commit"];
    const std::string by_git = git.git({"rev-list", "--bisect", end, "^" + good});
    EXPECT_EQ(worse(chosen), worse(by_git.substr(0, 40))) << step;
    good = chosen;
    record(good, "good");
  }
}

TEST_F(BisectCommand, TestsWhereTheEndsPartedWhenTheGoodOneIsNoAncestor) {
  const GitHistory git = make(with_a_branch());
  record(git.sha(2), "good");
  record(git.sha(5), "bad");
  const std::string words = "--good " + git.sha(2) + " --bad " + git.sha(5) + " ";
  const Result next = bisect(words + kJson);
  EXPECT_EQ(next.status, 3);
  EXPECT_EQ(next.json()["next"]["commit"], git.sha(1));
  EXPECT_EQ(bisect(words + kRun + kJson).json()["found"]["commit"], git.sha(4));
  std::filesystem::remove(database());
  record(git.sha(2), "good");
  record(git.sha(5), "bad");
  record(git.sha(1), "bad");
  const Result mended = bisect(words);
  EXPECT_EQ(mended.status, 3);
  EXPECT_TRUE(mended.says("the merge base") && mended.says("was mended there")) << mended.out;
}

TEST_F(BisectCommand, ACommandThatCannotBeRunEndsTheSearch) {
  for (const auto& [state, words] : std::map<std::string, std::string>{
           {"crash", "ended with exit status 126: it cannot be run"},
           {"missing", "ended with exit status 127: it was not found"},
           {"killed", "was ended by signal 9"},
           {"norun", "ended with exit status 1 and left no run of that commit"}}) {
    std::filesystem::remove_all(path("repo"));
    std::vector<std::string> states(5, state);
    states[0] = "good";
    states[4] = "bad";
    const GitHistory git = make(line(states));
    record_ends(git);
    const Result result = bisect(ends(git) + "--run 'exec sh \"$TOP/probe.sh\"'");
    EXPECT_EQ(result.status, 2) << state;
    EXPECT_TRUE(result.says(words)) << result.err;
    EXPECT_EQ(asked(), 1u);
    EXPECT_TRUE(std::filesystem::is_empty(path("tmp"))) << state;
    EXPECT_EQ(git.git({"worktree", "list"}).find("bisect-"), std::string::npos);
  }
}

TEST_F(BisectCommand, SaysWhichRunsWereLeftInstead) {
  const GitHistory git = make(line(5, 2));
  record_ends(git);
  const Result result = bisect(ends(git) + "--run 'EXPERIMENT=other sh \"$TOP/probe.sh\"'");
  EXPECT_EQ(result.status, 2);
  EXPECT_TRUE(result.says("it left 2026-01-01/other/as_designed#")) << result.err;
}

TEST_F(BisectCommand, ASignalRemovesTheWorkTreeAndEndsTheCommand) {
  const GitHistory git = make(line(5, 2));
  record_ends(git);
  std::filesystem::create_directory(path("tmp"));
  for (const int signal : {SIGINT, SIGTERM}) {
    std::filesystem::remove(path("began"));
    Child child({GRETA_DB_PROGRAM, "--db", database(), "bisect", "--repo", path("repo"), "--good",
                 git.sha(0), "--bad", git.sha(4), "--run",
                 "trap 'touch " + path("told") + "; exit 1' INT TERM; touch " + path("began") +
                     "; while :; do sleep 0.01; done"},
                path(".err"), [&] { setenv("TMPDIR", path("tmp").c_str(), 1); });
    ASSERT_TRUE(child.until([&] { return std::filesystem::exists(path("began")); }));
    child.send(signal);
    EXPECT_EQ(child.wait(), 128 + signal);
    EXPECT_TRUE(std::filesystem::remove(path("told")));
    EXPECT_TRUE(std::filesystem::is_empty(path("tmp")));
    EXPECT_EQ(git.git({"worktree", "list"}).find("bisect-"), std::string::npos);
  }
}

TEST_F(BisectCommand, AShallowCloneIsNotConcludedFrom) {
  const GitHistory git = make(line(8, 2));
  record_ends(git);
  record(git.sha(5), "bad");
  // the last three commits, and a branch that leads around what was left out
  shell("git -C repo branch old " + git.sha(0) +
        " && git clone --quiet --depth 3 file://$PWD/repo cut");
  const std::string ends = "--good " + git.sha(0) + " --bad " + git.sha(7);
  const Result unknown = shell("$G bisect --repo cut " + ends);
  EXPECT_EQ(unknown.status, 2);
  EXPECT_TRUE(unknown.says("git fetch --unshallow")) << unknown.err;
  const Result commits = shell("$G commits cut");
  EXPECT_EQ(commits.status, 0);
  EXPECT_TRUE(commits.says("git fetch --unshallow")) << commits.err;
  EXPECT_FALSE(shell("$G commits repo").says("--unshallow"));
}

TEST_F(BisectCommand, ACommitAtTheCutOfAShallowCloneIsNotFound) {
  // 0 - 1 - 2 - 3 - 6 and 0 - 4 - 5 - 6: what broke it lies in the part of the branch that is cut
  std::vector<MadeCommit> commits = line({"good", "good", "good", "good", "bad", "bad", "bad"});
  commits[4].parents = {0};
  commits[6].parents = {3, 5};
  const GitHistory git = make(commits);
  record(git.sha(0), "good");
  record(git.sha(3), "good");
  record(git.sha(5), "bad");
  record(git.sha(6), "bad");
  ASSERT_EQ(shell("git clone --quiet --depth 2 file://$PWD/repo cut").status, 0);
  const Result result = shell("$G bisect --repo cut --good " + git.sha(3) + " --bad " + git.sha(6));
  EXPECT_EQ(result.status, 3) << result.out << result.err;
  EXPECT_TRUE(result.says("undecided")) << result.out;
  EXPECT_TRUE(result.says("git fetch --unshallow")) << result.out;
  EXPECT_FALSE(result.says("first bad commit")) << result.out;
}

TEST_F(BisectCommand, TheFirstCallNeedsNoDatabaseYet) {
  const GitHistory git = make(line(5, 2));
  for (const bool empty : {false, true}) {
    std::filesystem::remove(path("greta.db"));
    if (empty) write("greta.db", "");
    const Result result = bisect(ends(git) + kRun);
    EXPECT_EQ(result.status, 0) << result.out << result.err;
    EXPECT_TRUE(result.says("first bad commit  " + git.sha(2))) << result.out;
  }
  std::filesystem::remove(path("greta.db"));
  const Result none = bisect(ends(git) + "--run 'exit 0'");
  EXPECT_EQ(none.status, 2);
  EXPECT_TRUE(none.says("left no run")) << none.err;
}

TEST_F(BisectCommand, AnEndThatIsSkippedIsNotInTheLog) {
  const GitHistory git = make(line(5, 2));
  record_ends(git);
  EXPECT_EQ(bisect(ends(git) + "--log l --skip " + git.sha(4)).status, 2);
  const Result after = bisect(ends(git) + "--log l " + kRun);
  EXPECT_EQ(after.status, 0) << after.out << after.err;
}

TEST_F(BisectCommand, TheWorkTreeOfOneThatWasKilledDoesNotStay) {
  const GitHistory git = make(line(5, 2));
  record_ends(git);
  std::filesystem::create_directory(path("tmp"));
  Child child(
      {GRETA_DB_PROGRAM, "--db", database(), "bisect", "--repo", path("repo"), "--good", git.sha(0),
       "--bad", git.sha(4), "--log", path("l"), "--run",
       "touch " + path("began") + "; while [ ! -e " + path("stop") + " ]; do sleep 0.01; done"},
      path(".err"), [&] { setenv("TMPDIR", path("tmp").c_str(), 1); });
  ASSERT_TRUE(child.until([&] { return std::filesystem::exists(path("began")); }));
  const Result meanwhile = bisect("--log l " + std::string(kRun));
  EXPECT_EQ(meanwhile.status, 2) << meanwhile.out;
  EXPECT_TRUE(meanwhile.says("is in use")) << meanwhile.err;
  child.send(SIGKILL);
  child.wait();
  write("stop", "");
  EXPECT_FALSE(std::filesystem::is_empty(path("tmp")));
  const Result result = bisect("--log l " + std::string(kRun));
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_TRUE(std::filesystem::is_empty(path("tmp")));
  EXPECT_EQ(git.git({"worktree", "list"}).find("bisect-"), std::string::npos);
  EXPECT_EQ(read(path("l")).find("\ntree "), std::string::npos);
}

TEST_F(BisectCommand, ARunThatContradictsWhatIsFoundIsNotPassedOver) {
  const GitHistory git =
      make(line({"good", "good", "bad", "good", "good", "bad", "bad", "bad", "bad"}));
  record_ends(git);
  for (size_t i : {2u, 3u, 4u, 5u, 6u}) record(git.sha(i), state_of(git, i));
  const Result result = bisect(ends(git));
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_TRUE(result.says("it turned more than once")) << result.out;
  const GitHistory plain(path("plain"), line(9, 5));
  EXPECT_FALSE(
      shell(variables() + "$G bisect --repo plain " + ends(plain) + kRun).says("more than once"));
}

TEST_F(BisectCommand, ARunOfAnEngineWithChangesIsNotTakenForItsCommitAlone) {
  const GitHistory git = make(line(5, 2));
  record_ends(git);
  Warehouse w(database());
  w.db.exec("INSERT INTO attribute(run_id, dim, value, rank) VALUES (1, 'dirty', '1', 0)");
  const Result result = bisect(ends(git) + kRun);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(result.says("PASS, of an engine with changes that no commit has")) << result.out;
}

TEST_F(BisectCommand, AsksWhichOfSeveralLineagesIsMeant) {
  const GitHistory git = make(line(6, 3));
  record_ends(git);
  const std::string more = "EXPERIMENT=other; export EXPERIMENT;";
  record(git.sha(0), "good", more);
  EXPECT_EQ(bisect(ends(git)).status, 3) << "one of them has both ends";
  record(git.sha(5), "bad", more);
  const Result several = bisect(ends(git));
  EXPECT_EQ(several.status, 2);
  EXPECT_TRUE(several.says("--lineage 'other/as_designed/cpu/f32/m/-'")) << several.err;
  EXPECT_TRUE(several.says("--lineage 'toy/as_designed/cpu/f32/m/-'")) << several.err;
  EXPECT_EQ(bisect(ends(git) + kRun + kJson + "--lineage toy/as_designed/cpu/f32/m/-")
                .json()["found"]["commit"],
            git.sha(3));
  const Result wrong = bisect(ends(git) + "--lineage toy/as_designed/cpu/f32/n/-");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_TRUE(wrong.says("perhaps:\n  toy/as_designed/cpu/f32/m/-")) << wrong.err;
}

}  // namespace
}  // namespace greta
