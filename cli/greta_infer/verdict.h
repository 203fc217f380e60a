#pragma once

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

namespace greta {

/// The verdict of one run, as the view run_verdict has it.
struct InferVerdict {
  std::string strict, numeric, coverage;
  std::string strict_where,
      numeric_where;  ///< cause, layer, tensor, prompt of the first fail; or ""
  int64_t pairs = 0;
};

/// Throws DatabaseError, SQLite::Exception, std::runtime_error when there is no such run.
InferVerdict read_verdict(const std::filesystem::path& database, const std::string& run);

/// One line: strict FAIL (...), numeric PASS, 354 pairs, coverage complete.
std::string verdict_line(const InferVerdict& verdict);

}  // namespace greta
