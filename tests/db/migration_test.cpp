// A file of an earlier version, made by the last build that wrote such, is brought forward: its own
// views and those of this build, over the same rows, say the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/temporary_folder.h"
#include "db/check.h"
#include "db/database.h"
#include "db/judge.h"
#include "db/merge.h"
#include "db/schema.h"
#include "tests/db/earlier_version.h"
#include "tests/query_text.h"

namespace greta {
namespace {

namespace fs = std::filesystem;

/// Questions before and after. Sketches are rounded, and equal hashes of other counts are a
/// conflict whatever the counts are of.
const std::pair<const char*, const char*> kQuestions[] = {
    {"SELECT * FROM trace", nullptr},
    {"SELECT run, prompt, pos_id, layer, tensor, status, replace(class, 'EXPLAINED', 'DIVERGENT'), "
     "cause,"
     " measure, scope, details"
     " FROM pair WHERE status NOT IN ('NONFINITE', 'CONFLICT')",
     nullptr},
    {"SELECT run, prompt, pos_id, layer, tensor, status, replace(class, 'EXPLAINED', 'DIVERGENT'),"
     " origin"
     " FROM propagation WHERE status NOT IN ('NONFINITE', 'CONFLICT')",
     nullptr},
    {"SELECT run, prompt, layer, pos_id, k_match, v_match, q_match, cache_match FROM kv_alignment",
     nullptr},
    {"SELECT * FROM lm_head_delta", nullptr},
    {"SELECT run, verdict, numeric_verdict, coverage, pairs, pass, fail, missing, first_fail, "
     "layer,"
     " tensor, prompt, pos_id, numeric_first_fail, numeric_layer, numeric_tensor FROM run_verdict",
     "SELECT run, strict_verdict, numeric_verdict, coverage, pairs, pass, fail, missing,"
     " strict_first_fail, strict_layer, strict_tensor, strict_prompt, strict_pos_id,"
     " numeric_first_fail, numeric_layer, numeric_tensor FROM run_verdict"},
};

std::vector<std::string> sorted_rows(SQLite::Database& db, const std::string& sql) {
  const std::string text = text_of(db, sql);
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

class EarlierVersion : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    file_ = folder_ / "old.db";
    unpack_version(GetParam(), file_);
  }

  TemporaryFolder folder_;
  fs::path file_;
};

TEST_P(EarlierVersion, IsBroughtForwardAndSaysTheSame) {
  std::vector<std::vector<std::string>> before;
  {
    SQLite::Database db(file_.string(), SQLite::OPEN_READONLY);
    ASSERT_EQ(pragma(db, "user_version"), GetParam());
    ASSERT_GT(number_of(db, "SELECT sum(occurrence > 0) FROM trace"), 0);
    ASSERT_GT(number_of(db, "SELECT count(*) FROM trace_repeat"), 0);
    for (const auto& [old, now] : kQuestions) before.push_back(sorted_rows(db, old));
  }
  SQLite::Database db = open_for_writing(file_);
  EXPECT_EQ(pragma(db, "user_version"), kSchemaVersion);
  EXPECT_EQ(unjudged_runs(db), std::vector<int64_t>());
  EXPECT_EQ(check_database(db), std::vector<std::string>());
  for (size_t i = 0; i < std::size(kQuestions); ++i) {
    const auto& [old, now] = kQuestions[i];
    EXPECT_FALSE(before[i].empty()) << old;
    EXPECT_EQ(sorted_rows(db, now != nullptr ? now : old), before[i]) << old;
  }
}

TEST_P(EarlierVersion, KeepsEverySampleSketchAndDifference) {
  fs::copy_file(file_, folder_ / "before.db");
  SQLite::Database db = open_for_writing(file_);
  db.exec("ATTACH '" + (folder_ / "before.db").string() + "' AS before");
  const std::string kRows =
      " FROM before.trace_row o JOIN main.trace_row t USING (run_id, prompt_id, side, pos_id, "
      "layer,"
      " tensor_id, nth)";
  EXPECT_EQ(number_of(db, "SELECT count(*)" + kRows),
            number_of(db, "SELECT count(*) FROM before.trace_row"));
  EXPECT_EQ(number_of(db, "SELECT count(*)" + kRows +
                              " WHERE (SELECT data FROM before.sample WHERE id = o.vector_id)"
                              " IS NOT (SELECT data FROM main.sample WHERE id = t.sample_id)"),
            0);
  const std::string kSketches = kRows +
                                " LEFT JOIN before.sketch k ON k.id = o.vector_id"
                                " LEFT JOIN main.sketch l ON l.id = t.sketch_id";
  EXPECT_EQ(number_of(db, "SELECT count(*)" + kSketches +
                              " WHERE (k.n, k.derived, k.sum_sq) IS NOT (l.n, l.derived, l.sum_sq)"
                              " OR abs(k.s0 - l.b0 * l.scale) > l.scale / 2"
                              " OR abs(k.s31 - l.b31 * l.scale) > l.scale / 2"),
            0);
  EXPECT_LT(number_of(db, "SELECT count(*) FROM main.sketch"),
            number_of(db, "SELECT count(*) FROM before.sketch"));
  EXPECT_EQ(text_of(db, "SELECT count(*), sum(differing), sum(rel_l2) FROM main.difference"),
            text_of(db, "SELECT count(*), sum(differing), sum(rel_l2) FROM before.difference"));
  EXPECT_EQ(number_of(db,
                      "SELECT count(*) FROM before.difference o JOIN main.difference d USING"
                      " (run_id, prompt_id, pos_id, layer, tensor_id, prefill_hash, decode_hash)"
                      " WHERE NOT ifnull(o.rel_l2 <= 0.01 AND o.segments >= 8"
                      "  AND o.in_segments = o.segments AND o.top_share <= 4.0 / o.segments, 0)"
                      " AND (o.in_segments <> (SELECT count(*) FROM difference_part p"
                      "  WHERE p.difference_id = d.id)"
                      " OR o.top_segment <> (SELECT segment FROM difference_part p"
                      "  WHERE p.difference_id = d.id ORDER BY share_ppm DESC, segment LIMIT 1)"
                      " OR abs(1e6 * o.top_share - (SELECT max(share_ppm) FROM difference_part p"
                      "  WHERE p.difference_id = d.id)) > 0.5)"),
            0);
}

TEST_P(EarlierVersion, HasWhatANewFileHasThen) {
  SQLite::Database migrated = open_for_writing(file_);
  SQLite::Database fresh = open_for_writing(folder_ / "new.db");
  for (const char* what :
       {"SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY name",
        "SELECT tbl, idx, stat FROM sqlite_stat1 ORDER BY 1, 2", "SELECT * FROM edge",
        "SELECT * FROM finding", "SELECT * FROM status", "SELECT * FROM class"}) {
    EXPECT_EQ(text_of(migrated, what), text_of(fresh, what));
  }
  SQLite::Statement tables(fresh, "SELECT name FROM sqlite_schema WHERE type = 'table'");
  while (tables.executeStep()) {
    const std::string name = tables.getColumn(0).getString();
    EXPECT_EQ(columns_of(migrated, name), columns_of(fresh, name)) << name;
  }
}

TEST_P(EarlierVersion, AQuestionNamesTheCommandThatHelps) {
  try {
    open_for_reading(file_);
    FAIL() << "it was read";
  } catch (const DatabaseError& error) {
    EXPECT_EQ(std::string(error.what()),
              file_.string() + " has format version " + std::to_string(GetParam()) + ", not " +
                  std::to_string(kSchemaVersion) + ": `greta-db upgrade " + file_.string() +
                  "` brings it to this one");
  }
  SQLite::Database into = open_for_writing(folder_ / "into.db");
  EXPECT_THROW(merge(into, file_), DatabaseError);
  SQLite::Database db = open_unchanged(file_);
  EXPECT_EQ(pragma(db, "user_version"), GetParam());
}

TEST_P(EarlierVersion, StaysAsItWasWhenItCannotBe) {
  for (const char* in_the_way : {"trace_row_9", "difference_part"}) {
    int64_t rows = 0;
    {
      SQLite::Database db(file_.string(), SQLite::OPEN_READWRITE);
      rows = number_of(db, "SELECT count(*) FROM trace_row");
      db.exec(std::string("CREATE TABLE ") + in_the_way + "(somebody_elses)");
    }
    EXPECT_THROW(open_for_writing(file_), SQLite::Exception);
    EXPECT_THROW(open_for_reading(file_), DatabaseError);
    SQLite::Database db(file_.string(), SQLite::OPEN_READWRITE);
    EXPECT_EQ(pragma(db, "user_version"), GetParam());
    EXPECT_EQ(number_of(db, "SELECT count(*) FROM trace_row"), rows);
    EXPECT_GT(number_of(db, "SELECT count(*) FROM run_verdict"), 0);
    db.exec(std::string("DROP TABLE ") + in_the_way);
  }
  EXPECT_NO_THROW(open_for_writing(file_));
}

TEST_P(EarlierVersion, OlderOnesAreRefused) {
  SQLite::Database(file_.string(), SQLite::OPEN_READWRITE).exec("PRAGMA user_version = 7");
  const auto error_of = [this](auto open) -> std::string {
    try {
      open(file_);
    } catch (const DatabaseError& error) {
      return error.what();
    }
    return "";
  };
  const std::string refusal = file_.string() +
                              " has format version 7, which this greta-db no longer reads: ingest"
                              " its sources into a new file";
  EXPECT_EQ(error_of([](const fs::path& file) { return open_for_writing(file); }), refusal);
  EXPECT_NE(error_of([](const fs::path& file) { return open_for_reading(file); }).find(refusal),
            std::string::npos);
  SQLite::Database db(file_.string());
  EXPECT_EQ(pragma(db, "user_version"), 7);
}

INSTANTIATE_TEST_SUITE_P(Files, EarlierVersion, ::testing::Values(8, 9));

}  // namespace
}  // namespace greta
