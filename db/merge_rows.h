#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <filesystem>

#include "db/trace_writer.h"

namespace greta {

/// What became of the trace rows of a merge; fields as in MergeSummary.
struct MergedRows {
  int64_t rows = 0, duplicates = 0, conflicts = 0;
};

/// Copies the trace rows of new sources, and how often they were seen, from the attached database
/// `other`, whose file is named in messages. The ids are those of db/merge_maps. Notes with the new
/// sources what became of their rows. Throws DatabaseError where rows belong to nothing.
MergedRows merge_rows(SQLite::Database& db, TraceWriter& writer,
                      const std::filesystem::path& other);

}  // namespace greta
