#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>

#include "engine/record/line_file.h"
#include "trace/run.h"

namespace greta::trace {

/// What runs are written to: a database, or one file of JSON lines. From any thread.
class Target {
 public:
  /// Throws what says that nothing can be written there.
  Target(const char* path, greta_kind kind);
  ~Target();
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  std::shared_ptr<Run> begin_run(const greta_run_info& info);

 private:
  const std::filesystem::path database_;  ///< empty for a file of JSON lines

  std::mutex mutex_;
  std::optional<LineFile> lines_;  ///< until its run begins
};

}  // namespace greta::trace
