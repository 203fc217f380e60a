// A made history of an engine: 60 real commits with merges, probed in three modes. In some of them
// the engine has a bug: in decode, in prefill, or in both phases, which no verdict of a run shows.
// Rows are greta-infer's own, of a fault injected; that it was injected is taken out of what the
// run says of itself, as an engine does not know of its bugs (runs that say so have no lineage).
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>

#include "tests/cli/git_history.h"
#include "tests/cli/greta_infer/infer_program.h"

namespace greta {
namespace {

constexpr const char* kModes[] = {"as_designed", "kv_aligned", "batch_invariant"};

/// What a commit does to the engine, by its state.
const std::map<std::string, std::string> kFaults = {
    {"clean", ""},
    {"decode", "--inject rope_theta@decode:layer=2"},
    {"both", "--inject rope_theta@both:layer=1"},
    {"prefill", "--inject quant_scale@prefill:layer=1"}};

/// One bug: where it came, the commit before, a later one that has it, and where it went; 0: never.
struct Bug {
  size_t first, good, bad, fixed, mended;
  const char* change;
  const char* tensor;
  int layer;
};
constexpr Bug kBugs[] = {{10, 0, 19, 20, 24, "BROKEN", "q_post_rope", 2},
                         {26, 22, 35, 36, 44, "CHANGED", "q_post_rope", 1},
                         {45, 37, 59, 0, 0, "BROKEN", "q_pre_rope", 1}};

/// A line, and three branches: from before the bug in decode, merged into it; one that brings the
/// bug of both phases; from before the bug in prefill, merged into it.
std::vector<MadeCommit> made_commits() {
  const std::map<size_t, std::vector<size_t>> parents = {{11, {7}},  {13, {10}}, {15, {14, 12}},
                                                         {25, {22}}, {28, {24}}, {29, {28, 27}},
                                                         {46, {43}}, {48, {45}}, {49, {48, 47}}};
  const std::map<size_t, std::string> states = {
      {10, "decode"}, {20, "clean"}, {26, "both"}, {36, "clean"}, {45, "prefill"}};
  // A merge has what either side changed since they parted.
  const std::map<size_t, std::string> merged = {{15, "decode"}, {29, "both"}, {49, "prefill"}};
  std::vector<MadeCommit> commits;
  for (size_t i = 0; i < 60; ++i) {
    MadeCommit commit{.state = "clean", .parents = {}, .subject = ""};
    if (parents.contains(i)) {
      commit.parents = parents.at(i);
    } else if (i > 0) {
      commit.parents = {i - 1};
    }
    if (i > 0) commit.state = commits[commit.parents[0]].state;
    if (states.contains(i)) commit.state = states.at(i);
    if (merged.contains(i)) commit.state = merged.at(i);
    commits.push_back(commit);
  }
  return commits;
}

/// The text with what stands between `before` and the next quote replaced.
std::string with_value(std::string text, const std::string& before, const std::string& value) {
  const size_t begin = text.find(before);
  if (begin == std::string::npos) throw std::runtime_error("no " + before + " in " + text);
  const size_t from = begin + before.size();
  return text.replace(from, text.find('"', from) - from, value);
}

class MadeHistory : public InferProgram {
 protected:
  void SetUp() override {
    GRETA_NEEDS_GIT();
    make_model("--layers 3");
    for (const auto& [state, fault] : kFaults) {
      for (const char* mode : kModes) {
        const Result probe =
            sh("$I probe --model m.gguf --decode-steps 0 --layers all --tensors "
               "q_post_rope,attn_out,mlp_out,x_out,logits --tokens '1 2 3 4 5 6' "
               "--threads 1 --experiment toy --db probe.db --mode " +
               std::string(mode) + " --trace-jsonl made/" + state + " " + fault);
        ASSERT_LT(probe.status, 2) << probe.err;
      }
    }
    history_.emplace(path("repo"), made_commits());
    for (size_t i = 0; i < history_->size(); ++i) {
      for (const char* mode : kModes) export_run(i, mode);
    }
    write("probe.sh", R"(echo >>"$TOP/asked"
exec "$PROGRAM" --db "$GRETA_DB" ingest --quiet "$TOP/runs/$GRETA_BISECT_COMMIT/$MODE")");
  }

  /// runs/SHA/MODE: what the engine of that commit would have exported.
  void export_run(size_t commit, const std::string& mode) const {
    namespace fs = std::filesystem;
    fs::path made;
    for (const auto& entry :
         fs::recursive_directory_iterator(path("made/" + made_commits()[commit].state))) {
      if (entry.path().filename() == mode) made = entry.path();
    }
    const std::string number = std::to_string(commit + 1);
    const std::string day =
        "2026-01-" + std::string(commit < 36 ? "0" : "") + std::to_string(1 + commit / 4);
    const fs::path run = path("runs/" + history_->sha(commit) + "/" + mode + "/" + day + "/toy/" +
                              mode + "#" + number);
    fs::create_directories(run / "traces");
    for (const auto& trace : fs::directory_iterator(made / "traces")) {
      fs::create_hard_link(trace.path(), run / "traces" / trace.path().filename());
    }
    std::string text = read((made / "run.jsonl").string());
    text = with_value(text, "\"date\":\"", day);
    text =
        with_value(text, "\"started_at\":\"", day + "T0" + std::to_string(commit % 4) + ":00:00Z");
    text = with_value(text, "\"commit\":\"", history_->sha(commit));
    if (const size_t mark = text.find("\"inject\":\""); mark != std::string::npos) {
      text.erase(mark, text.find("\",", mark) + 2 - mark);
    }
    std::ofstream(run / "run.jsonl", std::ios::binary) << text;
  }

  size_t commit_of(const std::string& sha) const {
    for (size_t i = 0; i < history_->size(); ++i) {
      if (history_->sha(i) == sha) return i;
    }
    return history_->size();
  }

  /// What bisect says of a search in a database of the two ends alone.
  void expect_found(const std::string& mode, size_t good, size_t bad, size_t found,
                    bool fix) const {
    const std::string where = mode + " " + std::to_string(good) + " " + std::to_string(bad);
    std::filesystem::remove(path("sparse.db"));
    const std::string good_sha = history_->sha(good), bad_sha = history_->sha(bad);
    const Result ends = sh("$G --db sparse.db ingest --quiet runs/" + good_sha + "/" + mode +
                           " runs/" + bad_sha + "/" + mode);
    ASSERT_EQ(ends.status, 0) << ends.err;
    write("asked", "");
    const Result result =
        sh("export TOP=$PWD PROGRAM=$G MODE=" + mode +
           "; $G --db sparse.db bisect --repo repo --good " + good_sha + " --bad " + bad_sha +
           (fix ? " --fix" : "") + " --run 'sh \"$TOP/probe.sh\"' --format json");
    ASSERT_EQ(result.status, 0) << where << result.err;
    EXPECT_EQ(commit_of(result.json()["found"]["commit"]), found) << where << result.err;
    const std::string range = fix ? bad_sha + ".." + good_sha : good_sha + ".." + bad_sha;
    const double n = std::stod(history_->git({"rev-list", "--count", range}));
    EXPECT_EQ(result.json()["asked"], read(path("asked")).size()) << where;
    EXPECT_LE(result.json()["asked"], std::ceil(std::log2(n)) + 1) << where;
  }

  std::optional<GitHistory> history_;
};

TEST_F(MadeHistory, EveryBugAndFixIsFoundAndNoneIsInvented) {
  ASSERT_EQ(sh("$G commits repo && $G ingest --quiet runs").status, 0);
  EXPECT_EQ(query("SELECT count(*), count(commit_ord), count(baseline) FROM lineage"),
            "180\t180\t177\n");
  std::set<std::string> expected, said;
  for (const char* mode : kModes) {
    for (const Bug& bug : kBugs) {
      expected.insert(std::string(mode) + " " + bug.change + " " + std::to_string(bug.first) + " " +
                      bug.tensor + "@" + std::to_string(bug.layer) + " fixed " +
                      std::to_string(bug.fixed));
    }
  }
  const nlohmann::json regressions =
      sh("$G --format json query \"SELECT r.mode, g.* FROM regression g JOIN run r ON r.id ="
         " g.first_bad_id\"")
          .json();
  for (const nlohmann::json& one : regressions) {
    const std::string fixed = one["fixed_commit"].is_null() ? "" : one["fixed_commit"];
    said.insert(one["mode"].get<std::string>() + " " + one["change"].get<std::string>() + " " +
                std::to_string(commit_of(one["first_bad_commit"])) + " " +
                one["tensor"].get<std::string>() + "@" + one["layer"].dump() + " fixed " +
                std::to_string(fixed.empty() ? 0 : commit_of(fixed)));
  }
  EXPECT_EQ(said, expected);
  EXPECT_EQ(regressions.size(), expected.size());
}

TEST_F(MadeHistory, BisectFindsEveryBugAndFixInAsManyRunsAsHalvingTakes) {
  for (const char* mode : kModes) {
    for (const Bug& bug : kBugs) {
      expect_found(mode, bug.good, bug.bad, bug.first, false);
      if (bug.fixed != 0) expect_found(mode, bug.mended, bug.bad, bug.fixed, true);
    }
  }
}

}  // namespace
}  // namespace greta
