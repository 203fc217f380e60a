#include "tests/engine/late_faults.h"

#include <algorithm>
#include <array>
#include <iostream>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/session/session.h"
#include "tests/engine/engine_fixture.h"
#include "tests/engine/probe/probe_lab.h"

namespace greta {
namespace {

std::vector<std::string_view> right_findings(FaultKind kind) {
  switch (kind) {
    case FaultKind::kRopePosOffByOne:
    case FaultKind::kRopeTheta:
    case FaultKind::kRopePairing:
      return {"TURNED"};
    case FaultKind::kKvWrongSlot:  // what nobody wrote is poisoned
      return {"ALL_NAN", "OTHER_POSITION"};
    case FaultKind::kStaleKvTail:
      return {"STALE_ROW", "OTHER_POSITION", "ALL_ZERO"};
    case FaultKind::kMaskOffByOne:
      return {"FEWER_VALUES", "NOT_ONE", "ALL_NAN", "SOME_NAN"};
    case FaultKind::kSoftmaxNoMax:
      return {"SOME_NAN", "ALL_NAN"};
    case FaultKind::kKvHeadStride:
    case FaultKind::kGqaHeadMapping:
      return {"SOME_HEADS"};
    case FaultKind::kVLayoutTransposed:
      return {"UNRELATED"};
    case FaultKind::kRmsNormEps:
    case FaultKind::kQuantScale:
      return {"SCALED"};
    case FaultKind::kFp16Accumulate:
      return {"FEWER_BITS"};
    case FaultKind::kLmHeadRoute:
      return {"ROUNDING"};
    case FaultKind::kRace:
      return {"UNSTABLE"};
    case FaultKind::kRopeThetaKept:
      return {"STATE"};
    case FaultKind::kKCacheSpoiled:
      return {"EARLIER_ROW"};
  }
  return {};
}

/// When a fault begins, with how long a prompt, and the first position where it is seen.
struct Onset {
  std::string_view side, text;
  int64_t n_prompt, pos;
};
constexpr std::array kOnsets{Onset{"decode", "step=3", 16, 17}, Onset{"decode", "pos=97", 95, 97},
                             Onset{"prefill", "pos=97", 95, 97},
                             Onset{"decode", "length=256", 256, 255},
                             Onset{"prefill", "length=256", 256, 255}};
constexpr int64_t kSteps = 4;

bool has(const std::vector<std::string>& all, std::string_view one) {
  return all.empty() || std::find(all.begin(), all.end(), one) != all.end();
}

/// A turned query and a row in another slot stand for all when only a few are wanted.
bool is_one_of_few(FaultKind kind) {
  return kind == FaultKind::kRopePosOffByOne || kind == FaultKind::kKvWrongSlot;
}

/// Faults that no late onset shows: nothing reads afterwards what prefill spoils of the tokens
/// decoded before it, and what is kept between prompts shows in short ones.
bool shows_nowhere(FaultKind kind, const Onset& onset) {
  if (kind == FaultKind::kRopeThetaKept) return true;
  return kind == FaultKind::kKCacheSpoiled && onset.side == "prefill" &&
         onset.pos >= onset.n_prompt;
}

/// Of a batch of prefill only the last row is stale.
int64_t seen_at(FaultKind kind, const Onset& onset) {
  const int64_t last = onset.n_prompt + kSteps - 1;
  const bool begins_among_decoded = onset.pos >= onset.n_prompt;
  const bool late = kind == FaultKind::kStaleKvTail && onset.side == "prefill";
  return late && begins_among_decoded ? last : onset.pos;
}

/// What became of a fault.
struct LateOutcome {
  std::string why;      ///< it is not found where it begins; empty when it is
  bool no_bit = false;  ///< it changes none at its tensor, on this backend: nothing is to be found
  std::string finding;
  bool told = false, onset = false;  ///< the first finding is right; one says when it begins
};

/// Shorter prompts, and one more that is as long: when it begins shows in comparison only.
std::vector<std::vector<int32_t>> prompts_of(const TestModel& model, const Onset& onset) {
  if (!onset.text.starts_with("length")) return {model.tokens(onset.n_prompt)};
  return {model.tokens(onset.n_prompt), model.tokens(16), model.tokens(64),
          model.tokens(onset.n_prompt + 2)};
}

LateOutcome try_fault(const TestModel& model, const TestEngine& engine, ProbeLab& lab,
                      const Fault& fault, const Onset& onset) {
  const TracePoint shows_at = fault_info(fault.kind).shows_at;
  const Place place = place_of({shows_at, fault.layer.value_or(kLayerAfterStack)});
  ProbeOptions options{.forward = engine.options(Mode::kBatchInvariant, {fault}), .selection = {}};
  options.selection.layers = {0, fault.layer.value_or(0)};
  options.decode_steps = kSteps;
  options.repeats = 1;
  const std::string run = lab.probe(engine, prompts_of(model, onset), options);
  const LabVerdict verdict = lab.verdict(run);
  const std::optional<int64_t> pos = lab.first_origin(run, place);
  LateOutcome outcome;
  const bool found = verdict.verdict == "FAIL" && verdict.first_fail == place;
  if (verdict.verdict == "PASS") {
    options.forward = engine.options(Mode::kBatchInvariant, {});
    const std::string clean = lab.probe(engine, prompts_of(model, onset), options);
    outcome.no_bit = lab.same_rows(run, clean, place);
    if (outcome.no_bit) return outcome;
  }
  if (!found || pos != seen_at(fault.kind, onset)) {
    outcome.why = verdict.verdict + (verdict.first_fail ? " " + verdict.first_fail->text() : "") +
                  ", position " + (pos ? std::to_string(*pos) : "none");
  }
  const std::vector<std::string> findings = lab.findings(run);
  outcome.finding = findings.empty() ? "nothing" : findings.front();
  const std::string part = lab.part(run);
  if (!findings.empty() && contradicts(findings.front(), part))
    outcome.finding += ", though " + part;
  outcome.told = tells(fault.kind, findings, lab.failing_by_rounding(run, place)) &&
                 outcome.finding == findings.front();
  outcome.onset = has(findings, "ONSET") && !findings.empty();
  return outcome;
}

}  // namespace

bool tells(FaultKind kind, std::span<const std::string> findings, bool rounding) {
  if (findings.empty()) return false;
  const std::string& first = findings.front();
  const std::vector<std::string_view> right = right_findings(kind);
  return std::find(right.begin(), right.end(), first) != right.end() ||
         (rounding && first == "ROUNDING");
}

bool contradicts(std::string_view finding, std::string_view part) {
  constexpr std::array<std::string_view, 7> kOfRows{
      "ADDED", "FEWER_BITS", "OTHER_VALUES", "ROUNDING", "SCALED", "TURNED", "UNRELATED"};
  return !part.empty() && std::find(kOfRows.begin(), kOfRows.end(), finding) != kOfRows.end();
}

LateCount late_faults(const LateFaults& wanted) {
  const TestModel model(wanted.shape, wanted.type);
  const TestEngine engine(model, make_backend(wanted.backend, 2));
  ProbeLab lab;
  LateCount count;
  int onsets = 0;
  for (const FaultInfo& info : fault_catalogue()) {
    if (!has(wanted.faults, info.name) || !(wanted.all || is_one_of_few(info.kind))) continue;
    const bool head = trace_point_stage(info.shows_at) == Stage::kHead;
    const size_t n_layers = head || !wanted.all ? 1 : wanted.layers.size();
    for (const Onset& onset : kOnsets) {
      if (shows_nowhere(info.kind, onset)) continue;
      for (size_t i = 0; i < n_layers; ++i) {
        Fault fault = parse_fault(std::string(info.name) + "@" + std::string(onset.side) + ":" +
                                  std::string(onset.text));
        if (!head) fault.layer = wanted.layers.at(i);
        const LateOutcome outcome = try_fault(model, engine, lab, fault, onset);
        ++count.faults;
        if (outcome.no_bit) {
          ++count.hidden;
          std::cout << "changes no bit: " << fault.text() << "\n";
          continue;
        }
        count.told += outcome.told;
        onsets += outcome.onset;
        if (!outcome.told) {
          std::cout << "not the right diagnosis: " << fault.text() << ": " << outcome.finding
                    << "\n";
        }
        if (outcome.why.empty()) continue;
        ++count.not_found;
        std::cout << "NOT FOUND: " << fault.text() << ": " << outcome.why << "\n";
      }
    }
  }
  std::cout << "\nfaults that begin late: " << count.faults << ", of no effect: " << count.hidden
            << ", not found: " << count.not_found << ", right diagnosis: " << count.told
            << ", told when they begin: " << onsets << "\n";
  return count;
}

}  // namespace greta
