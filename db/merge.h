#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace greta {

/// What a merge added.
struct MergeSummary {
  int64_t new_runs = 0;
  int64_t new_sources = 0;
  int64_t known_sources =
      0;                   ///< there already, under the same run, leg, prompt and content: skipped
  int64_t rows = 0;        ///< trace rows stored, conflicts included
  int64_t duplicates = 0;  ///< trace rows of new sources equal to one already there
  int64_t conflicts = 0;   ///< trace rows stored as a further occurrence of their key
  int64_t pins_left = 0, waivers_left = 0;  ///< decisions of the other file, which stay there
  /// New runs of an engine whose name another engine's run has: name there, name here.
  std::vector<std::pair<std::string, std::string>> renamed;
};

/// Adds all of another greta database to `db`, in one transaction: on an error nothing has changed.
/// The other file is only read, its views and triggers are not used.
/// Runs meet by name, dictionary entries by name, sources by identity (run, leg, prompt, content);
/// a source that is already there is skipped with its rows, so that merging a file twice changes
/// nothing. Runs that engines wrote meet by what the engines are: another one under a name that is
/// taken becomes NAME#2, NAME#3, .... Trace rows go through TraceWriter. What one run is said to be
/// by both files (date, commit, mode, ...) goes to the most believed attribute; the receiving
/// file's trace points, data flow and tolerances stay. Commits of both files are there afterwards.
/// Pinned baselines and waivers of the other file do not come along: who runs a gate says what it
/// goes by. Where two files trace the
/// same prompt of the same run, prompts and conflicting occurrences are numbered in the order of
/// the merges. Messages say `called`, where that is given, of a file that its user does not know.
/// Throws DatabaseError (not greta's, damaged, tables that greta did not make, another
/// schema version, `db` itself, a run hashed by another algorithm, a source of the same identity
/// with other rows) or SQLite::Exception.
MergeSummary merge(SQLite::Database& db, const std::filesystem::path& other,
                   const std::string& called = "");

}  // namespace greta
