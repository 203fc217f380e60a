#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/process.h"
#include "common/stop_signal.h"
#include "db/trace_writer.h"
#include "db/transaction.h"
#include "ingest/facts.h"
#include "ingest/importer.h"
#include "ingest/runs.h"
#include "ingest/source_store.h"

namespace greta {

/// Request of an ingest, as far as it decides which rows of which run come of it.
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

/// What one ingest works with from its first file to its last. Borrows the database and the
/// options.
struct IngestSession {
  IngestSession(SQLite::Database& database, const IngestOptions& given)
      : db(database),
        options(given),
        writer(database),
        sources(database),
        runs(database, writer),
        facts(database, writer, runs),
        known_findings(sources),
        small(database) {}

  /// Reports something that was not taken as it stands, once. What an earlier ingest reported is
  /// counted as known.
  void add_finding(const std::string& file, int64_t line, bool is_error, const std::string& reason,
                   std::string_view raw, std::optional<int64_t> source_id);

  /// An error of a file as a whole, of no source, that speaks of a run.
  void add_finding_about(const std::string& run, const std::string& file,
                         const std::string& reason);

  /// Name of the run that a file belongs to (archive!member for an archive's), as far as its path
  /// says; "" when it does not.
  std::string run_named_by(std::string path) const;
  /// Counts a finding that was stored; is_new: it was not there before.
  void count_finding(const Finding& finding, bool is_new, bool is_of_source);
  /// Counts as known, once, what earlier ingests found in a source.
  void count_known_findings(int64_t source_id);

  void show_progress(const std::string& current);

  /// Settles what the ingest has learnt about its runs.
  void settle();
  /// Judges runs without a verdict, unless it is a dry run.
  void judge();

  /// After what was written was undone.
  void forget() {
    writer.forget();
    sources.forget();
  }

  /// Runs `body` in a transaction: undone by an exception, and in a dry run at the end of it all.
  template <class Body>
  void in_transaction(Body&& body);
  /// The same for what takes no time: in a transaction that it may share with what came before.
  template <class Body>
  void in_turn(Body&& body);
  /// Runs all of a dry run, and undoes it.
  template <class Body>
  void in_dry_run(Body&& body);

  SQLite::Database& db;
  const IngestOptions& options;
  TraceWriter writer;
  SourceStore sources;
  Runs runs;
  Facts facts;
  IngestSummary summary;
  IngestProgress progress;
  std::set<std::string> undated;  ///< date segments already warned about
  KnownFindings known_findings;
  SharedTransaction small;
};

template <class Body>
void IngestSession::in_transaction(Body&& body) {
  throw_if_stopped();
  try {
    small.commit();
    if (!options.dry_run) return greta::in_transaction(db, body);
    db.exec("SAVEPOINT content");
    body();
    db.exec("RELEASE content");
  } catch (...) {
    if (options.dry_run) db.tryExec("ROLLBACK TO content; RELEASE content");
    forget();
    throw;
  }
}

template <class Body>
void IngestSession::in_dry_run(Body&& body) {
  db.exec("BEGIN IMMEDIATE");
  try {
    body();
    db.exec("ROLLBACK");
  } catch (...) {
    db.tryExec("ROLLBACK");
    throw;
  }
}

template <class Body>
void IngestSession::in_turn(Body&& body) {
  if (options.dry_run) return in_transaction(std::forward<Body>(body));
  throw_if_stopped();
  try {
    small.run(std::forward<Body>(body));
  } catch (...) {
    forget();
    throw;
  }
}

}  // namespace greta
