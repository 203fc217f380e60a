#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include "engine/record/run_queue.h"
#include "engine/session/run_info.h"
#include "tests/engine/engine_fixture.h"

namespace greta {
namespace {

RunRecord failed_record() {
  return make_failed_record({.experiment = "b3_66", .date = "2026-02-07", .mode = "as_designed"},
                            "models/m.gguf", "hip", "no GPU can be used");
}

TEST(FailedRun, IsInTheDatabaseWithItsReasonAndIsIncomplete) {
  const TemporaryFolder folder;
  const std::string database = (folder / "greta.db").string();
  leave_failed_run(database, failed_record());
  SQLite::Database db(database);
  SQLite::Statement run(db, "SELECT run, status, verdict FROM run_verdict");
  ASSERT_TRUE(run.executeStep());
  EXPECT_EQ(run.getColumn(0).getString(), "2026-02-07/b3_66/as_designed");
  EXPECT_EQ(run.getColumn(1).getString(), "failed");
  EXPECT_EQ(run.getColumn(2).getString(), "INCOMPLETE");
  EXPECT_FALSE(run.executeStep());
  const auto attribute = [&db](const std::string& name) {
    SQLite::Statement query(db, "SELECT value FROM attribute WHERE dim = ?");
    query.bind(1, name);
    return query.executeStep() ? query.getColumn(0).getString() : "";
  };
  EXPECT_EQ(attribute("error"), "no GPU can be used");
  EXPECT_EQ(attribute("backend"), "hip");
  EXPECT_EQ(attribute("model_file"), "m.gguf");
}

TEST(FailedRun, NeitherNoDatabaseNorOneThatCannotBeWrittenIsAnErrorOfItsOwn) {
  const TemporaryFolder folder;
  leave_failed_run("", failed_record());
  leave_failed_run((folder / "no folder" / "greta.db").string(), failed_record());
  EXPECT_TRUE(std::filesystem::is_empty(folder / ""));
}

}  // namespace
}  // namespace greta
