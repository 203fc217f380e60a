// A statement with the views that it reads written out says the same.
#include "db/with_views.h"

#include <string>

#include "tests/queries/warehouse.h"

namespace greta {
namespace {

size_t times(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(WithViews, SaysTheSameAsTheViews) {
  Warehouse w;
  w.run({.name = "a", .mode = "as_designed", .dtype = "f32"});
  w.match("x_in", 0);
  w.rounding("attn_out", 0);
  w.divergent("mlp_out", 0);
  w.drift("x_out", 1);
  w.run({.name = "b"});
  w.match("x_in", 0);
  for (const char* rows : {"SELECT * FROM pair WHERE run = 'a' ORDER BY layer, tensor",
                           "SELECT run, verdict, numeric_verdict, layer, tensor FROM run_verdict",
                           "WITH of_a AS (SELECT * FROM first_fail WHERE run = 'a') SELECT * FROM"
                           " of_a LEFT JOIN run_verdict v ON v.run_id = of_a.run_id"}) {
    const std::string written = with_views(rows);
    EXPECT_NE(written, rows);
    EXPECT_EQ(text_of(w.db, written), w.rows(rows));
  }
}

TEST(WithViews, EachIsWrittenOnceAndAfterThoseThatItReads) {
  const std::string text = with_views(
      "SELECT 1 FROM kept_run_verdict a JOIN kept_run_verdict b CROSS JOIN kept_history");
  const size_t below = text.find("kept_verdict_row AS NOT MATERIALIZED (");
  const size_t above = text.find("kept_run_verdict AS NOT MATERIALIZED (");
  EXPECT_LT(below, above);
  EXPECT_LT(above, text.find("kept_history AS NOT MATERIALIZED ("));
  EXPECT_EQ(times(text, "kept_run_verdict AS NOT MATERIALIZED ("), 1u);
}

TEST(WithViews, WhatReadsNoneStaysAsItIs) {
  for (const char* text : {"SELECT id FROM run r JOIN prompt q ON q.run_id = r.id",
                           "SELECT 'FROM pair', \"FROM pair\"", "SELECT 1 -- FROM pair\n",
                           "DELETE FROM tolerance", "SELECT pair FROM (SELECT 1 AS pair)"}) {
    EXPECT_EQ(with_views(text), text);
  }
}

TEST(WithViews, ATitleAndCommonTablesOfTheStatementMayComeFirst) {
  const std::string text = with_views(
      "-- the runs\n-- :x a number\nWITH RECURSIVE n AS (SELECT 1) SELECT * FROM lineage");
  EXPECT_TRUE(text.starts_with("WITH RECURSIVE "));
  EXPECT_EQ(times(text, "RECURSIVE n AS (SELECT 1)") + times(text, ", n AS (SELECT 1) SELECT"), 1u);
  Warehouse w;
  EXPECT_EQ(text_of(w.db, text), "");
}

}  // namespace
}  // namespace greta
