// Edits that make a run's evidence worse, each with what it may do to the verdict.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "tests/queries/harm/random_run.h"

namespace greta::harm {

/// What an edit may do. PASS is above NO_EVIDENCE, INCOMPLETE and INCOMPARABLE, these above FAIL.
enum class Promise {
  kSame,        // nothing of the verdict changes, nor where it first fails
  kSameVerdict, // the verdicts do not change
  kNotRaised,   // no verdict of the run or of a prompt rises, but see waits()
  kNoPass,      // the same, and the run does not pass
  kFails,       // the run and the prompt fail, by both readings
  kFailsStrictly,  // strictly; numerically they do not pass
  kTakesApart   // the pairs that the edit took apart may have been all that stood in the way
};

struct Harm {
  ToldRun run;
  Promise promise = Promise::kNotRaised;
  std::string prompt = {};           // of kFails
  std::set<Pairing> apart = {};      // pairs that are no longer what they were; if they alone failed, the run may wait for others
  std::set<std::pair<std::string, int64_t>> undemanded = {};  // places where prefill_last was
  bool loses_rows = false;           // fewer rows than before
};

struct Edit {
  const char* name;
  /// Damages the run; false when it has nothing that can be damaged so.
  bool (*apply)(Harm& harm, Random& random, Via via);
};

const std::vector<Edit>& edits();

}  // namespace greta::harm
