#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <string>
#include <utility>
#include <vector>

#include "db/trace_writer.h"

namespace greta {

/// Makes the temporary tables of a merge: merge_run, merge_prompt, merge_phase, merge_name,
/// merge_tensor and merge_source map ids of the attached database `other` (other_id) to ours (id);
/// merge_context and merge_count are what db/merge_rows keeps. Called before the transaction of
/// a merge begins, so that its first statement is a write and waits for other writers instead of
/// failing.
void create_merge_maps(SQLite::Database& db);
/// Removes them; never throws.
void drop_merge_maps(SQLite::Database& db);

/// Maps runs, and adds those that are not here; they meet by name, but runs that engines wrote by
/// what the engine is. Returns those whose name another run has: name there, name here.
std::vector<std::pair<std::string, std::string>> map_runs(SQLite::Database& db);

/// Maps prompts and phases of mapped runs, and adds those that are not here.
void map_dictionaries(SQLite::Database& db);

/// Maps trace points by name; those that greta does not know are entered as the writer enters them.
void map_names(SQLite::Database& db, TraceWriter& writer);

/// Maps sources of mapped runs, and adds those that are not here. Says of each whether rows of it
/// are new and from which line on (is_new, from_line), and of each run whether it has such sources
/// and others (has_new, overlaps).
void map_sources(SQLite::Database& db);

}  // namespace greta
