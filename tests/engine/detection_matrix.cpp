#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/probe/suite.h"
#include "engine/session/session.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/engine/engine_fixture.h"
#include "tests/engine/forward/reference_f64.h"
#include "tests/engine/late_faults.h"
#include "tests/engine/probe/probe_lab.h"

// Tests the instrument on known bugs: every fault of the catalogue, at every layer and in either
// phase, must be found where it is, and clean runs must be left in peace.
//
//   detection_matrix [--faults a,b] [--layers 0,2,8] [--phases decode,prefill]
//                    [--clean N] [--backend cpu|hip] [--kv-cache f32|f16] [--summary]
//                    [--late none|few|all]
//
// A case passes in batch_invariant when its tensor and layer are the strict first fail, or when the
// clean run has the same bits there; in as_designed when they are the numeric first fail, which is
// demanded as soon as float64 predicts an effect of 10 tolerances. Of the cases that are found, 98
// % must have the right first finding of the view diagnosis (late_faults.cpp), which does not
// contradict where the rows differ. Faults that begin late, with a decode step, a position or the
// length of a prompt, must be the strict first fail at their tensor, layer and position: a few of
// them, or with --late all every fault at every layer. Exit status 1 when a case fails.

namespace greta {

/// Rows of text in aligned columns, in Markdown, on standard output; the first row is the heading.
class TextTable {
 public:
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  void print() const {
    std::vector<size_t> widths(rows_.front().size());
    for (const auto& row : rows_) {
      for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    for (size_t r = 0; r < rows_.size(); ++r) {
      print_row(rows_[r], widths, ' ');
      if (r == 0) print_row(std::vector<std::string>(widths.size()), widths, '-');
    }
  }

 private:
  void print_row(const std::vector<std::string>& cells, const std::vector<size_t>& widths,
                 char filler) const {
    for (size_t i = 0; i < cells.size(); ++i) {
      std::cout << "| " << cells[i] << std::string(widths[i] - cells[i].size(), filler) << " ";
    }
    std::cout << "|\n";
  }

  std::vector<std::vector<std::string>> rows_;
};

namespace {

constexpr double kSurelySeen = 10;       // tolerances
constexpr double kSurelyRounding = 0.1;  // tolerances
// Far above the rounding of f32 and far below any tolerance: such an effect changes bits.
constexpr double kSurelyBits = 1e-6;

/// Magnitudes that arithmetic as designed hides or nearly hides: only bits tell.
struct FaintFault {
  FaultKind kind;
  double magnitude;
};
constexpr std::array kFaint{
    FaintFault{FaultKind::kRopeTheta, 0.99999}, FaintFault{FaultKind::kFp16Accumulate, 256},
    FaintFault{FaultKind::kRmsNormEps, 2}, FaintFault{FaultKind::kQuantScale, 1.00001},
    FaintFault{FaultKind::kRace, 1}};

struct Options {
  std::vector<std::string> faults;
  std::vector<int> layers{0, 2, 8};
  std::vector<std::string> phases{"decode", "prefill"};
  std::string backend = "cpu", late = "few";
  int clean = 10;
  bool summary = false;
  KvType kv_cache = KvType::kF32;
};

constexpr const char* kType = "q4_k_m";  ///< of the weights

/// A fault at one place, and the tensor that it should be found at.
struct Case {
  const FaultInfo& info;
  Fault fault;
  RowKey at;
};

/// What became of a case in one mode.
struct Outcome {
  enum Kind { kFound, kHidden, kWrong } kind;
  std::string text;
  std::string measured = "-";
  std::string finding = "-";  ///< the most telling one
  bool told = false;          ///< it says what the fault does
};

struct Result {
  const Case& one;
  double predicted;
  Outcome strict, numeric;

  bool passed() const { return strict.kind != Outcome::kWrong && numeric.kind != Outcome::kWrong; }
};

std::string number(double value) {
  if (!std::isfinite(value)) return "not finite";
  char text[32];
  std::snprintf(text, sizeof text, value == 0 ? "0" : "%.1e", value);
  return text;
}

std::string plain(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

std::vector<double> magnitudes_of(const FaultInfo& info) {
  std::vector<double> magnitudes{info.default_magnitude};
  if (info.both_ways) magnitudes.push_back(-info.default_magnitude);
  for (const FaintFault& faint : kFaint) {
    if (faint.kind == info.kind) magnitudes.push_back(faint.magnitude);
  }
  return magnitudes;
}

std::vector<Case> all_cases(const Options& options) {
  std::vector<Case> cases;
  for (const FaultInfo& info : fault_catalogue()) {
    const auto& wanted = options.faults;
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), info.name) == wanted.end()) {
      continue;
    }
    const bool head = trace_point_stage(info.shows_at) == Stage::kHead;
    for (const double magnitude : magnitudes_of(info)) {
      for (const std::string& phase : options.phases) {
        for (const int layer : head ? std::vector<int>{kLayerAfterStack} : options.layers) {
          Fault fault = parse_fault(std::string(info.name) + "@" + phase);
          fault.magnitude = magnitude;
          if (!head) fault.layer = layer;
          cases.push_back({info, fault, {info.shows_at, layer}});
        }
      }
    }
  }
  return cases;
}

/// The model that faults are injected into, its clean runs and its float64 twin.
class Matrix {
 public:
  explicit Matrix(const Options& options)
      : options_(options),
        model_(synth_preset("tiny"), kType),
        engine_(model_, make_backend(options.backend, 2)),
        reference_(model_.file()) {
    const auto tokenizer = Tokenizer::load(model_.file());
    for (const SuitePrompt& prompt : find_suite("b3_66_v2").prompts) {
      if (prompt.name == "p6_len_16") tokens_ = prompt_tokens(prompt, *tokenizer);
    }
    if (tokens_.empty()) throw std::runtime_error("suite b3_66_v2 has no prompt p6_len_16");
    for (const int layer : options.layers) {
      if (layer < 0 || layer >= model_.config().n_layers) {
        throw std::runtime_error("--layers: the model has layers 0 to " +
                                 std::to_string(model_.config().n_layers - 1));
      }
    }
    clean_ = run(Mode::kBatchInvariant, {});
  }

  /// Relative L2 between both sides of the tensor, in exact arithmetic, of the prompt where it is
  /// greater; NaN when not finite.
  double predicted(const Case& one) const {
    const auto [point, layer] = one.at;
    double most = 0;
    for (const auto& tokens : {tokens_, first_token()}) {
      const ReferenceProbe probe =
          reference_.probe(tokens, Mode::kAsDesigned, FaultSet({one.fault}), layer);
      const double apart =
          relative_l2(probe.prefill.at(point, layer), probe.decode.at(point, layer));
      if (!(apart <= most)) most = apart;
      if (std::isnan(most)) break;
    }
    return most;
  }

  Outcome batch_invariant(const Case& one, double predicted_effect) {
    const std::string name = run(Mode::kBatchInvariant, {one.fault});
    const LabVerdict verdict = lab_.verdict(name);
    const Place place = place_of(one.at);
    if (verdict.verdict == "FAIL" && verdict.first_fail == place)
      return diagnosed(one, name, {Outcome::kFound, place.text()});
    const bool no_bit = verdict.verdict == "PASS" && lab_.same_rows(name, clean_, place) &&
                        predicted_effect < kSurelyBits;
    if (no_bit) return {Outcome::kHidden, "changes no bit"};
    return {Outcome::kWrong, wrong(verdict.verdict, verdict.first_fail)};
  }

  Outcome as_designed(const Case& one, double predicted_effect) {
    const std::string name = run(Mode::kAsDesigned, {one.fault});
    const LabVerdict verdict = lab_.verdict(name);
    const Place place = place_of(one.at);
    const LabPair pair = lab_.pair(name, place);
    Outcome outcome{Outcome::kFound, "", pair.rel_l2 ? number(*pair.rel_l2) : "-"};
    if (pair.status == "NONFINITE") outcome.measured = "not finite";

    const double tolerances = predicted_effect / pair.tolerance;  // NaN: not finite
    const bool found = verdict.verdict == "FAIL" && verdict.first_fail == place;
    // a race of any size is seen where the prompt runs again
    const bool races = one.info.kind == FaultKind::kRace;
    if (found && (races || !(tolerances < kSurelyRounding))) {
      outcome.text = place.text() + (pair.status == "NONFINITE" ? " NONFINITE" : "");
      outcome = diagnosed(one, name, std::move(outcome));
    } else if (tolerances < kSurelySeen && !found_before(verdict, one.at) && !found) {
      outcome.kind = Outcome::kHidden;
      outcome.text = "below rounding";
    } else {
      outcome.kind = Outcome::kWrong;
      outcome.text = wrong(verdict.verdict, verdict.first_fail);
    }
    return outcome;
  }

 private:
  /// Traces the default layers and those that faults are injected at.
  std::string run(Mode mode, std::vector<Fault> faults) {
    ProbeOptions options{.forward = engine_.options(mode, std::move(faults)), .selection = {}};
    options.selection.phases.push_back(Phase::kPrefill);  // the rows before tell whose a row is
    options.forward.kv_cache = options_.kv_cache;
    options.decode_steps = 2;
    options.repeats = 1;
    options.selection.layers = {0, 1, 2, 4, 8};
    options.selection.layers.insert(options.selection.layers.end(), options_.layers.begin(),
                                    options_.layers.end());
    std::vector<std::vector<int32_t>> prompts{tokens_, first_token()};
    for (const Fault& fault : options.forward.faults.all()) {
      if (fault.kind != FaultKind::kRopeThetaKept) continue;
      prompts.push_back(tokens_);  // a longer one, after which the first runs again
      prompts.back().push_back(tokens_.back());
    }
    return lab_.probe(engine_, prompts, options);
  }

  /// A prompt of one token: at position 0 many faults show nothing, or something else.
  std::vector<int32_t> first_token() const { return {tokens_.front()}; }

  Outcome diagnosed(const Case& one, const std::string& name, Outcome outcome) {
    const std::vector<std::string> findings = lab_.findings(name);
    const bool rounding = lab_.failing_by_rounding(name, place_of(one.at));
    if (!findings.empty()) outcome.finding = findings.front();
    const std::string part = lab_.part(name);
    outcome.told = tells(one.info.kind, findings, rounding) && !contradicts(outcome.finding, part);
    if (!part.empty()) outcome.finding += ", " + part;
    if (!outcome.told) outcome.finding += " (not right)";
    return outcome;
  }

  static bool found_before(const LabVerdict& verdict, RowKey at) {
    if (!verdict.first_fail) return false;
    const Place& found = *verdict.first_fail;
    return runs_before({*find_trace_point(found.tensor), found.layer}, at);
  }

  static std::string wrong(const std::string& verdict, const std::optional<Place>& found) {
    return "WRONG: " + verdict + (found ? " " + found->text() : "");
  }

  const Options& options_;
  TestModel model_;
  TestEngine engine_;
  Reference reference_;
  std::vector<int32_t> tokens_;
  ProbeLab lab_;
  std::string clean_;  ///< run in batch_invariant
};

/// Clean probes of other models and prompts: every architecture and weight type in turn, both types
/// of the cache, attention scores up to 2000. Returns false alarms.
int false_alarms(int count, const std::string& backend) {
  constexpr std::array kTypes{"q4_k_m", "f32",  "q8_0", "f16",  "q6_k",   "bf16", "q4_0", "q5_k",
                              "q4_k",   "q5_0", "q3_k", "q4_1", "iq4_nl", "q2_k", "q5_1"};
  int alarms = 0;
  ProbeLab lab;
  for (int i = 0; i < count; ++i) {
    const auto seed = static_cast<uint64_t>(1000 + i);
    SynthShape shape = small_shape();
    shape.architecture = architectures()[static_cast<size_t>(i) / 2 % 3].name;
    shape.n_layers = 2 + i % 4;
    shape.n_kv_heads = int64_t{1} << i % 4;
    shape.tied = i % 3 == 0;
    shape.score_deviation =
        std::array{1.5, 1.5, 20.0, 1.5, 100.0, 500.0}[static_cast<size_t>(i) % 6];
    const TestModel model(shape, kTypes[static_cast<size_t>(i) % kTypes.size()], seed);
    const TestEngine engine(model, make_backend(backend, 2));
    // The shorter prompt runs again.
    const std::vector<std::vector<int32_t>> prompts{model.tokens(1 + i % 24, seed),
                                                    model.tokens(3, seed)};
    for (const Mode mode : {Mode::kBatchInvariant, Mode::kAsDesigned, Mode::kKvAligned}) {
      ProbeOptions options{.forward = engine.options(mode), .selection = {}};
      options.sequences = 2;
      if (i / 3 % 2 == 1) options.forward.kv_cache = KvType::kF16;
      const LabVerdict verdict = lab.verdict(lab.probe(engine, prompts, options));
      if (verdict.verdict == "PASS" && verdict.coverage == "complete") continue;
      ++alarms;
      std::cout << "FALSE ALARM: clean probe " << i << " " << mode_name(mode) << ": "
                << verdict.verdict << ", coverage " << verdict.coverage << "\n";
    }
  }
  return alarms;
}

TextTable details(const std::vector<Result>& results) {
  TextTable table;
  table.add({"fault", "magnitude", "phase", "layer", "batch_invariant", "finding", "as_designed",
             "finding", "predicted", "measured"});
  for (const Result& result : results) {
    const Case& one = result.one;
    table.add({std::string(one.info.name), plain(one.fault.magnitude),
               one.fault.decode ? "decode" : "prefill",
               one.at.second < 0 ? "head" : std::to_string(one.at.second), result.strict.text,
               result.strict.finding, result.numeric.text, result.numeric.finding,
               number(result.predicted), result.numeric.measured});
  }
  return table;
}

/// "6 of 6", "4 of 6, 2 change no bit".
std::string count(std::span<const Result> results, Outcome Result::*mode, const char* hidden) {
  const auto of = [&](Outcome::Kind kind) {
    return std::count_if(results.begin(), results.end(),
                         [&](const Result& result) { return (result.*mode).kind == kind; });
  };
  std::string text = std::to_string(of(Outcome::kFound)) + " of " + std::to_string(results.size());
  for (const auto& [kind, name] :
       {std::pair(Outcome::kHidden, hidden), {Outcome::kWrong, "WRONG"}}) {
    if (of(kind) > 0) text += ", " + std::to_string(of(kind)) + " " + name;
  }
  return text;
}

/// Cases that are found, and of those the ones whose first finding is right.
struct Told {
  std::ptrdiff_t found = 0, right = 0;

  std::string text() const { return std::to_string(right) + " of " + std::to_string(found); }
  /// 2 % may be wrong, and one of fewer than fifty.
  bool enough() const { return (found - right) * 50 < found + 50; }
};

Told told(std::span<const Result> results) {
  Told sum;
  for (const Result& result : results) {
    for (const Outcome& outcome : {result.strict, result.numeric}) {
      sum.found += outcome.kind == Outcome::kFound;
      sum.right += outcome.told;
    }
  }
  return sum;
}

/// "1.1e-01 to 1.3e-01", and how many are not finite.
std::string range(std::span<const Result> results) {
  double least = HUGE_VAL, greatest = -HUGE_VAL;
  bool nonfinite = false;
  for (const Result& result : results) {
    nonfinite |= !std::isfinite(result.predicted);
    if (!std::isfinite(result.predicted)) continue;
    least = std::min(least, result.predicted);
    greatest = std::max(greatest, result.predicted);
  }
  if (least > greatest) return "not finite";
  std::string text = number(least);
  if (number(greatest) != text) text += " to " + number(greatest);
  return text + (nonfinite ? " or not finite" : "");
}

/// One line for all places of a fault.
TextTable summary(const std::vector<Result>& results) {
  TextTable table;
  table.add({"fault", "magnitude", "seen at", "batch_invariant", "as_designed", "diagnosis",
             "predicted effect"});
  const std::span<const Result> all(results);
  for (size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    const Case& one = all[begin].one;
    while (end < all.size() && all[end].one.fault.kind == one.fault.kind &&
           all[end].one.fault.magnitude == one.fault.magnitude) {
      ++end;
    }
    const auto group = all.subspan(begin, end - begin);
    table.add({std::string(one.info.name), plain(one.fault.magnitude),
               std::string(trace_point_name(one.at.first)),
               count(group, &Result::strict, "no bit changed"),
               count(group, &Result::numeric, "below rounding"), told(group).text(), range(group)});
  }
  return table;
}

/// Runs and prints all; returns what failed.
int run(const Options& options) {
  const std::vector<Case> cases = all_cases(options);
  Matrix matrix(options);
  std::vector<Result> results;
  for (const Case& one : cases) {
    const double predicted = matrix.predicted(one);
    results.push_back({one, predicted, matrix.batch_invariant(one, predicted),
                       matrix.as_designed(one, predicted)});
  }
  const auto table = options.summary ? summary : details;
  table(results).print();
  const auto passed = std::count_if(results.begin(), results.end(),
                                    [](const Result& result) { return result.passed(); });
  const auto failed = static_cast<std::ptrdiff_t>(results.size()) - passed;
  LateCount late;
  if (options.late != "none") {
    late = late_faults({options.faults, options.layers, synth_preset("tiny"), kType,
                        options.backend, options.late == "all"});
  }
  const int alarms = false_alarms(options.clean, options.backend);
  std::cout << "\nclean probes: " << options.clean << ", false alarms: " << alarms << "\n"
            << passed << " passed, " << failed << " failed\n";
  Told findings = told(results);
  findings.found += late.faults;
  findings.right += late.told;
  std::cout << "right diagnosis: " << findings.text() << (findings.enough() ? "" : ", too few")
            << "\n";
  return static_cast<int>(failed) + late.not_found + alarms + (findings.enough() ? 0 : 1);
}

int main_of(int argc, char** argv) {
  Options options;
  CLI::App app("Injects every known fault and tells where the views find it");
  std::vector<std::string> names;
  for (const FaultInfo& info : fault_catalogue()) names.emplace_back(info.name);
  app.add_option("--faults", options.faults, "Faults (default: all)")
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  app.add_option("--layers", options.layers, "Layers to inject at (default: 0,2,8)")
      ->delimiter(',');
  app.add_option("--phases", options.phases, "decode, prefill (default: both)")
      ->delimiter(',')
      ->check(CLI::IsMember({"decode", "prefill"}));
  app.add_option("--clean", options.clean, "Clean probes (default: 10)")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--late", options.late,
                 "Faults that begin late: none, few (default), or all, at every layer")
      ->check(CLI::IsMember({"none", "few", "all"}));
  app.add_option("--backend", options.backend, "cpu (default) or hip")
      ->check(CLI::IsMember({"cpu", "hip"}));
  std::string kv_cache = "f32";
  app.add_option("--kv-cache", kv_cache, "Of the faults: f32 (default) or f16")
      ->check(CLI::IsMember({"f32", "f16"}));
  app.add_flag("--summary", options.summary, "One line per fault, for all its places");
  CLI11_PARSE(app, argc, argv);
  options.kv_cache = parse_kv_type(kv_cache);
  return run(options) == 0 ? 0 : 1;
}

}  // namespace

}  // namespace greta

int main(int argc, char** argv) {
  try {
    return greta::main_of(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "detection_matrix: " << error.what() << "\n";
    return 2;
  }
}
