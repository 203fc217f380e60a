#include "cli/greta_infer/options.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "cli/greta_infer/environment.h"
#include "common/completion.h"
#include "common/shell_word.h"
#include "common/utc_time.h"
#include "common/utf8.h"
#include "db/database.h"
#include "engine/forward/fault.h"
#include "engine/probe/suite.h"
#include "engine/run/trace_sink.h"

namespace greta {
namespace {

std::string read_all(const std::string& file) {
  if (file == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) {
    throw std::invalid_argument("--prompt-file " + file + " is a directory");
  }
  std::ifstream in(file, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(in), {});
  if (!in.is_open() || in.bad()) {
    throw std::invalid_argument("--prompt-file " + file + " cannot be read");
  }
  return text;
}

bool is_file(const std::string& text) {
  constexpr size_t kLongestPath = 4096;
  if (text.empty() || text.size() > kLongestPath || text.find('\0') != std::string::npos) {
    return false;
  }
  std::error_code error;
  return std::filesystem::is_regular_file(text, error);
}

constexpr int kDefaultLayers[] = {0, 1, 2, 4, 8};

std::vector<int> parse_layers(const std::string& text, const char* source, int64_t n_layers) {
  std::vector<int> layers;
  if (text == "all") return layers;
  const auto one = [&](const std::string& word) {
    const auto layer = parse_number<int>(word, source);
    if (layer < 0 || layer >= n_layers) {
      throw std::invalid_argument(std::string(source) + ": there is no layer " + word +
                                  "; the model has layers 0 to " + std::to_string(n_layers - 1));
    }
    return layer;
  };
  for (const std::string& word : split_words(text)) {
    const size_t dash = word.find('-', 1);  // not the sign of a first number
    const int first = one(word.substr(0, dash));
    const int last = dash == std::string::npos ? first : one(word.substr(dash + 1));
    if (last < first) throw std::invalid_argument(std::string(source) + ": " + word + " is empty");
    for (int layer = first; layer <= last; ++layer) layers.push_back(layer);
  }
  if (layers.empty()) throw std::invalid_argument(std::string(source) + " names no layer");
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  return layers;
}

/// Values of a list of names; `all` (where it is allowed) is an empty list.
template <class T>
std::vector<T> parse_names(const std::string& text, const char* option,
                           std::optional<T> (*find)(std::string_view), std::string_view (*name)(T),
                           int n_names) {
  std::vector<T> values;
  if (text == "all") return values;
  for (const std::string& word : split_words(text)) {
    const std::optional<T> value = find(word);
    if (!value) {
      std::string known;
      for (int i = 0; i < n_names; ++i) {
        known.append(known.empty() ? "" : ", ").append(name(static_cast<T>(i)));
      }
      throw std::invalid_argument(std::string(option) + ": no '" + word + "'; there are " + known);
    }
    values.push_back(*value);
  }
  if (values.empty()) throw std::invalid_argument(std::string(option) + " names nothing");
  return values;
}

/// Names of the first values of an enumeration, for shells.
template <class T>
std::vector<std::string> names_of(std::string_view (*name)(T), int count,
                                  const char* before = nullptr) {
  std::vector<std::string> names;
  if (before != nullptr) names.emplace_back(before);
  for (int i = 0; i < count; ++i) names.emplace_back(name(static_cast<T>(i)));
  return names;
}

std::vector<std::string> fault_names() {
  std::vector<std::string> names;
  for (const FaultInfo& fault : fault_catalogue()) names.emplace_back(fault.name);
  return names;
}

/// "lm_head=dot": those that every machine has.
std::vector<std::string> routes_of_the_cpu() {
  std::vector<std::string> choices;
  const std::unique_ptr<Backend> backend = make_backend("cpu", 1);
  for (int i = 0; i < kOps; ++i) {
    const auto op = static_cast<Op>(i);
    for (const Route route : backend->routes(op)) {
      std::string choice = std::string(op_name(op)) + "=";
      for (const char c : route_name(route))
        choice += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      choices.push_back(std::move(choice));
    }
  }
  return choices;
}

bool is_commit(const std::string& text) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.size() >= 7 && text.size() <= 64 && std::all_of(text.begin(), text.end(), is_digit);
}

/// An experiment is a folder's name in exports and a part of the run's name.
std::string bad_experiment(const std::string& name) {
  const bool ok = !name.empty() && name.front() != '.' && name.front() != '-' &&
                  std::all_of(name.begin(), name.end(), [](unsigned char c) {
                    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
                  });
  return ok ? "" : "an experiment is made of letters, digits, '_', '-' and '.'";
}

}  // namespace

void add_prompt_options(CLI::App& command, PromptArguments& arguments) {
  CLI::Option* text = add_option(command, "-p,--prompt TEXT", arguments.text,
                                 "Text of the prompt as it is: no template of a chat is applied");
  add_option(command, "-f,--prompt-file FILE", arguments.file,
             "File with the prompt, - for standard input; one line end at its end is left out")
      ->excludes(text);
}

void add_tokens_option(CLI::App& command, PromptArguments& arguments) {
  add_option(command, "--tokens IDS", arguments.tokens,
             "Token ids of the prompt instead of its text, as 1,15043; nothing is added")
      ->excludes("--prompt")
      ->excludes("--prompt-file");
}

std::string prompt_text(const PromptArguments& arguments) {
  if (arguments.text) {
    if (is_file(*arguments.text)) {
      std::fprintf(stderr,
                   "greta-infer: warning: --prompt %s names a file, and its name is the prompt; "
                   "its content is --prompt-file %s\n",
                   shell_word(*arguments.text).c_str(), shell_word(*arguments.text).c_str());
    }
    return *arguments.text;
  }
  std::string text = read_all(arguments.file);
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

std::vector<int32_t> parse_token_ids(const std::string& text, int64_t vocab) {
  std::vector<int32_t> ids;
  for (const std::string& word : split_words(text)) {
    const auto id = parse_number<int64_t>(word, "token id");
    if (id < 0 || id >= vocab) {
      throw std::invalid_argument("--tokens: there is no token " + std::to_string(id) +
                                  "; the model has 0 to " + std::to_string(vocab - 1));
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> parts;
  constexpr std::string_view kSeparators = ", \t\n\r";
  for (size_t at = text.find_first_not_of(kSeparators); at != std::string_view::npos;
       at = text.find_first_not_of(kSeparators, at)) {
    const size_t end = std::min(text.find_first_of(kSeparators, at), text.size());
    parts.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return parts;
}

std::string counted(int64_t n, const char* noun) {
  return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

void finish_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    throw std::system_error(errno, std::generic_category(), "standard output");
  }
}

CLI::Validator offers_suites() {
  return offers([] {
    std::vector<std::string> names;
    for (const Suite& suite : suites()) names.emplace_back(suite.name);
    return names;
  });
}

void add_trace_options(CLI::App& command, TraceArguments& arguments) {
  add_option(
      command, "--layers LIST", arguments.layers,
      "Layers to trace, as 0,1,2,4,8 (default: $GRETA_TRACE_LAYERS, else these), 5-7, or all")
      ->group("Tracing");
  add_option(command, "--tensors LIST", arguments.tensors,
             "Trace points, as attn_out,logits, or all")
      ->check(offers_list(names_of<TracePoint>(trace_point_name, kTracePoints, "all")))
      ->group("Tracing");
  add_option(command, "--phases LIST", arguments.phases,
             "Phases to trace: prefill_last, prefill, decode0, decode, or all")
      ->check(offers_list(names_of<Phase>(phase_name, kTracedPhases, "all")))
      ->group("Tracing");
  add_option(command, "--sample N", arguments.sample,
             "Also keep the first N values of every row (none)")
      ->check(CLI::Range(int64_t{0}, static_cast<int64_t>(kMaxTokenValues)))
      ->group("Tracing");
}

TraceSelection resolve_trace(const TraceArguments& arguments, int64_t n_layers,
                             TraceSelection usual) {
  TraceSelection selection = std::move(usual);
  selection.sample_values = arguments.sample;
  const auto variable = arguments.layers ? std::nullopt : environment::text("GRETA_TRACE_LAYERS");
  if (arguments.layers) {
    selection.layers = parse_layers(*arguments.layers, "--layers", n_layers);
  } else if (variable) {
    selection.layers = parse_layers(*variable, "GRETA_TRACE_LAYERS", n_layers);
  } else {
    selection.layers.clear();
    std::copy_if(std::begin(kDefaultLayers), std::end(kDefaultLayers),
                 std::back_inserter(selection.layers), [&](int layer) { return layer < n_layers; });
  }
  if (arguments.tensors) {
    selection.points = parse_names<TracePoint>(*arguments.tensors, "--tensors", find_trace_point,
                                               trace_point_name, kTracePoints);
  }
  if (arguments.phases) {
    selection.phases =
        parse_names<Phase>(*arguments.phases, "--phases", find_phase, phase_name, kTracedPhases);
    if (selection.phases.empty()) {
      for (int i = 0; i < kTracedPhases; ++i) selection.phases.push_back(static_cast<Phase>(i));
    }
  }
  return selection;
}

void add_compute_options(CLI::App& command, ComputeArguments& arguments) {
  add_option(command, "--mode MODE", arguments.mode,
             "as_designed, kv_aligned or batch_invariant (default: $GRETA_B3_66_MODE, else "
             "as_designed)")
      ->check(offers(names_of<Mode>(mode_name, static_cast<int>(Mode::kBatchInvariant) + 1)));
  add_option(command, "--route OP=ROUTE[@PHASE]", arguments.routes,
             "Force a route, as lm_head=dot@decode; probe --list has all. Repeatable")
      ->allow_extra_args(false)
      ->check(offers(routes_of_the_cpu));
  add_option(command, "--kv-cache TYPE", arguments.kv_cache,
             "How the cache stores keys and values: f32, or rounded to f16 (f32)")
      ->check(offers({"f32", "f16"}));
  add_option(command, "--inject FAULT", arguments.faults,
             "Inject a known bug, as rope_theta@decode:layer=2; probe --list has all. "
             "Repeatable")
      ->allow_extra_args(false)
      ->check(offers(fault_names));
  add_option(command, "--seed N", arguments.seed, "Seed (default: $GRETA_SEED)")
      ->check(CLI::NonNegativeNumber);
}

Mode resolve_mode(const ComputeArguments& arguments) {
  if (arguments.mode) return parse_mode(*arguments.mode);
  const auto variable = environment::text("GRETA_B3_66_MODE");
  if (!variable) return Mode::kAsDesigned;
  try {
    return parse_mode(*variable);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument("environment variable GRETA_B3_66_MODE: " +
                                std::string(error.what()));
  }
}

int64_t resolve_seed(const ComputeArguments& arguments) {
  if (arguments.seed) return *arguments.seed;
  return environment::number("GRETA_SEED", 0).value_or(0);
}

ForwardOptions resolve_forward(const ComputeArguments& arguments, Mode mode, const Session& session,
                               int64_t max_batch) {
  std::vector<RouteChoice> choices;
  for (const std::string& text : arguments.routes) choices.push_back(parse_route_choice(text));
  std::vector<Fault> faults;
  const int64_t n_layers = session.model().config().n_layers;
  for (const std::string& text : arguments.faults) {
    faults.push_back(parse_fault(text));
    if (faults.back().layer && *faults.back().layer >= n_layers) {
      throw std::invalid_argument("fault '" + text + "': the model has layers 0 to " +
                                  std::to_string(n_layers - 1));
    }
  }
  return {.mode = mode,
          .routes = choose_routes(session.backend(), mode, choices),
          .faults = FaultSet(std::move(faults)),
          .max_batch = max_batch > 0 ? max_batch : session.backend().usual_batch(),
          .kv_cache = parse_kv_type(arguments.kv_cache)};
}

void add_record_options(CLI::App& command, RecordArguments& arguments) {
  add_option(command, "--db FILE", arguments.database,
             "Database to write to (default: $GRETA_DB, else greta.db)")
      ->group("Record");
  add_option(command, "--experiment NAME", arguments.experiment, "What groups runs")
      ->check(bad_experiment)
      ->group("Record");
  add_option(command, "--date YYYY-MM-DD", arguments.date, "Date of the run (default: today, UTC)")
      ->check([](const std::string& text) {
        return is_day(text) ? "" : "'" + text + "' is not a date as 2026-02-07";
      })
      ->group("Record");
  add_option(command, "--commit SHA", arguments.commit,
             "Commit of the engine, 7 to 64 hex digits (default: of this build)")
      ->check([](const std::string& text) {
        return is_commit(text) ? "" : "'" + text + "' is not a commit, 7 to 64 of 0-9 and a-f";
      })
      ->group("Record");
  add_wait_option(command)->group("Record");
  add_option(command, "--trace-jsonl DIR", arguments.jsonl, "Also write the rows as JSON lines")
      ->group("Record");
}

void add_run_name_options(CLI::App& command, RecordArguments& arguments) {
  CLI::Option* name =
      add_option(command, "--run-name NAME", arguments.run_name,
                 "What the run is called (default: DATE/EXPERIMENT/MODE); refused when a run "
                 "has that name")
          ->group("Record");
  command
      .add_flag("--replace-failed", arguments.replace_failed,
                "Replace the run of --run-name if it failed, or was left running by a process that "
                "is gone")
      ->needs(name)
      ->option_text(" ")
      ->group("Record");
}

RunTargets resolve_targets(const RecordArguments& arguments) {
  RunTargets targets{.database = arguments.database.value_or(""),
                     .jsonl_folder = arguments.jsonl,
                     .delta_file = arguments.delta_out};
  if (!arguments.database) targets.database = environment::text("GRETA_DB").value_or("greta.db");
  check_database_name(targets.database);
  if (targets.delta_file.empty()) {
    targets.delta_file = environment::text("GRETA_TRACE_PREFILL_DECODE_OUT").value_or("");
  }
  return targets;
}

Progress::Progress(std::string label)
    : label_(std::move(label)),
      terminal_(isatty(STDERR_FILENO) == 1),
      next_(Clock::now() + std::chrono::milliseconds(500)) {}

Progress::~Progress() { clear(); }

void Progress::show(std::string_view detail) {
  if (!terminal_) return;
  std::fprintf(stderr, "\r\x1b[K%s", utf8::printable(label_ + ": " + std::string(detail)).c_str());
  visible_ = true;
}

void Progress::show(int64_t done, int64_t total) {
  if (Clock::now() < next_) return;
  next_ = Clock::now() + std::chrono::milliseconds(100);
  show(std::to_string(total > 0 ? 100 * done / total : 100) + " %");
}

void Progress::clear() {
  if (visible_) std::fputs("\r\x1b[K", stderr);
  visible_ = false;
}

}  // namespace greta
