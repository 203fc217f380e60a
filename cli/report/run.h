#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include "cli/report/markdown.h"
#include "cli/warehouse/run_name.h"

namespace greta {

/// Writes every section of one run, its headings from `level` on; `modes_compared` says that the
/// document already compares its modes. Throws SQLite::Exception.
void write_run(SQLite::Database& db, const Run& run, MarkdownWriter& out, int level,
               bool modes_compared);

}  // namespace greta
