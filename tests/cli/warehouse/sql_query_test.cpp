#include "cli/warehouse/sql_query.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <optional>

namespace greta {
namespace {

class StatementsOfRows : public testing::Test {
 protected:
  StatementsOfRows() {
    db_.exec(
        "CREATE TABLE t(run_id INTEGER, v TEXT);"
        "INSERT INTO t VALUES (1, 'a'), (1, 'b'), (2, 'c')");
  }
  /// Texts of the rows that are left.
  static std::string rest(Query& query) {
    std::string text;
    while (query.step()) text += query.text(0);
    return text;
  }
  std::string values_of(int64_t run_id) {
    RunQuery query(statements_, run_id, kOfRun);
    return rest(query);
  }

  static constexpr const char* kOfRun = "SELECT v FROM t WHERE run_id = ? ORDER BY v";
  SQLite::Database db_{":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE};
  QueryPool statements_{db_};
};

TEST_F(StatementsOfRows, ServeOneRunAfterAnother) {
  EXPECT_EQ(values_of(1), "ab");
  EXPECT_EQ(values_of(2), "c");
  EXPECT_EQ(values_of(3), "");
  EXPECT_EQ(values_of(1), "ab");
  EXPECT_EQ(statements_.size(), 1U);
}

TEST_F(StatementsOfRows, TwoOfOneTextAtOnceHaveRowsOfTheirOwn) {
  RunQuery one(statements_, 1, kOfRun);
  ASSERT_TRUE(one.step());
  EXPECT_EQ(values_of(2), "c");
  {
    RunQuery other(statements_, 1, kOfRun);
    EXPECT_EQ(rest(other), "ab");
  }
  EXPECT_EQ(one.text(0), "a");
  EXPECT_EQ(rest(one), "b");
  EXPECT_EQ(statements_.size(), 2U);
  RunQuery third(statements_, 1, kOfRun), fourth(statements_, 2, kOfRun);
  EXPECT_EQ(rest(third) + rest(fourth), "abc");
  EXPECT_EQ(statements_.size(), 3U);
}

TEST_F(StatementsOfRows, BindingsEndWithTheirQuery) {
  const char* sql = "SELECT ifnull(?1, 'none') || ifnull(?2, 'none')";
  {
    Query both(statements_, sql);
    both.bind(1, std::string("x")).bind(2, std::string("y"));
    EXPECT_EQ(rest(both), "xy");
  }
  Query one(statements_, sql);
  one.bind(2, int64_t{7});
  EXPECT_EQ(rest(one), "none7");
  EXPECT_EQ(statements_.size(), 1U);
}

TEST_F(StatementsOfRows, RowsLeftUnreadAreOfNoConcernToTheNext) {
  {
    RunQuery left(statements_, 1, kOfRun);
    ASSERT_TRUE(left.step());
  }
  EXPECT_EQ(values_of(1), "ab");
  {
    RunQuery left(statements_, 1, kOfRun);
    ASSERT_TRUE(left.step());
    EXPECT_THROW(db_.exec("DROP TABLE t"), SQLite::Exception);  // it is being read
  }
  EXPECT_NO_THROW(db_.exec("DROP TABLE t"));
}

TEST_F(StatementsOfRows, AreGoneBeforeTheConnection) {
  std::optional<QueryPool> others(db_);
  {
    RunQuery one(*others, 1, kOfRun), two(*others, 2, kOfRun);
    ASSERT_TRUE(one.step());
  }
  EXPECT_NE(sqlite3_next_stmt(db_.getHandle(), nullptr), nullptr);
  others.reset();
  EXPECT_EQ(sqlite3_next_stmt(db_.getHandle(), nullptr), nullptr);
}

}  // namespace
}  // namespace greta
