// The search through the shapes of a repository: branches, merges, shallow clones; and its work
// trees.
#include "tests/cli/child.h"
#include "tests/cli/greta_db/bisect_fixture.h"

namespace greta {
namespace {

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

}  // namespace
}  // namespace greta
