#pragma once
#include <string>

#include "ingest/table.h"

namespace greta {

/// What a row claims of a table that judges no pairs: a cell beside one that judges ("verdict |
/// FAIL"), below a column that does, or held against another (claim_of_members). `has_columns`:
/// what is below a column is of the run at hand, but for `is_amid_text` columns of another
/// (is_of_another_run). "" if nothing.
std::string claim_of_row(const Table& header, const TableRow& row, bool has_columns,
                         bool is_amid_text);

}  // namespace greta
