#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "tests/cli/junit_schema.h"
#include "tests/cli/program.h"
#include "tests/judged.h"

namespace greta {
namespace {

/// Runs of one lineage, as a pipeline leaves them: each is held against the one before it.
class GateCommand : public ProgramTest {
 protected:
  GateCommand() : w(database()) {}

  /// A run of the lineage, dated so and of that commit.
  int64_t of_commit(const std::string& name, const std::string& commit, const std::string& date) {
    return w.run(
        {.name = name, .experiment = "ci", .mode = "as_designed", .date = date, .commit = commit});
  }
  /// greta-db on a file as programs leave it, unless nothing is kept there.
  Result run(std::initializer_list<std::string> words) {
    if (kept_) judge_all(w);
    return ProgramTest::run(words);
  }
  /// base and good compute the same, bad has attn_out of layer 1 beyond rounding.
  void fill() {
    of_commit("base", "aaaaaaa", "2026-01-01");
    healthy();
    of_commit("good", "bbbbbbb", "2026-01-02");
    healthy();
    of_commit("bad", "ccccccc", "2026-01-03");
    w.match("x_in", 0);
    w.rounding("attn_out", 0);
    w.divergent("attn_out", 1);
    w.match("mlp_out", 1);
  }
  void healthy() {
    w.match("x_in", 0);
    w.rounding("attn_out", 0);
    w.match("attn_out", 1);
    w.match("mlp_out", 1);
  }
  Result waive(const std::string& tensor, const std::string& layer = "1") {
    return run({"waive", "--tensor", tensor, "--layer", layer, "--until", "2999-12-31", "--reason",
                "known since the new kernel"});
  }

  Warehouse w;
  bool kept_ = true;
};

TEST_F(GateCommand, AGoodCommitPassesAndABadOneIsNamed) {
  fill();
  for (const bool kept : {false, true}) {
    kept_ = kept;
    EXPECT_EQ(run({"baseline", "set", "base"}).status, 0);
    Result good = run({"gate", "--run", "good"});
    EXPECT_EQ(good.status, 0) << good.out << good.err;
    EXPECT_EQ(good.out.substr(0, 10), "PASS  good") << good.out;
    EXPECT_TRUE(good.says("SAME since base (commit aaaaaaa)")) << good.out;
    EXPECT_TRUE(good.says("PASS by the numeric verdict; strict FAIL")) << good.out;
    EXPECT_TRUE(good.says("--strict gives FAIL")) << good.out;
    Result bad = run({"gate", "--run", "bad"});
    EXPECT_EQ(bad.status, 1) << bad.out << bad.err;
    EXPECT_EQ(bad.out.substr(0, 9), "FAIL  bad") << bad.out;
    EXPECT_TRUE(bad.says("ATTN_OUT_DRIFT at layer 1, attn_out")) << bad.out;
    EXPECT_TRUE(bad.says("BROKEN since base")) << bad.out;
    EXPECT_TRUE(bad.says("firstfail --run 'bad'")) << bad.out;
    Result both = run({"gate", "--run", "ci"});
    EXPECT_EQ(both.status, 1);
    EXPECT_TRUE(both.says("FAIL of 3 runs")) << both.out;
  }
}

TEST_F(GateCommand, WithoutABaselineItsOwnVerdictCountsAndThatIsSaid) {
  fill();
  Result base = run({"gate", "--run", "base"});
  EXPECT_EQ(base.status, 0) << base.out << base.err;
  EXPECT_TRUE(base.says("no baseline: its own verdict alone counts")) << base.out;
}

TEST_F(GateCommand, TheVerdictThatLeadsIsThatOfFirstfail) {
  fill();
  w.run({.name = "equal bits", .experiment = "e", .mode = "batch_invariant", .date = "2026-01-01"});
  w.rounding("attn_out", 0);
  w.run({.name = "unmeasured", .experiment = "e", .date = "2026-01-01"});
  w.drift("attn_out", 0);
  w.run({.name = "unmeasured and worse", .experiment = "e", .date = "2026-01-01"});
  w.drift("attn_out", 0);
  w.divergent("mlp_out", 0);
  const nlohmann::json gated = run({"gate", "--run", "e", "--format", "json"}).json();
  ASSERT_EQ(gated["runs"].size(), 3u) << gated;
  for (const nlohmann::json& one : gated["runs"]) {
    EXPECT_EQ(one["gate"]["gate"], one["lead"]["gate"]) << one["run"];
  }
  EXPECT_EQ(run({"gate", "--run", "equal bits"}).status, 1);
  EXPECT_EQ(run({"gate", "--run", "equal bits", "--numeric"}).status, 0);
  EXPECT_EQ(run({"gate", "--run", "good"}).status, 0);
  EXPECT_EQ(run({"gate", "--run", "good", "--strict"}).status, 1);
  EXPECT_EQ(run({"gate", "--run", "good", "--strict", "--numeric"}).status, 2);
}

TEST_F(GateCommand, WhatBothPhasesComputeOtherwiseFailsAndRoundingOnlyStrictly) {
  of_commit("first", "aaaaaaa", "2026-01-01");
  const auto both = [this](std::vector<float> values, uint64_t hash) {
    w.add(prefill("attn_out", 0, hash).sketched(values),
          decode("attn_out", 0, hash).sketched(values));
  };
  both({2, 0, 0, 0}, 1);
  of_commit("changed", "bbbbbbb", "2026-01-02");
  both({1, 0, 0, 0}, 2);
  of_commit("rounded", "ccccccc", "2026-01-03");
  both({1.001F, 0, 0, 0}, 3);
  for (const bool kept : {false, true}) {
    kept_ = kept;
    Result changed = run({"gate", "--run", "changed"});
    EXPECT_EQ(changed.status, 1) << changed.out;
    EXPECT_TRUE(changed.says("PASS by the numeric verdict; strict PASS")) << changed.out;
    EXPECT_TRUE(
        changed.says("CHANGED since first (commit aaaaaaa): 2 rows beyond rounding, first"
                     " at layer 0, attn_out"))
        << changed.out;
    EXPECT_EQ(run({"gate", "--run", "rounded"}).status, 0);
    EXPECT_EQ(run({"gate", "--run", "rounded", "--strict"}).status, 1);
    EXPECT_EQ(run({"gate", "--run", "rounded", "--baseline", "first"}).status, 1);
  }
  EXPECT_EQ(waive("attn_out", "0").status, 0);
  Result waived = run({"gate", "--run", "changed"});
  EXPECT_EQ(waived.status, 3) << waived.out;  // nothing is left to be compared
  w.run({.name = "other", .experiment = "ci", .mode = "as_designed", .date = "2026-01-04"});
  w.match("x_in", 0);
}

TEST_F(GateCommand, AFixPassesAndWhatStaysBrokenFailsByItself) {
  fill();
  of_commit("fixed", "ddddddd", "2026-01-04");
  healthy();
  Result fixed = run({"gate", "--run", "fixed"});
  EXPECT_EQ(fixed.status, 0) << fixed.out;
  EXPECT_TRUE(fixed.says("FIXED since bad")) << fixed.out;
}

TEST_F(GateCommand, AnotherModelIsNoVerdictUnlessTheRunFailsByItself) {
  fill();
  const auto model = [this](const std::string& run, const std::string& sha) {
    w.db.exec("INSERT INTO attribute(run_id, dim, value, rank) SELECT id, 'model_sha256', '" + sha +
              "', 0 FROM run WHERE name = '" + run + "'");
  };
  model("base", "1");
  model("good", "2");
  model("bad", "2");
  for (const bool kept : {false, true}) {
    kept_ = kept;
    Result good = run({"gate", "--run", "good", "--baseline", "base"});
    EXPECT_EQ(good.status, 3) << good.out;
    EXPECT_TRUE(good.says("INCOMPARABLE since base (commit aaaaaaa): another model")) << good.out;
    EXPECT_TRUE(good.says("it cannot be held against its baseline")) << good.out;
    EXPECT_EQ(run({"gate", "--run", "bad", "--baseline", "base"}).status, 1);
  }
}

TEST_F(GateCommand, NoVerdictExitsThreeAndAFailBeforeIt) {
  w.run({.name = "empty", .experiment = "e", .date = "2026-01-01"});
  Result empty = run({"gate", "--run", "empty"});
  EXPECT_EQ(empty.status, 3);
  EXPECT_TRUE(empty.says("NO_EVIDENCE")) << empty.out;
  w.run({.name = "running", .experiment = "e", .date = "2026-01-01", .status = "running"});
  w.match("x_in", 0);
  EXPECT_EQ(run({"gate", "--run", "running"}).status, 3);
  w.run({.name = "fails", .experiment = "e", .mode = "m", .date = "2026-01-01"});
  w.divergent("x_in", 0);
  EXPECT_EQ(run({"gate", "--run", "e"}).status, 1);
}

TEST_F(GateCommand, WrongNamesAndFilesExitTwoBeforeAnythingIsWritten) {
  fill();
  EXPECT_EQ(run({"gate"}).status, 2);
  EXPECT_EQ(run({"gate", "--run", "nothing"}).status, 2);
  EXPECT_EQ(run({"gate", "--run", "good", "--baseline", "nothing"}).status, 2);
  EXPECT_TRUE(run({"gate", "--run", "good", "--baseline", "good"}).says("against itself"));
  EXPECT_EQ(run({"gate", "--run", "ci", "--baseline", "good"}).status, 1);  // of the two others
  Result folder = run({"gate", "--run", "good", "--json", "o.json", "--junit", "no/such/j.xml"});
  EXPECT_EQ(folder.status, 2);
  EXPECT_TRUE(folder.says("there is no folder no/such")) << folder.err;
  EXPECT_FALSE(std::filesystem::exists(path("o.json")));
  EXPECT_EQ(run({"gate", "--run", "good", "--json", "-", "--junit", "-"}).status, 2);
  EXPECT_EQ(run({"gate", "--run", "good", "--json", "/dev/null"}).status, 2);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_EQ(run({"gate", "--run", "good", "--json", "."}).status, 2);
}

TEST_F(GateCommand, FilesAppearWholeAndReplaceWhatIsThere) {
  fill();
  write("j.xml", "");
  std::filesystem::create_symlink("j.xml", path("link.xml"));
  Result result = run(
      {"gate", "--run", "bad", "--junit", "link.xml", "--markdown", "m.md", "--json", "o.json"});
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_TRUE(result.says("FAIL  bad"));
  EXPECT_TRUE(std::filesystem::is_symlink(path("link.xml")));
  EXPECT_EQ(read(path("j.xml")).substr(0, 5), "<?xml");
  EXPECT_EQ(nlohmann::json::parse(read(path("o.json")))["exit_status"], 1);
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    EXPECT_EQ(entry.path().string().find("partial"), std::string::npos) << entry.path();
  }
  if (getuid() == 0) return;  // whom no permission stops
  std::filesystem::create_directory(path("closed"));
  std::filesystem::permissions(path("closed"), std::filesystem::perms::owner_read);
  EXPECT_EQ(run({"gate", "--run", "good", "--json", "closed/o.json"}).status, 2);
}

TEST_F(GateCommand, NoFileOfTheDatabaseIsEverWrittenOver) {
  fill();
  const auto size = [&] { return std::filesystem::file_size(path("greta.db")); };
  const auto before = size();
  std::filesystem::create_symlink("greta.db", path("link.json"));
  std::filesystem::create_symlink("greta.db-journal", path("link-of-nothing"));
  for (const std::string name : {"greta.db", "greta.db-wal", "greta.db-shm", "greta.db-journal",
                                 "link.json", "link-of-nothing", "./greta.db"}) {
    for (const std::string option : {"--json", "--junit", "--markdown", "--html"}) {
      for (const bool force : {false, true}) {
        const Result result = force ? run({"gate", "--run", "good", option, name, "--force"})
                                    : run({"gate", "--run", "good", option, name});
        EXPECT_EQ(result.status, 2) << option << " " << name;
        EXPECT_TRUE(result.says("the database: name another file")) << result.err;
      }
    }
  }
  const Result report = run({"report", "--run", "good", "--out", "greta.db", "--force"});
  EXPECT_EQ(report.status, 2);
  EXPECT_TRUE(report.says("--out greta.db is the database")) << report.err;
  EXPECT_EQ(size(), before);
  EXPECT_EQ(run({"gate", "--run", "good"}).status, 0);
}

TEST_F(GateCommand, AFileThatNoGateWroteIsOnlyReplacedByForce) {
  fill();
  write("model.gguf", "GGUF and much more");
  for (const std::string option : {"--json", "--junit", "--markdown", "--html"}) {
    const Result result = run({"gate", "--run", "good", option, "model.gguf"});
    EXPECT_EQ(result.status, 2) << option;
    EXPECT_TRUE(result.says(option + " model.gguf")) << result.err;
    EXPECT_TRUE(result.says("--force")) << result.err;
    EXPECT_EQ(read(path("model.gguf")), "GGUF and much more");
  }
  EXPECT_EQ(run({"gate", "--run", "good", "--json", "model.gguf", "--force"}).status, 0);
  EXPECT_EQ(read(path("model.gguf")).substr(0, 11), "{\"answer\":\"");
  EXPECT_EQ(run({"gate", "--run", "bad", "--json", "model.gguf"}).status, 1);  // it is one now
  EXPECT_EQ(run({"gate", "--run", "bad", "--junit", "model.gguf"}).status, 2);
  for (const std::string language : {"en", "es"}) {
    for (int i = 0; i < 2; ++i) {
      const Result again = run({"gate", "--run", "good", "--junit", "j.xml", "--markdown", "m.md",
                                "--html", "p.html", "--lang", language});
      EXPECT_EQ(again.status, 0) << again.err;
    }
  }
}

TEST_F(GateCommand, TwoOptionsDoNotNameOneFile) {
  fill();
  std::filesystem::create_symlink("a", path("b"));
  for (const std::string other : {"a", "./a", "b"}) {
    const Result result = run({"gate", "--run", "good", "--json", "a", "--junit", other});
    EXPECT_EQ(result.status, 2) << other;
    EXPECT_TRUE(result.says("are one file")) << result.err;
    EXPECT_FALSE(std::filesystem::exists(path("a")));
  }
}

TEST_F(GateCommand, AnEarlierPassDoesNotStayWhereTheGateGivesNoAnswer) {
  fill();
  const auto gate = [&](const std::string& name) {
    return run({"gate", "--run", name, "--junit", "j.xml", "--json", "o.json", "--markdown", "m.md",
                "--html", "p.html"})
        .status;
  };
  write("other.xml", "not of a gate");
  EXPECT_EQ(gate("good"), 0);
  EXPECT_EQ(gate("nothing"), 2);
  for (const std::string file : {"j.xml", "o.json", "m.md", "p.html"}) {
    EXPECT_FALSE(std::filesystem::exists(path(file))) << file;
  }
  EXPECT_EQ(run({"gate", "--run", "nothing", "--junit", "other.xml", "--force"}).status, 2);
  EXPECT_EQ(read(path("other.xml")), "not of a gate");
}

TEST_F(GateCommand, ADiskThatIsFullIsAnErrorWhateverTheAnswer) {
  fill();
  Result full = shell("ulimit -f 0; trap '' XFSZ; $G gate --run good --junit j.xml");
  EXPECT_EQ(full.status, 2) << full.err;
  EXPECT_FALSE(std::filesystem::exists(path("j.xml")));
}

TEST_F(GateCommand, TheJunitReportHasACasePerPromptAndLayerAndIsValid) {
  fill();
  Result result = run({"gate", "--run", "bad", "--junit", "-"});
  EXPECT_EQ(result.status, 1);
  const XmlElement report = JunitSchema::valid(result.out);
  const XmlElement& suite = report.child("testsuite");
  EXPECT_EQ(suite.attributes.at("name"), "bad");
  EXPECT_EQ(suite.attributes.at("timestamp"), "2026-01-03T00:00:00Z");
  std::map<std::string, const XmlElement*> cases;
  for (const XmlElement& one : suite.children) cases[one.attributes.at("name")] = &one;
  ASSERT_EQ(cases.size(), 4u) << result.out;
  EXPECT_EQ(cases.at("p0, layer 0")->children.size(), 0u);
  const XmlElement& failure = cases.at("p0, layer 1")->child("failure");
  EXPECT_EQ(failure.attributes.at("type"), "ATTN_OUT_DRIFT");
  EXPECT_NE(failure.attributes.at("message").find("ATTN_OUT_DRIFT at attn_out, pos 37: 1 DRIFT"
                                                  " DIVERGENT, rel_l2 up to 0.5 (tolerance 0.01)"),
            std::string::npos)
      << failure.attributes.at("message");
  EXPECT_NE(failure.text.find("looks like SCALED"), std::string::npos) << failure.text;
  EXPECT_TRUE(cases.at("verdict")->has("failure"));
  EXPECT_TRUE(cases.at("what changed since the baseline")->has("failure"));
  const Result strict = run({"gate", "--run", "bad", "--strict", "--junit", "-"});
  EXPECT_EQ(JunitSchema::valid(strict.out).number("failures"), 4);
}

TEST_F(GateCommand, ARunThatIsNoPassHasAFailureOrAnErrorInJunit) {
  w.run({.name = "empty", .experiment = "e", .date = "2026-01-01"});
  w.run({.name = "running", .experiment = "e", .mode = "m", .status = "running"});
  w.match("x_in", 0);
  w.run({.name = "undecided", .experiment = "e", .mode = "n"});
  w.incomparable("x_in", 0);
  w.run({.name = "missing", .experiment = "e", .mode = "o"});
  w.match("x_in", 0);
  w.add(prefill("mlp_out", 3, 1));
  w.run({.name = "fine", .experiment = "e", .mode = "p"});
  w.match("x_in", 0);
  const XmlElement report = JunitSchema::valid(run({"gate", "--run", "e", "--junit", "-"}).out);
  for (const XmlElement& suite : report.children) {
    const bool fine = suite.attributes.at("name") == "fine";
    EXPECT_EQ(suite.number("failures") + suite.number("errors") == 0, fine)
        << suite.attributes.at("name");
  }
}

TEST_F(GateCommand, HostileNamesStayTextInEveryFile) {
  const std::string name = "r<b>&\"'|`\\|@x\n\x1b[31m](http://e) \xEF\xBF\xBE \xff";
  w.run({.name = name, .experiment = name, .mode = name, .date = "2026-01-01", .commit = name});
  w.use_prompt("]]>" + name);
  w.divergent("attn_out", 1);
  w.db.exec(
      "INSERT INTO waiver(tensor, until, reason, created_at, created_by) VALUES ('mlp_out',"
      " '2999-01-01', 'a|b`<i>\x1b[0m', '', '<x>|y')");
  w.divergent("mlp_out", 1);
  Result result =
      run({"gate", "--run", "r<b>", "--junit", "j.xml", "--markdown", "m.md", "--json", "o.json"});
  EXPECT_EQ(result.status, 1) << result.err;
  const XmlElement report = JunitSchema::valid(read(path("j.xml")));
  EXPECT_EQ(report.children.size(), 1u);
  EXPECT_EQ(result.out.find('\x1b'), std::string::npos);
  const std::string markdown = read(path("m.md"));
  EXPECT_EQ(markdown.find('\x1b'), std::string::npos);
  std::istringstream lines(markdown);
  size_t n = 0;
  for (std::string line; std::getline(lines, line); ++n) {
    if (line.empty() || line[0] != '|') continue;
    size_t cells = 0;
    for (size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '\\') {
        ++i;  // what GitHub takes for escaped
      } else if (line[i] == '|') {
        ++cells;
      }
    }
    EXPECT_EQ(cells, 3u) << line;
    const size_t code = line.find('`');
    EXPECT_TRUE(line.find("<b>") == std::string::npos || line.find("<b>") > code) << line;
    EXPECT_EQ(std::count(line.begin(), line.end(), '`') % 2, 0) << line;
  }
  EXPECT_GT(n, 5u);
  EXPECT_NO_THROW(nlohmann::json::parse(read(path("o.json"))));
}

TEST_F(GateCommand, TheSummaryHasAtMostFortyLinesHoweverManyRuns) {
  for (int i = 0; i < 60; ++i) {
    w.run({.name = "run " + std::to_string(i),
           .experiment = "many",
           .mode = "as_designed",
           .date = "2026-01-01"});
    if (i == 40) {
      w.divergent("attn_out", 1);
    } else {
      w.match("attn_out", 1);
    }
  }
  Result result = run({"gate", "--run", "many", "--markdown", "-"});
  EXPECT_EQ(result.status, 1);
  EXPECT_LE(std::count(result.out.begin(), result.out.end(), '\n'), 40);
  EXPECT_EQ(result.out.substr(0, 21), "### greta gate: FAIL\n") << result.out;
  EXPECT_LT(result.out.find("run 40"), result.out.find("run 0`")) << result.out;  // worst first
  EXPECT_TRUE(result.says("ATTN_OUT_DRIFT at layer 1"));
  EXPECT_TRUE(result.says("firstfail --run 'run 40'"));
}

TEST_F(GateCommand, TheJsonIsThatOfFirstfailAndTheAnswer) {
  fill();
  const nlohmann::json all = run({"gate", "--run", "bad", "--json", "-"}).json();
  EXPECT_EQ(all["answer"], "FAIL");
  EXPECT_EQ(all["exit_status"], 1);
  nlohmann::json one = all["runs"][0];
  const nlohmann::json gate = one["gate"];
  one.erase("gate");
  EXPECT_EQ(one, run({"firstfail", "--run", "bad", "--format", "json"}).json()[0]);
  EXPECT_EQ(gate["answer"], "FAIL");
  EXPECT_EQ(gate["gate"], "numeric");
  EXPECT_EQ(gate["strict_answer"], "FAIL");
  EXPECT_EQ(gate["first_fail"]["cause"], "ATTN_OUT_DRIFT");
  EXPECT_EQ(gate["since_baseline"]["change"], "BROKEN");
  EXPECT_EQ(gate["since_baseline"]["baseline"], "good");
  EXPECT_EQ(gate["waived"], 0);
}

TEST_F(GateCommand, PlainSqlGivesTheSameAnswers) {
  fill();
  w.run({.name = "empty", .experiment = "ci", .mode = "kv_aligned", .date = "2026-01-01"});
  for (const int stage : {0, 1, 2}) {
    kept_ = stage > 0;
    if (stage == 2) {
      EXPECT_EQ(waive("attn_out").status, 0);
    }
    const nlohmann::json all = run({"gate", "--run", "ci", "--format", "json"}).json();
    for (const nlohmann::json& one : all["runs"]) {
      const std::string name = one["run"];
      const nlohmann::json& gate = one["gate"];
      EXPECT_EQ(
          w.rows("SELECT answer, strict_answer, gate, waived FROM gate WHERE run = '" + name + "'"),
          std::string(gate["answer"]) + "|" + std::string(gate["strict_answer"]) + "|" +
              std::string(gate["gate"]) + "|" + std::to_string(int(gate["waived"])))
          << name << " at stage " << stage;
    }
    Result from = run({"gate", "--run", "bad", "--baseline", "base", "--format", "json"});
    EXPECT_EQ(w.rows("SELECT answer, change FROM gate_from WHERE run_id = 3 AND baseline_id = 1"),
              std::string(from.json()["runs"][0]["gate"]["answer"]) + "|" +
                  std::string(from.json()["runs"][0]["gate"]["since_baseline"]["change"]));
  }
  EXPECT_EQ(w.rows("SELECT prompt, layer, numeric_status, waived FROM gate_case"
                   " WHERE run = 'bad' ORDER BY layer"),
            "p0|0|PASS|0\np0|1|PASS|1");
}

TEST_F(GateCommand, ALaterRunOfTheNameIsNotPassedOverSilently) {
  fill();
  of_commit("good#2", "bbbbbbb", "2026-01-02");
  w.divergent("attn_out", 1);
  const Result first = run({"gate", "--run", "good"});
  EXPECT_EQ(first.status, 0);
  EXPECT_TRUE(first.says("later     good#2; --latest takes the newest")) << first.out;
  EXPECT_EQ(
      run({"gate", "--run", "good", "--format", "json"}).json()["runs"][0]["gate"]["later_runs"][0],
      "good#2");
  const Result latest = run({"gate", "--run", "good", "--latest"});
  EXPECT_EQ(latest.status, 1);
  EXPECT_TRUE(latest.says("FAIL  good#2")) << latest.out;
  EXPECT_FALSE(latest.says("later")) << latest.out;
}

TEST_F(GateCommand, WithoutARequiredBaselineThereIsNoPass) {
  fill();
  const Result base = run(
      {"gate", "--run", "base", "--require-baseline", "--junit", "j.xml", "--markdown", "m.md"});
  EXPECT_EQ(base.status, 3) << base.out;
  EXPECT_TRUE(base.says("INCOMPARABLE  base")) << base.out;
  EXPECT_TRUE(base.says("--require-baseline: no run of its lineage")) << base.out;
  const XmlElement suite = XmlReader(read(path("j.xml"))).document().children.at(0);
  EXPECT_EQ(suite.number("errors"), 1);
  EXPECT_EQ(run({"gate", "--run", "good", "--require-baseline"}).status, 0);
  EXPECT_EQ(run({"gate", "--run", "bad", "--require-baseline"}).status, 1);
}

TEST_F(GateCommand, TolerancesThatAreNotAsShippedAreNotKeptQuiet) {
  fill();
  EXPECT_FALSE(run({"gate", "--run", "bad"}).says("tolerance"));
  EXPECT_EQ(run({"tolerance", "set", "--tensor", "logits", "0.9"}).status, 0);
  EXPECT_FALSE(run({"gate", "--run", "bad"}).says("tolerance")) << "it has no logits";
  EXPECT_EQ(run({"tolerance", "set", "--tensor", "attn_out", "0.9"}).status, 0);
  for (const std::string option : {"--junit", "--markdown", "--json", "--html"}) {
    const Result result = run({"gate", "--run", "bad", option, "-"});
    EXPECT_NE(result.status, 2) << result.err;
    EXPECT_TRUE(result.says("attn_out 0.9, shipped 0.01")) << option << result.out;
  }
  EXPECT_TRUE(run({"gate", "--run", "bad"}).says("tolerance attn_out 0.9, shipped 0.01"));
}

TEST_F(GateCommand, AWaivedChangeIsNotCalledTheSame) {
  of_commit("first", "aaaaaaa", "2026-01-01");
  const auto both = [this](const std::string& tensor, std::vector<float> values, uint64_t hash) {
    w.add(prefill(tensor, 0, hash).sketched(values), decode(tensor, 0, hash).sketched(values));
  };
  both("attn_out", {2, 0, 0, 0}, 1);
  both("mlp_out", {1, 0, 0, 0}, 7);
  of_commit("changed", "bbbbbbb", "2026-01-02");
  both("attn_out", {1, 0, 0, 0}, 2);
  both("mlp_out", {1, 0, 0, 0}, 7);
  EXPECT_EQ(run({"gate", "--run", "changed"}).status, 1);
  EXPECT_EQ(waive("attn_out", "0").status, 0);
  for (const bool kept : {false, true}) {
    kept_ = kept;
    const Result waived = run({"gate", "--run", "changed", "--junit", "j.xml"});
    EXPECT_EQ(waived.status, 0) << waived.out;
    EXPECT_TRUE(waived.says("PASS (2 rows waived until 2999-12-31")) << waived.out;
    EXPECT_TRUE(waived.says("CHANGED since first (commit aaaaaaa): 2 rows waived")) << waived.out;
    EXPECT_TRUE(waived.says("2 changed rows of attn_out of layer 0")) << waived.out;
    EXPECT_NE(read(path("j.xml")).find("(waiver 1, by"), std::string::npos);
    for (const std::string option : {"--markdown", "--json", "--html"}) {
      const Result file = run({"gate", "--run", "changed", option, "-"});
      EXPECT_TRUE(file.says("CHANGED")) << option << file.out;
      EXPECT_FALSE(file.says("SAME since")) << option << file.out;
    }
    EXPECT_EQ(w.rows("SELECT change, unwaived_change, waived, waived_rows, waived_changed_rows"
                     " FROM gate WHERE run = 'changed'"),
              "CHANGED|SAME|0|2|2");
    const Result from = run({"gate", "--run", "changed", "--baseline", "first"});
    EXPECT_TRUE(from.says("CHANGED since first (commit aaaaaaa): 2 rows waived")) << from.out;
  }
}

TEST_F(GateCommand, OnlyWhatWouldHaveFailedIsCountedAsWaived) {
  fill();
  EXPECT_EQ(run({"waive", "--tensor", "attn_out", "--until", "2999-12-31", "--reason", "r"}).status,
            0);
  const Result good = run({"gate", "--run", "good"});
  EXPECT_EQ(good.out.substr(0, 10), "PASS  good") << good.out;
  EXPECT_TRUE(run({"gate", "--run", "good", "--strict"}).says("(1 pair waived"));
  const Result bad = run({"gate", "--run", "bad"});
  EXPECT_TRUE(bad.says("PASS (1 pair waived until")) << bad.out;
}

TEST_F(GateCommand, WhyARunIsIncompleteIsSaid) {
  fill();
  of_commit("cut", "ddddddd", "2026-01-04");
  healthy();
  w.plan_what_is_there();
  w.plan("p0", 1, 1, "logits");
  for (const std::string option : {"--junit", "--markdown", "--html", "--json"}) {
    const Result result = run({"gate", "--run", "cut", option, "-"});
    EXPECT_EQ(result.status, 3) << result.out;
    EXPECT_TRUE(
        result.says("1 row that it declares or says it wrote is not there, first logits of "
                    "layer 1, prompt p0, decode"))
        << option << result.out;
  }
  w.db.exec("UPDATE run SET status = 'failed' WHERE name = 'cut'");
  EXPECT_TRUE(run({"gate", "--run", "cut"}).says("it did not end (status failed)"));
}

TEST_F(GateCommand, AChangeAloneIsNotSentToFirstfailWhichShowsNone) {
  of_commit("first", "aaaaaaa", "2026-01-01");
  w.match("x_in", 0);
  of_commit("changed", "bbbbbbb", "2026-01-02");
  w.add(prefill("x_in", 0, 5), decode("x_in", 0, 5));
  const Result changed = run({"gate", "--run", "changed", "--strict"});
  EXPECT_NE(changed.status, 0);
  EXPECT_TRUE(changed.says("compare 'first' 'changed'")) << changed.out;
}

TEST_F(GateCommand, AnInjectedFaultIsNamedWhereThereIsNoBaseline) {
  fill();
  w.db.exec("INSERT INTO attribute(run_id, dim, value, rank) VALUES (3, 'inject', 'x', 0)");
  EXPECT_TRUE(run({"gate", "--run", "bad"}).says("a fault was injected"));
}

TEST_F(GateCommand, RowsOfTheViewInTheOtherFormats) {
  fill();
  Result csv = run({"gate", "--run", "bad", "--format", "csv"});
  EXPECT_EQ(csv.status, 1);
  EXPECT_EQ(csv.out.substr(0, 33), "run,answer,gate,strict_answer,num") << csv.out;
  EXPECT_TRUE(csv.says("\nbad,FAIL,numeric,FAIL,FAIL,")) << csv.out;
}

}  // namespace
}  // namespace greta
