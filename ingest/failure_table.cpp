#include "ingest/failure_table.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "ingest/failure_claim.h"
#include "ingest/failure_members.h"
#include "ingest/judging_table.h"

namespace greta {
namespace {

std::string claim_of_cells(const Table& header, const TableRow& row) {
  if (std::none_of(header.columns.begin(), header.columns.end(), may_be_held_against_others))
    return {};
  std::vector<Member> members;
  for (size_t i = 0; i < std::min(header.columns.size(), row.cells.size()); ++i)
    members.push_back({header.columns[i], row.cells[i]});
  return claim_of_members(members);
}

}  // namespace

std::string claim_of_row(const Table& header, const TableRow& row, bool has_columns,
                         bool is_amid_text) {
  for (size_t i = 0; i < row.cells.size(); ++i) {
    const bool by_column = has_columns && i < header.columns.size() &&
                           !(is_amid_text && is_of_another_run(header.columns[i])) &&
                           (claims_failure(header.columns[i], row.cells[i]) ||
                            value_claims_failure(header.columns[i], row.cells[i]));
    // a cell below a column that judges is no key
    const bool is_value =
        i > 0 && i <= header.columns.size() && claims_failure(header.columns[i - 1], "fail");
    const bool by_cell = i > 0 && !is_value && claims_failure(row.cells[i - 1], row.cells[i]);
    if (by_cell) return row.cells[i - 1] + ": " + row.cells[i];
    if (by_column) return header.columns[i] + ": " + row.cells[i];
  }
  return has_columns ? claim_of_cells(header, row) : std::string();
}

}  // namespace greta
