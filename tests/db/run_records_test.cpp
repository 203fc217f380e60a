// What writers do themselves where triggers are off: lineages, and verdicts that are forgotten.
#include "db/run_records.h"

#include <gtest/gtest.h>

#include <string>

#include "db/database.h"
#include "db/judge.h"
#include "db/trace_writer.h"
#include "tests/query_text.h"

namespace greta {
namespace {

struct Records : testing::Test {
  int64_t add_run(const std::string& name) {
    NewRun run;
    run.name = name;
    run.experiment = "e";
    return records.add_run(run);
  }
  std::string rows(const std::string& sql) { return text_of(db, sql); }
  void judge_all() { judge(db, unjudged_runs(db)); }
  std::string unjudged() {
    return rows("SELECT name FROM run WHERE id NOT IN (SELECT run_id FROM verdict) ORDER BY name");
  }

  SQLite::Database db = open_for_writing(":memory:");
  TraceWriter writer{db};  // without triggers from here on
  RunRecords records{db};
};

TEST_F(Records, ARunIsInTheLineageThatItsAttributesState) {
  const std::string kLineage = "SELECT lineage, injected FROM lineage_member";
  const int64_t id = add_run("r");
  EXPECT_EQ(rows(kLineage), "e/-/-/-/-/-|0");
  const auto state = [&](const char* dim, const char* value) {
    records.add_attribute({id, dim, value, AttributeRank::kEngine, "", {}});
    return rows(kLineage);
  };
  EXPECT_EQ(state("backend", "hip"), "e/-/hip/-/-/-|0");
  EXPECT_EQ(state("model_file", "m.gguf"), "e/-/hip/-/m.gguf/-|0");
  EXPECT_EQ(state("model", "m"), "e/-/hip/-/m/-|0");
  EXPECT_EQ(state("suite", "short"), "e/-/hip/-/m/short|0");
  EXPECT_EQ(state("kv_cache", "q8_0"), "e/-/hip/-/m/short/kv_cache=q8_0|0");
  EXPECT_EQ(state("inject", "rope@decode"), "e/-/hip/-/m/short/kv_cache=q8_0|1");
  db.exec("UPDATE run SET mode = 'kv_aligned'");
  refresh_lineage(db, id);
  EXPECT_EQ(rows(kLineage), "e/kv_aligned/hip/-/m/short/kv_cache=q8_0|1");
  EXPECT_EQ(rows("SELECT m.lineage = l.lineage FROM lineage_member m JOIN run_lineage l"
                 " USING (run_id)"),
            "1");
}

TEST_F(Records, AnErrorCountsForTheRunItNamesAndThoseBelow) {
  for (const char* name : {"a", "a/b", "a/b/c", "a/bc", "a0"}) add_run(name);
  judge_all();
  forget_verdicts_about(db, "a/b");
  EXPECT_EQ(unjudged(), "a/b\na/b/c");
  forget_verdicts_about(db, "nothing");
  forget_verdicts_about(db, "a");
  EXPECT_EQ(unjudged(), "a\na/b\na/b/c\na/bc");
}

TEST_F(Records, ANoiseFloorForgetsTheVerdictsOfItsModel) {
  for (const char* model : {"m", "other"}) {
    records.add_attribute({add_run(model), "model_root", model, AttributeRank::kEngine, "", {}});
  }
  judge_all();
  const NoiseFloor floor{.tensor = "attn_out", .rel_l2 = 0.5, .gain = {}, .pairs = 9};
  store_noise_floor(db, {"m", "f32", "cpu"}, {&floor, 1}, "2026-01-01T00:00:00Z");
  EXPECT_EQ(unjudged(), "m");
}

TEST_F(Records, APromptThatIsNewForgetsTheVerdict) {
  const int64_t id = add_run("r");
  judge_all();
  writer.prompt_id(id, "p");
  EXPECT_EQ(unjudged(), "r");
  judge_all();
  writer.prompt_id(id, "p");
  EXPECT_EQ(unjudged(), "");
}

TEST_F(Records, FreeNamesAreCountedOn) {
  for (const char* name : {"r", "r#2", "#", "x#"}) add_run(name);
  EXPECT_EQ(free_run_name(db, "new"), "new");
  EXPECT_EQ(free_run_name(db, "r"), "r#3");
  EXPECT_EQ(free_run_name(db, "r#2"), "r#3");
  EXPECT_EQ(free_run_name(db, "r#7"), "r#7");
  EXPECT_EQ(free_run_name(db, "#"), "##2");
  EXPECT_EQ(free_run_name(db, "x#"), "x##2");
}

}  // namespace
}  // namespace greta
