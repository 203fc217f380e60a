#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cli/commits/repository.h"

namespace greta {

/// The search for the commit from which on something is so, among commits of which the last is so
/// and none that came before them is. Commits are numbers: their places in the log, parents before
/// children; parents outside of the log are not so.
class Bisection {
 public:
  /// `commits`: those that can be reached from the last, which is among them. With first_parent,
  /// only the first parent of a merge is one. Borrows the commits.
  Bisection(std::span<const GitCommit> commits, bool first_parent);

  /// It is not so in `commit`: nor where that came from.
  void set_before(size_t commit);
  /// It is so in `commit`: the first is that one, or one that it came from.
  void set_after(size_t commit);

  bool is_candidate(size_t commit) const { return candidate_[commit]; }
  size_t candidates() const { return n_candidates_; }
  size_t last() const { return last_; }  ///< the candidate that all others lead to, and is so
  std::optional<size_t> find(std::string_view sha) const;

  /// 1 for the commit, and each that came from it.
  std::vector<uint8_t> descendants(size_t commit) const;
  /// 1 for each of `commits`, and each that one of them came from.
  std::vector<uint8_t> ancestors(std::span<const size_t> commits) const;

  /// Of the candidates but the last that may be asked, the one whose answer leaves the fewest in
  /// the worse case, as `git rev-list --bisect` chooses; nothing where none may be asked.
  std::optional<size_t> halving(const std::function<bool(size_t)>& may_ask) const;

  /// How often one has to ask for the first of n, where each answer halves them: the whole number
  /// from log2 n on.
  static int steps(size_t n);

 private:
  std::vector<uint8_t> reach(size_t commit) const;

  std::vector<std::vector<size_t>> parents_;
  std::unordered_map<std::string_view, size_t> places_;
  std::vector<uint8_t> candidate_;
  size_t n_candidates_ = 0, last_ = 0;
};

}  // namespace greta
