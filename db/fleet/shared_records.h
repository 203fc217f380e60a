#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>

#include "db/fleet/record_writer.h"
#include "db/fleet/server.h"

namespace greta {

/// Dictionaries as they are there: the push that they have, which their content tells, and how many
/// records they are.
struct SharedRules {
  uint64_t push = 0, records = 0;
};

/// The push that dictionaries have, whose records were written, one table after the other.
uint64_t push_of_rules(RecordWriter& records);

/// Sends the dictionaries that the file's runs go by, unless the same are there. Throws as
/// FleetServer does; what is sent twice counts once.
SharedRules send_rules(SQLite::Database& db, FleetServer& server);

/// Sends the repository's commits that are not there yet. Throws as FleetServer does, and
/// DatabaseError when they are too many.
void send_commits(SQLite::Database& db, FleetServer& server);

}  // namespace greta
