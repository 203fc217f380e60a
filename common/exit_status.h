#pragma once
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace greta {

/// Exit status of greta-db and greta-infer.
enum ExitStatus : int {
  kExitDone = 0,       ///< PASS or done
  kExitFail = 1,       ///< FAIL; ingest: some input quarantined; info: the model cannot be run
  kExitError = 2,      ///< usage, I/O or a damaged file
  kExitNoVerdict = 3,  ///< NO_EVIDENCE, INCOMPLETE, INCOMPARABLE, UNJUDGED
};

/// A command line that cannot be carried out; what() says what to do instead. Exit status 2. Texts
/// are as they were given: the program that reports an exception makes them printable.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
  UsageError(const std::string& what, std::vector<std::string> more)
      : std::runtime_error(what), lines(std::move(more)) {}
  std::vector<std::string> lines;  ///< below what(): the candidates, say
};

/// Exit status of one verdict.
inline ExitStatus exit_of_verdict(std::string_view verdict) {
  return verdict == "PASS" ? kExitDone : verdict == "FAIL" ? kExitFail : kExitNoVerdict;
}

}  // namespace greta
