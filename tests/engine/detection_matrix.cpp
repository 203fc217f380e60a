// Tests the instrument on known bugs: every fault of the catalogue, at every layer and in either
// phase, must be found where it is, and clean runs must be left in peace.
//
//   detection_matrix [--faults a,b] [--layers 0,2,8] [--phases decode,prefill]
//                    [--mode batch_invariant|as_designed] [--type q4_k_m] [--clean N]
//                    [--format text|md]
//
// A case passes in batch_invariant when its tensor and layer are the strict first fail, or when the
// clean run has the same bits there; in as_designed when they are the numeric first fail, which is
// demanded as soon as float64 predicts an effect of 10 tolerances. Exit status 1 when a case fails.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/suite.h"
#include "engine/tokenizer.h"
#include "tests/engine/engine_fixture.h"
#include "tests/engine/probe_lab.h"
#include "tests/engine/reference_f64.h"

namespace greta {
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
  std::string mode, type = "q4_k_m", format = "text";
  int clean = 10;

  bool wants(Mode one) const { return mode.empty() || mode == mode_name(one); }
};

/// A fault at one place, and the tensor that it should be found at.
struct Case {
  const FaultInfo& info;
  Fault fault;
  RowKey at;
};

/// What became of a case in one mode.
struct Outcome {
  bool passed = true;
  std::string text = "-";
  std::string measured = "-";
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
        model_(synth_preset("tiny"), options.type),
        engine_(model_),
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
    for (const Mode mode : {Mode::kBatchInvariant, Mode::kAsDesigned}) {
      if (options.wants(mode)) clean_[mode] = run(mode, {});
    }
  }

  /// Relative L2 between both sides of the tensor, in exact arithmetic; NaN when not finite.
  double predicted(const Case& one) const {
    const auto [point, layer] = one.at;
    const ReferenceProbe probe =
        reference_.probe(tokens_, Mode::kAsDesigned, FaultSet({one.fault}), layer);
    return relative_l2(probe.prefill.at(point, layer), probe.decode.at(point, layer));
  }

  Outcome batch_invariant(const Case& one, double predicted_effect) {
    const std::string name = run(Mode::kBatchInvariant, {one.fault});
    const LabVerdict verdict = lab_.verdict(name);
    const Place place = place_of(one.at);
    if (verdict.verdict == "FAIL" && verdict.first_fail == place) return {true, place.text()};
    const bool no_bit = verdict.verdict == "PASS" &&
                        lab_.same_rows(name, clean_.at(Mode::kBatchInvariant), place) &&
                        predicted_effect < kSurelyBits;
    if (no_bit) return {true, "changes no bit"};
    return {false, wrong(verdict.verdict, verdict.first_fail)};
  }

  Outcome as_designed(const Case& one, double predicted_effect) {
    const std::string name = run(Mode::kAsDesigned, {one.fault});
    const LabVerdict verdict = lab_.verdict(name);
    const Place place = place_of(one.at);
    const LabPair pair = lab_.pair(name, place);
    Outcome outcome{true, "", pair.rel_l2 ? number(*pair.rel_l2) : "-"};
    if (pair.status == "NONFINITE") outcome.measured = "not finite";

    const double tolerances = predicted_effect / pair.tolerance;  // NaN: not finite
    const bool found = verdict.numeric_verdict == "FAIL" && verdict.numeric_first_fail == place;
    if (found && !(tolerances < kSurelyRounding)) {
      outcome.text = place.text() + (pair.status == "NONFINITE" ? " NONFINITE" : "");
    } else if (tolerances < kSurelySeen && !found_before(verdict, one.at) && !found) {
      outcome.text = "below rounding";
    } else {
      outcome.passed = false;
      outcome.text = wrong(verdict.numeric_verdict, verdict.numeric_first_fail);
    }
    return outcome;
  }

 private:
  /// Traces the default layers and those that faults are injected at.
  std::string run(Mode mode, std::vector<Fault> faults) {
    ProbeOptions options{.forward = engine_.options(mode, std::move(faults)), .selection = {}};
    options.selection.layers = {0, 1, 2, 4, 8};
    options.selection.layers.insert(options.selection.layers.end(), options_.layers.begin(),
                                    options_.layers.end());
    return lab_.probe(engine_, tokens_, options);
  }

  static bool found_before(const LabVerdict& verdict, RowKey at) {
    if (!verdict.numeric_first_fail) return false;
    const Place& found = *verdict.numeric_first_fail;
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
  std::map<Mode, std::string> clean_;
};

/// Clean probes of other models and prompts, every weight type in turn; returns false alarms.
int false_alarms(int count) {
  constexpr std::array kTypes{"q4_k_m", "f32",  "q8_0", "f16", "q6_k",
                              "bf16",   "q4_0", "q5_k", "q4_k"};
  int alarms = 0;
  ProbeLab lab;
  for (int i = 0; i < count; ++i) {
    const auto seed = static_cast<uint64_t>(1000 + i);
    SynthShape shape = small_shape();
    shape.n_layers = 2 + i % 4;
    shape.n_kv_heads = int64_t{1} << i % 4;
    shape.tied = i % 3 == 0;
    const TestModel model(shape, kTypes[static_cast<size_t>(i) % kTypes.size()], seed);
    const TestEngine engine(model);
    const std::vector<int32_t> tokens = model.tokens(1 + i % 24, seed);
    for (const Mode mode : {Mode::kBatchInvariant, Mode::kAsDesigned, Mode::kKvAligned}) {
      const LabVerdict verdict = lab.verdict(
          lab.probe(engine, tokens, {.forward = engine.options(mode), .selection = {}}));
      const bool strict = mode == Mode::kBatchInvariant;
      const std::string& judged = strict ? verdict.verdict : verdict.numeric_verdict;
      if (judged == "PASS" && verdict.coverage == "complete") continue;
      ++alarms;
      std::cout << "FALSE ALARM: clean probe " << i << " " << mode_name(mode) << ": " << judged
                << ", coverage " << verdict.coverage << "\n";
    }
  }
  return alarms;
}

class Table {
 public:
  explicit Table(bool markdown) : markdown_(markdown) {}

  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  void print() const {
    std::vector<size_t> widths(rows_.front().size());
    for (const auto& row : rows_) {
      for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    for (size_t r = 0; r < rows_.size(); ++r) {
      print_row(rows_[r], widths, ' ');
      if (r == 0 && markdown_) {
        print_row(std::vector<std::string>(widths.size()), widths, '-');
      }
    }
  }

 private:
  void print_row(const std::vector<std::string>& cells, const std::vector<size_t>& widths,
                 char filler) const {
    std::string line = markdown_ ? "| " : "";
    for (size_t i = 0; i < cells.size(); ++i) {
      line += cells[i] + std::string(widths[i] - cells[i].size(), filler);
      line += markdown_ ? (i + 1 < cells.size() ? " | " : " |") : "  ";
    }
    std::cout << line.substr(0, line.find_last_not_of(' ') + 1) << "\n";
  }

  bool markdown_;
  std::vector<std::vector<std::string>> rows_;
};

/// Runs and prints all; returns what failed.
int run(const Options& options) {
  const std::vector<Case> cases = all_cases(options);
  Matrix matrix(options);
  Table table(options.format == "md");
  table.add({"fault", "magnitude", "phase", "layer", "batch_invariant", "as_designed", "predicted",
             "measured"});
  int passed = 0, failed = 0;
  for (const Case& one : cases) {
    const double predicted = matrix.predicted(one);
    Outcome strict, numeric;
    if (options.wants(Mode::kBatchInvariant)) strict = matrix.batch_invariant(one, predicted);
    if (options.wants(Mode::kAsDesigned)) numeric = matrix.as_designed(one, predicted);
    ++(strict.passed && numeric.passed ? passed : failed);
    table.add({std::string(one.info.name), plain(one.fault.magnitude),
               one.fault.decode ? "decode" : "prefill",
               one.at.second < 0 ? "head" : std::to_string(one.at.second), strict.text,
               numeric.text, number(predicted), numeric.measured});
  }
  table.print();
  const int alarms = false_alarms(options.clean);
  std::cout << "\nclean probes: " << options.clean << ", false alarms: " << alarms << "\n"
            << passed << " passed, " << failed << " failed\n";
  return failed + alarms;
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
  app.add_option("--mode", options.mode, "batch_invariant or as_designed (default: both)")
      ->check(CLI::IsMember({"batch_invariant", "as_designed"}));
  app.add_option("--type", options.type, "Storage of the weights (default: q4_k_m)");
  app.add_option("--clean", options.clean, "Clean probes (default: 10)")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--format", options.format, "text (default) or md")
      ->check(CLI::IsMember({"text", "md"}));
  CLI11_PARSE(app, argc, argv);
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
