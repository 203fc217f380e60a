// What a page holds is what the views say, field by field.
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <sstream>

#include "cli/show/report.h"
#include "cli/warehouse/sql_query.h"
#include "common/utf8.h"
#include "tests/cli/program.h"
#include "tests/cli/show/page_html.h"
#include "tests/environment_folder.h"
#include "tests/judged.h"

namespace greta {
namespace {

using nlohmann::json;

std::string page_of_run(QueryPool& statements, const std::string& run) {
  std::string page;
  write_run_page(statements, {resolve_run(statements.db(), run)}, Language::kEnglish,
                 [&](std::string_view text) { page += text; });
  return page;
}

std::string hash_of(const json& cell, const char* name) { return cell.value(name, ""); }

void expect_real(const json& cell, const char* name, const Cell& view, const std::string& where) {
  if (view.type == Cell::Type::kNull) {
    EXPECT_TRUE(cell.value(name, json()).is_null()) << where << " " << name;
    return;
  }
  const double expected =
      view.type == Cell::Type::kInteger ? static_cast<double>(view.integer) : view.real;
  ASSERT_TRUE(cell.contains(name) && cell[name].is_number()) << where << " " << name;
  EXPECT_NEAR(cell[name].get<double>(), expected, std::abs(expected) * 1e-4)
      << where << " " << name;
}

void expect_text(const json& cell, const char* name, const Cell& view, const std::string& where) {
  EXPECT_EQ(cell.value(name, json("")).is_null() ? "" : cell.value(name, ""),
            utf8::printable(view.text))
      << where << " " << name;
}

/// Every cell against the row of `pair` that it shows, and every row of `pair` in a cell.
void expect_pairs(QueryPool& statements, const Run& run, const json& map) {
  const std::vector<json> cells = cells_of(map);
  Query count(statements,
              "SELECT count(*) FROM (SELECT DISTINCT prompt_id, layer, tensor_id,"
              " ifnull(canonical_tensor, tensor) FROM pair WHERE run_id = ?)");
  count.bind(1, run.id).step();
  EXPECT_EQ(cells.size(), static_cast<size_t>(count.integer(0))) << run.name;
  Query rows(
      statements,
      "SELECT p.status || ifnull(' ' || p.class, ''), p.rel_l2, p.tolerance, p.measure,"
      " p.prefill_hash, p.decode_hash, p.numeric_origin, p.caused_by, p.segment, p.location,"
      " p.differing, p.max_abs, p.max_abs_at, p.max_ulp, p.details, p.pos_id, p.evidence,"
      " p.status NOT IN ('MATCH', 'DECODE_ONLY', 'PREFILL_ONLY'),"
      " p.status NOT IN ('MATCH', 'DECODE_ONLY', 'PREFILL_ONLY') AND p.class IS NOT 'ROUNDING'"
      " FROM pair p JOIN prompt q ON q.id = p.prompt_id WHERE p.run_id = ?1"
      " AND q.name = ?2 AND p.layer IS ?3 AND coalesce(p.canonical_tensor, p.tensor, '') = ?4");
  Query source(statements,
               "SELECT source_file, source_line, min, max, mean, abs_sum, n, nan, inf FROM trace"
               " WHERE run_id = ?1 AND prompt = ?2 AND layer IS ?3 AND canonical_tensor = ?4"
               " AND pos_id IS ?5 AND side = ?6 AND hash IS ?7");
  for (const json& cell : cells) {
    const std::string where = run.name + " " + cell["prompt"].dump() + " layer " +
                              cell["layer"].dump() + " " + cell["tensor"].dump();
    const Value layer =
        cell["layer"].is_null() ? Value(nullptr) : Value(cell["layer"].get<int64_t>());
    rows.reset();
    rows.bind(1, run.id).bind(2, cell["prompt"].get<std::string>()).bind(3, layer);
    rows.bind(4, cell["tensor"].get<std::string>());
    int64_t positions = 0, failing = 0, beyond = 0, shown = 0;
    while (rows.step()) {
      ++positions;
      failing += rows.integer(17);
      beyond += rows.integer(18);
      const bool here = rows.is_null(15) ? !cell.contains("pos_id")
                                         : cell.value("pos_id", json()) == rows.integer(15);
      if (!here || cell["state"] != rows.text(0) || shown > 0) continue;
      ++shown;
      expect_real(cell, "rel_l2", rows.cell(1), where);
      expect_real(cell, "tolerance", rows.cell(2), where);
      expect_text(cell, "measure", rows.cell(3), where);
      EXPECT_EQ(hash_of(cell, "left_hash"), rows.text(4)) << where;
      EXPECT_EQ(hash_of(cell, "right_hash"), rows.text(5)) << where;
      if (cell.contains("told")) {
        expect_text(cell, "origin", rows.cell(6), where);
        expect_text(cell, "caused_by", rows.cell(7), where);
        if (cell.value("origin", "") != "PROPAGATED")
          expect_text(cell, "segment", rows.cell(8), where);
        expect_text(cell, "location", rows.cell(9), where);
        expect_real(cell, "differing", rows.cell(10), where);
        expect_real(cell, "max_abs", rows.cell(11), where);
        expect_real(cell, "max_abs_at", rows.cell(12), where);
        expect_real(cell, "max_ulp", rows.cell(13), where);
      }
      if (!cell["state"].get<std::string>().starts_with("DRIFT") || rows.text(16) == "report")
        expect_text(cell, "details", rows.cell(14), where);
    }
    EXPECT_EQ(shown, 1) << where;
    EXPECT_EQ(cell["positions"], positions) << where;
    EXPECT_EQ(cell["failing"], failing) << where;
    // what is beyond rounding at any position shows
    const std::string state = cell["state"];
    EXPECT_EQ(beyond > 0,
              state != "MATCH" && !state.ends_with("_ONLY") && !state.ends_with("ROUNDING"))
        << where;
    for (const auto& [side, phase] : {std::pair("left", "prefill"), std::pair("right", "decode")}) {
      const std::string hash = hash_of(cell, (std::string(side) + "_hash").c_str());
      const json line = cell.value(std::string(side) + "_line", json());
      if (line.is_null()) continue;
      source.reset();
      source.bind(1, run.id).bind(2, cell["prompt"].get<std::string>()).bind(3, layer);
      source.bind(4, cell["tensor"].get<std::string>());
      source.bind(5,
                  cell.contains("pos_id") ? Value(cell["pos_id"].get<int64_t>()) : Value(nullptr));
      source.bind(6, std::string(phase)).bind(7, hash.empty() ? Value(nullptr) : Value(hash));
      bool found = false;
      while (!found && source.step()) {
        if (source.integer(1) != line.get<int64_t>()) continue;
        found = true;
        expect_text(cell, (std::string(side) + "_source").c_str(), source.cell(0), where);
        if (!cell.contains("told")) continue;
        constexpr const char* kValues[] = {"min", "max", "mean", "abs_sum", "n", "nan", "inf"};
        for (int i = 0; i < 7; ++i)
          expect_real(cell, (std::string(side) + "_" + kValues[i]).c_str(), source.cell(2 + i),
                      where);
      }
      EXPECT_TRUE(found) << where << " " << side;
    }
  }
}

void expect_page(QueryPool& statements, const std::string& name) {
  const Run run = resolve_run(statements.db(), name);
  expect_pairs(statements, run, data_of(page_of_run(statements, name))["maps"][0]["map"]);
}

using PageData = WarehouseTest;

TEST_F(PageData, IsWhatPairSays) {
  w.run({.name = "r"});
  for (const char* prompt : {"p0", "p1"}) {
    w.use_prompt(prompt);
    w.match("x_in", 0);
    w.rounding("attn_out", 0);
    w.divergent("mlp_out", 0);
    w.drift("x_in", 1);
    w.incomparable("attn_out", 1);
    w.add(prefill("mlp_out", 1, 7).nans(2).averaging(0.5), decode("mlp_out", 1, 8));
    w.add(prefill("x_in", 2, 3));
    w.add(prefill("attn_out", 2, 1), decode("attn_out", 2, 1), decode("attn_out", 2, 2));
    w.add(decode("mlp_out", 2, 5).at(40));
    w.match("of_no_known_name", 2);
    w.match("hidden", -1);
    w.add(prefill("q_post_rope", 0, 1).at(41), decode("q_post_rope", 0, 1).at(41));
    w.divergent("q_post_rope", 0);
  }
  judge_all(w);
  QueryPool statements(w.db);
  expect_page(statements, "r");
}

TEST_F(PageData, IsWhatAReportStates) {
  w.run({.name = "r"});
  w.report("f.tsv", 1000000,
           {{.prompt = "p", .layer = 0, .tensor = "x_in", .status = "MATCH"},
            {.prompt = "p",
             .layer = 0,
             .tensor = "attn_out",
             .status = "DRIFT",
             .cause = "ATTN_OUT_DRIFT",
             .details = "hash differs"},
            {.prompt = "p", .status = "MISSING"}});
  judge_all(w);
  QueryPool statements(w.db);
  expect_page(statements, "r");
}

TEST_F(PageData, OfTwoRunsIsWhatRunDiffSays) {
  for (const char* name : {"a", "b"}) {
    w.run({.name = name});
    w.match("x_in", 0);
    w.add(decode("attn_out", 0, 9).sketched({name[0] == 'a' ? 2.0f : 1.0f, 0, 0, 0}));
    w.add(prefill("mlp_out", name[0], 4));
  }
  const auto a = resolve_run(w.db, "a"), b = resolve_run(w.db, "b");
  std::string page;
  QueryPool statements(w.db);
  write_compare_page(statements, a, b, {"FAIL", FailKind::kValues, "", {}}, Language::kEnglish,
                     [&](std::string_view text) { page += text; });
  const std::vector<json> cells = cells_of(data_of(page)["maps"][0]["map"]);
  Query rows(
      w.db,
      "SELECT prompt, phase, layer, tensor, pos_id, status || ifnull(' ' || class, ''), rel_l2,"
      " tolerance, hash_a, hash_b FROM run_diff WHERE run_a = 'a' AND run_b = 'b'");
  size_t n = 0;
  for (; rows.step(); ++n) {
    const auto cell = std::find_if(cells.begin(), cells.end(), [&](const json& one) {
      return one["prompt"] == rows.text(0) && one["phase"] == rows.text(1) &&
             one["layer"] == rows.integer(2) && one["tensor"] == rows.text(3);
    });
    ASSERT_NE(cell, cells.end());
    EXPECT_EQ((*cell)["pos_id"], rows.integer(4));
    EXPECT_EQ((*cell)["state"], rows.text(5));
    expect_real(*cell, "rel_l2", rows.cell(6), "");
    expect_real(*cell, "tolerance", rows.cell(7), "");
    EXPECT_EQ(hash_of(*cell, "left_hash"), rows.text(8));
    EXPECT_EQ(hash_of(*cell, "right_hash"), rows.text(9));
  }
  EXPECT_EQ(n, cells.size());
  EXPECT_EQ(n, 5U);
}

class PageDataOfFiles : public ProgramTest {};

TEST_F(PageDataOfFiles, IsWhatTheViewsSayOfAProbe) {
  const std::string infer = quoted(GRETA_INFER_PROGRAM);
  ASSERT_EQ(
      shell(infer + " synth --preset tiny --type f32 --layers 3 --out m.gguf && " + infer +
            " probe --model m.gguf --db greta.db --layers all --tensors all --tokens '1 2 3 4'"
            " --decode-steps 2 --inject rope_theta@decode:layer=1; test $? -lt 2")
          .status,
      0);
  SQLite::Database db = open_for_reading(database());
  QueryPool statements(db);
  Query run(db, "SELECT name FROM run");
  ASSERT_TRUE(run.step());
  expect_page(statements, run.text(0));
  const json page = data_of(page_of_run(statements, run.text(0)));
  // shares are of the squared distance, of whole heads where there are
  Query shares(
      db,
      "SELECT ifnull((SELECT p.share_ppm FROM difference_part p WHERE p.difference_id = d.id"
      " AND p.segment = 0), 0), d.heads, d.segments FROM difference d JOIN tensor t"
      " ON t.id = d.tensor_id WHERE d.layer = 1 AND t.name = 'q_post_rope' AND d.pos_id = ?");
  bool any = false;
  for (const json& cell : cells_of(page["maps"][0]["map"])) {
    if (cell["layer"] != 1 || cell["tensor"] != "q_post_rope") continue;
    ASSERT_TRUE(shares.bind(1, cell["pos_id"].get<int64_t>()).step());
    any = true;
    EXPECT_EQ(cell["heads"], shares.integer(1));
    std::istringstream told(cell["shares"].get<std::string>());
    const std::vector<double> parts{std::istream_iterator<double>(told), {}};
    ASSERT_EQ(parts.size(), static_cast<size_t>(shares.integer(2)));
    EXPECT_NEAR(parts[0], static_cast<double>(shares.integer(0)) / 1e3, 0.51);
  }
  EXPECT_TRUE(any);
}

TEST_F(PageDataOfFiles, IsWhatTheViewsSayOfEveryHistoricalRun) {
  const auto artifacts = folder_from_environment("GRETA_ARTIFACTS");
  if (!artifacts) GTEST_SKIP() << "GRETA_ARTIFACTS is not set: the folder of historical artifacts";
  ASSERT_LT(run({"--db", database(), "ingest", artifacts->string()}).status, 2);
  SQLite::Database db = open_for_reading(database());
  QueryPool statements(db);
  Query runs(db, "SELECT run FROM run_verdict");
  size_t n = 0;
  for (; runs.step(); ++n) expect_page(statements, runs.text(0));
  EXPECT_GT(n, 0U);
}

}  // namespace
}  // namespace greta
