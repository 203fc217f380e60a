// The page of a history: what it holds is what the views say, whatever the names in it.
#include <cmath>
#include <tuple>

#include "cli/show/history.h"
#include "cli/warehouse/sql_query.h"
#include "common/utf8.h"
#include "tests/cli/program.h"
#include "tests/cli/show/made_history.h"
#include "tests/cli/show/page_html.h"
#include "tests/environment_folder.h"

namespace greta {
namespace {

using nlohmann::json;

std::string page_of_history(SQLite::Database& db) {
  std::string page;
  write_history_page(read_history(db, {}), {}, Language::kEnglish,
                     [&](std::string_view text) { page += text; });
  return page;
}

/// A block {"columns": [...], "rows": [[...], ...]} as objects.
std::vector<json> objects_of(const json& block) {
  std::vector<json> objects;
  for (const json& row : block["rows"]) {
    json object;
    for (size_t i = 0; i < row.size(); ++i) object[block["columns"][i].get<std::string>()] = row[i];
    objects.push_back(std::move(object));
  }
  return objects;
}

/// Every column of every row, against a query's.
void expect_rows(const std::vector<json>& found, Query& rows) {
  const std::vector<std::string> names = rows.column_names();
  size_t n = 0;
  while (rows.step()) {
    ASSERT_LT(n, found.size());
    const json& object = found[n++];
    for (size_t i = 0; i < names.size(); ++i) {
      const Cell cell = rows.cell(static_cast<int>(i));
      const json& value = object.at(names[i]);
      const std::string where = std::to_string(n) + " " + names[i];
      if (cell.type == Cell::Type::kNull) {
        EXPECT_TRUE(value.is_null()) << where << value;
      } else if (cell.type == Cell::Type::kInteger) {
        EXPECT_EQ(value, cell.integer) << where;
      } else if (cell.type == Cell::Type::kReal) {
        EXPECT_NEAR(value.get<double>(), cell.real, std::abs(cell.real) * 1e-4) << where;
      } else {
        EXPECT_EQ(value, utf8::printable(cell.text)) << where;
      }
    }
  }
  EXPECT_EQ(n, found.size());
}

void expect_views(SQLite::Database& db) {
  const json data = data_of(page_of_history(db));
  Query runs(db,
             "SELECT h.experiment, h.mode, h.date, h.commit_sha, h.run, h.verdict, h.first_fail,"
             " h.layer, h.tensor, h.prompt, h.strict_verdict, h.strict_first_fail, h.strict_layer,"
             " h.strict_tensor, h.numeric_verdict, h.numeric_first_fail, h.numeric_layer,"
             " h.numeric_tensor, c.change, c.baseline, c.layer AS changed_layer,"
             " c.tensor AS changed_tensor, c.why_not, h.injected, h.started_at, h.dtype,"
             " h.lineage, h.evidence, h.pairs, h.rounding, h.divergent, h.nonfinite"
             " FROM history h LEFT JOIN change c ON c.run_id = h.run_id"
             " ORDER BY (SELECT o.ord FROM run_order o WHERE o.run_id = h.run_id)");
  expect_rows(objects_of(data["runs"]), runs);
  Query turns(db, "SELECT " + std::string(kRegressionColumns) +
                      " FROM regression ORDER BY first_bad_date, first_bad");
  expect_rows(objects_of(data["regressions"]), turns);
  // of each run whose distances were read, the rows of drift
  std::map<std::string, std::vector<json>> drift;
  for (json row : objects_of(data["drift"])) {
    if (!row.contains("rel_l2")) continue;
    const std::string run = data["runs"]["rows"][row["run"].get<size_t>()][4];
    row["tensor"] = data["tensors"][row["tensor"].get<size_t>()];
    row["run"] = run;
    drift[run].push_back(std::move(row));
  }
  for (const auto& [run, rows] : drift) {
    Query view(db,
               "SELECT run, tensor, differ, rounding, divergent, nonfinite, rel_l2, tolerance,"
               " layer, pos_id, prompt FROM drift WHERE run = ? ORDER BY ord");
    view.bind(1, run);
    expect_rows(rows, view);
  }
}

using HistoryPage = WarehouseTest;

TEST_F(HistoryPage, ItsDataIsWhatTheViewsSay) {
  fill_history(w, 12);
  expect_views(w.db);
  const json data = data_of(page_of_history(w.db));
  EXPECT_EQ(data["runs"]["rows"].size(), 36U);
  EXPECT_EQ(data["regressions"]["rows"].size(), 4U);
  EXPECT_EQ(data["tensors"], json({"attn_out", "mlp_out"}));
}

class HistoryPageOfFiles : public ProgramTest {};

TEST_F(HistoryPageOfFiles, ItsDataIsWhatTheViewsSayOfEveryHistoricalRun) {
  const auto artifacts = folder_from_environment("GRETA_ARTIFACTS");
  if (!artifacts) GTEST_SKIP() << "GRETA_ARTIFACTS is not set: the folder of historical artifacts";
  ASSERT_LT(run({"--db", database(), "ingest", artifacts->string()}).status, 2);
  SQLite::Database db = open_for_reading(database());
  expect_views(db);
}

TEST_F(HistoryPage, EveryRunIsInOneSquareWhoseClassIsItsWorst) {
  fill_history(w, 12);
  const std::string page = page_of_history(w.db);
  const json data = data_of(page);
  std::vector<int> seen(36);
  size_t squares = 0;
  for (const json& family : data["families"]) {
    for (const json& row : family["cells"]) {
      for (const json& cell : row) {
        if (cell == 0) continue;
        ++squares;
        for (size_t i = 1; i < cell.size(); ++i) ++seen[cell[i].get<size_t>()];
      }
    }
  }
  EXPECT_EQ(seen, std::vector<int>(36, 1));
  std::map<std::string, int> looks;
  for (size_t at = page.find("<table class=\"map history\""); at != std::string::npos;
       at = page.find("<table class=\"map history\"", at + 1)) {
    for (const Tag& tag : tags_of(page.substr(at, page.find("</table>", at) - at))) {
      if (tag.name == "td")
        ++looks[tag.attributes.contains("class") ? tag.attributes.at("class") : ""];
    }
  }
  // as_designed passes by rounding only, batch_invariant bitwise, other always
  EXPECT_EQ(looks, (std::map<std::string, int>{{"r2", 4},
                                               {"m", 4 + 12},
                                               {"f2 broken first", 4},
                                               {"f2", 10},
                                               {"r2 fixed", 1},
                                               {"m fixed", 1}}));
  EXPECT_EQ(squares, 36U);
}

TEST_F(HistoryPage, SaysWhereSinceWhenAndWhetherItIsRounding) {
  fill_history(w, 12);
  const std::string page = page_of_history(w.db);
  const std::string header = page.substr(page.find("<header>"), page.find("</header>"));
  for (const char* text : {"2026-01-12: 36 (lineages: 3). 14 FAIL, 22 PASS",
                           "2026-01-01 to 2026-01-12", "turned for the worse: 4, mended since: 2",
                           "BROKEN", "<code>mlp_out</code> of layer 1, prompt <code>p0</code>",
                           "Next: <code>greta-db compare &#39;2026-01-08/toy/",
                           "&#39; &#39;2026-01-09/toy/", "beyond rounding", "2026-01-09"})
    EXPECT_NE(header.find(text), std::string::npos) << text << "\n" << header.substr(0, 900);
}

TEST_F(HistoryPage, OlderCommitsShareSquaresAndNoneIsLost) {
  const int days = 200;
  for (int n = 0; n < days; ++n) {
    w.run({.name = "r" + std::to_string(n),
           .experiment = "e",
           .date = day(n),
           .commit = "c" + std::to_string(n),
           .status = "complete"});
    n == 50 ? w.divergent("x_in", 0) : w.match("x_in", 0);
  }
  judge_all(w);
  const History history = read_history(w.db, {});
  const std::vector<HistoryFamily> families = lay_out(history);
  ASSERT_EQ(families.size(), 1U);
  const HistoryFamily& family = families[0];
  EXPECT_LE(family.columns.size(), 64U);
  size_t commits = 0, runs = 0, bad = family.columns.size();
  for (size_t c = 0; c < family.columns.size(); ++c) {
    commits += family.columns[c].commits.size();
    runs += family.lineages[0].cells[c].size();
    if (family.columns[c].commits.front() == "c50") bad = c;
  }
  EXPECT_EQ(commits, 200U);
  EXPECT_EQ(runs, 200U);
  ASSERT_LT(bad, family.columns.size());
  EXPECT_EQ(family.columns[bad].commits.size(), 1U) << "where it turned for the worse stays alone";
  for (size_t c = family.columns.size() - 30; c < family.columns.size(); ++c)
    EXPECT_FALSE(family.columns[c].is_group());
  EXPECT_NE(page_of_history(w.db).find("worst of 6 runs"), std::string::npos);
}

TEST_F(HistoryPage, OfAThousandRunsIsNoLargerThan2MB) {
  w.db.exec("BEGIN");
  fill_rows(w, 334);
  w.db.exec("COMMIT");
  judge_all(w);
  const std::string page = page_of_history(w.db);
  EXPECT_LE(page.size(), 2'000'000U);
  EXPECT_EQ(data_of(page)["runs"]["rows"].size(), 1002U);
}

TEST_F(HistoryPage, CommitsAreInTheirOwnOrderWhereItIsKnown) {
  const std::string a(40, 'a'), b(40, 'b'), c(40, 'c');
  int ord = 0;
  for (const std::string& sha : {a, b, c}) {
    w.db.exec("INSERT INTO commit_node(sha, ord, committed_at, subject) VALUES ('" + sha + "', " +
              std::to_string(++ord) + ", '2026-01-01T00:00:00Z', '')");
  }
  for (const auto& [name, commit, date] :
       {std::tuple{"x", c, "2026-01-01"}, {"y", a, "2026-01-02"}, {"z", b, "2026-01-03"}}) {
    w.run({.name = name, .experiment = "e", .date = date, .commit = commit, .status = "complete"});
    w.match("x_in", 0);
  }
  judge_all(w);
  const std::vector<HistoryFamily> families = lay_out(read_history(w.db, {}));
  ASSERT_EQ(families.size(), 1U);
  std::string order;
  for (const HistoryColumn& column : families[0].columns) order += column.commits.front()[0];
  EXPECT_EQ(order, "abc");
}

TEST_F(HistoryPage, AFaultOnPurposeHidesNoFailure) {
  w.run({.name = "bad", .experiment = "e", .commit = "c1", .status = "complete"});
  w.divergent("x_in", 0);
  w.run({.name = "bad#2", .experiment = "e", .commit = "c1", .status = "complete"});
  w.db.exec("INSERT INTO attribute(run_id, dim, value, rank) VALUES (" +
            std::to_string(w.current_run()) + ", 'inject', 'rope_theta@decode', 0)");
  w.divergent("x_in", 0);
  judge_all(w);
  const std::string page = page_of_history(w.db);
  EXPECT_NE(page.find("<td class=f2 aria-label=\"FAIL, worst of 2 runs\">"), std::string::npos);
}

class HistoryCommand : public ProgramTest {};

TEST_F(HistoryCommand, WritesPagesOfRunsBesideIt) {
  {
    Warehouse w(database());
    fill_history(w, 12);
  }
  Result result = run({"history", "--format", "html", "--with-runs", "site", "--most-runs", "3"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(result.says("wrote site/history.html and the pages of 3 runs; 33 have none"));
  const std::string page = read(path("site/history.html"));
  const json data = data_of(page);
  ASSERT_EQ(data["pages"].size(), 3U);
  for (const auto& [run, file] : data["pages"].items()) {
    EXPECT_NE(read(path("site/" + file.get<std::string>()))
                  .find("<main>\n<p><a href=\"history.html\">History</a></p>"),
              std::string::npos);
    EXPECT_NE(page.find("<a href=\"" + file.get<std::string>() + "\""), std::string::npos);
    EXPECT_EQ(data["runs"]["rows"][std::stoul(run)][18], "BROKEN");
  }
  result = run({"history", "--format", "html", "--with-runs", "site"});
  EXPECT_EQ(result.status, 2);
  EXPECT_TRUE(result.says("exists: give --force"));
  result =
      run({"history", "--format", "html", "--with-runs", "site", "--most-runs", "0", "--force"});
  EXPECT_TRUE(result.says("the pages of 0 runs"));
  EXPECT_EQ(run({"history", "--with-runs", "site"}).status, 2);
  EXPECT_EQ(run({"history", "--format", "html", "--matrix"}).status, 2);
}

TEST_F(HistoryCommand, FiltersAndSaysWhereNothingIsLeft) {
  {
    Warehouse w(database());
    fill_history(w, 12);
  }
  json data = data_of(
      run({"history", "--format", "html", "--mode", "as_designed", "--since", "2026-01-09"}).out);
  EXPECT_EQ(data["runs"]["rows"].size(), 8U);
  EXPECT_EQ(data["regressions"]["rows"].size(), 1U);
  EXPECT_TRUE(
      run({"history", "--format", "html", "--since", "2030-01-01"}).answers(0, {"No run fits."}));
}

}  // namespace
}  // namespace greta
