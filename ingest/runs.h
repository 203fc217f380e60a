#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "db/run_records.h"
#include "db/statements.h"
#include "db/trace_writer.h"
#include "ingest/record/batch.h"
#include "ingest/record/run_event.h"
#include "ingest/run_identity.h"

namespace greta {

/// Runs, their prompts and what is stated of them. All calls happen inside the caller's
/// transaction. Throws SQLite::Exception.
class Runs {
 public:
  Runs(SQLite::Database& db, TraceWriter& writer)
      : db_(db), sql_(db), records_(db), writer_(writer) {}

  /// Runs that change from now on belong to an ingest that has not ended (table ingest_run).
  void belong_to(int64_t ingest_id) { ingest_id_ = ingest_id; }

  /// What a run is called that a content of the row format begins: as it says, "" when another run
  /// has that name; else <date>/<experiment>[/<mode>], #2, #3, ... when that is taken.
  std::string free_name_of(const RunEvent& start);

  /// The run of an identity, created with the attributes that its path states.
  int64_t find_or_add(const RunIdentity& identity);
  /// Marks a run as changed by this ingest. Its verdict is forgotten.
  void change(int64_t run_id);
  /// The same, marked as changed.
  int64_t run_id(const RunIdentity& identity);
  /// The run of the same experiment and date with more dimensions, as a summary lists them.
  int64_t run_id(RunIdentity identity, const std::map<std::string, std::string>& more_dims);

  void add_attribute(int64_t run_id, const std::string& dim, const std::string& value,
                     AttributeRank rank, const std::string& leg, std::optional<int64_t> source_id);

  /// What an engine says of the run in lines of its own. Whatever the order in which they come: a
  /// run that failed once has failed, and one that started more often than it ended is running.
  /// Returns why the run is in doubt by it, "" when it is not.
  std::string add_run_event(int64_t source_id, int64_t run_id, const RunIdentity& identity,
                            const RunEvent& event);
  /// Works the status of the source's run out again, if the source says that it began or ended:
  /// where it was found tells states of one file from parts of a run.
  void refresh_status(int64_t source_id);
  /// Whether this is the algorithm that hashes the run, that of the first hash it got; rows by
  /// another one say so.
  bool is_hash_algo(int64_t run_id, const std::string& hash_algo);
  /// Whether rows by that algorithm may stand beside the run's: of greta's own two, rows say by
  /// which they are.
  bool may_mix_hashes(int64_t run_id, const std::string& hash_algo);

  /// The prompt for a symbol. A readout segment takes the name of the one prompt of the run that
  /// has its length, if a log said so.
  int64_t prompt_id(int64_t run_id, const PromptSymbol& symbol);
  /// A log says how long its prompt is: names the segment of that length, if there is just one.
  void set_prompt_length(int64_t run_id, const std::string& prompt, int64_t n_tokens);

  /// Settles date, commit, mode, dtype, seed of the runs of an experiment from their attributes and
  /// those of the directory levels above them: most believed first, then nearest.
  void settle(const std::string& experiment);

  /// Experiments to settle: those with attributes that are new since they were last taken, by this
  /// ingest or by one that did not live to settle them.
  std::set<std::string> take_unsettled();

 private:
  void start_run(int64_t source_id, int64_t run_id, const RunIdentity& identity,
                 const RunEvent& event);
  void end_run(int64_t source_id, int64_t run_id, const RunEvent& event);
  void add_occasion(int64_t source_id, int64_t run_id, const char* kind, const std::string& at);
  std::string add_prompt(int64_t run_id, const RunEvent& event);

  SQLite::Database& db_;
  Statements sql_;
  RunRecords records_;
  TraceWriter& writer_;
  std::optional<int64_t> ingest_id_;
};

/// The identity of a run that is called `name`, by its own run_start.
RunIdentity identity_of(const RunEvent& start, const std::string& name);

}  // namespace greta
