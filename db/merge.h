#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

// Merges another database into this one.

namespace greta {

/// What a merge added.
struct MergeSummary {
  int64_t new_runs = 0;
  int64_t new_sources = 0;
  int64_t known_sources = 0;  ///< skipped: there already, with the same identity
  int64_t rows = 0;           ///< trace rows stored, conflicts included
  int64_t duplicates = 0;     ///< trace rows of new sources equal to one already there
  int64_t conflicts = 0;      ///< trace rows stored as a further occurrence of their key
  int64_t pins_left = 0, waivers_left = 0;  ///< decisions of the other file, which stay there
  /// New runs of an engine whose name another engine's run has: name there, name here.
  std::vector<std::pair<std::string, std::string>> renamed;
};

/// Adds all of another greta database to `db`, in one transaction: on an error nothing has changed.
/// The other file is only read, its views and triggers are not used.
/// Runs and dictionary entries meet by name, sources by identity (run, leg, prompt, content). A
/// source that is already there is skipped with its rows, so merging a file twice changes nothing.
/// Runs that engines wrote meet by the engine's source. Another one under a name that is taken
/// becomes NAME#2, NAME#3, .... What both files say of a run (date, commit, mode, ...) goes to the
/// most believed attribute. The receiving file's trace points, data flow and tolerances stay.
/// Pinned baselines and waivers of the other file do not come along. Messages name the other file
/// as `called`, where that is given.
/// Throws DatabaseError (not greta's, damaged, tables that greta did not make, another schema
/// version, `db` itself, a run hashed by another algorithm, a source of the same identity with
/// other rows) or SQLite::Exception.
MergeSummary merge(SQLite::Database& db, const std::filesystem::path& other,
                   const std::string& called = "");

}  // namespace greta
