#pragma once
#include "cli/report/judged_row.h"
#include "cli/report/markdown.h"

namespace greta {

/// Writes every section of one run, its headings from `level` on; `modes_compared` says that the
/// document already compares its modes. Throws SQLite::Exception.
void write_run(QueryPool& statements, const JudgedRow& row, MarkdownWriter& out, int level,
               bool modes_compared);

}  // namespace greta
