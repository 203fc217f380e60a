#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "cli/warehouse/verdict.h"

namespace greta {

/// The verdict of one run, as the view run_verdict has it.
struct InferVerdict {
  std::string verdict, strict, numeric;
  std::string headline;  ///< verdict, as Headline::text() has it
  FailPlace fail;        ///< where it first fails
  /// One line for a terminal: the headline, where the run first fails, the command that shows more,
  /// how much was compared, and the verdict by the other gate.
  std::string line;

  /// By `gate`: strict, numeric, or "" for the verdict to act on.
  const std::string& by(std::string_view gate) const;
};

/// Throws DatabaseError, SQLite::Exception, std::runtime_error when there is no such run.
InferVerdict read_verdict(const std::filesystem::path& database, const std::string& run);

}  // namespace greta
