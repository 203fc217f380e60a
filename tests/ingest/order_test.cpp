// What the views say does not depend on the order in which files arrive, nor on how their lines are
// dealt over files.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/ingest/ingest_fixture.h"

namespace greta {
namespace {

using Random = std::mt19937_64;

size_t below(Random& random, size_t n) { return static_cast<size_t>(random() % n); }

template <class T>
const T& one_of(Random& random, const std::vector<T>& all) {
  return all[below(random, all.size())];
}

/// A file of a made tree. Lines of those that may be dealt are whole in themselves.
struct MadeFile {
  fs::path path;
  std::vector<std::string> lines;
  bool may_be_dealt = false;
};

/// A row of a trace, often one that was there before or contradicts it.
std::string trace_line(Random& random) {
  static const std::vector<std::string> kPrompts = {"p0", "p1", "p10", "p2"};
  static const std::vector<std::string> kPhases = {"prefill_last", "prefill", "decode0", "decode"};
  static const std::vector<std::string> kNames = {
      "x_in", "attn_out", "residual_post_mlp", "ffn_norm", "logits", "zeta", "Alpha", "alpha",
      "mu",   "rms_in"};
  static const std::vector<std::string> kMore = {"",
                                                 "",
                                                 "",
                                                 "",
                                                 R"(,"token_id":7)",
                                                 R"(,"token_id":8)",
                                                 R"(,"hash_algo":"greta-1","n":256)",
                                                 R"(,"sample":[1,2,3])",
                                                 R"(,"sample":[1,2,4])",
                                                 R"(,"nan":1)",
                                                 R"(,"route":"MFMA")",
                                                 R"(,"note":"first")",
                                                 R"(,"mean":0.5)",
                                                 R"(,"kv_pos":3)"};
  const bool is_prefill = below(random, 2) == 0;
  const std::string& phase = kPhases[(is_prefill ? 0 : 2) + (below(random, 5) == 0)];
  return R"({"event":"stage_trace","prompt_id":")" + one_of(random, kPrompts) + R"(","phase":")" +
         phase + R"(","point":")" + one_of(random, kNames) + R"(","layer":)" +
         std::to_string(below(random, 2)) + R"(,"step":)" + (is_prefill ? "0" : "1") +
         R"(,"pos_id":)" + std::to_string(3 + below(random, 2)) + R"(,"sample_n":256,"hash":)" +
         std::to_string(10 + (below(random, 4) == 0)) + one_of(random, kMore) + "}";
}

std::string readout_line(Random& random) {
  const bool is_prefill = below(random, 2) == 0;
  return std::string(R"({"event":"readout","prompt_id":"p0","phase":")") +
         (is_prefill ? "prefill_last" : "decode0") + R"(","step":)" + (is_prefill ? "0" : "1") +
         R"(,"pos_id":3,"top1_id":)" + std::to_string(below(random, 2)) +
         R"(,"top1_logit":1.5,"gap":0.)" + std::to_string(below(random, 3)) + "}";
}

std::string run_line(Random& random) {
  static const std::vector<std::string> kLines = {
      R"({"event":"run_start","started_at":"2026-02-07T00:00:01Z","attributes":{"dtype":"bf16"}})",
      R"({"event":"run_start","started_at":"2026-02-07T00:00:02Z","attributes":{"dtype":"f16"}})",
      R"({"event":"run_end","status":"complete"})",
      R"({"event":"run_end","status":"complete","rows":30})",
      R"({"event":"run_end","status":"failed"})",
      R"({"event":"run_prompt","prompt_id":"p0","n_tokens":4})",
      R"({"event":"run_prompt","prompt_id":"p0","n_tokens":5})",
  };
  return one_of(random, kLines);
}

std::string table_of(Random& random) {
  static const std::vector<std::string> kStatus = {"none", "none", "DRIFT", "MISSING"};
  std::string text = "# Report\n\nRESULT: ";
  text += below(random, 2) == 0 ? "PASS" : "FAIL";
  text += "\n\n| prompt | first_fail | layer | tensor |\n|---|---|---|---|\n";
  for (size_t i = 0; i < 3; ++i) {
    text += "| p" + std::to_string(i) + " | " + (below(random, 2) == 0 ? "none" : "X_IN_DRIFT") +
            " | 0 | x_in |\n";
  }
  return text;
}

std::string date_of(int tree) {
  const auto two_digits = [](int n) { return (n < 10 ? "0" : "") + std::to_string(n); };
  return "2026-" + two_digits(1 + tree / 28) + "-" + two_digits(1 + tree % 28);
}

/// Two runs of what engines and their tools leave.
std::vector<MadeFile> made_tree(Random& random, const std::string& date) {
  std::vector<MadeFile> files;
  for (const char* run : {"b3_1/kv_aligned_0", "b3_1/kv_aligned_1"}) {
    const fs::path root = fs::path(date) / run;
    const auto add = [&](const std::string& name, std::vector<std::string> lines, bool dealt) {
      files.push_back({root / name, std::move(lines), dealt});
    };
    std::vector<std::string> rows;
    for (size_t i = 0, n = 5 + below(random, 40); i < n; ++i) {
      rows.push_back(below(random, 4) == 0 && !rows.empty() ? one_of(random, rows)
                                                            : trace_line(random));
    }
    for (size_t i = 0, n = below(random, 5); i < n; ++i) rows.push_back(readout_line(random));
    // A line may come twice, but then it is known which came first.
    add("traces/p0_trace.jsonl", rows, true);
    if (below(random, 2) == 0) add("traces/again_trace.jsonl", {rows.front(), rows.back()}, true);
    for (size_t i = 0, n = below(random, 3); i < n; ++i) {
      std::vector<std::string> lines;
      for (size_t k = 0, m = 1 + below(random, 3); k < m; ++k) lines.push_back(run_line(random));
      add("run" + std::to_string(i) + ".jsonl", lines, false);
    }
    if (below(random, 2) == 0) {
      add("metadata.json",
          {R"({"seed":)" + std::to_string(below(random, 3)) +
           R"(,"dtype":"bf16","commit":"abcdef)" + std::to_string(below(random, 3)) + R"("})"},
          false);
    }
    if (below(random, 2) == 0) {
      add("config.json", {R"({"seed":)" + std::to_string(below(random, 3)) + R"(,"dtype":"f16"})"},
          false);
    }
    for (size_t i = 0, n = below(random, 3); i < n; ++i) {
      add("REPORT_v" + std::to_string(i) + ".md", {table_of(random)}, false);
    }
  }
  return files;
}

/// The same lines in other files beside them.
std::vector<MadeFile> dealt(Random& random, const std::vector<MadeFile>& files) {
  std::vector<MadeFile> all;
  for (const MadeFile& file : files) {
    if (!file.may_be_dealt) {
      all.push_back(file);
      continue;
    }
    std::vector<MadeFile> parts(1 + below(random, 4));
    for (size_t i = 0; i < parts.size(); ++i) {
      parts[i].path = file.path.parent_path() / (std::to_string(i) + file.path.filename().string());
    }
    for (const std::string& line : file.lines)
      parts[below(random, parts.size())].lines.push_back(line);
    for (MadeFile& part : parts) {
      if (!part.lines.empty()) all.push_back(std::move(part));
    }
  }
  return all;
}

std::string text_of_file(const MadeFile& file) {
  std::string text;
  for (const std::string& line : file.lines) text += line + "\n";
  return text;
}

/// Rows of a view, each as one text; ids are another in every database.
std::vector<std::string> rows_of(SQLite::Database& db, const std::string& view,
                                 const std::set<std::string>& but) {
  std::string columns;
  SQLite::Statement info(db, "SELECT name FROM pragma_table_info('" + view + "')");
  while (info.executeStep()) {
    const std::string name = info.getColumn(0).getString();
    const bool is_id =
        name == "id" || (name.ends_with("_id") && name != "token_id" && name != "pos_id");
    if (is_id || but.contains(name)) {
      continue;
    }
    columns += (columns.empty() ? "quote(" : " || '|' || quote(") + name + ")";
  }
  // Two runs by name: these views answer for those that are named.
  const std::string of_runs =
      view == "run_diff" || view == "diff_verdict"
          ? " WHERE run_a LIKE '%0' AND run_b = substr(run_a, 1, length(run_a) - 1) || '1'"
          : "";
  std::vector<std::string> rows;
  SQLite::Statement query(db, "SELECT " + columns + " FROM " + view + of_runs);
  while (query.executeStep()) rows.push_back(query.getColumn(0).getString());
  static const std::set<std::string> kInOrder = {"failure_breakdown", "history", "kv_alignment",
                                                 "propagation"};
  if (!kInOrder.contains(view)) std::sort(rows.begin(), rows.end());
  return rows;
}

constexpr const char* kViews[] = {
    "trace",       "pair",         "first_fail",    "run_verdict", "failure_breakdown",
    "propagation", "kv_alignment", "lm_head_delta", "history",     "report_conflict",
    "run_diff",    "diff_verdict"};

void expect_same_views(SQLite::Database& one, SQLite::Database& other,
                       const std::set<std::string>& but, const std::string& which) {
  for (const char* view : kViews) {
    auto rows = rows_of(one, view, but), others = rows_of(other, view, but);
    // runs of a day that do not say when they started stand in the order of their ingest
    std::sort(rows.begin(), rows.end());
    std::sort(others.begin(), others.end());
    if (rows == others) continue;
    const size_t common = std::min(rows.size(), others.size());
    const size_t at = static_cast<size_t>(
        std::mismatch(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(common),
                      others.begin())
            .first -
        rows.begin());
    ADD_FAILURE() << which << ": " << view << " differs\n- " << (at < rows.size() ? rows[at] : "")
                  << "\n+ " << (at < others.size() ? others[at] : "");
  }
}

/// Ingests paths in a random order, some or many at a time; what judges the runs is prepared each
/// time.
void ingest_shuffled(Random& random, SQLite::Database& db, std::vector<fs::path> paths) {
  std::shuffle(paths.begin(), paths.end(), random);
  for (size_t begin = 0; begin < paths.size();) {
    const size_t n = std::min(1 + below(random, 120), paths.size() - begin);
    ingest_all(db,
               {paths.begin() + static_cast<std::ptrdiff_t>(begin),
                paths.begin() + static_cast<std::ptrdiff_t>(begin + n)},
               1);
    begin += n;
  }
}

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

class Order : public testing::TestWithParam<uint64_t> {};

/// Many trees in one database, so that they meet each other's names.
constexpr int kTrees = 50;

/// Trees in order against the same lines, in those files or dealt over others, in any order.
void expect_order_changes_no_view(uint64_t seed, bool are_dealt, const std::set<std::string>& but) {
  Random random(seed);
  TemporaryFolder one, other;
  for (int tree = 0; tree < kTrees; ++tree) {
    const std::vector<MadeFile> files = made_tree(random, date_of(tree));
    for (const MadeFile& file : files) one.write("in" / file.path, text_of_file(file));
    for (const MadeFile& file : are_dealt ? dealt(random, files) : files)
      other.write("in" / file.path, text_of_file(file));
  }
  SQLite::Database in_order = open_for_writing(one / "a.db"),
                   shuffled = open_for_writing(other / "b.db");
  ingest_all(in_order, {one / "in"}, 1);
  // where files are named, they must be the same ones
  ingest_shuffled(random, shuffled, files_below((are_dealt ? other : one) / "in"));
  expect_same_views(in_order, shuffled, but, "seed " + std::to_string(seed));
}

TEST_P(Order, OfMadeFilesChangesNoView) { expect_order_changes_no_view(GetParam(), false, {}); }

TEST_P(Order, AndTheFilesThatLinesAreDealtOverChangeNoView) {
  expect_order_changes_no_view(
      GetParam() + 1000, true,
      {"source_file", "source_line", "report_file", "route", "kv_pos", "extra"});
}

INSTANTIATE_TEST_SUITE_P(Seeds, Order, testing::Values<uint64_t>(0));
INSTANTIATE_TEST_SUITE_P(FurtherSeeds, Order, testing::Range<uint64_t>(1, 5));

TEST(OrderOfHistory, ChangesNoView) {
  const auto folder = folder_from_environment("GRETA_ARTIFACTS");
  if (!folder) GTEST_SKIP() << "GRETA_ARTIFACTS is not set";
  TemporaryFolder scratch;
  SQLite::Database in_order = open_for_writing(scratch / "a.db");
  ingest_all(in_order, {*folder}, 1);
  const std::vector<fs::path> paths = files_below(*folder);
  for (uint64_t seed = 0; seed < 3; ++seed) {
    Random random(seed);
    SQLite::Database shuffled = open_for_writing(scratch / ("b" + std::to_string(seed) + ".db"));
    ingest_shuffled(random, shuffled, paths);
    expect_same_views(in_order, shuffled, {}, "seed " + std::to_string(seed));
  }
}

}  // namespace
}  // namespace greta
