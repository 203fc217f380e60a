#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "db/database.h"
#include "engine/record/line_file.h"
#include "engine/run/trace_sink.h"

// Stores of a run: a database, and files of JSON lines.

namespace greta {

struct RunEnd {
  bool complete = false;
};

/// One thing that is said of a run.
struct RunItem {
  size_t prompt = 0;  ///< number of the prompt that it is about; an attribute and the end have none
  std::variant<PromptRecord, std::vector<PlannedRow>, std::vector<TraceRecord>, ReadoutRecord,
               RunRecord::Attribute, RunEnd>
      what;
};

/// A place where a run is written: a database, or JSON lines. One thread calls it, and others only
/// hurry(). Destroyed, it is closed.
class RunStore {
 public:
  virtual ~RunStore() = default;

  /// Name of the run where it is written; empty in an export.
  virtual std::string run_name() const { return ""; }
  /// Relative L2 distances up to which a difference is rounding, by TracePoint; empty but in a
  /// database.
  virtual std::vector<double> tolerances() const { return {}; }

  /// Writes the items, in order, so that others can read them; a database takes all or none. RunEnd
  /// is the last item of the last call, after which all is synced to disk. Throws if the run cannot
  /// be written.
  virtual void write(const std::vector<RunItem>& items) = 0;
  /// Does what is left when all is on disk, and without which the run is whole as well.
  virtual void finish() {}
  /// The run cannot be written, for `cause`: marks it failed if that is possible. Returns the error
  /// that callers get.
  virtual std::exception_ptr fail(std::exception_ptr cause) { return cause; }
  /// The caller waits no longer: waits for other writers become short. From any thread.
  virtual void hurry() {}
};

/// The name that a run was given is that of another one.
struct RunExists : std::invalid_argument {
  RunExists(const std::string& name, bool left)
      : std::invalid_argument("the database has a run " + name + " already"), left_behind(left) {}
  bool left_behind;  ///< RunRecord::replaces_failed would replace it
};

/// A database could not be written: a disk that is full, a lock that others keep.
struct RunWriteError : DatabaseError {
  RunWriteError(int sqlite_code, const std::string& text)
      : DatabaseError(text), code(sqlite_code) {}
  int code;  ///< of SQLite
};

/// A run in a greta database, named base_run_name() or that with #2, #3, ... when it is taken.
///
/// The run (status running) is committed when this returns, and every write() is. Several engines
/// may write one file, and wait for each other: for `patience` each time, else as usual. A write
/// that fails is a RunWriteError for callers. Killed, the run stays running; its verdict is
/// INCOMPLETE at best. Throws DatabaseError, SQLite::Exception, RunExists, std::invalid_argument
/// (a name that no run can have).
std::unique_ptr<RunStore> store_in_database(const std::filesystem::path& database,
                                            const RunRecord& run,
                                            std::optional<std::chrono::milliseconds> patience = {});

/// A run in one file in the row format of docs/traces.md: run_start, then prompts, plans and rows
/// as they come, then run_end. Readouts have no place in it. The first line is in the file when
/// this returns. Throws std::system_error, std::invalid_argument (a name that no run can have).
std::unique_ptr<RunStore> store_in_lines(LineFile file, const RunRecord& run);

/// A run as JSON lines that `greta-db ingest` reads, with the verdicts of the direct write:
///
///   <folder>/<run name>/run.jsonl
///       run_start, a run_prompt with its plan for each prompt, run_end (ingest/record/run_event.h)
///   <folder>/<run name>/traces/<prompt>_trace.jsonl
///       a stage_trace line per row, a difference line per pair whose rows differ, a readout line
///       per row of logits (ingest/record/parser.h)
///
/// The run name is base_run_name, #2, #3, ... when the folder has such a run. Numbers read back as
/// they were; a sample with values that are not finite says NaN and Infinity, which strict JSON
/// readers refuse. run_end is written last; an export without it is INCOMPLETE. Throws
/// std::system_error, std::invalid_argument (a name that no run can have).
std::unique_ptr<RunStore> store_in_folder(const std::filesystem::path& folder,
                                          const RunRecord& run);

/// The LM head's part of a run as JSON lines of the B3.13 delta shape, appended to a file: one line
/// for prefill_last, of the prompt's own last token, and one for decode0 of each prompt.
///
/// hidden_*, rms_* and logits_* (n, hash, min, max, mean) come from the rows hidden, final_norm and
/// logits, rms_* and lm_head_* beside them from what those rows say in `extra`, top1_* to gap and
/// cpu_probe_* from the readouts. What was not traced has no keys. Lines are written when other
/// prompts begin, or at the end. Throws std::system_error.
std::unique_ptr<RunStore> store_lm_head(const std::filesystem::path& file);

/// Places where a run is written; empty: not there.
struct RunTargets {
  std::string database;
  std::string jsonl_folder;  ///< every row (store_in_folder)
  std::string delta_file;    ///< the LM head's part (store_lm_head)
};

/// All of the targets. Throws what they throw when one cannot be written.
std::vector<std::unique_ptr<RunStore>> open_stores(const RunTargets& targets, const RunRecord& run);

}  // namespace greta
