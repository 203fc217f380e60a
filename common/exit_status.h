#pragma once
#include <stdexcept>
#include <string_view>

namespace greta {

/// Exit status of greta-db and greta-infer.
enum ExitStatus : int {
  kExitDone = 0,       ///< PASS or done
  kExitFail = 1,       ///< FAIL; ingest: some input quarantined; info: the model cannot be run
  kExitError = 2,      ///< usage, I/O or a damaged file
  kExitNoVerdict = 3,  ///< NO_EVIDENCE, INCOMPLETE, INCOMPARABLE
};

/// A command line that cannot be carried out; what() says what to do instead. Exit status 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Exit status of one verdict.
inline ExitStatus exit_of_verdict(std::string_view verdict) {
  return verdict == "PASS" ? kExitDone : verdict == "FAIL" ? kExitFail : kExitNoVerdict;
}

}  // namespace greta
