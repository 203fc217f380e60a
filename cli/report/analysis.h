#pragma once
#include "cli/report/failure.h"
#include "cli/report/propagation.h"
#include "cli/report/section.h"

namespace greta {

/// Writes what the first failure of a run means. Throws SQLite::Exception.
void write_analysis(const RunSection& run, const FirstFailure& failure,
                    const Propagation& propagation);

/// What a report has shown before it recommends anything.
struct Findings {
  const FirstFailure* failure;  ///< null when nothing failed
  const Propagation& propagation;
  bool kv_rows, modes_compared;
};

/// Writes what to do next. Throws SQLite::Exception.
void write_recommendations(const RunSection& run, const Findings& findings);

}  // namespace greta
