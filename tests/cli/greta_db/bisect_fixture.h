// Searches of made repositories. What probes a commit is a script that leaves the rows of two
// tensors as an engine would, as the file `state` of that commit says.
#pragma once
#include <algorithm>

#include "tests/cli/git_history.h"
#include "tests/cli/program.h"

namespace greta {

// good, bad (decode alone), changed (both phases alike), unfinished; nobuild, crash, missing,
// killed and norun leave nothing.
inline constexpr const char* kBisectProbe = R"sh(#!/bin/sh
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
    write("probe.sh", kBisectProbe);
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

}  // namespace greta
