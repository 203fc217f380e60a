#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/forward/trace_sink.h"

namespace greta {

/// Writes a run straight into a greta database: one writer thread, fed by a bounded queue.
///
/// The constructor creates the run (status running, name <date>/<experiment>[/<mode>], #2, #3, ...
/// when taken) and returns when that is committed. What is given is committed within 200 ms while
/// the disk keeps up, so that others can read while the run goes on; several engines may write one
/// file, and wait for each other. When the queue is full, rows() waits: nothing is dropped. An
/// error of the writer thread (disk full, ...) ends the run and is thrown by this and every later
/// call, as DatabaseError. end() returns when all of it is synced to disk; the file is closed then.
/// Destroyed without end(), the run is marked failed if the file still takes it; killed, it stays
/// running. Either way its verdict is INCOMPLETE at best.
class RunWriter : public TraceSink {
 public:
  /// Throws DatabaseError, SQLite::Exception, std::invalid_argument (a name that no run can have).
  /// patience: how long others that write to the database are waited for, each time; else usual.
  RunWriter(const std::filesystem::path& database, const RunRecord& run,
            std::optional<std::chrono::milliseconds> patience = {});
  ~RunWriter() override;

  const std::string& run_name() const;  ///< unique in the file
  /// Relative L2 distances up to which the file counts a difference as rounding, by TracePoint.
  const std::vector<double>& tolerances() const;

  void begin_prompt(const PromptRecord& prompt) override;
  void rows(std::vector<TraceRecord> rows) override;
  void readout(const ReadoutRecord& readout) override;
  void attribute(const std::string& name, const std::string& value) override;
  void end(bool complete) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace greta
