// A file of an earlier version, made by the last build that wrote such, is brought forward: its own
// views and those of this build, over the same rows, say the same.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/temporary_folder.h"
#include "db/check.h"
#include "db/database.h"
#include "db/merge.h"
#include "db/schema.h"
#include "tests/db/earlier_version.h"

namespace greta {
namespace {

namespace fs = std::filesystem;

constexpr const char* kViews[] = {
    "trace",         "pair",    "first_fail", "run_verdict",     "propagation",      "kv_alignment",
    "lm_head_delta", "history", "run_diff",   "report_conflict", "failure_breakdown"};

int64_t integer_of(SQLite::Database& db, const std::string& sql) {
  return db.execAndGet(sql).getInt64();
}

/// All but those of which each version knows more: where a difference began.
std::vector<std::string> columns_of(SQLite::Database& db, const std::string& view) {
  SQLite::Statement info(
      db, "SELECT name FROM pragma_table_info('" + view +
              "') WHERE name NOT IN ('origin', 'numeric_origin', 'caused_by', 'segment',"
              " 'untraced_layers', 'rel_l2')");
  std::vector<std::string> names;
  while (info.executeStep()) names.push_back(info.getColumn(0).getString());
  return names;
}

/// Rows of a view as sorted lines.
std::vector<std::string> rows_of(SQLite::Database& db, const std::string& view,
                                 const std::vector<std::string>& columns) {
  std::string list;
  for (const std::string& name : columns) list += (list.empty() ? "" : ", ") + name;
  SQLite::Statement query(db, "SELECT " + list + " FROM " + view);
  std::vector<std::string> lines;
  while (query.executeStep()) {
    std::string line;
    for (int i = 0; i < query.getColumnCount(); ++i) {
      const SQLite::Column value = query.getColumn(i);
      line +=
          columns[static_cast<size_t>(i)] + "=" + (value.isNull() ? "-" : value.getString()) + " ";
    }
    // What diverges behind rounding has the cause of the switch since version 5.
    constexpr std::string_view kOwn = "=Q_POST_ROPE_DRIFT", kOfSwitch = "=ROPE_DRIFT";
    for (size_t at = line.find(kOwn); at != line.npos; at = line.find(kOwn)) {
      line.replace(at, kOwn.size(), kOfSwitch);
    }
    lines.push_back(line);
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
  std::vector<std::vector<std::string>> columns, before;
  {
    SQLite::Database db(file_.string(), SQLite::OPEN_READONLY);
    ASSERT_EQ(pragma(db, "user_version"), GetParam());
    ASSERT_GT(integer_of(db, "SELECT sum(occurrence > 0) FROM trace"), 0);
    ASSERT_GT(integer_of(db, "SELECT count(*) FROM trace_repeat"), 0);
    for (const char* view : kViews) {
      columns.push_back(columns_of(db, view));
      before.push_back(rows_of(db, view, columns.back()));
    }
  }
  for (bool kept : {true, false}) {
    SQLite::Database db = open_for_writing(file_);
    EXPECT_EQ(pragma(db, "user_version"), kSchemaVersion);
    EXPECT_EQ(integer_of(db, "SELECT count(*) FROM unjudged_run"), 0);
    if (!kept) db.exec("DELETE FROM kept_tally");
    EXPECT_EQ(check_database(db), std::vector<std::string>());
    for (size_t i = 0; i < std::size(kViews); ++i) {
      EXPECT_EQ(rows_of(db, kViews[i], columns[i]), before[i]) << kViews[i] << " kept " << kept;
    }
  }
}

TEST_P(EarlierVersion, HasTheTablesOfANewFileThen) {
  SQLite::Database migrated = open_for_writing(file_);
  SQLite::Database fresh = open_for_writing(folder_ / "new.db");
  SQLite::Statement objects(fresh,
                            "SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'");
  int count = 0;
  while (objects.executeStep()) {
    const std::string name = objects.getColumn(1).getString();
    EXPECT_EQ(
        integer_of(migrated, "SELECT count(*) FROM sqlite_schema WHERE type = '" +
                                 objects.getColumn(0).getString() + "' AND name = '" + name + "'"),
        1)
        << name;
    if (objects.getColumn(0).getString() == "table") {
      EXPECT_EQ(columns_of(migrated, name), columns_of(fresh, name)) << name;
    }
    ++count;
  }
  EXPECT_EQ(
      integer_of(migrated, "SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'"),
      count);
  EXPECT_EQ(integer_of(migrated, "SELECT count(*) FROM sqlite_stat1"),
            integer_of(fresh, "SELECT count(*) FROM sqlite_stat1"));
}

TEST_P(EarlierVersion, KnowsTheTracePointsOfToday) {
  if (GetParam() >= 5) GTEST_SKIP() << "version 5 knows them";
  int64_t moved = 0;
  {
    SQLite::Database db(file_.string(), SQLite::OPEN_READWRITE);
    db.exec(
        "INSERT INTO tensor(id, ord, name, stage) VALUES (60000, 1000, 'k_cache_rows', 'unknown')");
    db.exec(
        "INSERT INTO tensor_name(name, tensor_id, cause)"
        " VALUES ('k_cache_rows', 60000, 'K_CACHE_ROWS_DRIFT')");
    const std::string some = " WHERE tensor_id = (SELECT max(tensor_id) FROM trace_repeat)";
    moved = integer_of(db, "SELECT count(*) FROM trace_row" + some);
    ASSERT_GT(moved, 0);
    db.exec(
        "UPDATE trace_row SET tensor_id = 60000,"
        " name_id = (SELECT id FROM tensor_name WHERE name = 'k_cache_rows')" +
        some);
    db.exec("UPDATE trace_repeat SET tensor_id = 60000" + some);
  }
  SQLite::Database db = open_for_writing(file_);
  EXPECT_EQ(integer_of(db, "SELECT count(*) FROM trace_row WHERE tensor_id = 57"), moved);
  EXPECT_EQ(integer_of(db,
                       "SELECT count(*) FROM tensor_name n JOIN tensor t ON t.id = n.tensor_id"
                       " WHERE n.name = 'k_cache_rows' AND t.id = 57 AND t.stage = 'layer'"),
            1);
  SQLite::Database fresh = open_for_writing(folder_ / "new.db");
  EXPECT_EQ(integer_of(db, "SELECT count(*) FROM tensor WHERE stage <> 'unknown'"),
            integer_of(fresh, "SELECT count(*) FROM tensor"));
  EXPECT_EQ(check_database(db), std::vector<std::string>());
}

TEST_P(EarlierVersion, KnowsLineages) {
  SQLite::Database db = open_for_writing(file_);
  EXPECT_EQ(integer_of(db, "SELECT count(*) FROM lineage_member"),
            integer_of(db, "SELECT count(*) FROM run"));
  EXPECT_EQ(integer_of(db,
                       "SELECT count(*) FROM lineage_member m JOIN run_lineage l USING (run_id)"
                       " WHERE (m.lineage, m.injected) IS NOT (l.lineage, l.injected)"),
            0);
}

TEST_P(EarlierVersion, IsBroughtForwardByAQuestion) {
  SQLite::Database db = open_for_reading(file_);
  EXPECT_EQ(pragma(db, "user_version"), kSchemaVersion);
  EXPECT_GT(integer_of(db, "SELECT count(*) FROM run_verdict"), 0);
}

TEST_P(EarlierVersion, IsNotChangedByAMergeThatReadsIt) {
  SQLite::Database into = open_for_writing(folder_ / "into.db");
  EXPECT_THROW(merge(into, file_), DatabaseError);
  SQLite::Database db = open_unchanged(file_);
  EXPECT_EQ(pragma(db, "user_version"), GetParam());
}

TEST_P(EarlierVersion, StaysAsItWasWhenItCannotBe) {
  const std::string in_the_way = GetParam() == 1   ? "trace_repeat_v1"
                                 : GetParam() == 2 ? "old_ingest_error"
                                 : GetParam() == 3 ? "old_readout"
                                 : GetParam() == 4 ? "difference"
                                 : GetParam() == 5 ? "commit_node"
                                 : GetParam() == 6 ? "diff_tensor"
                                 : GetParam() == 7 ? "name_rule"
                                                   : "truth";
  int64_t rows = 0;
  {
    SQLite::Database db(file_.string(), SQLite::OPEN_READWRITE);
    rows = integer_of(db, "SELECT count(*) FROM trace_row");
    db.exec("CREATE TABLE " + in_the_way + "(somebody_elses)");  // a rename fails
  }
  EXPECT_THROW(open_for_writing(file_), SQLite::Exception);
  EXPECT_THROW(open_for_reading(file_), DatabaseError);
  SQLite::Database db(file_.string(), SQLite::OPEN_READWRITE);
  EXPECT_EQ(pragma(db, "user_version"), GetParam());
  EXPECT_EQ(integer_of(db, "SELECT count(*) FROM trace_row"), rows);
  EXPECT_EQ(integer_of(db, GetParam() == 1 ? "SELECT count(*) FROM run WHERE tally IS NOT NULL"
                                           : "SELECT count(DISTINCT run_id) FROM kept_tally"),
            integer_of(db, "SELECT count(*) FROM run") - (GetParam() == 5 ? 1 : 0));
  EXPECT_GT(integer_of(db, "SELECT count(*) FROM run_verdict"), 0);
  db.exec("DROP TABLE " + in_the_way);
  EXPECT_NO_THROW(open_for_writing(file_));
}

INSTANTIATE_TEST_SUITE_P(Files, EarlierVersion, ::testing::Values(1, 2, 3, 4, 5, 6, 7, 8));

}  // namespace
}  // namespace greta
