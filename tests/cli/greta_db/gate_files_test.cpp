// What the gate writes: files, and which of them it may replace; JUnit, the summary, JSON.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "tests/cli/greta_db/gate_fixture.h"
#include "tests/cli/junit_schema.h"

namespace greta {
namespace {

TEST_F(GateCommand, WrongNamesAndFilesExitTwoBeforeAnythingIsWritten) {
  fill();
  EXPECT_EQ(run({"gate"}).status, 2);
  EXPECT_EQ(run({"gate", "--run", "nothing"}).status, 2);
  EXPECT_EQ(run({"gate", "--run", "good", "--baseline", "nothing"}).status, 2);
  EXPECT_TRUE(run({"gate", "--run", "good", "--baseline", "good"}).says("against itself"));
  EXPECT_EQ(run({"gate", "--experiment", "ci", "--baseline", "good"}).status,
            1);  // of the two others
  Result folder = run({"gate", "--run", "good", "--json", "o.json", "--junit", "no/such/j.xml"});
  EXPECT_EQ(folder.status, 2);
  EXPECT_TRUE(folder.says("there is no folder no/such"));
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
  EXPECT_TRUE(
      run({"gate", "--run", "bad", "--junit", "link.xml", "--markdown", "m.md", "--json", "o.json"})
          .answers(1, {"FAIL  bad"}));
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
        EXPECT_TRUE(result.answers(2, {"the database: name another file"}))
            << option << " " << name;
      }
    }
  }
  EXPECT_TRUE(run({"report", "--run", "good", "--out", "greta.db", "--force"})
                  .answers(2, {"--out greta.db is the database"}));
  EXPECT_EQ(size(), before);
  EXPECT_EQ(run({"gate", "--run", "good"}).status, 0);
}

TEST_F(GateCommand, AFileThatNoGateWroteIsOnlyReplacedByForce) {
  fill();
  write("model.gguf", "GGUF and much more");
  for (const std::string option : {"--json", "--junit", "--markdown", "--html"}) {
    EXPECT_TRUE(run({"gate", "--run", "good", option, "model.gguf"})
                    .answers(2, {option + " model.gguf", "--force"}))
        << option;
    EXPECT_EQ(read(path("model.gguf")), "GGUF and much more");
  }
  EXPECT_EQ(run({"gate", "--run", "good", "--json", "model.gguf", "--force"}).status, 0);
  EXPECT_EQ(read(path("model.gguf")).substr(0, 11), "{\"answer\":\"");
  EXPECT_EQ(run({"gate", "--run", "bad", "--json", "model.gguf"}).status, 1);  // it is one now
  EXPECT_EQ(run({"gate", "--run", "bad", "--junit", "model.gguf"}).status, 2);
  for (const std::string language : {"en", "es"}) {
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(run({"gate", "--run", "good", "--junit", "j.xml", "--markdown", "m.md", "--html",
                     "p.html", "--lang", language})
                    .status,
                0);
    }
  }
}

TEST_F(GateCommand, TwoOptionsDoNotNameOneFile) {
  fill();
  std::filesystem::create_symlink("a", path("b"));
  for (const std::string other : {"a", "./a", "b"}) {
    EXPECT_TRUE(run({"gate", "--run", "good", "--json", "a", "--junit", other})
                    .answers(2, {"are one file"}))
        << other;
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
  EXPECT_EQ(shell("ulimit -f 0; trap '' XFSZ; $G gate --run good --junit j.xml").status, 2);
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
  const XmlElement report =
      JunitSchema::valid(run({"gate", "--experiment", "e", "--junit", "-"}).out);
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
      run({"gate", "--run", name, "--junit", "j.xml", "--markdown", "m.md", "--json", "o.json"});
  EXPECT_EQ(result.status, 1) << result.err;
  const XmlElement report = JunitSchema::valid(read(path("j.xml")));
  EXPECT_EQ(report.children.size(), 1u);
  EXPECT_EQ(result.out.find('\x1b'), std::string::npos);
  EXPECT_EQ(read(path("m.md")).find('\x1b'), std::string::npos);
  EXPECT_TRUE(nlohmann::json::accept(read(path("o.json"))));
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
  Result result = run({"gate", "--experiment", "many", "--markdown", "-"});
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

TEST_F(GateCommand, RowsOfTheViewInTheOtherFormats) {
  fill();
  Result csv = run({"gate", "--run", "bad", "--format", "csv"});
  EXPECT_EQ(csv.status, 1);
  EXPECT_EQ(csv.out.substr(0, 33), "run,answer,gate,strict_answer,num") << csv.out;
  EXPECT_TRUE(csv.says("\nbad,FAIL,numeric,FAIL,FAIL,"));
}

}  // namespace
}  // namespace greta
