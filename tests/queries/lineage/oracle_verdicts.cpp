// What the rows of a run say of it, and those of two of each other.
#include <algorithm>
#include <set>
#include <tuple>

#include "tests/queries/lineage/judged_rows.h"
#include "tests/queries/lineage/oracle.h"

namespace greta::lineage {
namespace {

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
    std::stable_sort(crowd.begin(), crowd.end(), [](const ToldRow* x, const ToldRow* y) {
      return std::tuple(!x->is_nan, phase_number(x->phase), x->step) <
             std::tuple(!y->is_nan, phase_number(y->phase), y->step);
    });
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

/// The place of a prompt among those of its run: the order of its engine, else of names.
using PromptPlace = std::pair<int64_t, std::string>;
PromptPlace place_of(const std::string& prompt, const ToldRun& run) {
  if (run.status == "unknown") return {0, prompt};
  const auto first = std::find_if(run.rows.begin(), run.rows.end(),
                                  [&](const ToldRow& row) { return row.prompt == prompt; });
  return {first - run.rows.begin(), prompt};
}

/// Whether tokens of a prompt are known of which nothing was traced, beside others.
bool lacks_a_prompt(const ToldRun& run) {
  const auto is_traced = [&run](const auto& prompt) {
    return std::any_of(run.rows.begin(), run.rows.end(),
                       [&](const ToldRow& row) { return row.prompt == prompt.first; });
  };
  return !run.rows.empty() &&
         !std::all_of(run.prompt_tokens.begin(), run.prompt_tokens.end(), is_traced);
}

}  // namespace

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
  using Order = std::tuple<bool, int64_t, int64_t, int64_t, PromptPlace, std::string, std::string>;
  std::optional<std::pair<Order, Where>> first, numeric_first;
  const auto blame = [&](auto& which, const ToldRow& row, const std::string& cause) {
    const Point point = point_of(row.tensor);
    keep_first(which,
               Order(cause != "TRACE_OFFSET", forward_layer(point, row.layer), point.ord, row.pos,
                     place_of(row.prompt, run), point.name, cause),
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
          verdict(fail - drift + divergent > 0, pass + rounding == pairs),
          where_of(first),
          where_of(numeric_first),
          run.mode == "batch_invariant" || (drift > 0 && rounding + divergent == 0),
          missing > 0};
}

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
  using Order = std::tuple<bool, int64_t, int64_t, int64_t, PromptPlace, int>;
  std::optional<std::pair<Order, Where>> first, numeric_first, gone;
  const auto told = [&](const RunPlace& place, const ToldRow& row, const char* status,
                        const char* grade) {
    result.rows.push_back(
        place.prompt + "|" + row.phase + "|" + (place.pos < 0 ? "-" : std::to_string(place.pos)) +
        "|" + std::to_string(place.layer) + "|" + place.tensor + "|" + status + "|" + grade);
  };
  for (const auto& [place, crowd] : of_a) {
    const auto other = of_b.find(place);
    const ToldRow& row = *crowd[0];
    const Point point = point_of(row.tensor);
    const auto at = chosen.find(place.prompt);
    const Order order(at != chosen.end() && place.pos >= at->second,
                      forward_layer(point, place.layer), point.ord, place.pos,
                      place_of(place.prompt, a), place.phase);
    Where where{place.prompt, row.phase, place.tensor, place.pos, place.layer};
    if (other == of_b.end()) {
      ++result.only_a;
      keep_first(gone, order, where);
      told(place, row, "ONLY_A", "-");
      continue;
    }
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
  result.first = where_of(first ? first : gone);
  result.numeric_first = where_of(numeric_first ? numeric_first : gone);
  const auto& told_first = result.numeric_first ? result.numeric_first : result.first;
  if (told_first && !told_first->cause.empty()) result.caused_by = told_first->cause;
  const int64_t bad = result.nonfinite + result.divergent + result.only_a + result.only_b;
  const auto is_whole = [](const ToldRun& run) {
    return run.status != "running" && run.status != "failed" && !lacks_a_prompt(run);
  };
  const auto verdict = [&](bool fails, bool undecided) {
    return result.compared == 0            ? "NO_EVIDENCE"
           : fails                         ? "FAIL"
           : undecided                     ? "INCOMPARABLE"
           : !(is_whole(a) && is_whole(b)) ? "INCOMPLETE"
                                           : "PASS";
  };
  result.verdict = verdict(bad + result.rounding + result.unknown > 0, result.incomparable > 0);
  result.numeric_verdict = verdict(bad > 0 || result.numeric_first,
                                   result.unknown + result.incomparable - result.alike > 0);
  return result;
}

}  // namespace greta::lineage
