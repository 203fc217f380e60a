// The search through the shapes of a repository: branches, merges, shallow clones; and its work
// trees.
#include "tests/cli/child.h"
#include "tests/cli/greta_db/bisect_fixture.h"

namespace greta {
namespace {

TEST_F(BisectCommand, RefusesRevisionsAndFoldersThatAreNone) {
  const GitHistory git = make(line(6, 3));
  record_ends(git);
  EXPECT_TRUE(
      bisect("--good mian --bad " + git.sha(5)).answers(2, {"no commit 'mian'; perhaps:\n  main"}));
  EXPECT_EQ(bisect("--good --all --bad main").status, 2);
  EXPECT_EQ(bisect("--good main").status, 2);
  const Result folder = shell("$G bisect --repo nosuch --good a --bad b");
  EXPECT_EQ(folder.status, 2);
  EXPECT_TRUE(folder.says("nosuch is no folder"));
  EXPECT_TRUE(shell("PATH=/nowhere $G bisect --repo repo --good a --bad b")
                  .answers(2, {"git is not installed"}));
  EXPECT_TRUE(
      shell("mkdir empty; GIT_CEILING_DIRECTORIES=$PWD $G bisect --repo empty --good a --bad b")
          .answers(2, {"git finds no repository in"}));
}

TEST_F(BisectCommand, LeavesTheUsersWorkTreeIndexHeadAndRefsAsTheyAre) {
  const GitHistory git = make(line(12, 4));
  record_ends(git);
  write("repo/state", "edited\n");
  write("repo/new", "untracked\n");
  write("repo/staged", "staged\n");
  git.git({"add", "staged"});
  git.git({"checkout", "--quiet", "-b", "topic"});
  git.git({"bisect", "start", "--no-checkout", "main~1", "main~9"});
  write("repo/.git/hooks/post-checkout", "#!/bin/sh\ntouch " + path("hooked") + "\n");
  std::filesystem::permissions(path("repo/.git/hooks/post-checkout"), std::filesystem::perms::all);
  const auto all = [&] {
    return git.git({"status", "--porcelain=v2", "--branch"}) + git.git({"show-ref", "--head"}) +
           git.git({"diff"}) + git.git({"reflog"}) + git.git({"worktree", "list"}) +
           git.git({"bisect", "log"}) + git.git({"symbolic-ref", "HEAD"}) +
           read(path("repo/.git/index"));
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
  EXPECT_TRUE(mended.says("the merge base") && mended.says("was fixed there"));
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
    EXPECT_EQ(git.git({"worktree", "list"}).find("/bisect "), std::string::npos);
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
  EXPECT_TRUE(shell("$G bisect --repo cut " + ends).answers(2, {"git fetch --unshallow"}));
  const Result commits = shell("$G commits cut");
  EXPECT_EQ(commits.status, 0);
  EXPECT_TRUE(commits.says("git fetch --unshallow"));
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
  EXPECT_TRUE(result.says("undecided"));
  EXPECT_TRUE(result.says("git fetch --unshallow"));
  EXPECT_FALSE(result.says("first bad commit"));
}

TEST_F(BisectCommand, TheWorkTreeOfOneThatWasKilledDoesNotStay) {
  const GitHistory git = make(line(5, 2));
  record_ends(git);
  std::filesystem::create_directory(path("tmp"));
  Child child(
      {GRETA_DB_PROGRAM, "--db", database(), "bisect", "--repo", path("repo"), "--good", git.sha(0),
       "--bad", git.sha(4), "--run",
       "touch " + path("began") + "; while [ ! -e " + path("stop") + " ]; do sleep 0.01; done"},
      path(".err"), [&] { setenv("TMPDIR", path("tmp").c_str(), 1); });
  ASSERT_TRUE(child.until([&] { return std::filesystem::exists(path("began")); }));
  EXPECT_EQ(bisect(ends(git)).status, 3);
  EXPECT_NE(git.git({"worktree", "list"}).find("/bisect "), std::string::npos);
  child.send(SIGKILL);
  child.wait();
  write("stop", "");
  EXPECT_FALSE(std::filesystem::is_empty(path("tmp")));
  EXPECT_EQ(bisect(ends(git)).status, 3) << "any later search of that repository";
  EXPECT_TRUE(std::filesystem::is_empty(path("tmp")));
  EXPECT_EQ(git.git({"worktree", "list"}).find("/bisect "), std::string::npos);
}

TEST_F(BisectCommand, SearchesABareRepository) {
  const GitHistory git = make(line(8, 5));
  record_ends(git);
  ASSERT_EQ(shell("git clone --quiet --bare repo bare").status, 0);
  const Result result = shell(variables() + "$G bisect --repo bare " + ends(git) + kRun + kJson);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.json()["found"]["commit"], git.sha(5));
}

// 1 of the branch has no run, the merge and what follows it are bad as 5 is.
TEST_F(BisectCommand, GitBisectRunAsksRecordedRunsByTheGate) {
  const GitHistory git = make(with_a_branch());
  for (const size_t i : {0, 1, 2, 4, 5, 6, 7}) record(git.sha(i), state_of(git, i));
  const std::string by_git =
      variables() +
      "cd repo; export GRETA_DB=$TOP/greta.db; git bisect start main main~2 >../said; " +
      "git bisect run $G gate --commit HEAD --recorded >>../said";
  Result result = shell(by_git);
  EXPECT_EQ(result.status, 2) << result.err;
  std::string said = read(path("said"));
  EXPECT_NE(said.find("only 'skip'ped commits left"), std::string::npos) << said << result.err;
  EXPECT_NE(said.find(git.sha(3)), std::string::npos) << said;
  EXPECT_NE(said.find(git.sha(4)), std::string::npos) << said;
  EXPECT_TRUE(result.says("no run of commit " + git.sha(3)));
  record(git.sha(3), "good", "DIGITS=9; export DIGITS;");
  result = shell("cd repo; git bisect reset; cd ..;" + by_git);
  EXPECT_EQ(result.status, 0) << result.err;
  said = read(path("said"));
  EXPECT_NE(said.find(git.sha(4) + " is the first bad commit"), std::string::npos) << said;
}

TEST_F(BisectCommand, TheGateOfACommitAnswersAsItsRunsDo) {
  const GitHistory git = make(line({"good", "bad", "unfinished", "norun", "changed"}));
  for (const size_t i : {0, 1, 2, 4}) record(git.sha(i), state_of(git, i));
  const auto status = [&](const std::string& words) {
    return shell("cd repo; $G --db ../greta.db gate " + words).status;
  };
  EXPECT_EQ(status("--commit main~4 --recorded"), 0);
  EXPECT_EQ(status("--commit main~3 --recorded"), 1);
  EXPECT_EQ(status("--commit main~2 --recorded"), 125);
  EXPECT_EQ(status("--commit main~3"), 1);
  EXPECT_EQ(status("--commit main~1 --recorded"), 125);
  EXPECT_EQ(status("--commit main~1"), 2);
  EXPECT_EQ(status("--commit main~4 --recorded --lineage toy/as_designed/cpu/f32/m/-"), 0);
  EXPECT_EQ(status("--commit main~4 --recorded --lineage other"), 125);
  EXPECT_EQ(status("--commit main --baseline 2026-01-01/toy/as_designed#1"), 1);
  EXPECT_EQ(status("--commit main --recorded"), 0) << "its own verdict";
  EXPECT_EQ(status("--commit main --recorded --baseline 2026-01-01/toy/as_designed#1"), 1)
      << "what changed since";
  for (const char* wrong :
       {"--commit mian --recorded", "--commit main~4 --recorded --nosuch",
        "--commit main~4 --recorded --baseline nosuch", "--recorded",
        "--commit main~4 --recorded --json nosuch/x", "--commit main~4 --run x --recorded",
        "--commit main~4 --latest --recorded"}) {
    EXPECT_EQ(status(wrong), 128) << wrong;
  }
  EXPECT_EQ(shell("$G --db repo/nosuch.db gate --commit main --recorded").status, 128);
  EXPECT_EQ(shell("cd repo; PATH=/nowhere $G gate --commit main --recorded").status, 128);
  EXPECT_EQ(status(""), 2);
}

}  // namespace
}  // namespace greta
