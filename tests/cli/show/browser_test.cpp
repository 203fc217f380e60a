// Pages in a browser: headless Chromium opens the pages of a probe with a fault, of a
// history and of a gate.
#include <algorithm>
#include <iterator>
#include <sstream>

#include "cli/warehouse/sql_query.h"
#include "tests/cli/show/browser_case.h"
#include "tests/cli/show/contrast.h"
#include "tests/cli/show/made_history.h"
#include "tests/cli/show/page_html.h"

namespace greta {
namespace {

using nlohmann::json;

struct MadePages {
  template <class Shell>
  void make(const Shell& sh) {
    const std::string infer = ProgramTest::quoted(GRETA_INFER_PROGRAM),
                      db = ProgramTest::quoted((folder / "x.db").string());
    const std::string probe = infer + " probe --model m.gguf --db " + db +
                              " --layers all --tensors all --tokens '1 2 3 4' --decode-steps 4";
    const Result result =
        sh(infer + " synth --preset tiny --type f32 --layers 6 --out m.gguf && { " + probe +
           " --name p0 --inject rope_theta@decode:layer=3; " + probe + " --name p0; R='" +
           "'$($G --db " + db +
           " --format tsv query 'SELECT min(name) FROM run' | tail -1);"
           " $G --db " +
           db + " --format html report --run \"$R\" --out " +
           ProgramTest::quoted((folder / "run.html").string()) + "; $G --db " + db +
           " --format html report --lang es --run \"$R\" --out " +
           ProgramTest::quoted((folder / "es.html").string()) + "; $G --db " + db +
           " --format html compare \"$R\" \"$R#2\" > " +
           ProgramTest::quoted((folder / "compare.html").string()) + "; $G --db " + db +
           " --format html report --run \"$($G --db " + db +
           " --format tsv query 'SELECT min(experiment) FROM run' | tail -1)\" --out " +
           ProgramTest::quoted((folder / "runs.html").string()) + "; true; }");
    if (result.status != 0) throw std::runtime_error(result.err);
    make_deep(sh);
    make_history(sh);
  }

  /// 96 layers, of which the 40th fails, and the run beside one that does not.
  template <class Shell>
  void make_deep(const Shell& sh) {
    const std::string file = (folder / "deep.db").string(),
                      path = ProgramTest::quoted(folder.path().string());
    {
      Warehouse w(file);
      for (const char* name : {"good", "bad"}) {
        w.run({.name = name});
        for (int layer = 0; layer < 96; ++layer) {
          for (const char* tensor :
               {"residual_pre_attn", "attn_norm_out", "q_post_rope", "residual_post_attn"}) {
            if (name == std::string("good") || layer < 40) {
              w.match(tensor, layer);
            } else {
              w.divergent(tensor, layer);
            }
          }
        }
      }
      judge_all(w);
    }
    const std::string of = "$G --db " + ProgramTest::quoted(file) + " --format html ";
    const Result made = sh(of + "report --run bad --out " + path + "/deep.html; " + of +
                           "compare good bad > " + path + "/deep-compare.html; true");
    if (made.status != 0) throw std::runtime_error(made.err);
  }

  template <class Shell>
  void make_history(const Shell& sh) {
    const std::string file = (folder / "h.db").string();
    {
      Warehouse w(file);
      fill_history(w, 12);
    }
    const std::string of = " --db " + ProgramTest::quoted(file) + " --format html ",
                      out = ProgramTest::quoted(folder.path().string());
    const Result history =
        sh("$G" + of + "history --with-runs " + out + "/site --most-runs 3 && $G" + of +
           "history > " + out + "/history.html && $G" + of + "history --lang es > " + out +
           "/history-es.html; $G" + of + "gate --experiment toy > " + out + "/gate.html; $G" + of +
           "gate --lang es --run 2026-01-09/toy/as_designed > " + out + "/gate-es.html; true");
    if (history.status != 0) throw std::runtime_error(history.err);
  }
  TemporaryFolder folder;
};

class PageInBrowser : public BrowserCase<MadePages> {
 protected:
  /// A cell of the first map.
  static std::string cell(size_t layer, size_t tensor) {
    return "table.map tbody tr:nth-child(" + std::to_string(layer + 1) + ") td:nth-child(" +
           std::to_string(tensor + 2) + ")";
  }
  /// A square of the matrix of toy: a mode and a day.
  static std::string square(int mode, int day_of) {
    return "table.history[data-map='0'] tbody tr:nth-child(" + std::to_string(mode + 1) +
           ") td:nth-child(" + std::to_string(day_of + 2) + ")";
  }
  static json evaluate(const std::string& expression) { return browser().evaluate(expression); }
  static size_t count(const std::string& selector) {
    return evaluate("document.querySelectorAll(" + json(selector).dump() + ").length");
  }
};

TEST_F(PageInBrowser, CellsAreTheRowsOfTheDataBlock) {
  browser().open_file(page("run.html"));
  const json data = data_of(read(page("run.html")));
  const json& map = data["maps"][0]["map"];
  std::map<std::pair<size_t, size_t>, std::string> states;
  for (const json& cell : cells_of(map)) states[{cell["row"], cell["column"]}] = cell["state"];
  for (size_t l = 0; l < map["layers"].size(); ++l) {
    for (size_t t = 0; t < map["tensors"].size(); ++t) {
      const std::string look = browser().evaluate(
          "document.querySelector(" + json(cell(l, t)).dump() + ")?.className[0] || ''");
      if (!states.contains({l, t})) {
        EXPECT_TRUE(look.empty() || look == "t") << look;
        continue;
      }
      const std::string& state = states[{l, t}];
      EXPECT_EQ(look, state == "MATCH"                                          ? "m"
                      : state == "DRIFT ROUNDING" || state == "DRIFT EXPLAINED" ? "r"
                      : state == "DRIFT DIVERGENT"                              ? "f"
                                                                                : state);
    }
  }
  EXPECT_GT(states.size(), 100U);
  EXPECT_EQ(browser().evaluate("document.querySelectorAll('td[role=gridcell]').length"),
            states.size());
  expect_no_complaint();
}

TEST_F(PageInBrowser, PointingAtACellShowsItsRow) {
  browser().open_file(page("run.html"));
  const json data = data_of(read(page("run.html")));
  const json& map = data["maps"][0]["map"];
  browser().point_at("td.first");
  const std::string text = panel();
  EXPECT_NE(text.find("q_post_rope, layer 3"), std::string::npos) << text;
  const json at = browser().evaluate(
      "(() => { const td = document.querySelector('td.first');"
      " return [td.parentNode.sectionRowIndex, td.cellIndex - 1]; })()");
  const auto cells = cells_of(map);
  const auto shown = std::find_if(cells.begin(), cells.end(), [&](const json& cell) {
    return cell["row"] == at[0] && cell["column"] == at[1];
  });
  ASSERT_NE(shown, cells.end());
  for (const char* name : {"left_hash", "right_hash"})
    EXPECT_NE(text.find(shown->at(name).get<std::string>()), std::string::npos) << text;
  std::istringstream shares(shown->at("shares").get<std::string>());
  EXPECT_EQ(browser().evaluate("document.querySelectorAll('.bars span').length"),
            std::distance(std::istream_iterator<int>(shares), {}));
  EXPECT_NE(text.find("DRIFT DIVERGENT"), std::string::npos) << text;
  EXPECT_NE(text.find("q_pre_rope@3: within rounding"), std::string::npos) << text;
  EXPECT_NE(text.find("between q_pre_rope and q_post_rope of layer 3"), std::string::npos) << text;
  browser().point_at("h1");
  EXPECT_EQ(panel(), "");
  expect_no_complaint();
}

TEST_F(PageInBrowser, KeysMoveOpenCloseAndFilter) {
  browser().open_file(page("run.html"));
  browser().evaluate("document.querySelector('td.first').focus()");
  browser().press("ArrowUp");
  EXPECT_NE(panel().find("q_post_rope, layer 2"), std::string::npos) << panel();
  browser().press("ArrowRight");
  EXPECT_NE(panel().find("k_post_rope, layer 2"), std::string::npos) << panel();
  browser().press("ArrowDown");
  browser().press("Enter", "\r");
  EXPECT_EQ(browser().evaluate("document.activeElement.tagName"), "H3");
  EXPECT_NE(std::string(browser().evaluate("location.hash")).find("tensor=k_post_rope"),
            std::string::npos);
  browser().press("Escape");
  EXPECT_EQ(browser().evaluate("document.activeElement.tagName"), "TD");
  EXPECT_EQ(browser().evaluate("location.hash"), "");
  browser().press("/", "/");
  browser().type("attn_out 3");
  EXPECT_EQ(browser().evaluate("document.querySelectorAll('td[role=gridcell]:not(.dim)').length"),
            1);
  browser().press("Escape");
  EXPECT_EQ(browser().evaluate("document.querySelectorAll('td.dim').length"), 0);
  expect_no_complaint();
}

TEST_F(PageInBrowser, AnAddressRestoresWhatWasOpen) {
  browser().open_file(page("run.html"), "#map=0&panel=0&layer=4&tensor=mlp_out&filter=mlp");
  EXPECT_NE(panel().find("mlp_out, layer 4"), std::string::npos) << panel();
  EXPECT_EQ(browser().evaluate("document.querySelector('input.filter').value"), "mlp");
  EXPECT_GT(browser().evaluate("document.querySelectorAll('td.dim').length"), 50);
  browser().open_file(page("run.html"), "#map=7&tensor=%3Cscript%3E&layer=x&filter=%22%3E%3Cb%3E");
  EXPECT_EQ(panel(), "");
  expect_no_complaint();
}

TEST_F(PageInBrowser, WhereItBeginsIsInViewBehindOneLineOfEqualLayers) {
  const auto top = [](const std::string& of) {
    return evaluate("document.querySelector('" + of + "').getBoundingClientRect().top")
        .get<double>();
  };
  const auto hidden = [] {
    return evaluate(
        "document.querySelector('td.first').closest('table').querySelectorAll('tr[hidden]')."
        "length");
  };
  for (const char* name : {"deep.html", "deep-compare.html"}) {
    browser().open_file(page(name));
    EXPECT_LT(top("td.first"), 880) << name;
    EXPECT_EQ(evaluate("document.querySelector('tr.fold').innerText.trim()"), "0-39") << name;
    EXPECT_EQ(hidden(), 40U) << name;
    browser().evaluate("document.querySelector('td.first').focus()");
    browser().press("ArrowUp");  // what is hidden is no way
    EXPECT_NE(panel().find("layer 40"), std::string::npos) << panel();
    browser().point_at("tr.fold button", true);
    EXPECT_EQ(hidden(), 0U) << name;
    browser().evaluate("document.querySelector('td.first').focus()");
    browser().press("ArrowUp");
    EXPECT_NE(panel().find("layer 39"), std::string::npos) << panel();
    browser().press("/", "/");
    browser().type("17");
    EXPECT_EQ(count("tr[hidden]"), 0U) << name;
    EXPECT_GT(count("td[role=gridcell]:not(.dim)"), 0U) << name;
    browser().press("Escape");
    EXPECT_EQ(hidden(), 40U) << name;
    browser().open_file(page(name), "#map=0&panel=0&layer=17&tensor=q_post_rope");
    EXPECT_NE(panel().find("q_post_rope, layer 17"), std::string::npos) << panel();
    EXPECT_EQ(hidden(), 0U) << name;
    expect_no_complaint();
  }
}

TEST_F(PageInBrowser, AColumnsHeadSorts) {
  browser().open_file(page("run.html"));
  browser().point_at("table.sortable th:nth-child(5) button", true);
  browser().point_at("table.sortable th:nth-child(5) button", true);
  EXPECT_EQ(
      browser().evaluate("(() => { const n = [...document.querySelectorAll('table.sortable tbody"
                         " td:nth-child(5)')].map((td) => Number(td.textContent));"
                         " return n.every((x, i) => i === 0 || x <= n[i - 1]); })()"),
      true);
  expect_no_complaint();
}

TEST_F(PageInBrowser, FitsAPhoneWithoutSidewaysScrolling) {
  browser().resize(360, 740, true);
  for (const char* name : {"run.html", "es.html", "compare.html", "runs.html", "history.html",
                           "history-es.html", "gate.html", "gate-es.html"}) {
    browser().open_file(page(name));
    EXPECT_LE(browser().evaluate("document.documentElement.scrollWidth"), 360) << name;
    expect_no_complaint();
  }
}

TEST_F(PageInBrowser, EveryTextHasTheContrastOfWcagAA) {
  for (const char* scheme : {"light", "dark"}) {
    browser().prefer(scheme);
    for (const char* name :
         {"run.html", "compare.html", "runs.html", "history.html", "gate.html", "gate-es.html"}) {
      browser().open_file(page(name));
      browser().evaluate(
          "document.querySelectorAll('details').forEach((one) => { one.open = true; });"
          " document.querySelector('td.first, td[tabindex]')?.focus()");
      const json bad = browser().evaluate(kTooLittleContrast);
      EXPECT_TRUE(bad.empty()) << scheme << " " << name << ": " << bad.dump();
    }
  }
}

TEST_F(PageInBrowser, CanBeReadWithoutItsScript) {
  browser().call("Emulation.setScriptExecutionDisabled", {{"value", true}});
  const auto n = [&](const char* selector) {
    const json document = browser().call("DOM.getDocument");
    return browser()
        .call("DOM.querySelectorAll",
              {{"nodeId", document["root"]["nodeId"]}, {"selector", selector}})["nodeIds"]
        .size();
  };
  for (const char* name : {"run.html", "site/history.html"}) {
    browser().open_file(page(name));
    EXPECT_EQ(n("td[role]"), 0U) << name;
    EXPECT_EQ(n(".script:not([hidden])"), 0U) << name;
    EXPECT_EQ(n("svg[aria-label]"), n("svg")) << name;
    if (name == std::string("run.html")) {
      EXPECT_EQ(n("table.map[data-map] caption"), 1U);
      EXPECT_EQ(n("svg"), 2U);
    } else {
      EXPECT_EQ(n("table.history caption"), 2U);
      EXPECT_EQ(n("table.history td[aria-label], table.history td a[aria-label]"), 36U);
      EXPECT_EQ(n("svg"), 4U) << "attn_out and mlp_out of two modes";
    }
  }
  browser().call("Emulation.setScriptExecutionDisabled", {{"value", false}});
}

TEST_F(PageInBrowser, SquaresAreTheRunsOfTheViews) {
  browser().open_file(page("history.html"));
  SQLite::Database db = open_for_reading(page("h.db"));
  Query runs(db,
             "SELECT h.mode, h.date, h.verdict, h.strict_verdict, c.change FROM history h"
             " LEFT JOIN change c ON c.run_id = h.run_id WHERE h.experiment = 'toy'");
  size_t squares = 0;
  while (runs.step()) {
    const int mode = runs.text(0) == "as_designed" ? 0 : 1;
    const int of = std::stoi(runs.text(1).substr(8)) - 1;
    const std::string look =
        evaluate("document.querySelector(" + json(square(mode, of)).dump() + ").className");
    const std::string expected = runs.text(2) == "FAIL"   ? "f2"
                                 : runs.text(3) == "FAIL" ? "r2"
                                                          : "m";
    EXPECT_EQ(look.substr(0, look.find(' ')), expected) << runs.text(0) << " " << runs.text(1);
    EXPECT_EQ(look.find("broken") != std::string::npos, runs.text(4) == "BROKEN") << look;
    EXPECT_EQ(look.find("fixed") != std::string::npos, runs.text(4) == "FIXED") << look;
    ++squares;
  }
  EXPECT_EQ(squares, 24U);
  EXPECT_EQ(count("td[role=gridcell]"), 36U);
  EXPECT_EQ(count("td.first"), 4U);
  expect_no_complaint();
}

TEST_F(PageInBrowser, PointingAtASquareShowsItsRow) {
  browser().open_file(page("history.html"));
  browser().point_at(square(0, 3));
  for (const char* text :
       {"as_designed, 13aaaaaaaa, 2026-01-04", "FAIL beyond rounding, BROKEN",
        "2026-01-04/toy/as_designed", "ATTN_OUT_DRIFT: attn_out, layer 1",
        "2026-01-03/toy/as_designed", "1 within rounding, 1 beyond rounding", "0.5", "0.01"})
    EXPECT_NE(panel().find(text), std::string::npos) << text << "\n" << panel();
  browser().point_at("h1");
  EXPECT_EQ(panel(), "");
  expect_no_complaint();
}

TEST_F(PageInBrowser, KeysMoveOpenAndClose) {
  browser().open_file(page("history.html"));
  browser().evaluate("document.querySelector(" + json(square(0, 3)).dump() + ").focus()");
  browser().press("ArrowRight");
  EXPECT_NE(panel().find("2026-01-05/toy/as_designed"), std::string::npos) << panel();
  browser().press("ArrowDown");
  EXPECT_NE(panel().find("2026-01-05/toy/batch_invariant"), std::string::npos) << panel();
  browser().press("Enter", "\r");
  EXPECT_EQ(evaluate("document.activeElement.tagName"), "H3");
  EXPECT_EQ(evaluate("new URLSearchParams(location.hash.slice(1)).get('run')"),
            "2026-01-05/toy/batch_invariant");
  browser().press("Escape");
  EXPECT_EQ(evaluate("location.hash"), "");
  EXPECT_EQ(evaluate("document.activeElement === document.querySelector(" +
                     json(square(1, 4)).dump() + ")"),
            true);
  browser().press("Escape");
  EXPECT_EQ(panel(), "");
  expect_no_complaint();
}

TEST_F(PageInBrowser, FiltersByTextExperimentModeTensorAndDate) {
  browser().open_file(page("history.html"));
  const auto bright = [] { return count("td[role=gridcell]:not(.dim)"); };
  const auto choose = [](const std::string& key, const std::string& value) {
    evaluate("(() => { const e = document.querySelector('[data-key=" + key + "]'); e.value = " +
             json(value).dump() + "; e.dispatchEvent(new Event('input')); })()");
  };
  EXPECT_EQ(bright(), 36U);
  browser().press("/", "/");
  browser().type("broken toy");
  EXPECT_EQ(bright(), 4U);
  EXPECT_EQ(count("tr[data-run]:not([hidden])"), 4U + 4U);
  EXPECT_EQ(evaluate("document.querySelector('.fits').textContent"), "4 of 36 runs fit.");
  EXPECT_EQ(count("section.family:not([hidden])"), 1U);
  browser().press("Escape");
  EXPECT_EQ(bright(), 36U);
  choose("experiment", "other");
  EXPECT_EQ(bright(), 12U);
  EXPECT_EQ(count("section.family:not([hidden])"), 1U);
  choose("experiment", "");
  choose("mode", "batch_invariant");
  EXPECT_EQ(bright(), 12U);
  EXPECT_EQ(count("details.drift:not([hidden])"), 1U);
  choose("from", "2026-01-03");
  choose("to", "2026-01-05");
  EXPECT_EQ(bright(), 3U);
  choose("mode", "");
  choose("from", "");
  choose("to", "");
  choose("tensor", "mlp_out");
  EXPECT_EQ(bright(), 8U);
  EXPECT_EQ(count("figure[data-tensor]:not([hidden])"), 2U);
  EXPECT_EQ(evaluate("location.hash"), "#tensor=mlp_out");
  expect_no_complaint();
}

TEST_F(PageInBrowser, ALinkRestoresWhatWasOpen) {
  browser().open_file(page("history.html"),
                      "#mode=as_designed&filter=broken&run=2026-01-09%2Ftoy%2Fas_designed");
  EXPECT_NE(panel().find("2026-01-09/toy/as_designed"), std::string::npos) << panel();
  EXPECT_EQ(count("td[role=gridcell]:not(.dim)"), 2U);
  EXPECT_EQ(evaluate("document.querySelector('[data-key=mode]').value"), "as_designed");
  EXPECT_EQ(evaluate("document.querySelector('input.filter').value"), "broken");
  expect_no_complaint();
}

TEST_F(PageInBrowser, AClickLeadsToTheRunsPage) {
  browser().open_file(page("site/history.html"));
  EXPECT_EQ(count("table.history td a"), 3U);
  browser().evaluate("document.querySelector(" + json(square(0, 8)).dump() + ").focus()");
  browser().press("Enter", "\r");
  EXPECT_EQ(evaluate("document.activeElement.tagName"), "A") << "Enter once more opens the page";
  browser().press("Escape");
  browser().point_at(square(0, 8) + " a", true);
  std::string title;
  for (int i = 0; i < 100 && title.find("FAIL") == std::string::npos; ++i) {
    try {
      title = browser().evaluate("document.title");
    } catch (const std::runtime_error&) {  // asked while one page gives way to the other
    }
  }
  EXPECT_EQ(title, "2026-01-09/toy/as_designed: FAIL beyond rounding");
}

TEST_F(PageInBrowser, TablesSortAndEverythingIsPrinted) {
  browser().open_file(page("history.html"));
  const auto first = [] {
    return std::string(
        evaluate("document.querySelector('table.sortable tbody tr td:nth-child(3)').textContent"));
  };
  EXPECT_EQ(first(), "2026-01-09");
  browser().evaluate("document.querySelector('table.sortable th:nth-child(3) button').click()");
  EXPECT_EQ(first(), "2026-01-04");
  browser().print(page("history.pdf"));
  EXPECT_GT(std::filesystem::file_size(page("history.pdf")), 10'000U);
  EXPECT_EQ(count("details:not([open])"), 0U);
  browser().prefer("light", "print");
  EXPECT_EQ(evaluate("getComputedStyle(document.querySelector('.controls')).display"), "none");
  expect_no_complaint();
}

TEST_F(PageInBrowser, TheGateHasNothingToComplainOf) {
  for (const char* name : {"gate.html", "gate-es.html"}) {
    browser().open_file(page(name));
    EXPECT_GT(count("td[aria-label=FAIL]"), 0U) << name;
    expect_no_complaint();
  }
  browser().open_file(page("gate.html"));
  EXPECT_EQ(count("table.sortable th button"), 8U + 3 * (count("section.run") - 0));
}

}  // namespace
}  // namespace greta
