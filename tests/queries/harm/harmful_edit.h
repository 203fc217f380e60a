// Edits that make a run's evidence worse, each with what it may do to the verdict.
#pragma once
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/queries/harm/random_run.h"

namespace greta::harm {

/// What an edit may do. PASS is above NO_EVIDENCE, INCOMPLETE and INCOMPARABLE, and these are above
/// FAIL. Where nothing else is said, no verdict of the run or of one of its prompts rises, but that
///  - an incomplete run may yet bring the rows for want of which it failed,
///  - a run does not fail by pairs that came apart (Harm::apart) or were undecided all along.
enum class Promise {
  kNotRaised,
  kNoPass,         // and the run does not pass
  kFails,          // and the run and a prompt fail
  kFailsStrictly,  // the same, strictly
  kSame,           // the verdicts stay, and where the run first fails
  kSameVerdict,    // the verdicts stay
  // The edit took away pairs, which may have been all that stood in the way of a PASS. Then the
  // coverage says that something is wanting, but where rows are gone that nobody declared.
  kTakesApart
};

struct Harm {
  ToldRun run;
  Promise promise = Promise::kNotRaised;
  std::string prompt = {};       // that fails
  std::set<Pairing> apart = {};  // pairs that are no longer what they were
  std::set<std::pair<std::string, int64_t>> undemanded = {};  // where prefill_last came apart
  bool loses_rows = false;
};

struct Edit {
  const char* name;
  /// Damages the run; false when it has nothing that can be damaged so.
  bool (*apply)(Harm& harm, Random& random, Via via);
};

std::vector<Edit> place_edits();    // where rows stand, and how many there are
std::vector<Edit> content_edits();  // what they say
std::vector<Edit> fact_edits();     // what is said of their run
const std::vector<Edit>& edits();   // all

}  // namespace greta::harm
