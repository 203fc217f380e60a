// What lineages, comparisons, changes and regressions of a told history must be, worked out in
// plain C++ by what docs/design.md and the comments of the public views say of them.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tests/queries/lineage/told_history.h"

namespace greta::lineage {

/// The first of something in forward order, as views show it.
struct Where {
  std::string prompt, phase, tensor;
  int64_t pos = 0, layer = 0;
  std::string cause = {};  ///< of a run's own fail; of two runs, what it follows from
};

/// A run by itself: run_verdict.
struct OwnVerdict {
  std::string strict, numeric;
  std::optional<Where> first_fail, numeric_first_fail;  ///< tensor as it is written
  bool strictly = false;                                ///< the strict one is the one to act on
  bool missing = false;  ///< rows have no partner, which comes before all values

  const std::string& verdict() const { return strictly ? strict : numeric; }
  const std::optional<Where>& acted_fail() const {
    return strictly || missing ? first_fail : numeric_first_fail;
  }
};

/// Two runs: diff_verdict.
struct Comparison {
  std::optional<std::string> why_not;
  std::string verdict, numeric_verdict;
  int64_t pairs = 0, compared = 0, match = 0, rounding = 0, divergent = 0, unknown = 0,
          nonfinite = 0, incomparable = 0, alike = 0, only_a = 0, only_b = 0;
  std::optional<Where> first, numeric_first;
  std::optional<std::string> caused_by;  ///< of the numeric first, else of the first
  std::vector<std::string> rows;         ///< of run_diff, as text, sorted
};

/// A run and its baseline: change.
struct Change {
  size_t run = 0, baseline = 0;
  std::string change;
  Comparison comparison;
};

/// A place where a lineage turned: regression.
struct Regression {
  size_t first_bad = 0, last_good = 0;
  std::string change;
  std::optional<std::string> gate;
  std::optional<Where> where;
  std::optional<size_t> fixed_run;
};

class Oracle {
 public:
  explicit Oracle(const ToldHistory& history);

  std::optional<size_t> commit_of(size_t run) const { return commit_[run]; }
  std::optional<size_t> baseline_of(size_t run) const { return baseline_[run]; }
  bool is_injected(size_t run) const;
  const OwnVerdict& verdict_of(size_t run) const { return verdict_[run]; }
  Comparison compare(size_t a, size_t b) const;
  const std::vector<Change>& changes() const { return changes_; }
  std::vector<Regression> regressions() const;

 private:
  std::optional<size_t> known_commit(size_t run) const;
  bool is_before(size_t a, size_t b) const;
  bool can_be_baseline(size_t run, size_t of) const;
  std::optional<size_t> last_run(size_t commit, size_t of, bool comparable) const;
  std::optional<size_t> nearest_run(const std::vector<size_t>& commits, size_t of,
                                    bool comparable) const;
  bool same_commit(size_t a, size_t b) const;
  std::optional<size_t> work_out_baseline(size_t run) const;
  OwnVerdict work_out_verdict(size_t run) const;
  Change work_out_change(size_t run, size_t baseline) const;
  std::optional<std::string> why_not(size_t a, size_t b) const;
  bool is_ancestor(size_t commit, size_t of) const;
  bool is_later(size_t run, size_t than) const;
  bool is_of_a_parent(const Regression& told) const;
  bool is_first(size_t run, size_t of) const;
  bool differs_at(size_t a, size_t b, const Where& place) const;
  bool has_values_of(size_t run, size_t other, const Where& place) const;

  const ToldHistory& history_;
  std::vector<std::string> lineage_;
  std::vector<std::optional<size_t>> commit_, baseline_;
  std::vector<OwnVerdict> verdict_;
  std::vector<Change> changes_;
};

}  // namespace greta::lineage
