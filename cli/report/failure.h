#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cli/report/section.h"
#include "cli/warehouse/origin.h"

namespace greta {

/// What the views say about the first failing comparison of a run, by the verdict that leads; where
/// that one passes, by the other.
struct FirstFailure {
  std::string prompt, tensor, canonical, cause, root_cause, status, row_class, details, caused_by;
  Origin origin;      ///< by that verdict
  std::string layer;  ///< as shown
  std::optional<int64_t> layer_id, pos_id;
  bool inputs_complete = false;
  std::optional<double> rel_l2, tolerance;
  std::string distance;        ///< rel_l2 in words: "0.21 exact, head 5 only"; "" without one
  bool is_calibrated = false;  ///< the tolerance: measured of the model
  bool found = false;          ///< the pair itself was found

  /// Whether it may arise in what was not traced, so that its own tensor need not be to blame.
  bool is_open() const { return origin.kind == "UNSAMPLED"; }
};

/// The sections about the first failing comparison of a run whose verdict names one.
class FailureSections : public RunSection {
 public:
  /// Finds the failure. Throws SQLite::Exception, as write() does.
  explicit FailureSections(const RunSection& run);

  const FirstFailure& failure() const { return failure_; }

  /// Writes both sides, the first failure of every prompt and the trace rows.
  void write();

 private:
  std::unique_ptr<Query> evidence_rows();
  void first_failure();
  void findings();
  void side_table();
  void by_prompt();
  void sample_evidence();
  void where_the_other_side_is(const std::string& side);

  FirstFailure failure_;
};

}  // namespace greta
