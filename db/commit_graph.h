#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

namespace greta {

/// Sets commit_node.ord anew, so that parents come before children, and of commits that do not
/// follow from one another the earlier first. Commits that are their own ancestors, of which git
/// has none, come last. Inside a transaction. Throws SQLite::Exception.
void order_commits(SQLite::Database& db);

}  // namespace greta
