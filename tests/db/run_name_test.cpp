#include <gtest/gtest.h>

#include "db/database.h"
#include "db/run_records.h"
#include "tests/db/one_row.h"

namespace greta {
namespace {

using RunName = OneRow;

TEST_F(RunName, FreeNamesAreCountedOn) {
  EXPECT_EQ(free_run_name(db, "new"), "new");
  EXPECT_EQ(free_run_name(db, "r"), "r#2");
  db.exec("INSERT INTO run(name, experiment) VALUES ('r#2', 'e'), ('#', 'e'), ('x#', 'e')");
  EXPECT_EQ(free_run_name(db, "r"), "r#3");
  EXPECT_EQ(free_run_name(db, "r#2"), "r#3");
  EXPECT_EQ(free_run_name(db, "r#7"), "r#7");
  EXPECT_EQ(free_run_name(db, "#"), "##2");
  EXPECT_EQ(free_run_name(db, "x#"), "x##2");
}

}  // namespace
}  // namespace greta
