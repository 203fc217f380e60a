// Squares, verdicts and size of pages of runs.
#include "cli/show/page.h"

#include <algorithm>

#include "cli/show/report.h"
#include "tests/cli/program.h"
#include "tests/cli/show/page_html.h"
#include "tests/judged.h"

namespace greta {
namespace {

using Page = WarehouseTest;

TEST_F(Page, EveryCellHasTheClassOfItsRow) {
  w.match("x_in", 0);
  w.rounding("attn_out", 0);
  w.divergent("mlp_out", 0);
  w.drift("x_in", 1);
  w.incomparable("attn_out", 1);
  w.add(prefill("mlp_out", 1, 7).nans(2), decode("mlp_out", 1, 8));
  w.add(prefill("x_in", 2, 3));
  w.add(prefill("attn_out", 2, 1), decode("attn_out", 2, 1), decode("attn_out", 2, 2));
  judge_all(w);
  std::string page;
  QueryPool statements(w.db);
  write_run_page(statements, {resolve_run(w.db, "r")}, Language::kEnglish,
                 [&](std::string_view text) { page += text; });
  page = page.substr(page.find("<table class=\"map\""));
  page = page.substr(0, page.find("</table>"));
  std::string looks;
  for (const Tag& tag : tags_of(page)) {
    if (tag.name == "td") looks += (looks.empty() ? "" : " ") + tag.attributes.at("class");
  }
  EXPECT_EQ(looks, "m r2 f1 u i n x first c t");
}

TEST_F(Page, AFailSaysByWordAndShapeWhatKindItIs) {
  w.run({.name = "bug"});
  w.divergent("x_in", 0);
  w.run({.name = "unmeasured"});
  w.drift("x_in", 0);
  w.run({.name = "unpaired"});
  w.match("attn_out", 0);
  w.add(prefill("x_in", 0, 3));
  w.run({.name = "fine"});
  w.match("x_in", 0);
  judge_all(w);
  QueryPool statements(w.db);
  const auto headline = [&](const char* run) {
    std::string page;
    write_run_page(statements, {resolve_run(w.db, run)}, Language::kEnglish,
                   [&](std::string_view text) { page += text; });
    const size_t from = page.find("<p class=headline>") + 18;
    return page.substr(from, page.find("</p>", from) - from);
  };
  EXPECT_NE(headline("bug").find("\"verdict bad values\">FAIL"), std::string::npos);
  EXPECT_EQ(headline("unmeasured"),
            "<strong class=\"verdict bad unmeasured\">FAIL</strong>"
            " <span class=remark>by how much is not known</span>");
  EXPECT_EQ(headline("unpaired"),
            "<strong class=\"verdict bad unpaired\">FAIL</strong>"
            " <span class=remark>rows have no partner</span>");
  EXPECT_EQ(headline("fine"), "<strong class=\"verdict good\">PASS</strong>");
}

TEST_F(Page, OfSeveralRunsHasATableAndASectionForEachThatFails) {
  w.run({.name = "a", .experiment = "e"});
  w.match("x_in", 0);
  for (int i = 0; i < 10; ++i) {
    w.run({.name = "b" + std::to_string(i), .experiment = "e"});
    w.divergent("x_in", 0);
  }
  judge_all(w);
  std::string page;
  QueryPool statements(w.db);
  write_run_page(statements, resolve_runs(w.db, "e"), Language::kEnglish,
                 [&](std::string_view text) { page += text; });
  int sections = 0;
  for (const Tag& tag : tags_of(page)) sections += tag.name == "section" && tag.has_class("run");
  EXPECT_EQ(sections, 8);
  EXPECT_NE(page.find("2 more runs fail"), std::string::npos);
  EXPECT_NE(page.find(">a</td>"), std::string::npos);
}

/// 32 layers, 29 trace points, 3 prompts, all of which differ.
class LargePage : public ProgramTest {
 protected:
  /// The run against one all rows of which differ from its own.
  void expect_comparison_as_small() const {
    SQLite::Database db = open_for_writing(database());
    db.exec(
        "INSERT INTO run(name, experiment, mode, dtype, hash_algo, status) SELECT 'other',"
        " experiment, mode, dtype, hash_algo, status FROM run;"
        " INSERT INTO prompt(run_id, name) SELECT 2, name FROM prompt;"
        " CREATE TEMP TABLE copied AS SELECT x.* FROM trace_row x;"
        " UPDATE copied SET run_id = 2, hash = hash + 1, prompt_id = (SELECT o.id FROM prompt p"
        " JOIN prompt o ON o.run_id = 2 AND o.name = p.name WHERE p.id = copied.prompt_id);"
        " INSERT INTO trace_row SELECT * FROM copied");
    std::string page;
    QueryPool statements(db);
    write_compare_page(statements, {1, "run"}, {2, "other"}, {"FAIL", FailKind::kValues, "", {}},
                       Language::kEnglish, [&](std::string_view text) { page += text; });
    const auto cells = cells_of(data_of(page)["maps"][0]["map"]);
    EXPECT_GT(cells.size(), 4000U);
    EXPECT_GT(std::count_if(cells.begin(), cells.end(),
                            [](const auto& cell) { return cell.contains("right_hash"); }),
              1000);
    EXPECT_LE(page.size(), 300'000U);
  }
};

TEST_F(LargePage, IsNoLargerThan300KB) {
  const std::string infer = quoted(GRETA_INFER_PROGRAM);
  std::string suite;
  for (const char* name : {"p0", "p1", "p2"})
    suite += std::string(R"({"name":")") + name + R"(","tokens":[1,2,3,)" + name[1] + "]}\n";
  write("suite.jsonl", suite);
  const Result made =
      shell(infer + " synth --preset tiny --type f32 --layers 32 --out m.gguf && " + infer +
            " probe --model m.gguf --db greta.db --layers all --tensors all --suite suite.jsonl"
            " --phases prefill_last,decode0 --decode-steps 0 --repeats 0"
            " --inject rope_theta@decode:layer=2");
  ASSERT_LT(made.status, 2) << made.err;
  SQLite::Database db = open_for_reading(database());
  Query run(db, "SELECT name FROM run");
  ASSERT_TRUE(run.step());
  std::string page;
  QueryPool statements(db);
  write_run_page(statements, {resolve_run(db, run.text(0))}, Language::kEnglish,
                 [&](std::string_view text) { page += text; });
  const auto cells = cells_of(data_of(page)["maps"][0]["map"]);
  EXPECT_GT(cells.size(), 2000U);
  EXPECT_GT(std::count_if(cells.begin(), cells.end(),
                          [](const auto& cell) { return cell.contains("told"); }),
            500);
  EXPECT_LE(page.size(), 300'000U);
  expect_comparison_as_small();
}

}  // namespace
}  // namespace greta
