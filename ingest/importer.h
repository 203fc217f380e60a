#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace greta {

/// Something an ingest did not take as it stands; also a row of ingest_error.
struct Finding {
  std::string file;      ///< archive.tgz!member for archive members
  int64_t line = 0;      ///< 0: the file as a whole
  bool is_error = true;  ///< else a warning: taken, but look at it
  std::string reason;
};

struct IngestProgress {
  int64_t files_done = 0, files_total = 0;
  int64_t bytes_done = 0, bytes_total = 0;  ///< on disk
  int64_t rows = 0;
  std::string current;  ///< file being read; "" while verdicts are computed
};

struct IngestOptions {
  bool dry_run = false;  ///< read and check everything, write nothing
  bool follow = false;   ///< links out of a directory given, too (Links::kAll)
  bool give_up = false;  ///< interrupted ingests whose paths are gone end, as never finished
  int jobs = 2;          ///< 1: one thread does all; more: another one parses
  std::string run;       ///< name of the run all files belong to; "" : from path and content
  std::function<void(const IngestProgress&)> progress;
};

struct IngestCounts {
  int64_t files = 0;          ///< files and archive members looked at
  int64_t new_sources = 0;    ///< contents that were not in the database
  int64_t known_sources = 0;  ///< contents that were: nothing changed but perhaps a location
  int64_t rows = 0;           ///< trace rows stored
  int64_t duplicates = 0;     ///< trace rows equal to one already there
  int64_t conflicts = 0;      ///< trace rows kept as a further occurrence of a key
  int64_t report_pairs = 0;
  int64_t log_events = 0;
  int64_t metrics = 0;
  int64_t taken = 0;                 ///< contents, new or known, of a shape that greta reads
  int64_t errors = 0, warnings = 0;  ///< findings that were not in the database
  int64_t known_errors = 0, known_warnings = 0;  ///< those that were, of what was looked at
};

struct IngestSummary : IngestCounts {
  std::vector<Finding> findings;  ///< new ones, the first kMaxFindings; ingest_error has all
  static constexpr size_t kMaxFindings = 10'000;

  IngestSummary& operator+=(const IngestSummary& other);
};

/// Ingests files, directories (recursively, in order of path) and archives. A content is taken
/// whole or not at all: after a crash or a kill the next call finishes the work. A content that is
/// already there under the same run, leg and prompt changes nothing but its locations. An ingest
/// that was interrupted is finished first (resume); until then, and while this one runs, the runs
/// that it has written to are INCOMPLETE.
/// Throws SQLite::Exception when the database cannot be written and std::system_error when a path
/// given does not exist; an unreadable or damaged input is a finding.
IngestSummary ingest(SQLite::Database& db, const std::vector<std::filesystem::path>& paths,
                     const IngestOptions& options);

/// Finishes every ingest that was begun and is not at work any more, by the paths and options
/// that it was given: ingest() of nothing else. One of whose paths any is gone stays open: a
/// finding. With give_up it ends: what is left of its paths is read, and the runs that it has
/// written to have an error for each path that is gone, so that they stay INCOMPLETE at best.
IngestSummary resume(SQLite::Database& db, const IngestOptions& options);

/// Ingests the row format (docs/traces.md) from a pipe, while its other end still writes: rows are
/// committed within some 20 ms of their arrival, so that others see them, and no lock is held while
/// nothing comes. A run whose stream ends before its run_end is INCOMPLETE. Findings name the file
/// "-". What does not begin with such a run_start is a finding, and is not read on.
///
/// descriptor: of the pipe, or of a file; borrowed. Throws SQLite::Exception, std::system_error
/// (it cannot be read) and Stopped.
IngestSummary ingest_stream(SQLite::Database& db, int descriptor, const IngestOptions& options);

}  // namespace greta
