#include "tests/engine/probe/probe_lab.h"

#include <algorithm>
#include <stdexcept>

#include "db/database.h"
#include "engine/probe/suite.h"
#include "engine/record/run_queue.h"

namespace greta {
namespace {

std::optional<Place> place_at(SQLite::Statement& row, int tensor) {
  if (row.getColumn(tensor).isNull()) return std::nullopt;
  return Place{row.getColumn(tensor).getString(), row.getColumn(tensor + 1).getInt()};
}

/// The statement with its parameters, on its first row; it must have one.
template <class... Values>
void first_row(SQLite::Statement& statement, const Values&... values) {
  statement.reset();
  int index = 0;
  (statement.bind(++index, values), ...);
  if (!statement.executeStep()) throw std::runtime_error("no row: " + statement.getExpandedSQL());
}

}  // namespace

std::string Place::text() const { return tensor + (layer < 0 ? "" : "@" + std::to_string(layer)); }

Place place_of(RowKey key) { return {std::string(trace_point_name(key.first)), key.second}; }

ProbeLab::ProbeLab()
    : database_(folder_ / "lab.db"),
      reader_((open_for_writing(database_), open_for_reading(database_))),
      verdict_(reader_,
               "SELECT verdict, strict_verdict, numeric_verdict, coverage, pairs, pass, tensor,"
               " layer, numeric_tensor, numeric_layer FROM run_verdict WHERE run = ?"),
      pair_(reader_,
            "SELECT status, class, rel_l2, tolerance FROM pair"
            " WHERE run = ? AND tensor = ? AND layer = ? AND status <> 'PREFILL_ONLY'"
            " ORDER BY prompt_id, pos_id LIMIT 1"),
      findings_(reader_, "SELECT finding FROM diagnosis WHERE run = ? ORDER BY ord, finding"),
      part_(reader_,
            "SELECT l.location FROM (SELECT * FROM diagnosis WHERE run = ? ORDER BY ord,"
            " finding LIMIT 1) f JOIN tensor_name m ON m.name = f.tensor JOIN"
            " located_difference l ON l.run_id = f.run_id AND l.prompt_id = f.prompt_id"
            " AND l.pos_id = f.pos_id AND l.layer = f.layer AND l.tensor_id = m.tensor_id"
            " WHERE l.differing * 2 <= l.n OR instr(l.location, '%') > 0"),
      grade_(reader_,
             "SELECT class FROM pair WHERE run = ? AND tensor = ? AND layer = ?"
             " AND status NOT IN ('MATCH', 'PREFILL_ONLY') ORDER BY prompt_id, pos_id LIMIT 1"),
      origin_(reader_,
              "SELECT min(pos_id) FROM pair WHERE run = ?1 AND status <> 'MATCH' AND tensor = ?2"
              " AND layer = ?3 AND pos_id = (SELECT min(pos_id) FROM pair"
              " WHERE run = ?1 AND status <> 'MATCH')"),
      differences_(reader_,
                   "SELECT count(*), sum(status <> 'MATCH') FROM run_diff"
                   " WHERE run_a = ?1 AND run_b = ?2 AND tensor = ?3 AND layer = ?4"
                   " AND (prompt, pos_id) IN (SELECT prompt, pos_id FROM pair WHERE run = ?1"
                   " AND tensor = ?3 AND layer = ?4 AND status NOT LIKE '%_ONLY')") {}

std::string ProbeLab::probe(const TestEngine& engine,
                            const std::vector<std::vector<int32_t>>& prompts,
                            const ProbeOptions& options) {
  RunRecord record{
      .experiment = "lab",
      .date = "2026-01-01",
      .commit_sha = "",
      .mode = std::string(mode_name(options.forward.mode)),
      .name = {},
      .label = {},
      .dtype = engine.backend->arithmetic(options.forward.routes),
      .seed = 1,
      .started_at = "2026-01-01T00:00:00Z",
      .attributes = {{"kv_cache", std::string(kv_type_name(options.forward.kv_cache))}}};
  for (const Fault& fault : options.forward.faults.all()) {
    record.attributes.emplace_back("inject", fault.text());
  }
  RunQueue writer(store_in_database(database_, record));
  std::vector<int64_t> lengths;
  std::vector<ProbePrompt> suite;
  for (const std::vector<int32_t>& tokens : prompts) {
    const std::string name = suite.empty() ? "p" : "p" + std::to_string(suite.size());
    suite.push_back({.name = name, .text_sha256 = "", .tokens = tokens});
    lengths.push_back(std::ssize(tokens));
  }
  for (const size_t number : prompts_to_run_again(lengths)) suite[number].again = true;
  const int64_t n = std::ranges::max(lengths) + options.decode_steps;
  Probe probe(engine.model, engine.weights, *engine.backend, n, options);
  probe.repeat_beyond(writer.tolerances());
  for (const std::span<const ProbePrompt> together : probe.groups(suite))
    probe.run(together, writer);
  probe.run_again(writer);
  writer.end(true);
  return writer.run_name();
}

LabVerdict ProbeLab::verdict(const std::string& run) {
  first_row(verdict_, run);
  LabVerdict result{verdict_.getColumn(0).getString(),
                    verdict_.getColumn(1).getString(),
                    verdict_.getColumn(2).getString(),
                    verdict_.getColumn(3).getString(),
                    verdict_.getColumn(4).getInt64(),
                    verdict_.getColumn(5).getInt64(),
                    place_at(verdict_, 6),
                    place_at(verdict_, 8)};
  verdict_.reset();
  return result;
}

LabPair ProbeLab::pair(const std::string& run, const Place& place) {
  first_row(pair_, run, place.tensor, place.layer);
  LabPair result{pair_.getColumn(0).getString(),
                 pair_.getColumn(1).getString(),
                 {},
                 pair_.getColumn(3).getDouble()};
  if (!pair_.getColumn(2).isNull()) result.rel_l2 = pair_.getColumn(2).getDouble();
  pair_.reset();
  return result;
}

std::vector<std::string> ProbeLab::findings(const std::string& run) {
  findings_.reset();
  findings_.bind(1, run);
  std::vector<std::string> found;
  while (findings_.executeStep()) found.push_back(findings_.getColumn(0).getString());
  findings_.reset();
  return found;
}

std::string ProbeLab::part(const std::string& run) {
  part_.reset();
  part_.bind(1, run);
  std::string text = part_.executeStep() ? part_.getColumn(0).getString() : "";
  part_.reset();
  return text;
}

bool ProbeLab::failing_by_rounding(const std::string& run, const Place& place) {
  grade_.reset();
  grade_.bind(1, run);
  grade_.bind(2, place.tensor);
  grade_.bind(3, place.layer);
  const bool rounding = grade_.executeStep() && grade_.getColumn(0).getString() == "ROUNDING";
  grade_.reset();
  return rounding;
}

std::optional<int64_t> ProbeLab::first_origin(const std::string& run, const Place& place) {
  first_row(origin_, run, place.tensor, place.layer);
  const bool none = origin_.getColumn(0).isNull();
  const int64_t pos = origin_.getColumn(0).getInt64();
  origin_.reset();
  return none ? std::nullopt : std::optional(pos);
}

bool ProbeLab::same_rows(const std::string& run_a, const std::string& run_b, const Place& place) {
  first_row(differences_, run_a, run_b, place.tensor, place.layer);
  const int64_t compared = differences_.getColumn(0).getInt64();
  const int64_t different = differences_.getColumn(1).getInt64();
  differences_.reset();
  if (compared < 2) throw std::runtime_error(run_a + ", " + run_b + ": not two " + place.text());
  return different == 0;
}

}  // namespace greta
