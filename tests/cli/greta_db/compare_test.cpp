#include <utility>
#include <vector>

#include "tests/cli/program.h"

namespace greta {
namespace {

class CompareCommand : public ProgramTest {};

TEST_F(CompareCommand, TellsWhereTwoRunsDiffer) {
  Warehouse warehouse(database());
  warehouse.run({.name = "a"});
  warehouse.match("x_in", 0);
  warehouse.match("attn_out", 0);
  warehouse.run({.name = "same"});
  warehouse.match("x_in", 0);
  warehouse.match("attn_out", 0);
  warehouse.run({.name = "other"});
  warehouse.match("x_in", 0);
  warehouse.drift("attn_out", 0);
  warehouse.run({.name = "elsewhere"});
  warehouse.match("mlp_out", 7);
  warehouse.run({.name = "empty"});
  EXPECT_EQ(run({"compare", "a", "same"}).status, 0);
  Result differs = run({"compare", "a", "other", "--format", "json"});
  EXPECT_EQ(differs.status, 1);
  EXPECT_EQ(differs.json()["first_difference"]["tensor"], "attn_out");
  EXPECT_EQ(differs.json()["first_difference"]["phase"], "decode0");
  EXPECT_EQ(differs.json()["total"]["match"], 3);
  EXPECT_EQ(run({"compare", "a", "other", "--rows", "--format", "json"}).json().size(), 1u);
  EXPECT_EQ(run({"compare", "a", "elsewhere"}).status, 3);
  EXPECT_TRUE(run({"compare", "a", "a"}).says("firstfail --run a"));
  EXPECT_EQ(run({"compare", "e", "a"}).status, 2);  // an experiment of several runs
  EXPECT_EQ(run({"compare", "a"}).status, 2);
}

TEST_F(CompareCommand, BeginsWithTheVerdict) {
  Warehouse warehouse(database());
  const std::vector<float> values = {1000, 1000, 0, 0}, close = {999, 1000, 0, 0},
                           far = {1, 2, 3, 4};
  for (const auto& [name, sketch] :
       {std::pair{"a", values}, {"same", values}, {"close", close}, {"far", far}}) {
    warehouse.run({.name = name});
    const uint64_t hash = sketch == values ? 1 : 2;
    warehouse.add(prefill("x_in", 0, hash).sketched(sketch == far ? close : sketch),
                  prefill("attn_out", 0, hash).sketched(sketch));
  }
  warehouse.run({.name = "unknown"});
  warehouse.add(prefill("x_in", 0, 3), prefill("attn_out", 0, 3));
  const auto first_line = [&](const std::string& b, const std::string& gate = "") {
    const Result result = shell("$G compare a " + b + gate);
    return result.out.substr(0, result.out.find('\n')) + ", " + std::to_string(result.status);
  };
  EXPECT_EQ(first_line("same"), "PASS, 0");
  EXPECT_EQ(first_line("close"), "PASS (rounding only; bitwise equal: no), 0");
  EXPECT_EQ(first_line("close", " --gate strict"), "FAIL, 1");
  EXPECT_EQ(first_line("far"), "FAIL beyond rounding, 1");
  EXPECT_EQ(first_line("unknown"), "FAIL, 1");
  EXPECT_EQ(first_line("unknown", " --gate numeric"), "INCOMPARABLE, 3");
  const nlohmann::json json = run({"compare", "a", "close", "--format", "json"}).json();
  EXPECT_EQ(json["verdict"], "PASS");
  EXPECT_EQ(json["headline"], "PASS (rounding only; bitwise equal: no)");
  EXPECT_EQ(json["strict_verdict"], "FAIL");
  EXPECT_EQ(json["numeric_verdict"], "PASS");
}

TEST_F(CompareCommand, NamesTheFirstRowBeyondRounding) {
  Warehouse warehouse(database());
  warehouse.run({.name = "a"});
  warehouse.add(prefill("x_in", 0, 1).sketched({1000, 0, 0, 0}),
                prefill("attn_out", 0, 1).sketched({2, 0, 0, 0}));
  warehouse.run({.name = "b"});
  warehouse.add(prefill("x_in", 0, 2).sketched({999, 0, 0, 0}),
                prefill("attn_out", 0, 2).sketched({1, 0, 0, 0}));
  const Result numeric = run({"compare", "a", "b"});
  EXPECT_LT(numeric.out.find("first beyond rounding: DRIFT DIVERGENT at layer 0, attn_out"),
            numeric.out.find("first difference: DRIFT ROUNDING at layer 0, residual_pre_attn"))
      << numeric.out;
  nlohmann::json json = run({"compare", "a", "b", "--format", "json"}).json();
  EXPECT_EQ(json["first_difference"]["tensor"], "residual_pre_attn");
  EXPECT_EQ(json["first_beyond_rounding"]["tensor"], "attn_out");
}

/// The layer of the marked square of a page, and the caption of its map.
std::string marked_in(const std::string& page) {
  const auto before = [&](size_t at, const std::string& start) {
    const size_t from = page.rfind(start, at) + start.size();
    return page.substr(from, page.find_first_of("<:", from) - from);
  };
  const size_t at = page.find(" first\">", page.find("<table class=\"map"));
  if (at == std::string::npos) return "none";
  return before(at, "<th scope=row>") + " of " + before(at, "<caption>");
}

TEST_F(CompareCommand, TextRowsAndPageBeginAtTheSamePlace) {
  Warehouse warehouse(database());
  for (const bool other : {false, true}) {
    warehouse.run({.name = other ? "b" : "a"});
    const uint64_t hash = other ? 2 : 1;
    const float one = other ? 999.0F : 1000.0F, two = other ? 1.0F : 2.0F;
    const Row in = prefill("x_in", 0, hash).token(other ? 8 : 7);
    warehouse.use_prompt("another_token");  // nothing decides, and what follows comes last
    warehouse.add(in.at(1), decode("x_in", 0, hash).at(2).sketched({two, 0, 0, 0}));
    warehouse.use_prompt("p");
    warehouse.add(prefill("x_in", 1, 1), prefill("attn_out", 1, hash).sketched({one, 0, 0, 0}),
                  prefill("mlp_out", 2, hash).sketched({two, 0, 0, 0}),
                  prefill("mlp_out", 3, hash).sketched({two, 0, 0, 0}));
    if (other) warehouse.add(prefill("wo_out", 1, 1));
  }
  const auto expect = [&](const std::string& gate, const std::string& text, const std::string& row,
                          const std::string& mark) {
    const auto ask = [&](const std::string& more) {
      return shell("$G compare a b --gate " + gate + more).out;
    };
    const std::string told = ask("");
    EXPECT_EQ(told.substr(told.find("first"), text.size()), text) << told;
    const std::string rows = ask(" --rows --format csv");
    EXPECT_EQ(rows.substr(rows.find('\n') + 1, row.size()), row) << rows;
    EXPECT_TRUE(ask(" --format csv").find("," + mark.substr(0, 1) + ",") != std::string::npos);
    const std::string page = ask(" --format html");
    EXPECT_EQ(marked_in(page), mark);
    const std::string list = page.substr(page.find("<table class=sortable"));
    EXPECT_TRUE(list.substr(list.find("<tbody>"))
                    .starts_with("<tbody>\n<tr><td>" + mark.substr(0, 1) + "</td>"));
  };
  expect("numeric", "first beyond rounding: DRIFT DIVERGENT at layer 2, mlp_out",
         "p,prefill_last,37,2,mlp_out,DRIFT,DIVERGENT,", "2 of Prompt p, prefill_last");
  expect("strict", "first difference: DRIFT ROUNDING at layer 1, attn_out",
         "p,prefill_last,37,1,attn_out,DRIFT,ROUNDING,", "1 of Prompt p, prefill_last");
  const std::string rows = run({"compare", "a", "b", "--rows", "--format", "csv"}).out;
  const size_t last = rows.rfind("\r\n", rows.size() - 3) + 2;
  EXPECT_TRUE(rows.substr(last).starts_with("another_token,prefill_last,1,0,")) << rows;
}

TEST_F(CompareCommand, SaysThatInstructionSetsDifferWhereBitsDo) {
  Warehouse warehouse(database());
  const auto add = [&](const std::string& name, const std::string& isa, uint64_t hash) {
    const int64_t id = warehouse.run({.name = name});
    warehouse.add(prefill("x_in", 0, hash));
    if (isa.empty()) return;
    warehouse.db.exec("INSERT INTO attribute(run_id, dim, value, rank) VALUES (" +
                      std::to_string(id) + ", 'isa', '" + isa + "', 0)");
  };
  add("a", "avx2", 1);
  add("same_bits", "baseline", 1);
  add("same_isa", "avx2", 2);
  add("unknown", "", 2);
  add("other", "baseline", 2);
  for (const std::string other : {"same_bits", "same_isa", "unknown", "other"}) {
    EXPECT_EQ(run({"compare", "a", other}).says("instruction set: A has avx2, B has baseline"),
              other == "other")
        << other;
  }
  EXPECT_EQ(run({"compare", "a", "same_bits", "--format", "json"}).json()["isa_b"], "baseline");
}

TEST_F(CompareCommand, ComparesThePromptsThatBothHaveAndNamesTheOthers) {
  Warehouse warehouse(database());
  const auto add = [&](const std::string& run, const std::vector<std::string>& prompts) {
    warehouse.run({.name = run});
    for (const std::string& text : prompts) {  // its name, and whether values and tokens differ
      warehouse.use_prompt(text.substr(0, 1));
      warehouse.add(prefill("x_in", 0, text.ends_with("!") ? 2 : 1));
      if (text.find('?') != std::string::npos) {
        warehouse.db.exec("UPDATE prompt SET token_ids = '[9]' WHERE name = '" + text.substr(0, 1) +
                          "' AND run_id = (SELECT max(id) FROM run)");
      }
    }
    warehouse.db.exec("UPDATE prompt SET token_ids = ifnull(token_ids, '[1]')");
  };
  add("a", {"p", "q", "r"});
  add("same", {"p", "q", "r"});
  add("other_tokens", {"p", "q?!", "r"});
  add("one_less", {"p", "r"});
  add("one_more", {"p", "q", "r", "s"});
  add("differs", {"p!", "q?", "s"});
  add("nothing", {"s"});
  struct Case {
    std::string run, verdict, change;
    int64_t match, exit;
    std::string left_out;
  };
  for (const Case& one : std::vector<Case>{
           {"same", "PASS", "PASS", 3, 0, ""},
           {"other_tokens", "INCOMPLETE", "INCOMPARABLE", 2, 3, "q (other tokens)"},
           {"one_less", "INCOMPLETE", "FAIL", 2, 3, "q (only in run a)"},
           {"one_more", "INCOMPLETE", "FAIL", 3, 3, "s (only in run b)"},
           {"differs", "FAIL", "INCOMPARABLE", 0, 1,
            "q (other tokens), r (only in run a), s (only in run b)"},
           {"nothing", "NO_EVIDENCE", "NO_EVIDENCE", 0, 3,
            "p (only in run a), q (only in run a), r (only in run a), s (only in run b)"}}) {
    SCOPED_TRACE(one.run);
    const Result text = run({"compare", "a", one.run});
    EXPECT_EQ(text.status, one.exit) << text.out << text.err;
    EXPECT_TRUE(text.out.starts_with(one.verdict)) << text.out;
    EXPECT_EQ(text.says("left out, so that the verdict is of the other prompts: " + one.left_out),
              !one.left_out.empty());
    const nlohmann::json json = run({"compare", "a", one.run, "--format", "json"}).json();
    std::string named;
    for (const nlohmann::json& prompt : json["left_out"]) {
      named += (named.empty() ? "" : ", ") + prompt["prompt"].get<std::string>() + " (" +
               prompt["reason"].get<std::string>() + ")";
    }
    EXPECT_EQ(named, one.left_out);
    EXPECT_EQ(json["total"]["match"], one.match);
    int64_t by_tensor = 0;
    for (const nlohmann::json& tensor : json["by_tensor"]) {
      by_tensor += tensor["match"].get<int64_t>();
      EXPECT_EQ(tensor["only_a"].get<int64_t>() + tensor["only_b"].get<int64_t>(), 0);
    }
    EXPECT_EQ(by_tensor, one.match);
    EXPECT_EQ(warehouse.rows("SELECT strict_verdict FROM diff_verdict WHERE run_a = 'a'"
                             " AND run_b = '" +
                             one.run + "'"),
              one.change)
        << "a baseline is compared as a whole";
    const std::string rows = run({"compare", "a", one.run, "--rows", "--format", "csv"}).out;
    EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), one.run == "differs" ? 2 : 1) << rows;
  }
}

TEST_F(CompareCommand, KeepsVerdictNamesAndFirstDifferenceInEveryFormat) {
  Warehouse warehouse(database());
  warehouse.run({.name = "a"});
  warehouse.match("x_in", 0);
  warehouse.match("attn_out", 0);
  warehouse.run({.name = "b"});
  warehouse.match("x_in", 0);
  warehouse.drift("attn_out", 0);
  EXPECT_EQ(run({"compare", "a", "b", "--format", "csv"}).out,
            "run_a,run_b,verdict,strict_verdict,numeric_verdict,first_layer,first_tensor,"
            "first_prompt,first_phase,first_pos_id,tensor,match,rounding,divergent,unknown,"
            "nonfinite,incomparable,only_a,only_b\r\n"
            "a,b,FAIL,FAIL,INCOMPARABLE,0,attn_out,p0,decode0,37,residual_pre_attn,2,0,0,0,0,0,0,0"
            "\r\n"
            "a,b,FAIL,FAIL,INCOMPARABLE,0,attn_out,p0,decode0,37,attn_out,1,0,0,1,0,0,0,0\r\n");
  const Result page = run({"compare", "a", "b", "--format", "md"});
  EXPECT_TRUE(page.out.starts_with("### **FAIL**\n\n**A**: `a`  \n**B**: `b`  \n\n")) << page.out;
  EXPECT_TRUE(page.says("\n- strict FAIL, numeric INCOMPARABLE; 4 rows compared\n"));
  EXPECT_TRUE(page.says("ORIGIN: between residual_pre_attn and attn_out of layer 0"));
}

TEST_F(CompareCommand, ARunThatDidNotEndIsNoPass) {
  Warehouse w(database());
  w.run({.name = "a", .status = "complete"});
  w.match("x_in", 0);
  w.run({.name = "b", .status = "running"});
  w.match("x_in", 0);
  for (const std::string gate : {"strict", "numeric"}) {
    const Result result = run({"compare", "a", "b", "--gate", gate});
    EXPECT_EQ(result.status, 3) << result.out;
    EXPECT_EQ(result.out.substr(0, 10), "INCOMPLETE") << result.out;
    EXPECT_TRUE(result.says("b: it did not end (status running)"));
  }
}

TEST_F(CompareCommand, SaysWhyRunsCannotBeCompared) {
  Warehouse warehouse(database());
  for (const char* name : {"a", "b"}) {
    warehouse.run({.name = name});
    warehouse.match("x_in", 0);
    warehouse.db.exec("INSERT INTO attribute(run_id, dim, value, rank) VALUES (" +
                      std::to_string(warehouse.current_run()) + ", 'model_sha256', '" + name +
                      "', 0)");
  }
  const Result page = run({"compare", "a", "b"});
  EXPECT_EQ(page.status, 3);
  EXPECT_TRUE(page.out.starts_with("INCOMPARABLE\n")) << page.out;
  EXPECT_TRUE(page.says("cannot be compared: another model"));
  EXPECT_EQ(run({"compare", "a", "b", "--format", "json"}).json()["why_not"], "another model");
  EXPECT_TRUE(run({"compare", "a", "b", "--format", "csv"}).says("\na,b,INCOMPARABLE,"));
}

}  // namespace
}  // namespace greta
