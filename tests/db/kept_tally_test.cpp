// Verdicts that are kept: what they say, whose are missing, and whose are wrong.
#include "db/kept_tally.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "db/check.h"
#include "db/database.h"
#include "tests/db/one_row.h"

namespace greta {
namespace {

using KeptTally = OneRow;

TEST_F(KeptTally, AKeptTallyIsThatOfTheView) {
  const char* tally =
      "SELECT * FROM tally WHERE run_id = 1 ORDER BY prompt_id, status, class, cause";
  const std::string computed = text_of(db, tally);
  EXPECT_NE(computed, "");
  keep_tally(db, 1);
  EXPECT_GT(number_of(db, "SELECT count(*) FROM kept_tally"), 0);
  EXPECT_EQ(text_of(db, tally), computed);
  const std::string kept = text_of(db, "SELECT * FROM kept_tally");
  keep_tally(db, 1);
  EXPECT_EQ(text_of(db, "SELECT * FROM kept_tally"), kept);
  EXPECT_NO_THROW(keep_tally(db, 99));
}

TEST_F(KeptTally, RunsWithoutTally) {
  db.exec(
      "INSERT INTO run(name, experiment, status) VALUES ('live', 'e', 'running'), ('done', 'e', "
      "'complete')");
  EXPECT_EQ(runs_without_tally(db, 10), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(runs_without_tally(db, 0), (std::vector<int64_t>{3}));
  keep_tally(db, 3);
  EXPECT_EQ(runs_without_tally(db, 10), (std::vector<int64_t>{1}));
}

TEST_F(KeptTally, WhatIsKeptIsComparedWithTheViewsOfThisBuild) {
  keep_tally(db, 1);
  const auto wrong = [this] {
    SQLite::Database reader = open_unchanged(file);
    return runs_kept_wrong(reader);
  };
  EXPECT_EQ(wrong(), std::vector<int64_t>());
  db.exec("UPDATE kept_verdict SET pairs = 7");
  EXPECT_EQ(wrong(), std::vector<int64_t>{1});
  keep_tally(db, 1);
  repair_database(db, {1});
  EXPECT_EQ(number_of(db, "SELECT count(*) FROM kept_verdict"), 0);
  keep_tally(db, 1);
  EXPECT_EQ(wrong(), std::vector<int64_t>());
  // A row that somebody inserts tells nobody, for a trigger would cost every writer too much.
  db.exec(
      "INSERT INTO trace_row SELECT run_id, prompt_id, side, pos_id, layer, n.tensor_id, 0, 0,"
      " phase_id, step, n.id, token_id, logical_tok_idx, n, hash, min, max, mean, abs_sum, nan, "
      "inf,"
      " nz_count, flags, vector_id, ptr, offset_bytes, context_id, source_id, 2"
      " FROM trace_row, tensor_name n WHERE n.name = 'embed_out'");
  EXPECT_GT(number_of(db, "SELECT count(*) FROM kept_verdict"), 0);
  db.exec("DROP VIEW unkept_tally; CREATE VIEW unkept_tally AS SELECT * FROM kept_tally");
  EXPECT_EQ(wrong(), std::vector<int64_t>{1});
}

}  // namespace
}  // namespace greta
