#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/process.h"

namespace greta {

/// What an ingest was asked to read, as far as it decides which rows of which run come of it.
struct IngestRequest {
  std::vector<std::filesystem::path> paths;  ///< absolute
  std::string run;                           ///< IngestOptions::run
  bool follow = false;                       ///< IngestOptions::follow

  bool operator==(const IngestRequest&) const = default;
};

/// An ingest that has not ended, as the table `ingest` has it. The runs that it has written to are
/// INCOMPLETE until it is closed.
struct OpenIngest {
  int64_t id = 0;
  IngestRequest request;
  std::string started_at;  ///< ISO 8601 UTC
  Process process;         ///< that began it
};

/// Records what is about to be read, before anything is written: ingest.id. In a transaction of its
/// own. Throws SQLite::Exception.
int64_t open_ingest(SQLite::Database& db, const IngestRequest& request);

/// All of it is there: its runs are judged like any others, anew. Inside the caller's transaction.
void close_ingest(SQLite::Database& db, int64_t id);

/// Names of the runs that it has written to, in order of their ids.
std::vector<std::string> runs_of_ingest(SQLite::Database& db, int64_t id);

/// Those that nobody is working at any more, oldest first. One of this process has thrown: call
/// this before open_ingest.
std::vector<OpenIngest> interrupted_ingests(SQLite::Database& db);

}  // namespace greta
