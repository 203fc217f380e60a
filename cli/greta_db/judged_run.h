#pragma once
#include <functional>
#include <string>
#include <vector>

#include "cli/show/judged_row.h"
#include "cli/show/texts.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"
#include "common/json_text.h"

// Facts about a judged run that firstfail and gate tell. Functions throw SQLite::Exception.

namespace greta {

/// The rows of a query as an array of objects; `add` adds more to each.
std::string json_rows(Query& query, const std::function<void(JsonObject&, const Query&)>& add = {});

/// cause, and how often, strictly and beyond rounding
RunQuery breakdown_of(QueryPool& statements, int64_t run_id);
/// Rows of first_fail, in the order of the prompts.
RunQuery first_fails(QueryPool& statements, int64_t run_id);

/// Rows of prefill and decode that say no position, so that nothing is held against them.
int64_t rows_at_no_position(QueryPool& statements, int64_t run_id);

/// The object that scripts read: keys are added to it, never renamed or taken away.
std::string json_of(QueryPool& statements, const JudgedRow& row);

/// Prints the run as a block of lines; `later` names later runs of its name.
void print_block(Output& out, QueryPool& statements, const JudgedRow& row, Gate asked,
                 const std::string& later);

/// NAME#2, NAME#3, ... of a run's name that are not shown with it.
std::vector<std::string> later_names(SQLite::Database& db, const Run& run,
                                     const std::vector<Run>& shown);
/// "NAME#2, NAME#3; --latest takes the newest"; "" when there is none.
std::string later_text(const std::vector<std::string>& names, const Wording& words = kEnglishWords);

}  // namespace greta
