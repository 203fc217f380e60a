#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <optional>

namespace greta {

/// Number of trace rows that say of each other what the view standing does not (kStandingColumns).
int64_t count_wrong_standings(SQLite::Database& db);

/// Corrects them, of one run or of all; returns how many there were. TraceWriter has done that of
/// what it wrote.
int64_t correct_standings(SQLite::Database& db, std::optional<int64_t> run_id = std::nullopt);

}  // namespace greta
