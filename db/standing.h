#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <optional>

namespace greta {

/// Number of trace rows that say of each other what the view standing does not (kStandingColumns).
int64_t count_wrong_standings(SQLite::Database& db);

/// Corrects them, of one run or of all; returns how many there were. Rows that TraceWriter wrote
/// are right.
int64_t correct_standings(SQLite::Database& db, std::optional<int64_t> run_id = std::nullopt);

}  // namespace greta
