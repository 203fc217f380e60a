// The page of a gate: its answer, why, and what the JSON says.
#include "tests/cli/program.h"
#include "tests/cli/show/made_history.h"
#include "tests/cli/show/page_html.h"

namespace greta {
namespace {

using nlohmann::json;

class GatePage : public ProgramTest {
 protected:
  GatePage() : w(database()) {}

  int64_t add(const std::string& name, int n) {
    return w.run({.name = name,
                  .experiment = "ci",
                  .mode = "as_designed",
                  .date = day(n),
                  .commit = "c" + std::to_string(n),
                  .status = "complete"});
  }
  void fill() {
    for (const char* name : {"good", "better", "bad"}) {
      add(name, n_++);
      w.match("x_in", 0);
      w.rounding("attn_out", 0);
      name == std::string("bad") ? w.divergent("attn_out", 1) : w.match("attn_out", 1);
    }
    judge_all(w);
  }
  std::string page(const std::string& run_name, const std::string& language = "en") const {
    const char* option = run_name == "ci" ? "--experiment" : "--run";
    return run({"gate", option, run_name, "--format", "html", "--lang", language}).out;
  }

  Warehouse w;
  int n_ = 0;
};

TEST_F(GatePage, SaysWhetherItMayMergeAndWhyNot) {
  fill();
  const Result bad = run({"gate", "--run", "bad", "--format", "html"});
  EXPECT_EQ(bad.status, 1);
  for (const char* text :
       {"It may not merge: the run fails at <code>layer 1, attn_out, prompt p0, pos 37</code>.",
        "FAIL: ATTN_OUT_DRIFT at layer 1, attn_out, prompt p0, pos 37; strict FAIL",
        "BROKEN since better", "firstfail --run &#39;bad&#39;",
        "ATTN_OUT_DRIFT at attn_out, pos 37: 1 DRIFT DIVERGENT"})
    EXPECT_NE(bad.out.find(text), std::string::npos) << text;
  const Result good = run({"gate", "--run", "better", "--format", "html"});
  EXPECT_EQ(good.status, 0);
  EXPECT_NE(good.out.find("It may merge: the run passes."), std::string::npos);
  EXPECT_NE(good.out.find("--strict gives FAIL"), std::string::npos);
  const std::string all = page("ci");
  EXPECT_NE(all.find("It may not merge: 1 of 3 runs fail"), std::string::npos);
  const std::string spanish = page("ci", "es");
  EXPECT_NE(spanish.find("No se puede fusionar: fallan 1 de 3 ejecuciones"), std::string::npos);
  EXPECT_EQ(spanish.find("It may not"), std::string::npos);
}

TEST_F(GatePage, AFailSaysByWordAndShapeWhatKindItIs) {
  const auto one = [&](const char* name) { add(name, n_++), w.match("attn_out", 0); };
  one("unmeasured");
  w.drift("x_in", 0);
  one("unpaired");
  w.add(prefill("x_in", 0, 3));
  one("values");
  w.divergent("x_in", 0);
  one("elsewhere");
  w.add(prefill("x_in", 0, 7), decode("x_in", 0, 8));
  one("far");
  w.add(prefill("x_in", 0, 5).sketched({0, 9, 0, 0}), decode("x_in", 0, 6).sketched({0, 9, 0, 0}));
  judge_all(w);
  const auto headline = [](const std::string& page) {
    const size_t from = page.find("<p class=headline>") + 18;
    return page.substr(from, page.find("</p>", from) - from);
  };
  const auto compared = [&](const char* a, const char* b) {
    return headline(run({"compare", a, b, "--format", "html"}).out);
  };
  const std::string unmeasured =
      "<strong class=\"verdict bad unmeasured\">FAIL</strong>"
      " <span class=remark>by how much is not known</span>";
  const std::string unpaired =
      "<strong class=\"verdict bad unpaired\">FAIL</strong>"
      " <span class=remark>rows have no partner</span>";
  const std::string values = "<strong class=\"verdict bad values\">FAIL</strong>";
  EXPECT_EQ(headline(page("unmeasured")), unmeasured);
  EXPECT_EQ(headline(page("unpaired")), unpaired);
  EXPECT_EQ(headline(page("ci")), values) << "of several what is known";
  EXPECT_EQ(compared("unmeasured", "elsewhere"), unmeasured);
  EXPECT_EQ(compared("unmeasured", "unpaired"), unpaired);
  EXPECT_EQ(compared("values", "far"), values);
}

TEST_F(GatePage, WithoutAVerdictItIsNoYes) {
  add("empty", 0);
  const Result result = run({"gate", "--run", "empty", "--format", "html"});
  EXPECT_EQ(result.status, 3);
  EXPECT_NE(result.out.find("Nothing says that it may merge"), std::string::npos);
  EXPECT_NE(result.out.find("nothing was compared"), std::string::npos);
}

TEST_F(GatePage, ItsDataIsTheJsonOfTheCommand) {
  fill();
  EXPECT_EQ(data_of(page("ci"))["gate"],
            run({"gate", "--experiment", "ci", "--format", "json"}).json());
}

TEST_F(GatePage, CellsAreTheRowsOfGateCase) {
  fill();
  std::string html = page("bad");
  html = html.substr(html.find("<table class=\"map cases\""));
  html = html.substr(0, html.find("</table>"));
  std::string cells;
  for (const Tag& tag : tags_of(html)) {
    if (tag.name == "td")
      cells += tag.attributes.at("class") + "=" + tag.attributes.at("aria-label") + " ";
  }
  EXPECT_EQ(cells, "m=PASS f2=FAIL ");
  EXPECT_EQ(
      w.rows(
          "SELECT layer, status FROM gate_case WHERE run = 'bad' AND gate = 'numeric' ORDER BY 1"),
      "0|PASS\n1|FAIL");
}

TEST_F(GatePage, NamesWhatIsWaivedAndUntilWhen) {
  fill();
  ASSERT_EQ(run({"waive", "--tensor", "attn_out", "--layer", "1", "--until", "2999-12-31",
                 "--reason", "known <since> the new kernel"})
                .status,
            0);
  const std::string html = page("bad");
  EXPECT_NE(html.find("known &lt;since&gt; the new kernel"), std::string::npos);
  EXPECT_NE(html.find("2999-12-31"), std::string::npos);
  EXPECT_NE(html.find("without waivers FAIL"), std::string::npos);
}

TEST_F(GatePage, GoesToAFileBesideTheOthers) {
  fill();
  EXPECT_TRUE(run({"gate", "--run", "bad", "--html", "gate.html", "--json", "gate.json"})
                  .answers(1, {"FAIL  bad"}));
  EXPECT_EQ(data_of(read(path("gate.html")))["gate"], json::parse(read(path("gate.json"))));
}

}  // namespace
}  // namespace greta
