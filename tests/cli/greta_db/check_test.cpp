#include "db/judge.h"
#include "tests/cli/program.h"
#include "tests/db/earlier_version.h"

namespace greta {
namespace {

class CheckCommand : public ProgramTest {};

TEST_F(CheckCommand, FindsOrphans) {
  Warehouse warehouse(database());
  warehouse.match("attn_out", 0);
  Result sound = run({"check", "--format", "json"});
  EXPECT_EQ(sound.status, 0);
  EXPECT_EQ(sound.json()["ok"], true);
  EXPECT_EQ(sound.json()["rows"]["trace_row"], 2);
  warehouse.db.exec("UPDATE trace_row SET source_id = 99");
  EXPECT_TRUE(run({"check"}).answers(2, {"source_id"}));
}

TEST_F(CheckCommand, UpgradeSaysWhatANewFormatChanges) {
  unpack_version(9, database());
  EXPECT_TRUE(run({"upgrade"})
                  .answers(0, {"format version 9 -> 11, ",
                               "The former `verdict` is now `strict_verdict`"}));
  EXPECT_TRUE(run({"upgrade"}).says("has format version 11 already"));
  const nlohmann::json json = run({"upgrade", "--format", "json"}).json();
  EXPECT_EQ(json["version_before"], json["version"]);
  EXPECT_GT(json["runs"], 0);
  EXPECT_EQ(run({"check", "--deep"}).status, 0);
  EXPECT_EQ(run({"--db", "none.db", "upgrade"}).status, 2);
}

TEST_F(CheckCommand, AFileThatSomebodyChangedGivesNoVerdictUntilItIsRepaired) {
  {
    Warehouse warehouse(database());
    warehouse.drift("attn_out", 0);
    warehouse.db.exec(
        "DROP VIEW run_verdict; CREATE VIEW run_verdict AS SELECT 'r' AS run, 'PASS' AS "
        "verdict");
  }
  for (const char* command : {"runs", "firstfail", "pairs", "trace", "history", "report --run r",
                              "compare r s", "query \"SELECT * FROM run_verdict\"", "check"}) {
    Result refused = shell(std::string("$G ") + command);
    EXPECT_EQ(refused.status, 2) << command;
    EXPECT_TRUE(refused.says("run_verdict")) << command << refused.err;
    EXPECT_FALSE(refused.says("PASS")) << command << refused.out;
  }
  EXPECT_EQ(run({"check", "--repair"}).status, 0);
  EXPECT_EQ(run({"firstfail"}).status, 1);
}

TEST_F(CheckCommand, DeepFindsWhatIsKeptWrongAndRepairDropsIt) {
  Warehouse warehouse(database());
  warehouse.drift("attn_out", 0);
  judge_rest(warehouse.db);
  EXPECT_EQ(run({"check", "--deep"}).status, 0);
  warehouse.db.exec("UPDATE verdict SET verdict = 'PASS', strict_verdict = 'PASS'");
  EXPECT_EQ(run({"firstfail"}).status, 0);
  EXPECT_EQ(run({"check"}).status, 0);
  Result deep = run({"check", "--deep"});
  EXPECT_EQ(deep.status, 2);
  EXPECT_TRUE(deep.says("kept of run r is not"));
  Result repaired = run({"check", "--deep", "--repair", "--format", "json"});
  EXPECT_EQ(repaired.status, 0) << repaired.err;
  EXPECT_EQ(repaired.json()["repaired"].size(), 1u);
  EXPECT_EQ(run({"firstfail"}).status, 1);
}

}  // namespace
}  // namespace greta
