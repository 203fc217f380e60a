#include "engine/probe/replay.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cli/greta_infer/commands.h"
#include "cli/greta_infer/environment.h"
#include "cli/greta_infer/model_options.h"
#include "cli/greta_infer/options.h"
#include "cli/greta_infer/probe.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"
#include "common/exit_status.h"
#include "common/utf8.h"
#include "db/database.h"
#include "engine/forward/fault.h"
#include "engine/forward/route.h"
#include "engine/probe/pair_watch.h"
#include "engine/probe/probe.h"
#include "kernels/row_difference.h"

namespace greta {

namespace {

/// A pair of a probe, as the database has it.
struct RecordedPair {
  int64_t pos = 0;
  uint64_t prefill_hash = 0, decode_hash = 0;
  double tolerance = 0;  ///< relative L2 that is rounding; 0 where bits are to be equal
};

/// All that it takes to run a prompt of a probe again.
struct RecordedProbe {
  std::string run;  ///< its name
  std::string model_file, backend, isa;
  std::string model_root, model_sha256;  ///< one of them may be empty
  Mode mode{};
  std::vector<RouteChoice> routes;
  std::vector<Fault> faults;
  int64_t batch = 0;
  KvType kv_cache = KvType::kF32;
  std::vector<ProbePrompt> together;  ///< the prompts computed together, with their decode steps
  size_t which = 0;                   ///< the one of the pair
  RecordedPair pair;
};

/// Values that the engine stated of a run under that name, each once.
std::vector<std::string> attributes(SQLite::Database& db, const Run& run, const std::string& name) {
  Query query(db,
              "SELECT value FROM attribute WHERE run_id = ? AND dim = ? GROUP BY value"
              " ORDER BY min(id)");
  query.bind(1, run.id).bind(2, name);
  std::vector<std::string> values;
  while (query.step()) values.push_back(query.text(0));
  return values;
}

std::string attribute(SQLite::Database& db, const Run& run, const std::string& name) {
  const std::vector<std::string> values = attributes(db, run, name);
  if (values.size() == 1) return values.front();
  throw std::invalid_argument(
      "run " + run.name + (values.empty() ? " does not say its " : " says more than one ") + name +
      ": only what greta-infer probe has recorded, to its end, can run again");
}

/// The same; empty where the run does not say it.
std::string attribute_or_none(SQLite::Database& db, const Run& run, const std::string& name) {
  return attributes(db, run, name).empty() ? "" : attribute(db, run, name);
}

/// qkv=GEMM/DOT wo=DOT: prefill's and decode's where they differ.
std::vector<RouteChoice> parse_routes(const std::string& text) {
  std::vector<RouteChoice> choices;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    at = end + 1;
    const size_t slash = word.find('/');
    const size_t equals = word.find('=');
    if (slash == std::string::npos || equals == std::string::npos) {
      choices.push_back(parse_route_choice(word));
      continue;
    }
    choices.push_back(parse_route_choice(word.substr(0, slash) + "@prefill"));
    choices.push_back(
        parse_route_choice(word.substr(0, equals + 1) + word.substr(slash + 1) + "@decode"));
  }
  return choices;
}

ProbePrompt read_prompt(SQLite::Database& db, const Run& run, int64_t prompt_id) {
  Query query(db,
              "SELECT q.name, ifnull(q.token_ids, ''), (SELECT max(d.pos_id) FROM traced_position d"
              " WHERE d.run_id = q.run_id AND d.prompt_id = q.id AND d.side = 1)"
              " FROM prompt q WHERE q.run_id = ? AND q.id = ?");
  query.bind(1, run.id).bind(2, prompt_id);
  query.step();
  ProbePrompt prompt{query.text(0), "", {}};
  const nlohmann::json ids = nlohmann::json::parse(query.text(1), nullptr, false);
  if (!ids.is_array() || ids.empty()) {
    throw std::invalid_argument("run " + run.name + " does not say the tokens of prompt " +
                                prompt.name);
  }
  for (const nlohmann::json& id : ids) {
    if (!id.is_number_integer()) {
      throw std::invalid_argument("the tokens of prompt " + prompt.name + " are not all numbers");
    }
    prompt.tokens.push_back(id.get<int32_t>());
  }
  const auto last = static_cast<int64_t>(prompt.tokens.size()) - 1;
  prompt.decode_steps = std::max<int64_t>(query.integer(2) - last, 0);
  return prompt;
}

/// The prompts that one was computed with, itself among them, in their order.
std::vector<int64_t> prompts_together(SQLite::Database& db, const Run& run, int64_t prompt_id) {
  Query query(db,
              "SELECT other.id FROM attribute a CROSS JOIN prompt q"
              " JOIN json_each(CASE WHEN json_valid(a.value) THEN a.value ELSE '[]' END) its"
              " JOIN json_each(a.value) name"
              " JOIN prompt other ON other.run_id = a.run_id AND other.name = name.value"
              " WHERE a.run_id = ?1 AND a.dim = 'prefilled_together' AND q.id = ?2"
              " AND its.value = q.name GROUP BY other.id ORDER BY min(name.key)");
  query.bind(1, run.id).bind(2, prompt_id);
  std::vector<int64_t> ids;
  while (query.step()) ids.push_back(query.integer(0));
  if (ids.empty()) ids.push_back(prompt_id);
  return ids;
}

/// The id of the pair's prompt, and the pair.
std::pair<int64_t, RecordedPair> read_pair(SQLite::Database& db, const Run& run,
                                           const std::string& prompt, const PairPlace& place,
                                           std::optional<int64_t> pos) {
  const std::string tensor(trace_point_name(place.point));
  std::string sql =
      "SELECT p.prompt_id, p.pos_id, x.hash, y.hash,"
      " CASE r.mode WHEN 'batch_invariant' THEN 0 ELSE p.tolerance END"
      " FROM pair p JOIN run r ON r.id = p.run_id JOIN tensor t ON t.name = ?3"
      " JOIN trace_row x ON x.run_id = p.run_id AND x.prompt_id = p.prompt_id AND x.side = 0"
      "  AND x.pos_id = p.pos_id AND x.layer = p.layer AND x.tensor_id = t.id AND x.nth = 0"
      " JOIN trace_row y ON y.run_id = p.run_id AND y.prompt_id = p.prompt_id AND y.side = 1"
      "  AND y.pos_id = p.pos_id AND y.layer = p.layer AND y.tensor_id = t.id AND y.nth = 0"
      " WHERE p.run_id = ?1 AND p.layer = ?2 AND p.tensor = ?3";
  if (!prompt.empty()) sql += " AND p.prompt = ?4";
  if (pos) sql += " AND p.pos_id = ?5";
  sql += " ORDER BY p.status = 'MATCH', p.class IS 'ROUNDING', p.pos_id, p.prompt_id LIMIT 1";
  Query query(db, sql);
  query.bind(1, run.id).bind(2, static_cast<int64_t>(place.layer)).bind(3, tensor);
  if (!prompt.empty()) query.bind(4, prompt);
  if (pos) query.bind(5, *pos);
  if (!query.step()) {
    throw std::invalid_argument(
        "run " + run.name + " has no pair of " + tensor +
        (place.layer < 0 ? "" : " in layer " + std::to_string(place.layer)) +
        (prompt.empty() ? "" : " of prompt " + prompt) +
        (pos ? " at position " + std::to_string(*pos) : "") + "; greta-db pairs --run lists them");
  }
  return {query.integer(0),
          {.pos = query.integer(1),
           .prefill_hash = static_cast<uint64_t>(query.integer(2)),
           .decode_hash = static_cast<uint64_t>(query.integer(3)),
           .tolerance = query.cell(4).real}};
}

/// The probe `run`, and of the pairs at `place` the first that fails, else the first, of `prompt`
/// and at `pos` where they are given. Throws UsageError, DatabaseError, SQLite::Exception,
/// std::invalid_argument when no engine of today can have left such a run, or it has no such pair.
RecordedProbe read_probe(const std::filesystem::path& database, const std::string& run,
                         const std::string& prompt, const PairPlace& place,
                         std::optional<int64_t> pos) {
  SQLite::Database db = open_for_reading(database);
  const Run found = resolve_run(db, run);
  const std::string sha256 = attribute_or_none(db, found, "model_sha256");
  const std::string root = sha256.empty() ? attribute(db, found, "model_root")
                                          : attribute_or_none(db, found, "model_root");
  RecordedProbe probe{
      .run = found.name,
      .model_file = attribute(db, found, "model_file"),
      .backend = attribute(db, found, "backend"),
      .isa = attribute_or_none(db, found, "isa"),
      .model_root = root,
      .model_sha256 = sha256,
      .mode = parse_mode(attribute(db, found, "mode")),
      .routes = parse_routes(attribute(db, found, "routes")),
      .faults = {},
      .batch = parse_number<int64_t>(attribute(db, found, "batch"), "the run's batch"),
      .kv_cache = KvType::kF32,
      .together = {},
      .pair = {}};
  const std::string kv_cache = attribute_or_none(db, found, "kv_cache");
  if (!kv_cache.empty()) probe.kv_cache = parse_kv_type(kv_cache);
  for (const std::string& fault : attributes(db, found, "inject")) {
    probe.faults.push_back(parse_fault(fault));
  }
  const auto [prompt_id, pair] = read_pair(db, found, prompt, place, pos);
  for (const int64_t id : prompts_together(db, found, prompt_id)) {
    if (id == prompt_id) probe.which = probe.together.size();
    probe.together.push_back(read_prompt(db, found, id));
  }
  probe.pair = pair;
  return probe;
}

struct ReplayArguments {
  std::string run, at, prompt, model;
  std::optional<std::string> database;
  std::optional<int64_t> pos;
  int threads = 0;
  bool json = false;
};

/// What the rows say.
struct Outcome {
  RowDifference in_run, alone;  ///< decode's row, and the operation's, from prefill's
  RowDifference again;          ///< the operation's on decode's input, from decode's
  bool same_run = false;        ///< both rows have the bits that are recorded
  bool fails = false;           ///< decode's row is beyond rounding
  bool makes_it = false;        ///< so is what the operation makes, alone
  bool as_decoded = false;      ///< that has the bits of decode's row
  bool like_decoded = false;    ///< or differs from it by rounding
  bool comes_again = false;     ///< decode's input gives decode's row but for rounding
};

RowDifference difference(const std::vector<float>& x, const std::vector<float>& y) {
  if (x.size() != y.size()) throw std::runtime_error("both sides left rows of other lengths");
  return row_difference({x.data(), y.data(), std::ssize(x), {}});
}

/// How many values of a row are no numbers.
struct Nonfinite {
  int64_t nan = 0, inf = 0;

  explicit Nonfinite(const std::vector<float>& row)
      : nan(std::count_if(row.begin(), row.end(), [](float value) { return std::isnan(value); })),
        inf(std::count_if(row.begin(), row.end(), [](float value) { return std::isinf(value); })) {}
  bool any() const { return nan + inf > 0; }
  /// "", or ", decode's row has 3 NaN and 2 inf".
  std::string text(const std::string& whose) const {
    if (!any()) return "";
    std::string text = nan > 0 ? std::to_string(nan) + " NaN" : "";
    if (inf > 0) text += (nan > 0 ? " and " : "") + std::to_string(inf) + " inf";
    return ", " + whose + " has " + text;
  }
};

/// True if rows differ by more than rounding; where bits are to be equal, whether they differ.
bool is_beyond(const std::vector<float>& x, const std::vector<float>& y, double tolerance) {
  const RowDifference apart = difference(x, y);
  if (apart.differing == 0) return false;
  return Nonfinite(x).any() || Nonfinite(y).any() ||
         !(apart.rel_l2() <= tolerance && tolerance > 0);
}

Outcome judge(const Replayed& rows, const RecordedPair& pair) {
  Outcome outcome{difference(rows.prefill.sample, rows.decode.sample),
                  difference(rows.prefill.sample, rows.alone),
                  difference(rows.decode.sample, rows.again)};
  outcome.same_run = rows.prefill.fingerprint.hash == pair.prefill_hash &&
                     rows.decode.fingerprint.hash == pair.decode_hash;
  outcome.fails = is_beyond(rows.prefill.sample, rows.decode.sample, pair.tolerance);
  outcome.makes_it = is_beyond(rows.prefill.sample, rows.alone, pair.tolerance);
  outcome.as_decoded = difference(rows.decode.sample, rows.alone).differing == 0;
  outcome.like_decoded = !is_beyond(rows.decode.sample, rows.alone, pair.tolerance);
  outcome.comes_again = !is_beyond(rows.decode.sample, rows.again, pair.tolerance);
  return outcome;
}

std::string conclusion(const Outcome& outcome) {
  if (!outcome.same_run) return "the run came out otherwise: nothing can be said";
  if (outcome.makes_it) return "the difference arises in this operation";
  if (!outcome.fails) return "there is no difference beyond rounding";
  if (outcome.comes_again) return "the difference comes with the input";
  return "this operation alone is right on this input; the call is wrong (buffer, residual, order)";
}

/// 1 where the operation or its call makes a difference, as a verdict that fails.
ExitStatus status_of(const Outcome& outcome) {
  if (!outcome.same_run) return kExitNoVerdict;
  return outcome.makes_it || (outcome.fails && !outcome.comes_again) ? kExitFail : kExitDone;
}

std::string distance_text(const RowDifference& one, const RecordedPair& pair, bool beyond) {
  if (one.differing == 0) return "equal, bit for bit";
  char text[160];
  std::snprintf(text, sizeof text, "%lld of %lld values differ, rel_l2 %.3g%s",
                static_cast<long long>(one.differing), static_cast<long long>(one.n), one.rel_l2(),
                beyond               ? ", beyond rounding"
                : pair.tolerance > 0 ? ", rounding"
                                     : "");
  return text;
}

void print_text(const RecordedProbe& probe, const PairPlace& place, const Replayed& rows,
                const Outcome& outcome, const RecordedPair& pair) {
  std::string inputs;
  for (const TracePoint input : inputs_of(place.point)) {
    inputs.append(inputs.empty() ? "" : " and ").append(trace_point_name(input));
  }
  const std::string& route = rows.decode.route;
  std::printf("replay   %s%s, prompt %s, position %lld\n",
              std::string(trace_point_name(place.point)).c_str(),
              place.layer < 0 ? "" : (" of layer " + std::to_string(place.layer)).c_str(),
              utf8::printable(probe.together[probe.which].name).c_str(),
              static_cast<long long>(place.pos));
  std::printf("input    prefill's %s%s%s\n", inputs.empty() ? "token" : inputs.c_str(),
              route.empty() ? "" : ", by decode's route ", route.c_str());
  const auto print = [&](const char* line, const RowDifference& one, bool beyond,
                         const std::string& nonfinite, const char* from) {
    std::printf("%-8s %s%s (%s)\n", line, distance_text(one, pair, beyond).c_str(),
                nonfinite.c_str(), from);
  };
  print("decode", outcome.in_run, outcome.fails,
        Nonfinite(rows.prefill.sample).text("prefill's row") +
            Nonfinite(rows.decode.sample).text("decode's"),
        "in the run, from prefill's row");
  print("alone", outcome.alone, outcome.makes_it, Nonfinite(rows.alone).text("it"),
        "from prefill's row");
  std::printf("         %s\n", outcome.as_decoded     ? "has the bits of decode's row"
                               : outcome.like_decoded ? "is decode's row but for rounding"
                                                      : "is not decode's row");
  print("again", outcome.again, !outcome.comes_again, Nonfinite(rows.again).text("it"),
        "on decode's own input, from decode's row");
  std::printf("so       %s\n", conclusion(outcome).c_str());
}

/// row: the later of the two.
nlohmann::json json_of(const RowDifference& one, const std::vector<float>& row, bool beyond) {
  const Nonfinite nonfinite(row);
  const double rel_l2 = one.rel_l2();
  return {{"differing", one.differing},
          {"rel_l2", std::isfinite(rel_l2) ? nlohmann::json(rel_l2) : nlohmann::json()},
          {"max_abs", std::isfinite(one.max_abs) ? nlohmann::json(one.max_abs) : nlohmann::json()},
          {"nan", nonfinite.nan},
          {"inf", nonfinite.inf},
          {"beyond_rounding", beyond}};
}

void print_json(const RecordedProbe& probe, const PairPlace& place, const Replayed& rows,
                const Outcome& outcome, const RecordedPair&) {
  const std::string& route = rows.decode.route;
  const Nonfinite prefill(rows.prefill.sample);
  nlohmann::json inputs = nlohmann::json::array();
  for (const TracePoint input : inputs_of(place.point)) inputs.push_back(trace_point_name(input));
  const nlohmann::json json{{"run", probe.run},
                            {"prompt", probe.together[probe.which].name},
                            {"layer", place.layer},
                            {"tensor", trace_point_name(place.point)},
                            {"pos_id", place.pos},
                            {"inputs", inputs},
                            {"route", route.empty() ? nlohmann::json() : nlohmann::json(route)},
                            {"n", outcome.alone.n},
                            {"prefill", {{"nan", prefill.nan}, {"inf", prefill.inf}}},
                            {"decode", json_of(outcome.in_run, rows.decode.sample, outcome.fails)},
                            {"alone", json_of(outcome.alone, rows.alone, outcome.makes_it)},
                            {"again", json_of(outcome.again, rows.again, !outcome.comes_again)},
                            {"as_recorded", outcome.same_run},
                            {"reproduces_decode", outcome.like_decoded},
                            {"bits_of_decode", outcome.as_decoded},
                            {"conclusion", conclusion(outcome)}};
  const auto replace = nlohmann::json::error_handler_t::replace;
  std::printf("%s\n", json.dump(-1, ' ', false, replace).c_str());
}

/// LAYER:TENSOR, or the name alone of what has no layer.
PairPlace parse_place(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string name = colon == std::string::npos ? text : text.substr(colon + 1);
  const std::optional<TracePoint> point = find_trace_point(name);
  if (!point) {
    throw std::invalid_argument("--at: there is no tensor '" + name +
                                "'; greta-infer probe --list has all");
  }
  PairPlace place{*point, 0, -1};
  const Stage stage = trace_point_stage(*point);
  if (stage == Stage::kHead) place.layer = kLayerAfterStack;
  if (colon == std::string::npos) {
    if (stage == Stage::kLayer) {
      throw std::invalid_argument("--at: which layer? As 3:" + name);
    }
    return place;
  }
  place.layer = parse_number<int>(text.substr(0, colon), "--at LAYER:TENSOR, as 3:attn_out: layer");
  return place;
}

/// Throws std::invalid_argument unless the session's model is the one that the run had.
void check_model(const RecordedProbe& probe, const std::string& file, Session& session) {
  const ModelDigests& digests = model_digests(session);
  const bool by_root = !probe.model_root.empty();
  const std::string& recorded = by_root ? probe.model_root : probe.model_sha256;
  const std::string& found = by_root ? digests.root : digests.file_sha256;
  if (found == recorded) return;
  throw std::invalid_argument("the model of run " + probe.run + " has the " +
                              (by_root ? "root " : "SHA-256 ") + recorded + ", that of " + file +
                              " is " + found + ": pass --model with the file that it ran");
}

/// The session of the run.
std::unique_ptr<Session> open_same(const ReplayArguments& arguments, const RecordedProbe& probe) {
  ModelArguments model;
  model.file = arguments.model.empty() ? probe.model_file : arguments.model;
  model.backend = probe.backend;
  model.threads = arguments.threads;
  model.isa = probe.isa;
  model.sha256 = probe.model_root.empty();
  if (model.file.empty()) throw std::invalid_argument("the run names no model: pass --model FILE");
  std::unique_ptr<Session> session = open_session(model, {.digest = true});
  check_model(probe, model.file, *session);
  return session;
}

int replay_run(const ReplayArguments& arguments) {
  PairPlace place = parse_place(arguments.at);
  inputs_of(place.point);  // refuses what no operation makes
  const std::string database =
      arguments.database.value_or(environment::text("GRETA_DB").value_or("greta.db"));
  const RecordedProbe probe =
      read_probe(database, arguments.run, arguments.prompt, place, arguments.pos);
  const RecordedPair& pair = probe.pair;
  place.pos = pair.pos;
  const std::unique_ptr<Session> session = open_same(arguments, probe);
  ProbeOptions options{
      .forward = {.mode = probe.mode,
                  .routes = choose_routes(session->backend(), probe.mode, probe.routes),
                  .faults = FaultSet(probe.faults),
                  .max_batch = probe.batch,
                  .kv_cache = probe.kv_cache},
      .selection = {},
      .n_threads = session->n_threads()};
  const Replayed rows = replay(session->model(), session->weights(), session->backend(),
                               std::move(options), probe.together, probe.which, place);
  const Outcome outcome = judge(rows, pair);
  (arguments.json ? print_json : print_text)(probe, place, rows, outcome, pair);
  finish_output();
  return status_of(outcome);
}

}  // namespace

void add_infer_replay(CLI::App& app, Infer& infer) {
  CLI::App* command = app.add_subcommand(
      "replay",
      "Runs one operation of decode on the input that prefill's had (exit status 1 if the "
      "difference arises there)");
  auto arguments = std::make_shared<ReplayArguments>();
  command->add_option("--run", arguments->run, "A probe in the database, or a part of its name")
      ->required()
      ->option_text("RUN");
  command->add_option("--at", arguments->at, "What the operation makes, as 3:attn_out or logits")
      ->required()
      ->option_text("LAYER:TENSOR");
  command
      ->add_option("--prompt", arguments->prompt,
                   "Prompt of the run (default: the first that fails there)")
      ->option_text("NAME");
  command->add_option("--pos", arguments->pos, "Position (default: the first that fails there)")
      ->check(CLI::NonNegativeNumber)
      ->option_text("N");
  command
      ->add_option("-m,--model", arguments->model,
                   "The model that the run had (default: its file name, in this folder)")
      ->option_text("FILE");
  command->add_option("--threads", arguments->threads, "CPU threads (default: one per core)")
      ->check(CLI::Range(1, 1024))
      ->option_text("N");
  command
      ->add_option("--db", arguments->database,
                   "Database of the run (default: $GRETA_DB, else greta.db)")
      ->option_text("FILE");
  command->add_flag("--json", arguments->json, "One JSON object");
  command->callback(
      [&infer, arguments] { infer.action = [arguments] { return replay_run(*arguments); }; });
}

}  // namespace greta
