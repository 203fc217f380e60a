#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <optional>

#include "common/process.h"

namespace greta {

/// Notes that this process writes the run from now on. It belongs to this file and not to the run:
/// neither a merge nor a push takes it along. Inside the caller's transaction, as all of these.
void note_run_process(SQLite::Database& db, int64_t run_id);

/// Nobody writes the run any more, if it has ended; of one that has not the note stays, and tells
/// that its writer is gone.
void forget_run_process(SQLite::Database& db, int64_t run_id);

/// Who writes a run, or did until it was killed; nothing where nobody noted it.
std::optional<Process> process_of_run(SQLite::Database& db, int64_t run_id);

}  // namespace greta
