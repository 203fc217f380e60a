#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <string>

namespace greta {

/// What views that say what changed are called by: "kept_" where nothing of them has to be worked
/// out, of the runs of a lineage or, without one, of all; else "". The twins kept_VIEW work nothing
/// out, and are there at once. Throws SQLite::Exception.
std::string kept_views(SQLite::Database& db, const std::string& lineage = "");

}  // namespace greta
