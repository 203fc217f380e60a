#pragma once
#include <string>
#include <vector>

#include "cli/commits/bisect_log.h"
#include "cli/commits/repository.h"
#include "cli/warehouse/verdict.h"

namespace greta {

/// What a search is asked for; what is "" or absent is as the log says, else as usual.
struct SearchRequest {
  std::string database;
  std::string repository, good, bad, lineage;
  std::string command;  ///< line of sh that probes a commit; "": the next one is named
  std::string log;
  std::vector<std::string> skip;
  Gate gate = Gate::kVerdict;
  bool first_parent = false;
  bool fix = false;  ///< the good end comes after the bad one: what mended it is looked for
};

/// The folder of the repository that is searched.
std::string folder_of(const SearchRequest& request, const BisectLog& log);

/// What is searched for: what the request says and, of a search that was begun, the log; both must
/// agree. Its lineage is "" where neither names one. Throws UsageError.
BisectQuestion question_of(const SearchRequest& request, const BisectLog& log,
                           const Repository& repository);

/// The lineage of `question` if it names one, else the only one that has runs of both ends, else of
/// one, else at all. Throws UsageError where it is unknown, or several could be meant.
std::string lineage_of(const std::string& database, const BisectQuestion& question);

/// Throws UsageError where one end cannot have come from the other, or they are the wrong way
/// round.
void check_ancestry(const BisectQuestion& question, const Repository& repository);

/// The end that came first in history, and the one that came after it.
inline const std::string& old_end(const BisectQuestion& question) {
  return question.fix ? question.bad : question.good;
}
inline const std::string& new_end(const BisectQuestion& question) {
  return question.fix ? question.good : question.bad;
}

}  // namespace greta
