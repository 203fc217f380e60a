#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/record/line_file.h"
#include "trace/run.h"

namespace greta::trace {

/// What runs are written to: a database, or one file of JSON lines. From any thread.
class Target {
 public:
  /// Throws what says that nothing can be written there.
  Target(const char* path, greta_kind kind);

  /// The run is the target's until end_run().
  Run* begin_run(const greta_run_info& info);
  /// The run is gone, also when this throws.
  void end_run(Run* run, bool complete);

 private:
  std::unique_ptr<Run> open_run(const greta_run_info& info);
  std::unique_ptr<Run> take(Run* run);

  const std::filesystem::path database_;  ///< empty for a file of JSON lines

  std::mutex mutex_;
  std::optional<LineFile> lines_;  ///< until its run begins
  std::vector<std::unique_ptr<Run>> runs_;
};

}  // namespace greta::trace
