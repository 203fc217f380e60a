#include "cli/greta_infer/recorded_probe.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"
#include "db/database.h"

namespace greta {
namespace {

/// What the engine said of a run by that name, every value once.
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

int64_t whole_number(const std::string& text, const std::string& what) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) {
    throw std::invalid_argument("the run's " + what + " is '" + text + "'");
  }
  return value;
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
  sql += " ORDER BY p.status = 'MATCH', p.class IS 'ROUNDING', p.prompt, p.pos_id LIMIT 1";
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

}  // namespace

RecordedProbe read_probe(const std::filesystem::path& database, const std::string& run,
                         const std::string& prompt, const PairPlace& place,
                         std::optional<int64_t> pos) {
  SQLite::Database db = open_for_reading(database);
  const Run found = resolve_run(db, run);
  const std::string sha256 = attribute_or_none(db, found, "model_sha256");
  const std::string root = sha256.empty() ? attribute(db, found, "model_root")
                                          : attribute_or_none(db, found, "model_root");
  RecordedProbe probe{.run = found.name,
                      .model_file = attribute(db, found, "model_file"),
                      .backend = attribute(db, found, "backend"),
                      .model_root = root,
                      .model_sha256 = sha256,
                      .mode = parse_mode(attribute(db, found, "mode")),
                      .routes = parse_routes(attribute(db, found, "routes")),
                      .faults = {},
                      .batch = whole_number(attribute(db, found, "batch"), "batch"),
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

}  // namespace greta
