#include "cli/commits/bisection.h"

#include <algorithm>
#include <bit>

namespace greta {

Bisection::Bisection(std::span<const GitCommit> commits, bool first_parent)
    : parents_(commits.size()),
      candidate_(commits.size(), 1),
      n_candidates_(commits.size()),
      last_(commits.size() - 1) {
  for (size_t i = 0; i < commits.size(); ++i) {
    places_.emplace(commits[i].sha, i);
    for (std::string_view left = commits[i].parents; !left.empty();) {
      const size_t end = std::min(left.find(' '), left.size());
      if (const auto found = find(left.substr(0, end))) parents_[i].push_back(*found);
      left.remove_prefix(std::min(end + 1, left.size()));
      if (first_parent) break;
    }
  }
}

std::optional<size_t> Bisection::find(std::string_view sha) const {
  const auto found = places_.find(sha);
  return found == places_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<uint8_t> Bisection::descendants(size_t commit) const {
  std::vector<uint8_t> marked(parents_.size(), 0);
  marked[commit] = 1;
  for (size_t i = commit + 1; i < marked.size(); ++i) {
    for (const size_t parent : parents_[i]) marked[i] |= marked[parent];
  }
  return marked;
}

std::vector<uint8_t> Bisection::ancestors(std::span<const size_t> commits) const {
  std::vector<uint8_t> marked(parents_.size(), 0);
  for (const size_t commit : commits) marked[commit] = 1;
  for (size_t i = marked.size(); i-- > 0;) {
    if (!marked[i]) continue;
    for (const size_t parent : parents_[i]) marked[parent] = 1;
  }
  return marked;
}

/// 1 for it and every candidate that it came from.
std::vector<uint8_t> Bisection::reach(size_t commit) const {
  std::vector<uint8_t> reached(commit + 1, 0);
  reached[commit] = 1;
  for (size_t i = commit + 1; i-- > 0;) {
    if (!reached[i]) continue;
    for (const size_t parent : parents_[i]) reached[parent] = candidate_[parent];
  }
  return reached;
}

void Bisection::set_before(size_t commit) {
  const std::vector<uint8_t> reached = reach(commit);
  for (size_t i = 0; i < reached.size(); ++i) {
    if (reached[i]) candidate_[i] = 0;
  }
  n_candidates_ = static_cast<size_t>(std::count(candidate_.begin(), candidate_.end(), 1));
}

void Bisection::set_after(size_t commit) {
  std::vector<uint8_t> reached = reach(commit);
  reached.resize(candidate_.size(), 0);
  candidate_ = std::move(reached);
  n_candidates_ = static_cast<size_t>(std::count(candidate_.begin(), candidate_.end(), 1));
  last_ = commit;
}

std::optional<size_t> Bisection::halving(const std::function<bool(size_t)>& may_ask) const {
  std::vector<uint8_t> asked(last_, 0);
  size_t end = 0;  // behind the last that may be asked
  for (size_t i = 0; i < last_; ++i) {
    asked[i] = candidate_[i] && may_ask(i);
    if (asked[i]) end = i + 1;
  }
  std::vector<size_t> reached(end, 0);  // candidates that each came from, itself included
  std::vector<size_t> known;            // its parents that are candidates
  std::optional<size_t> best;
  size_t best_left = 0;
  for (size_t i = 0; i < end; ++i) {
    if (!candidate_[i]) continue;
    known.clear();
    for (const size_t parent : parents_[i]) {
      if (candidate_[parent]) known.push_back(parent);
    }
    if (known.size() > 1) {  // what both came from counts once
      const std::vector<uint8_t> all = reach(i);
      reached[i] = static_cast<size_t>(std::count(all.begin(), all.end(), 1));
    } else {
      reached[i] = known.empty() ? 1 : reached[known.front()] + 1;
    }
    const size_t least = std::min(reached[i], n_candidates_ - reached[i]);
    if (least <= best_left || !asked[i]) continue;
    best = i;
    best_left = least;
    if (best_left == n_candidates_ / 2) break;
  }
  return best;
}

int Bisection::steps(size_t n) { return n < 2 ? 0 : static_cast<int>(std::bit_width(n - 1)); }

}  // namespace greta
