#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "db/database.h"
#include "engine/record/queued_writer.h"

namespace greta {

/// The writing thread could not write: a disk that is full, a lock that others keep.
struct RunWriteError : DatabaseError {
  RunWriteError(int sqlite_code, const std::string& text)
      : DatabaseError(text), code(sqlite_code) {}
  int code;  ///< of SQLite
};

/// Writes a run straight into a greta database, by a thread of its own (QueuedWriter).
///
/// The constructor creates the run (status running, name <date>/<experiment>[/<mode>], #2, #3, ...
/// when taken) and returns when that is committed. What is given is committed, so that others can
/// read while the run goes on; several engines may write one file, and wait for each other. An
/// error of the writing thread is a RunWriteError. end() returns when all of it is synced to disk;
/// the file is closed then. Destroyed without end(), the run is marked failed if the file still
/// takes it; killed, it stays running. Either way its verdict is INCOMPLETE at best.
class RunWriter : public QueuedWriter {
 public:
  /// Throws DatabaseError, SQLite::Exception, std::invalid_argument (a name that no run can have).
  /// patience: how long others that write to the database are waited for, each time; else usual.
  RunWriter(const std::filesystem::path& database, const RunRecord& run,
            std::optional<std::chrono::milliseconds> patience = {});

  const std::string& run_name() const { return run_name_; }  ///< unique in the file
  /// Relative L2 distances up to which the file counts a difference as rounding, by TracePoint.
  const std::vector<double>& tolerances() const { return tolerances_; }

 private:
  class Target;
  explicit RunWriter(std::unique_ptr<Target>&& target);

  std::string run_name_;
  std::vector<double> tolerances_;
};

}  // namespace greta
