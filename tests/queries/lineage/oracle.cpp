#include "tests/queries/lineage/oracle.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "tests/queries/lineage/judged_rows.h"

namespace greta::lineage {

Oracle::Oracle(const ToldHistory& history) : history_(history) {
  for (const ToldRun& run : history.runs) lineage_.push_back(lineage_of(run));
  for (size_t run = 0; run < history.runs.size(); ++run) commit_.push_back(known_commit(run));
  for (size_t run = 0; run < history.runs.size(); ++run) {
    verdict_.push_back(work_out_verdict(run));
    baseline_.push_back(work_out_baseline(run));
  }
  for (size_t run = 0; run < history.runs.size(); ++run) {
    if (baseline_[run]) changes_.push_back(work_out_change(run, *baseline_[run]));
  }
}

bool Oracle::is_injected(size_t run) const {
  return history_.runs[run].attributes.contains("inject");
}

// ---- which run is held against which

/// A commit is known by its beginning, of seven digits at least.
std::optional<size_t> Oracle::known_commit(size_t run) const {
  const auto& sha = history_.runs[run].commit;
  if (!sha || sha->size() < 7) return std::nullopt;
  for (size_t i = 0; i < history_.commits.size(); ++i) {
    if (history_.commits[i].sha.starts_with(*sha)) return i;
  }
  return std::nullopt;
}

/// By time, of which the order of ingest decides the rest; who does not say when it started comes
/// after those that do.
bool Oracle::is_before(size_t a, size_t b) const {
  const auto time = [&](size_t i) {
    const ToldRun& run = history_.runs[i];
    const std::string day = run.started_at ? run.started_at->substr(0, 10) : "";
    return std::tuple(run.date.value_or(day), !run.started_at, run.started_at.value_or(""), i);
  };
  return time(a) < time(b);
}

/// It is of its lineage and seed, ended well, has rows, and no fault was injected.
bool Oracle::can_be_baseline(size_t run, size_t of) const {
  const ToldRun &a = history_.runs[run], &b = history_.runs[of];
  return run != of && lineage_[run] == lineage_[of] && a.seed == b.seed &&
         a.synthetic == b.synthetic && (a.status == "complete" || a.status == "unknown") &&
         !a.rows.empty() && !is_injected(run);
}

/// Of a commit the last run that `of` may be held against; of those whose rows can be, if it must.
std::optional<size_t> Oracle::last_run(size_t commit, size_t of, bool comparable) const {
  std::optional<size_t> found;
  for (size_t i = 0; i < history_.runs.size(); ++i) {
    if (commit_[i] == commit && can_be_baseline(i, of) && (!found || is_before(*found, i)) &&
        !(comparable && why_not(i, of)))
      found = i;
  }
  return found;
}

/// Of the nearest commit that has one: down the line of first parents, else of all ancestors.
std::optional<size_t> Oracle::nearest_run(const std::vector<size_t>& commits, size_t of,
                                          bool comparable) const {
  if (commits.empty()) return std::nullopt;
  for (std::optional<size_t> at = commits[0]; at;) {
    if (const auto found = last_run(*at, of, comparable)) return found;
    const auto& parents = history_.commits[*at].parents;
    at = parents.empty() ? std::nullopt : std::optional(parents[0]);
  }
  std::set<size_t> all(commits.begin(), commits.end());
  while (!all.empty()) {
    const size_t nearest = *all.rbegin();
    all.erase(nearest);
    if (const auto found = last_run(nearest, of, comparable)) return found;
    for (size_t parent : history_.commits[nearest].parents) all.insert(parent);
  }
  return std::nullopt;
}

/// By what the runs state, where nobody knows the commit of one: as far as both say.
bool Oracle::same_commit(size_t a, size_t b) const {
  const auto &x = history_.runs[a].commit, &y = history_.runs[b].commit;
  if (!x || !y) return false;
  if (x->size() < 7 || y->size() < 7) return *x == *y;
  return x->starts_with(*y) || y->starts_with(*x);
}

std::optional<size_t> Oracle::work_out_baseline(size_t run) const {
  if (is_injected(run)) return std::nullopt;
  const auto pin = history_.pins.find(lineage_[run]);
  if (pin != history_.pins.end() && is_before(pin->second, run)) return pin->second;
  for (const bool comparable : {true, false}) {
    std::optional<size_t> last;
    if (commit_[run]) {
      last = nearest_run(history_.commits[*commit_[run]].parents, run, comparable);
    } else {
      for (size_t i = 0; i < history_.runs.size(); ++i) {
        if (can_be_baseline(i, run) && is_before(i, run) && !same_commit(i, run) &&
            !(comparable && why_not(i, run)) && (!last || is_before(*last, i)))
          last = i;
      }
    }
    if (last) return last;
  }
  return std::nullopt;
}

// ---- what changed, since when, until when

Change Oracle::work_out_change(size_t run, size_t baseline) const {
  Change c{run, baseline, "INCOMPARABLE", compare(baseline, run)};
  const OwnVerdict &now = verdict_[run], &was = verdict_[baseline];
  const auto turned = [&](const char* from, const char* to) {
    return was.verdict() == from && now.verdict() == to;
  };
  if (c.comparison.why_not) return c;
  if (turned("PASS", "FAIL")) {
    c.change = "BROKEN";
  } else if (turned("FAIL", "PASS")) {
    c.change = "FIXED";
  } else if (turned("INCOMPLETE", "PASS") && c.comparison.only_b > 0 && c.comparison.only_a == 0 &&
             c.comparison.divergent == 0 && c.comparison.nonfinite == 0 &&
             c.comparison.unknown == 0) {
    c.change = "FIXED";
  } else if (was.verdict() == "INCOMPLETE" && now.verdict() != "INCOMPLETE" &&
             c.comparison.numeric_verdict == "INCOMPLETE") {
    c.change = "INCOMPARABLE";
  } else if (c.comparison.verdict == "PASS" || c.comparison.verdict == "INCOMPLETE") {
    c.change = "SAME";
  } else if (c.comparison.numeric_verdict == "PASS" ||
             c.comparison.numeric_verdict == "INCOMPLETE") {
    c.change = "ROUNDING";
  } else if (c.comparison.numeric_verdict == "FAIL") {
    c.change = "CHANGED";
  }
  return c;
}

bool Oracle::is_ancestor(size_t commit, size_t of) const {
  const auto& parents = history_.commits[of].parents;
  return std::any_of(parents.begin(), parents.end(), [&](size_t parent) {
    return parent == commit || (parent > commit && is_ancestor(commit, parent));
  });
}

/// By commits where both are known and differ, else by time.
bool Oracle::is_later(size_t run, size_t than) const {
  if (commit_[run] && commit_[than] && commit_[run] != commit_[than])
    return is_ancestor(*commit_[than], *commit_[run]);
  return is_before(than, run);
}

/// Whether a merge has it from a parent that it is not held against, where it is told already.
bool Oracle::is_of_a_parent(const Regression& told) const {
  const auto commit = commit_[told.first_bad];
  if (!commit || history_.commits[*commit].parents.size() < 2) return false;
  for (size_t parent : history_.commits[*commit].parents) {
    const auto run = nearest_run({parent}, told.first_bad, false);
    if (!run || *run == told.last_good) continue;
    const OwnVerdict& own = verdict_[*run];
    if (told.gate ? own.verdict() == "FAIL"
                  : told.where && has_values_of(*run, told.first_bad, *told.where))
      return true;
  }
  return false;
}

/// Of several that came later: those first whose commit nobody knows.
bool Oracle::is_first(size_t run, size_t of) const {
  if (commit_[run] == commit_[of]) return is_before(run, of);
  return commit_[run] < commit_[of];
}

bool Oracle::has_values_of(size_t run, size_t other, const Where& place) const {
  if (place.pos < 0 || run == other)
    return place.pos >= 0;  // a row of no known position is no place
  // of several rows the one that stands for them, as crowds() has it
  const auto standing = [&](size_t of) {
    const ToldRow* first = nullptr;
    for (const ToldRow& row : history_.runs[of].rows) {
      if (row.prompt == place.prompt && row.phase == place.phase && row.pos == place.pos &&
          row.layer == place.layer && point_of(row.tensor).name == place.tensor &&
          (first == nullptr ||
           std::tuple(!row.is_nan, row.step) < std::tuple(!first->is_nan, first->step)))
        first = &row;
    }
    return first;
  };
  const ToldRow *x = standing(run), *y = standing(other);
  return x != nullptr && y != nullptr && x->has_hash && y->has_hash && x->hash() == y->hash() &&
         x->n == y->n;
}

/// Whether two runs differ there by more than rounding.
bool Oracle::differs_at(size_t a, size_t b, const Where& place) const {
  const auto crowd_of = [&](const ToldRun& run) {
    Crowd crowd;
    for (const ToldRow& row : run.rows) {
      if (row.prompt == place.prompt && row.phase == place.phase && row.pos == place.pos &&
          row.layer == place.layer && point_of(row.tensor).name == place.tensor)
        crowd.push_back(&row);
    }
    std::stable_sort(crowd.begin(), crowd.end(), [](const ToldRow* x, const ToldRow* y) {
      return std::tuple(!x->is_nan, x->step) < std::tuple(!y->is_nan, y->step);
    });
    return crowd;
  };
  const ToldRun &x = history_.runs[a], &y = history_.runs[b];
  const Crowd of_x = crowd_of(x), of_y = crowd_of(y);
  if (of_x.empty() || of_y.empty()) return false;
  const Point point = point_of(of_x[0]->tensor);
  return held_against(of_x, of_y, std::max(tolerance(x, point), tolerance(y, point))).diverges();
}

std::vector<Regression> Oracle::regressions() const {
  const auto place_of = [](const Change& c) {
    return c.comparison.numeric_first ? c.comparison.numeric_first : c.comparison.first;
  };
  const auto same_series = [&](size_t a, size_t b) {
    const ToldRun &x = history_.runs[a], &y = history_.runs[b];
    return lineage_[a] == lineage_[b] && x.seed == y.seed && x.synthetic == y.synthetic;
  };
  const auto turned = [](const Change& c) { return c.change == "BROKEN" || c.change == "CHANGED"; };
  const auto is_pinned = [&](const Change& c) {
    const auto pin = history_.pins.find(lineage_[c.run]);
    return pin != history_.pins.end() && pin->second == c.baseline;
  };
  const auto before = [&](const Change& c) {
    const Change* last = nullptr;
    for (const Change& y : changes_) {
      if (y.run == c.run || !same_series(y.run, c.run) || !is_first(y.run, c.run)) continue;
      if (last == nullptr || is_first(last->run, y.run)) last = &y;
    }
    return last;
  };
  // held against a pinned run, what follows a bad run is not bad anew
  const auto is_bad = [&](const Change& c) {
    if (!turned(c)) return false;
    const Change* last = is_pinned(c) ? before(c) : nullptr;
    return last == nullptr || !turned(*last);
  };
  // y has the values again that were there before x changed them
  const auto restores = [&](const Change& y, const Change& x) {
    const auto place = place_of(x);
    return place && has_values_of(y.run, x.baseline, *place);
  };
  const auto mends = [&](const Change& y, const Change& x) {
    const auto at = place_of(y), place = place_of(x);
    return is_bad(x) && same_series(y.run, x.run) && is_later(y.run, x.run) && restores(y, x) &&
           at && at->layer == place->layer && at->tensor == place->tensor;
  };
  std::vector<Regression> all;
  for (const Change& x : changes_) {
    if (!is_bad(x)) continue;
    if (x.change == "CHANGED" &&
        std::any_of(changes_.begin(), changes_.end(),
                    [&](const Change& earlier) { return mends(x, earlier); }))
      continue;
    Regression r{x.run, x.baseline, x.change, std::nullopt, place_of(x), std::nullopt};
    if (x.change == "BROKEN") {
      r.gate = verdict_[x.run].strictly ? "strict" : "numeric";
      r.where = verdict_[x.run].acted_fail();
    }
    if (is_of_a_parent(r)) continue;
    const auto passes_again = [&](const Change& y) {
      const OwnVerdict& own = verdict_[y.run];
      const auto place = place_of(x);
      return r.gate && own.verdict() == "PASS" && !(place && differs_at(x.baseline, y.run, *place));
    };
    for (const Change& y : changes_) {
      if (y.run == x.run || !same_series(y.run, x.run) || !is_later(y.run, x.run)) continue;
      if (r.gate ? !passes_again(y) : !restores(y, x)) continue;
      if (!r.fixed_run || is_first(y.run, *r.fixed_run)) r.fixed_run = y.run;
    }
    all.push_back(r);
  }
  // one that was probed again is told once
  const auto is_told_before = [&](const Regression& r) {
    return std::any_of(all.begin(), all.end(), [&](const Regression& other) {
      const auto &x = history_.runs[r.first_bad], &y = history_.runs[other.first_bad];
      const bool one_commit = commit_[r.first_bad]
                                  ? commit_[r.first_bad] == commit_[other.first_bad]
                                  : !commit_[other.first_bad] && x.commit && x.commit == y.commit;
      return one_commit && is_before(other.first_bad, r.first_bad) &&
             same_series(r.first_bad, other.first_bad) && other.last_good == r.last_good &&
             other.change == r.change;
    });
  };
  std::vector<Regression> once;
  for (const Regression& r : all) {
    if (!is_told_before(r)) once.push_back(r);
  }
  for (Regression& r : once) {
    const auto change = std::find_if(changes_.begin(), changes_.end(),
                                     [&](const Change& c) { return c.run == r.first_bad; });
    const Change* last = is_pinned(*change) ? before(*change) : nullptr;
    if (last != nullptr) r.last_good = last->run;
  }
  return once;
}

}  // namespace greta::lineage
