#pragma once

#include <filesystem>
#include <string>

#include "cli/warehouse/verdict.h"

namespace greta {

/// The verdict of one run, as the view run_verdict has it.
struct InferVerdict {
  std::string strict, numeric;
  std::string headline;  ///< the verdict that leads, in words
  FailPlace fail;        ///< where that one first fails
  /// One line for a terminal: the verdict that leads (cli/warehouse/verdict.h), where it first
  /// fails and what would tell more, how much was compared, and the other verdict.
  std::string line;
};

/// Throws DatabaseError, SQLite::Exception, std::runtime_error when there is no such run.
InferVerdict read_verdict(const std::filesystem::path& database, const std::string& run);

}  // namespace greta
