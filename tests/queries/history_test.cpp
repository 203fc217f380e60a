// Runs by date (history), and what is stated of them and of the levels above them.
#include "tests/queries/warehouse.h"

namespace greta {
namespace {

TEST(History, InOrderOfDate) {
  Warehouse w;
  w.run({.name = "2026-02-08/b/x",
         .experiment = "b",
         .mode = "kv_aligned",
         .date = "2026-02-08",
         .commit = "c2"});
  w.drift("attn_out", 3);
  w.run({.name = "2026-02-07/b/x", .experiment = "b", .date = "2026-02-07", .commit = "c1"});
  w.match("attn_out", 3);
  w.run({.name = "2026-02-08/a/x", .experiment = "a", .date = "2026-02-08"});
  w.run({.name = "2026-02-08/b/y", .experiment = "b", .date = "2026-02-08", .status = "running"});
  EXPECT_EQ(
      w.rows("SELECT experiment, mode, date, commit_sha, run, verdict, first_fail, layer, tensor,"
             " prompt FROM history"),
      "b|-|2026-02-07|c1|2026-02-07/b/x|PASS|-|-|-|-\n"
      "b|kv_aligned|2026-02-08|c2|2026-02-08/b/x|FAIL|ATTN_OUT_DRIFT|3|attn_out|p0\n"
      "a|-|2026-02-08|-|2026-02-08/a/x|NO_EVIDENCE|-|-|-|-\n"
      "b|-|2026-02-08|-|2026-02-08/b/y|INCOMPLETE|-|-|-|-");
}

TEST(StatedAttribute, HoldsForTheRunsBelowALevelWhateverTheirNames) {
  Warehouse w;
  for (const char* name :
       {"a", "a/b", "a/b/c", "a/", "a//b", "ab/c", "a/\"\\\x01\xc3\xa9", "A/b"}) {
    SQLite::Statement run(w.db, "INSERT INTO run(name, experiment) VALUES (?, 'e')");
    run.bind(1, name);
    run.exec();
  }
  w.db.exec(
      "INSERT INTO attribute(run_id, dim, value, rank) SELECT id, 'seed', 'of ' || name, 0 FROM "
      "run");
  const auto said_of = [&w](const std::string& run) {
    SQLite::Statement levels(
        w.db,
        "SELECT group_concat(said_of, ' ') FROM (SELECT said_of FROM stated_attribute"
        " WHERE run = ? AND value = 'of ' || said_of ORDER BY believed)");
    levels.bind(1, run);
    levels.executeStep();
    return levels.getColumn(0).getString();
  };
  EXPECT_EQ(said_of("a"), "a");
  EXPECT_EQ(said_of("a/b"), "a/b a");
  EXPECT_EQ(said_of("a/b/c"), "a/b/c a/b a");
  EXPECT_EQ(said_of("a/"), "a/ a");
  EXPECT_EQ(said_of("a//b"), "a//b a/ a");
  EXPECT_EQ(said_of("ab/c"), "ab/c");
  EXPECT_EQ(said_of("a/\"\\\x01\xc3\xa9"), "a/\"\\\x01\xc3\xa9 a");
  EXPECT_EQ(said_of("A/b"), "A/b");
}

}  // namespace
}  // namespace greta
