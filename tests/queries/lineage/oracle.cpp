#include "tests/queries/lineage/oracle.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

namespace greta::lineage {
namespace {

// ---- trace points

struct Point {
  std::string name;  ///< canonical
  int64_t ord;
  bool is_head;
  std::string cause;
};

Point point_of(const std::string& written) {
  static const std::map<std::string, Point> points = {
      {"embed_out", {"embed_out", 10, false, "EMBED_DRIFT"}},
      {"residual_pre_attn", {"residual_pre_attn", 20, false, "RESIDUAL_PRE_ATTN_DRIFT"}},
      {"x_in", {"residual_pre_attn", 20, false, "X_IN_DRIFT"}},
      {"q_pre_rope", {"q_pre_rope", 40, false, "Q_PRE_ROPE_DRIFT"}},
      {"q_proj", {"q_pre_rope", 40, false, "Q_PRE_ROPE_DRIFT"}},
      {"q_post_rope", {"q_post_rope", 50, false, "Q_POST_ROPE_DRIFT"}},
      {"attn_out", {"attn_out", 70, false, "ATTN_OUT_DRIFT"}},
      {"x_out", {"x_out", 115, false, "X_OUT_DRIFT"}},
      {"final_norm", {"final_norm", 202, true, "FINAL_NORM_DRIFT"}},
      {"rms", {"final_norm", 202, true, "FINAL_NORM_DRIFT"}},
      {"logits", {"logits", 210, true, "LOGITS_DRIFT"}},
      // what nobody knows is last in its layer
      {"gate_17", {"gate_17", 1000, false, "GATE_17_DRIFT"}}};
  return points.at(written);
}

int64_t forward_layer(const Point& point, int64_t layer) {
  return point.is_head || layer < 0 ? 1000000 : layer;
}

int phase_number(const std::string& phase) {
  return phase == "prefill_last" ? 1 : phase == "prefill" ? 2 : phase == "decode0" ? 3 : 4;
}
bool is_prefill(const ToldRow& row) { return phase_number(row.phase) < 3; }

double tolerance(const ToldRun& run, const Point& point) {
  if (point.name == "embed_out") return 0;
  const std::string dtype = run.dtype.value_or("");
  return dtype == "f32" ? 1e-4 : dtype == "bf16" ? 3e-2 : 1e-2;
}

// ---- two rows

enum class Status { kMatch, kDrift, kNonfinite, kAmbiguous, kConflict, kIncomparable };
enum class Class { kNone, kRounding, kUnknown, kDivergent };
struct Judged {
  Status status;
  Class grade = Class::kNone;

  bool fails() const { return status != Status::kMatch && status != Status::kIncomparable; }
  /// Fails by more than rounding, or by what no distance is measured of.
  bool diverges() const { return fails() && (grade == Class::kNone || grade == Class::kDivergent); }
};

/// Rows of one place, the one that stands for them first.
using Crowd = std::vector<const ToldRow*>;

bool same_content(const ToldRow& x, const ToldRow& y) {
  return x.token == y.token && x.n == y.n && x.has_hash == y.has_hash && x.is_nan == y.is_nan &&
         x.mean == y.mean &&
         (x.has_hash ? x.hash() == y.hash() : x.has_sketch == y.has_sketch && x.value == y.value);
}

bool is_ambiguous(const Crowd& crowd) {
  return std::any_of(crowd.begin(), crowd.end(),
                     [&](const ToldRow* row) { return !same_content(*crowd[0], *row); });
}

double distance(const ToldRow& x, const ToldRow& y) {
  const auto norm = [](const std::vector<float>& values) {
    double sum = 0;
    for (float v : values) sum += static_cast<double>(v) * static_cast<double>(v);
    return std::sqrt(sum);
  };
  std::vector<float> apart = x.values();
  const std::vector<float> other = y.values();
  for (size_t i = 0; i < apart.size(); ++i) apart[i] -= other[i];
  return norm(apart) / std::max(norm(x.values()), norm(other));
}

Judged held_against(const Crowd& xs, const Crowd& ys, double tolerance) {
  const ToldRow &x = *xs[0], &y = *ys[0];
  const bool same_length = x.n == y.n, hashes = x.has_hash && y.has_hash,
             by_hash = hashes && same_length;
  const bool sketches = x.has_sketch && y.has_sketch && same_length,
             same_sketch = sketches && x.value == y.value;
  const bool other_statistics = x.mean && y.mean && *x.mean != *y.mean;
  if (is_ambiguous(xs) || is_ambiguous(ys)) return {Status::kAmbiguous};
  if (by_hash && x.hash() == y.hash() && other_statistics) return {Status::kConflict};
  if (!hashes && same_sketch && other_statistics) return {Status::kConflict};
  if (x.is_nan || y.is_nan) return {Status::kNonfinite};
  if (x.token != y.token) return {Status::kIncomparable};
  if (by_hash && x.hash() == y.hash()) return {Status::kMatch};
  if (by_hash || (sketches && !same_sketch)) {
    if (!sketches) return {Status::kDrift, Class::kUnknown};
    return {Status::kDrift, distance(x, y) <= tolerance ? Class::kRounding : Class::kDivergent};
  }
  return {Status::kIncomparable, same_sketch ? Class::kRounding : Class::kNone};
}

// ---- places

/// Of one side of one prompt, in the order in which equal ones are told apart.
struct PhasePlace {
  std::string prompt;
  int64_t pos, layer;
  std::string tensor;
  std::optional<int64_t> token;
  auto operator<=>(const PhasePlace&) const = default;
};
struct RunPlace {
  std::string prompt;
  int phase;
  int64_t pos, layer;
  std::string tensor;
  int64_t step;  ///< where the position is unknown
  auto operator<=>(const RunPlace&) const = default;
};

template <class Key, class KeyOf>
std::map<Key, Crowd> crowds(const ToldRun& run, KeyOf&& key_of) {
  std::map<Key, Crowd> all;
  for (const ToldRow& row : run.rows) {
    if (const std::optional<Key> key = key_of(row)) all[*key].push_back(&row);
  }
  for (auto& [key, crowd] : all) {
    std::stable_sort(crowd.begin(), crowd.end(),
                     [](const ToldRow* x, const ToldRow* y) { return x->step < y->step; });
  }
  return all;
}

template <class T>
void keep_first(std::optional<std::pair<T, Where>>& first, const T& order, const Where& where) {
  if (!first || order < first->first) first = {order, where};
}

template <class T>
std::optional<Where> where_of(const std::optional<std::pair<T, Where>>& first) {
  if (!first) return std::nullopt;
  return first->second;
}

}  // namespace

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

/// By time, of which names decide the rest: #10 is after #2.
bool Oracle::is_before(size_t a, size_t b) const {
  const auto time = [](const ToldRun& run) {
    return std::tuple(run.date.value_or(""), run.started_at.value_or(""), run.name.size(),
                      run.name);
  };
  return time(history_.runs[a]) < time(history_.runs[b]);
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
  if (pin != history_.pins.end() && pin->second != run) return pin->second;
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

// ---- a run by itself

/// Whether tokens of a prompt are known of which nothing was traced, beside others.
bool lacks_a_prompt(const ToldRun& run) {
  const auto is_traced = [&run](const auto& prompt) {
    return std::any_of(run.rows.begin(), run.rows.end(),
                       [&](const ToldRow& row) { return row.prompt == prompt.first; });
  };
  return !run.rows.empty() &&
         !std::all_of(run.prompt_tokens.begin(), run.prompt_tokens.end(), is_traced);
}

OwnVerdict Oracle::work_out_verdict(size_t run_index) const {
  const ToldRun& run = history_.runs[run_index];
  const auto side = [&](bool prefill) {
    return crowds<PhasePlace>(run, [&](const ToldRow& row) -> std::optional<PhasePlace> {
      if (row.pos < 0 || is_prefill(row) != prefill) return std::nullopt;
      return PhasePlace{row.prompt, row.pos, row.layer, point_of(row.tensor).name, row.token};
    });
  };
  const auto prefill = side(true), decode = side(false);
  std::set<std::pair<std::string, int64_t>> demanded;
  for (const ToldRow& row : run.rows) {
    if (row.phase == "prefill_last") demanded.insert({row.prompt, row.pos});
  }
  int64_t pairs = 0, pass = 0, fail = 0, drift = 0, rounding = 0, divergent = 0, missing = 0;
  bool elsewhere = false;
  using Order = std::tuple<bool, int64_t, int64_t, std::string, std::string, int64_t, std::string>;
  std::optional<std::pair<Order, Where>> first, numeric_first;
  const auto blame = [&](auto& which, const ToldRow& row, const std::string& cause) {
    const Point point = point_of(row.tensor);
    keep_first(which,
               Order(cause != "TRACE_OFFSET", forward_layer(point, row.layer), point.ord,
                     row.prompt, point.name, row.pos, cause),
               Where{row.prompt, row.phase, row.tensor, row.pos, row.layer, cause});
  };
  const auto pair_at = [&](const PhasePlace& place) -> std::optional<Judged> {
    const auto x = prefill.find(place), y = decode.find(place);
    if (x == prefill.end() || y == decode.end()) return std::nullopt;
    return held_against(x->second, y->second, tolerance(run, point_of(x->second[0]->tensor)));
  };
  const auto cause_of = [&](const PhasePlace& place, const ToldRow& row, const Judged& judged) {
    if (judged.status == Status::kAmbiguous) return std::string("AMBIGUOUS_TRACE");
    if (judged.status == Status::kConflict) return std::string("EVIDENCE_CONFLICT");
    if (place.tensor == "q_post_rope") {
      // RoPE, when what enters it matched, or, of more than rounding, was within it
      PhasePlace before = place;
      before.tensor = "q_pre_rope";
      for (const auto& [at, crowd] : prefill) {
        before.token = at.token;
        if (at != before) continue;
        const std::optional<Judged> input = pair_at(at);
        if (input && (input->status == Status::kMatch ||
                      (judged.diverges() && input->status == Status::kDrift &&
                       input->grade == Class::kRounding)))
          return std::string("ROPE_DRIFT");
      }
    }
    return point_of(row.tensor).cause;
  };
  const auto alone = [&](const Crowd& crowd, bool must_pair,
                         const std::map<PhasePlace, Crowd>& others) {
    const ToldRow& row = *crowd[0];
    // it stands for the others of its side
    if (std::any_of(crowd.begin(), crowd.end(), [](const ToldRow* one) { return one->is_nan; })) {
      ++fail;
      blame(first, row, point_of(row.tensor).cause);
      blame(numeric_first, row, point_of(row.tensor).cause);
    } else if (must_pair) {
      ++missing;
      blame(first, row, "TRACE_OFFSET");
      for (const auto& [at, rows] : others) {
        if (at.prompt == row.prompt && at.pos != row.pos && at.layer == row.layer &&
            at.tensor == point_of(row.tensor).name)
          elsewhere = true;
      }
    }
  };
  for (const ToldRow& row : run.rows) {  // nobody knows whose partner it would be
    if (row.pos < 0) alone({&row}, false, decode);
  }
  for (const auto& [place, crowd] : prefill) {
    const ToldRow& row = *crowd[0];
    const std::optional<Judged> judged = pair_at(place);
    if (!judged) {
      alone(crowd, row.phase == "prefill_last", decode);
      continue;
    }
    ++pairs;
    pass += judged->status == Status::kMatch;
    rounding += judged->grade == Class::kRounding;
    divergent += judged->grade == Class::kDivergent;
    drift += judged->status == Status::kDrift;
    if (!judged->fails()) continue;
    ++fail;
    const std::string cause = cause_of(place, row, *judged);
    blame(first, row, cause);
    if (judged->diverges()) blame(numeric_first, row, cause);
  }
  for (const auto& [place, crowd] : decode) {
    if (!prefill.contains(place))
      alone(crowd, demanded.contains({place.prompt, place.pos}), prefill);
  }
  const auto verdict = [&](bool fails, bool passes) -> std::string {
    if (fails || elsewhere) return "FAIL";
    if (run.status == "running" || run.status == "failed" || lacks_a_prompt(run))
      return "INCOMPLETE";
    if (missing > 0) return "FAIL";
    if (pairs == 0) return "NO_EVIDENCE";
    return passes ? "PASS" : "INCOMPARABLE";
  };
  return {verdict(fail > 0, pass == pairs),
          verdict(fail - drift + divergent > 0, pass + rounding == pairs), where_of(first),
          where_of(numeric_first)};
}

// ---- two runs

std::optional<std::string> Oracle::why_not(size_t a_index, size_t b_index) const {
  const ToldRun &a = history_.runs[a_index], &b = history_.runs[b_index];
  const bool have_roots =
      a.attributes.contains("model_root") && b.attributes.contains("model_root");
  const std::string digest = have_roots ? "model_root" : "model_sha256";
  for (const std::string& dim : {digest, std::string("trace.layers"), std::string("trace.phases"),
                                 std::string("trace.tensors")}) {
    const auto x = a.attributes.find(dim), y = b.attributes.find(dim);
    if (x == a.attributes.end() || y == b.attributes.end() || x->second == y->second) continue;
    if (dim == digest) return "another model";
    return std::string("traced otherwise: ") + dim + " " + x->second + ", not " + y->second;
  }
  for (const auto& [prompt, tokens] : a.prompt_tokens) {
    const auto other = b.prompt_tokens.find(prompt);
    if (other != b.prompt_tokens.end() && other->second != tokens)
      return "other tokens in prompt " + prompt;
  }
  return std::nullopt;
}

Comparison Oracle::compare(size_t a_index, size_t b_index) const {
  const ToldRun &a = history_.runs[a_index], &b = history_.runs[b_index];
  Comparison result;
  const auto key_of = [](const ToldRow& row) {
    return std::optional(RunPlace{row.prompt, phase_number(row.phase), row.pos, row.layer,
                                  point_of(row.tensor).name, row.pos < 0 ? row.step : 0});
  };
  const auto of_a = crowds<RunPlace>(a, key_of), of_b = crowds<RunPlace>(b, key_of);
  std::map<std::string, int64_t> chosen;  // by prompt: where another token first was
  for (const auto& [place, crowd] : of_a) {
    const auto other = of_b.find(place);
    if (other == of_b.end() || crowd[0]->token == other->second[0]->token) continue;
    const auto at = chosen.try_emplace(place.prompt, place.pos).first;
    at->second = std::min(at->second, place.pos);
  }
  using Order = std::tuple<bool, int64_t, int64_t, int64_t, std::string, int>;
  std::optional<std::pair<Order, Where>> first, numeric_first;
  const auto told = [&](const RunPlace& place, const ToldRow& row, const char* status,
                        const char* grade) {
    result.rows.push_back(
        place.prompt + "|" + row.phase + "|" + (place.pos < 0 ? "-" : std::to_string(place.pos)) +
        "|" + std::to_string(place.layer) + "|" + place.tensor + "|" + status + "|" + grade);
  };
  for (const auto& [place, crowd] : of_a) {
    const auto other = of_b.find(place);
    const ToldRow& row = *crowd[0];
    if (other == of_b.end()) {
      ++result.only_a;
      told(place, row, "ONLY_A", "-");
      continue;
    }
    const Point point = point_of(row.tensor);
    const Judged judged =
        held_against(crowd, other->second, std::max(tolerance(a, point), tolerance(b, point)));
    constexpr const char* kStatus[] = {"MATCH",     "DRIFT",    "NONFINITE",
                                       "AMBIGUOUS", "CONFLICT", "INCOMPARABLE"};
    constexpr const char* kClass[] = {"-", "ROUNDING", "UNKNOWN", "DIVERGENT"};
    told(place, row, kStatus[static_cast<int>(judged.status)],
         kClass[static_cast<int>(judged.grade)]);
    ++result.pairs;
    result.compared += judged.status != Status::kIncomparable;
    result.match += judged.status == Status::kMatch;
    result.rounding += judged.status == Status::kDrift && judged.grade == Class::kRounding;
    result.divergent += judged.grade == Class::kDivergent;
    result.unknown += judged.grade == Class::kUnknown || judged.status == Status::kAmbiguous ||
                      judged.status == Status::kConflict;
    result.nonfinite += judged.status == Status::kNonfinite;
    result.incomparable += judged.status == Status::kIncomparable;
    result.alike += judged.status == Status::kIncomparable && judged.grade == Class::kRounding;
    if (!judged.fails()) continue;
    const auto at = chosen.find(place.prompt);
    const Order order(at != chosen.end() && place.pos >= at->second,
                      forward_layer(point, place.layer), point.ord, place.pos, place.prompt,
                      place.phase);
    Where where{place.prompt, row.phase, place.tensor, place.pos, place.layer};
    if (std::get<0>(order)) where.cause = "another token at position " + std::to_string(at->second);
    keep_first(first, order, where);
    if (judged.diverges()) keep_first(numeric_first, order, where);
  }
  for (const auto& [place, crowd] : of_b) {
    if (of_a.contains(place)) continue;
    ++result.only_b;
    told(place, *crowd[0], "ONLY_B", "-");
  }
  std::sort(result.rows.begin(), result.rows.end());
  result.why_not = why_not(a_index, b_index);
  if (result.why_not) {  // nothing is held against anything
    Comparison nothing;
    nothing.why_not = result.why_not;
    nothing.verdict = nothing.numeric_verdict = "INCOMPARABLE";
    nothing.rows = result.rows;
    return nothing;
  }
  result.first = where_of(first);
  result.numeric_first = where_of(numeric_first);
  const auto& told_first = result.numeric_first ? result.numeric_first : result.first;
  if (told_first && !told_first->cause.empty()) result.caused_by = told_first->cause;
  const int64_t bad = result.nonfinite + result.divergent + result.only_a + result.only_b;
  const auto ended = [](const ToldRun& run) {
    return run.status != "running" && run.status != "failed";
  };
  const auto verdict = [&](bool fails, bool undecided) {
    return result.compared == 0      ? "NO_EVIDENCE"
           : fails                   ? "FAIL"
           : undecided               ? "INCOMPARABLE"
           : !(ended(a) && ended(b)) ? "INCOMPLETE"
                                     : "PASS";
  };
  result.verdict = verdict(bad + result.rounding + result.unknown > 0, result.incomparable > 0);
  result.numeric_verdict = verdict(bad > 0 || result.numeric_first,
                                   result.unknown + result.incomparable - result.alike > 0);
  return result;
}

// ---- what changed, since when, until when

Change Oracle::work_out_change(size_t run, size_t baseline) const {
  Change c{run, baseline, "INCOMPARABLE", compare(baseline, run)};
  const OwnVerdict &now = verdict_[run], &was = verdict_[baseline];
  const auto turned = [&](const char* from, const char* to) {
    return (was.strict == from && now.strict == to) || (was.numeric == from && now.numeric == to);
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
    const bool strict = own.strict == "FAIL", numeric = own.numeric == "FAIL";
    if (told.gate == "both"      ? strict && numeric
        : told.gate == "strict"  ? strict
        : told.gate == "numeric" ? numeric
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
  const auto find = [&](size_t of) {
    std::vector<const ToldRow*> rows;
    for (const ToldRow& row : history_.runs[of].rows) {
      if (row.prompt == place.prompt && row.phase == place.phase && row.pos == place.pos &&
          row.layer == place.layer && point_of(row.tensor).name == place.tensor && row.has_hash)
        rows.push_back(&row);
    }
    return rows;
  };
  for (const ToldRow* x : find(run)) {
    for (const ToldRow* y : find(other)) {
      if (x->hash() == y->hash() && x->n == y->n) return true;
    }
  }
  return false;
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
    std::stable_sort(crowd.begin(), crowd.end(),
                     [](const ToldRow* x, const ToldRow* y) { return x->step < y->step; });
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
  const auto is_bad = [](const Change& c) { return c.change == "BROKEN" || c.change == "CHANGED"; };
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
    const OwnVerdict &now = verdict_[x.run], &was = verdict_[x.baseline];
    const bool strict = was.strict == "PASS" && now.strict == "FAIL",
               numeric = was.numeric == "PASS" && now.numeric == "FAIL";
    if (x.change == "BROKEN") {
      r.gate = strict && numeric ? "both" : strict ? "strict" : "numeric";
      r.where = strict && !numeric ? now.first_fail : now.numeric_first_fail;
    }
    if (is_of_a_parent(r)) continue;
    const auto passes_again = [&](const Change& y) {
      const OwnVerdict& own = verdict_[y.run];
      const auto place = place_of(x);
      return r.gate && (*r.gate == "numeric" ? own.numeric : own.strict) == "PASS" &&
             !(place && differs_at(x.baseline, y.run, *place));
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
             other.change == r.change && other.gate == r.gate;
    });
  };
  std::vector<Regression> once;
  for (const Regression& r : all) {
    if (!is_told_before(r)) once.push_back(r);
  }
  return once;
}

}  // namespace greta::lineage
