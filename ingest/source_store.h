#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "db/trace_writer.h"
#include "ingest/document.h"
#include "ingest/json_facts.h"
#include "ingest/log.h"
#include "ingest/record/parser.h"
#include "ingest/record/run_event.h"
#include "ingest/report_pairs.h"
#include "ingest/run_identity.h"

namespace greta {

/// Where an attribute of a run comes from: the lower the more it is believed (attribute.rank).
enum class AttributeRank : int { kPath = 0, kPerf = 1, kLeaf = 2, kSummary = 3, kDocument = 4 };

/// A readout as a JSON object, for people.
std::string text_of(const Readout& readout);

/// Writes everything but trace rows: runs, sources, attributes, reports, logs, findings. All calls
/// happen inside the caller's transaction. Throws SQLite::Exception.
class SourceStore {
 public:
  SourceStore(SQLite::Database& db, TraceWriter& writer) : db_(db), writer_(writer) {}

  /// The run of an identity, created with the attributes that its path states.
  int64_t run_id(const RunIdentity& identity);
  /// The run of the same experiment and date with more dimensions, as a summary lists them.
  int64_t run_id(RunIdentity identity, const std::map<std::string, std::string>& more_dims);

  struct SourceKey {
    int64_t run_id;
    std::string leg, prompt, sha256;
  };
  std::optional<int64_t> find_source(const SourceKey& key);
  /// A source of any run with this content, for files whose path says nothing.
  std::optional<int64_t> find_content(const std::string& sha256);
  /// A source that was once read from a file of these stored bytes, under this run, leg and prompt.
  std::optional<int64_t> find_stored(const SourceKey& key_without_sha,
                                     const std::string& raw_sha256, int64_t raw_bytes);
  bool any_stored_with_size(int64_t raw_bytes);
  int64_t add_source(const SourceKey& key, const std::string& shape, int64_t bytes);
  void finish_source(int64_t source_id, const std::string& sha256, const std::string& shape,
                     int64_t bytes, int64_t lines, int64_t rows, int64_t duplicates,
                     int64_t conflicts);
  void add_location(int64_t source_id, const std::string& path, const std::string& raw_sha256,
                    int64_t raw_bytes);
  /// Whether a source was found at this path (RunIdentity::relative_path) under some root.
  bool has_location(int64_t source_id, const std::string& relative_path);
  /// False when the same finding is there already.
  bool add_finding(std::optional<int64_t> source_id, const std::string& file, int64_t line,
                   bool is_error, const std::string& reason, std::string_view raw);

  void add_attribute(int64_t run_id, const std::string& dim, const std::string& value,
                     AttributeRank rank, const std::string& leg, std::optional<int64_t> source_id);
  /// Attributes, metrics and claims of a JSON document; returns how many metrics.
  int64_t add_json_facts(int64_t source_id, int64_t run_id, const RunIdentity& identity,
                         const JsonFacts& facts);
  void add_table(int64_t source_id, const Table& table);
  /// A table or document that judges the run; stage by file name.
  void add_report(int64_t source_id, int64_t run_id, const std::string& path);
  void add_report_pair(int64_t source_id, int64_t run_id, const ReportPair& pair);
  void add_claim(int64_t source_id, int64_t run_id, int64_t line, const std::string& kind,
                 const std::string& value, const std::string& text);
  void add_metric(int64_t source_id, int64_t run_id, const std::string& leg,
                  const std::string& prompt, const std::string& name, std::optional<double> value,
                  const std::string& text);
  void add_log_event(int64_t source_id, int64_t run_id, const std::string& prompt,
                     const LogEvent& event, int64_t seq);
  /// False when another readout has the key of this one, and stays.
  bool add_readout(int64_t source_id, int64_t run_id, int64_t prompt_id, Side side, int64_t name_id,
                   const Readout& readout);

  /// What an engine says of the run in lines of its own. A run that was complete or failed stays
  /// so.
  void add_run_event(int64_t source_id, int64_t run_id, const RunIdentity& identity,
                     const RunEvent& event);
  /// Whether hashes of this algorithm may stand in the run: all of one run are by the same.
  bool use_hash_algo(int64_t run_id, const std::string& hash_algo);

  /// The prompt for a symbol. A readout segment takes the name of the one prompt of the run that
  /// has its length, if a log said so.
  int64_t prompt_id(int64_t run_id, const PromptSymbol& symbol);
  /// A log says how long its prompt is: names the segment of that length, if there is just one.
  void set_prompt_length(int64_t run_id, const std::string& prompt, int64_t n_tokens);

  /// Settles date, commit, mode, dtype, seed of the runs of an experiment from their attributes and
  /// those of the directory levels above them: nearest and most believed first.
  void settle(const std::string& experiment);

  /// Experiments to settle: those with attributes that are new since they were last taken, by this
  /// ingest or by one that did not live to settle them.
  std::set<std::string> take_unsettled();

 private:
  void start_run(int64_t source_id, int64_t run_id, const RunIdentity& identity,
                 const RunEvent& event);
  void add_prompt(int64_t run_id, const RunEvent& event);

  SQLite::Database& db_;
  TraceWriter& writer_;
};

}  // namespace greta
