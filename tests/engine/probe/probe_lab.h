#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/engine/engine_fixture.h"

// Probes into a database, and what its views say about them: what a user of greta sees.

namespace greta {

/// A trace point of a layer, as the views name it.
struct Place {
  std::string tensor;
  int layer = 0;

  bool operator==(const Place&) const = default;
  std::string text() const;  ///< q_post_rope@2
};
Place place_of(RowKey key);

/// A row of the view run_verdict.
struct LabVerdict {
  std::string verdict, strict_verdict, numeric_verdict, coverage;
  int64_t pairs = 0, pass = 0;
  std::optional<Place> first_fail, numeric_first_fail;
};

/// A row of the view pair.
struct LabPair {
  std::string status, grade;     ///< grade: the column class
  std::optional<double> rel_l2;  ///< as measured from the sketches
  double tolerance = 0;
};

class ProbeLab {
 public:
  ProbeLab();

  /// Probes prompts as a suite, and returns the name of the run.
  std::string probe(const TestEngine& engine, const std::vector<std::vector<int32_t>>& prompts,
                    const ProbeOptions& options);
  std::string probe(const TestEngine& engine, const std::vector<int32_t>& tokens,
                    const ProbeOptions& options) {
    return probe(engine, std::vector<std::vector<int32_t>>{tokens}, options);
  }

  LabVerdict verdict(const std::string& run);
  LabPair pair(const std::string& run, const Place& place);
  /// Whether the first pair that differs at a place does so by rounding.
  bool failing_by_rounding(const std::string& run, const Place& place);
  /// What is found about the place that fails first, the most telling first.
  std::vector<std::string> findings(const std::string& run);
  /// The part of the rows that differs, of those that the first of them tells of: "head 5 only";
  /// "" where most values do.
  std::string part(const std::string& run);
  /// The first position where anything differs, if this place does there.
  std::optional<int64_t> first_origin(const std::string& run, const Place& place);
  /// Whether two runs traced the same values at a place, where the first pairs its two sides.
  bool same_rows(const std::string& run_a, const std::string& run_b, const Place& place);

  const std::filesystem::path& database() const { return database_; }

 private:
  TemporaryFolder folder_;
  std::filesystem::path database_;
  SQLite::Database reader_;
  SQLite::Statement verdict_, pair_, findings_, part_, grade_, origin_, differences_;
};

}  // namespace greta
