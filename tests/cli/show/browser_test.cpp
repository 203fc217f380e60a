// What a person meets in a browser: headless Chromium opens the pages of a probe with a fault.
#include <algorithm>
#include <iterator>
#include <sstream>

#include "tests/cli/show/browser_case.h"
#include "tests/cli/show/contrast.h"
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
      EXPECT_EQ(look, state == "MATCH"             ? "m"
                      : state == "DRIFT ROUNDING"  ? "r"
                      : state == "DRIFT DIVERGENT" ? "f"
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
  for (const char* name : {"run.html", "es.html", "compare.html", "runs.html"}) {
    browser().open_file(page(name));
    EXPECT_LE(browser().evaluate("document.documentElement.scrollWidth"), 360) << name;
    expect_no_complaint();
  }
}

TEST_F(PageInBrowser, EveryTextHasTheContrastOfWcagAA) {
  for (const char* scheme : {"light", "dark"}) {
    browser().prefer(scheme);
    for (const char* name : {"run.html", "compare.html", "runs.html"}) {
      browser().open_file(page(name));
      browser().evaluate("document.querySelector('td.first, td[tabindex]')?.focus()");
      const json bad = browser().evaluate(kTooLittleContrast);
      EXPECT_TRUE(bad.empty()) << scheme << " " << name << ": " << bad.dump();
    }
  }
}

TEST_F(PageInBrowser, CanBeReadWithoutItsScript) {
  browser().call("Emulation.setScriptExecutionDisabled", {{"value", true}});
  browser().open_file(page("run.html"));
  browser().picture(picture("run-without-script.png"));
  const json document = browser().call("DOM.getDocument");
  const auto count = [&](const char* selector) {
    return browser()
        .call("DOM.querySelectorAll",
              {{"nodeId", document["root"]["nodeId"]}, {"selector", selector}})["nodeIds"]
        .size();
  };
  EXPECT_EQ(count("td[role]"), 0U);
  EXPECT_EQ(count(".script:not([hidden])"), 0U);
  EXPECT_EQ(count("table.map[data-map] caption"), 1U);
  EXPECT_EQ(count("svg[aria-label]"), count("svg"));
  EXPECT_EQ(count("svg"), 2U);
  browser().call("Emulation.setScriptExecutionDisabled", {{"value", false}});
}

TEST_F(PageInBrowser, PicturesAreMadeForWhoLooksAtThem) {
  for (const char* name : {"run", "compare", "runs", "es"}) {
    for (const char* scheme : {"light", "dark"}) {
      browser().prefer(scheme);
      browser().resize(1200, 900);
      browser().open_file(page(std::string(name) + ".html"));
      browser().picture(picture(std::string(name) + "-" + scheme + ".png"));
    }
    browser().prefer("light");
    browser().resize(360, 740, true);
    browser().open_file(page(std::string(name) + ".html"));
    browser().picture(picture(std::string(name) + "-phone.png"));
  }
  browser().open_file(page("run.html"));
  browser().evaluate("document.querySelector('td.first').click()");
  browser().picture(picture("panel-phone.png"), false);
  browser().resize(1200, 900);
  browser().open_file(page("run.html"), "#map=0&panel=0&layer=3&tensor=q_post_rope");
  browser().picture(picture("panel-light.png"), false);
  browser().print(picture("run.pdf"));
  EXPECT_GT(std::filesystem::file_size(picture("run.pdf")), 10'000U);
  EXPECT_GT(std::filesystem::file_size(picture("run-dark.png")), 10'000U);
}

}  // namespace
}  // namespace greta
