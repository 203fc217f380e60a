#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace greta {

/// Problems found in a database; empty when it is sound: SQLite's integrity, foreign keys, ids that
/// no dictionary has, rows that belong to two runs, trace rows that no writer writes, positions
/// that the views would not see, fewer rows than a source gave, rows that say of each other what
/// the view standing does not, runs that are in another lineage than they state. Tables and views
/// must be this build's. Reads every row once or twice.
std::vector<std::string> check_database(SQLite::Database& db);

/// The same but for SQLite's integrity, which takes longer than the rest, for lineages and for
/// which of several rows stands. Reads tables only.
std::vector<std::string> check_content(SQLite::Database& db);

/// Of runs whose verdict is kept: how many were worked out anew, of how many.
using KeptProgress = std::function<void(int64_t done, int64_t all)>;

/// Runs whose rows in `verdict` or `run_change` are not what the views say of their trace rows.
/// Views must be this build's. Takes as long as to judge all these runs. Leaves temporary tables of
/// our names on the connection, so close it afterwards; `db` may be read-only.
std::vector<int64_t> runs_kept_wrong(SQLite::Database& db, KeptProgress progress = nullptr);

/// Number of trace rows that say of each other what the view standing does not (kStandingColumns).
int64_t count_wrong_standings(SQLite::Database& db);

/// Corrects them. Returns how many there were.
int64_t correct_standings(SQLite::Database& db);

/// Corrects which of several rows stands, traced_position and lineage_member, and then forgets
/// every verdict; where they are as they must be, those of these runs. In one transaction. Returns
/// what was done, a line each.
std::vector<std::string> repair_database(SQLite::Database& db,
                                         const std::vector<int64_t>& kept_wrong);

}  // namespace greta
