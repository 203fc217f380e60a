#include "db/sqlite_setup.h"

#include <malloc.h>
#include <sqlite3.h>

namespace greta {

void set_up_sqlite() {
  // No mutex of connections, and no memory statistics, whose one mutex all allocations share.
  sqlite3_config(SQLITE_CONFIG_MULTITHREAD);
  sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  // The views that judge a run make tables of some 170 KB by the dozen. Given back to the system
  // after each statement, their pages cost a fifth of what judging a small run does.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  // Preparing a view asks for a million small pieces, and often for a large one, for which glibc
  // puts all together that its quickest lists hold: without those lists it prepares a tenth faster.
  mallopt(M_MXFAST, 0);
}

}  // namespace greta
