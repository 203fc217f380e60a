#pragma once
#include "cli/report/failure.h"
#include "cli/report/markdown.h"
#include "cli/report/section.h"

namespace greta {

/// The verdict of a run and why it is that, in sentences.
class VerdictSection : public RunSection {
 public:
  explicit VerdictSection(const RunSection& run) : RunSection(run) {}

  /// Heading and sentences; `failure` is null where nothing failed.
  void write(const FirstFailure* failure);
  /// The sentence that says why.
  void lead(const FirstFailure* failure);
  /// What else there is to know: the strict verdict, how much was traced.
  void remarks();

 private:
  Sentence reason() const;
  /// The strict verdict, where rounding makes the difference.
  void strictly();
  Sentence coverage() const;
};

}  // namespace greta
