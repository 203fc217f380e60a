#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "common/process.h"
#include "db/difference.h"
#include "db/statements.h"
#include "db/trace_row.h"

// Inserts all that is known of a run but its trace rows: run, source, attribute, plan, readout.

namespace greta {

/// Attribute that says how many trace rows a run wrote: with fewer, its verdict is INCOMPLETE.
inline constexpr const char* kTraceRows = "trace_rows";

/// Where an attribute of a run comes from: the lower the more it is believed (attribute.rank).
enum class AttributeRank : int {
  kPath = 0,
  kEngine = 0,
  kPerf = 1,
  kLeaf = 2,
  kSummary = 3,
  kDocument = 4
};

/// A row of `run` to be. What is empty is NULL.
struct NewRun {
  std::string name, experiment, family, variant;
  std::optional<std::string> date, commit_sha, mode, dtype, started_at;
  std::optional<int64_t> seed;
  std::string hash_algo = "fnv-256";
  std::string status = "unknown";
};

/// A row of `source` to be.
struct NewSource {
  int64_t run_id = 0;
  std::string leg, prompt, sha256, shape;
  int64_t bytes = 0;
};

/// A row of `attribute` to be. source_id is empty when the path itself says so.
struct NewAttribute {
  int64_t run_id = 0;
  std::string dim, value;
  AttributeRank rank = AttributeRank::kPath;
  std::string leg;
  std::optional<int64_t> source_id;
};

/// A row of `readout`: what a row of logits chose.
struct ReadoutRow {
  int64_t run_id = 0, prompt_id = 0;
  Side side = Side::kNeither;
  int64_t step = kUnknownStep, pos_id = kUnknownPosition;
  int64_t name_id = 0;
  std::optional<int64_t> top1_id, top2_id, vocab, cpu_top1_id, cpu_agrees;
  std::optional<double> top1_logit, top2_logit, gap, norm_error, logits_error;  ///< never NaN
  std::optional<std::string> route;
  int64_t source_id = 0;
  int64_t line = 0;
};

/// Whose noise floor it is.
struct CalibratedModel {
  std::string model;  ///< its root, or the SHA-256 of its file, as its runs say
  std::string dtype, backend;
};

/// How far the pairs of a trace point differ in clean probes: a row of `noise_floor`.
struct NoiseFloor {
  std::string tensor;  ///< as tensor.name has it
  int64_t layer = 0;
  double rel_l2 = 0;
  std::optional<double> gain;
  int64_t pairs = 0;
};

/// Behind the name of a prompt: why its run is in doubt. Which of its rows are of which nobody
/// knows.
inline constexpr const char* kIsAnnouncedAsTwo =
    " is announced as two: of other tokens, or of another text";

// All of these run inside the caller's transaction and throw SQLite::Exception.

/// A type of numbers as tolerances spell it: f32 of float32, torch.float32, F32 and float; f16,
/// f64, bf16 and f8_e4m3fn likewise.
std::string canonical_dtype(std::string_view spelling);

/// `name`, or NAME#2, NAME#3, ... when a run has it.
std::string free_run_name(SQLite::Database& db, const std::string& name);

/// Updates lineage_member from the view run_lineage. Needed where triggers are off (TraceWriter)
/// and a column or an attribute of the run changes that the view reads.
void refresh_lineage(SQLite::Database& db, int64_t run_id);

/// Forgets the verdicts of the runs that an error of no source counts for: of the run that it is
/// `about`, and of those below it.
void forget_verdicts_about(SQLite::Database& db, const std::string& about);

/// Sets run.status, of runs whose sources say that they began or ended, from run_event; "(ids)"
/// follows. The order of ingest does not matter: a run that failed once has failed, and one that
/// started more often than it ended is running. Equal states of one file count once. Those of
/// several files do not: the parts of a run start alike, and one of them may not have ended.
inline constexpr const char* kSetStatus = R"(
  UPDATE run SET status = CASE
    WHEN status = 'failed' OR EXISTS (
      SELECT 1 FROM run_event e WHERE e.run_id = run.id AND e.kind = 'failed') THEN 'failed'
    WHEN (SELECT sum(CASE e.kind WHEN 'start' THEN 1 ELSE -1 END)
          FROM (SELECT DISTINCT e.kind AS kind, e.nth AS nth, e.at AS at,
                  (SELECT min(l.path) FROM source_location l WHERE l.source_id = e.source_id) AS path
                FROM run_event e WHERE e.run_id = run.id) e) > 0
      THEN 'running'
    ELSE 'complete'
  END
  WHERE EXISTS (SELECT 1 FROM run_event e WHERE e.run_id = run.id) AND id IN )";

/// Stores noise floors in place of those of the same places, and forgets the verdicts of the
/// model's runs.
void store_noise_floor(SQLite::Database& db, const CalibratedModel& model,
                       std::span<const NoiseFloor> floors, const std::string& measured_at);

/// Notes in `meta` that this process writes the run from now on. Merges and pushes leave the note.
void note_run_process(SQLite::Database& db, int64_t run_id);

/// Removes the note of a run that has ended. That of another one tells that its writer is gone.
void forget_run_process(SQLite::Database& db, int64_t run_id);

/// The process that writes a run, or did until it was killed; nothing where none was noted.
std::optional<Process> process_of_run(SQLite::Database& db, int64_t run_id);

/// Writes what the engine and the importer both say of a run, one row a call. All calls happen
/// inside a transaction that the caller owns, and in which it calls forget_verdict, once per run
/// that was there. Throws SQLite::Exception.
class RunRecords {
 public:
  explicit RunRecords(SQLite::Database& db) : db_(db), sql_(db) {}

  int64_t add_run(const NewRun& run);           ///< run.id, with its lineage; the name must be free
  int64_t add_source(const NewSource& source);  ///< source.id; its identity must be new
  /// False when it was there already. The run's lineage follows.
  bool add_attribute(const NewAttribute& attribute);
  /// Sets how a run ended (ISO 8601 UTC).
  void finish_run(int64_t run_id, bool complete, const std::string& finished_at);
  /// What is known of a prompt; what is empty stays as it was. False when something else was known:
  /// then the greater stands, whichever came first, and the run kIsAnnouncedAsTwo.
  bool set_prompt(int64_t prompt_id, std::optional<int64_t> n_tokens,
                  const std::optional<std::string>& text_sha256,
                  const std::optional<std::string>& token_ids);
  /// Declares a row that the run will trace, once.
  void add_plan(int64_t run_id, int64_t prompt_id, Side side, int64_t layer, int64_t tensor_id);
  /// Of two readouts of one key that say different things, the greater by its values stays,
  /// whichever came first; returns the other.
  std::optional<ReadoutRow> add_readout(const ReadoutRow& readout);
  /// As kInsertDifference has it. Throws std::invalid_argument for what fault_of() refuses.
  void add_difference(const DifferenceRow& difference);

 private:
  /// The readout of the same key, if there is one. Its key is not set.
  std::optional<ReadoutRow> find_readout(const ReadoutRow& key);

  SQLite::Database& db_;
  Statements sql_;
};

}  // namespace greta
