#include "ingest/source_store.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "db/experiment.h"
#include "ingest/text.h"

namespace greta {
namespace {

constexpr int64_t kFinalStage = 1'000'000;

template <class T>
void bind_optional(SQLite::Statement& s, int i, const std::optional<T>& value) {
  value ? s.bind(i, *value) : s.bind(i);
}

template <class... Values>
SQLite::Statement prepared(SQLite::Database& db, const char* sql, const Values&... values) {
  SQLite::Statement s(db, sql);
  int i = 0;
  (s.bind(++i, values), ...);
  return s;
}

template <class... Values>
std::optional<int64_t> find_id(SQLite::Database& db, const char* sql, const Values&... values) {
  SQLite::Statement s = prepared(db, sql, values...);
  if (!s.executeStep()) return std::nullopt;
  return s.getColumn(0).getInt64();
}

std::string json_text(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// "final" beats every vN, vN beats vM < N, a name without either comes last.
int64_t stage_of(std::string path) {
  path = text::to_lower(path.substr(path.find_last_of('/') + 1));
  if (path.find("final") != std::string::npos) return kFinalStage;
  for (size_t at = path.find("_v"); at != std::string::npos; at = path.find("_v", at + 1)) {
    size_t end = at + 2;
    while (end < path.size() && end < at + 8 && path[end] >= '0' && path[end] <= '9') ++end;
    if (end > at + 2) return std::stoll(path.substr(at + 2, end - at - 2));
  }
  return 0;
}

/// Key and content of a readout: parameters 1 to 15.
void bind_readout(SQLite::Statement& s, int64_t run_id, int64_t prompt_id, Side side,
                  int64_t name_id, const Readout& r) {
  s.bind(1, run_id);
  s.bind(2, prompt_id);
  s.bind(3, static_cast<int>(side));
  s.bind(4, r.step);
  s.bind(5, r.pos_id);
  s.bind(6, name_id);
  bind_optional(s, 7, r.top1_id);
  bind_optional(s, 8, r.top1_logit);
  bind_optional(s, 9, r.top2_id);
  bind_optional(s, 10, r.top2_logit);
  bind_optional(s, 11, r.gap);
  bind_optional(s, 12, r.vocab);
  bind_optional(s, 13, r.route);
  bind_optional(s, 14, r.cpu_top1_id);
  bind_optional(s, 15, r.cpu_agrees);
}

}  // namespace

std::string text_of(const Readout& r) {
  nlohmann::json json = nlohmann::json::object();
  auto put = [&json](const char* name, const auto& value) {
    if (value) json[name] = *value;
  };
  put("top1_id", r.top1_id);
  put("top1_logit", r.top1_logit);
  put("top2_id", r.top2_id);
  put("top2_logit", r.top2_logit);
  put("gap", r.gap);
  put("vocab", r.vocab);
  put("route", r.route);
  put("cpu_top1_id", r.cpu_top1_id);
  put("cpu_agrees", r.cpu_agrees);
  return json_text(json);
}

int64_t SourceStore::run_id(const RunIdentity& identity) {
  std::string name = identity.run_name();
  if (auto id = find_id(db_, "SELECT id FROM run WHERE name = ?", name)) return *id;
  SQLite::Statement insert(
      db_, "INSERT INTO run(name, experiment, family, variant) VALUES (?, ?, ?, ?)");
  insert.bind(1, name);
  insert.bind(2, identity.experiment);
  if (!identity.family.empty()) insert.bind(3, identity.family);
  if (!identity.variant.empty()) insert.bind(4, identity.variant);
  insert.exec();
  int64_t id = db_.getLastInsertRowid();
  if (!identity.date.empty())
    add_attribute(id, "date", identity.date, AttributeRank::kPath, "", {});
  for (const auto& [dim, value] : identity.dims) {
    add_attribute(id, dim, value, AttributeRank::kPath, "", {});
  }
  return id;
}

int64_t SourceStore::run_id(RunIdentity identity,
                            const std::map<std::string, std::string>& more_dims) {
  for (const auto& [dim, value] : more_dims) identity.dims.try_emplace(dim, value);
  return run_id(identity);
}

std::optional<int64_t> SourceStore::find_source(const SourceKey& key) {
  return find_id(db_,
                 "SELECT id FROM source WHERE run_id = ? AND leg = ? AND prompt = ? AND sha256 = ?",
                 key.run_id, key.leg, key.prompt, key.sha256);
}

std::optional<int64_t> SourceStore::find_content(const std::string& sha256) {
  return find_id(db_, "SELECT id FROM source WHERE sha256 = ? ORDER BY id LIMIT 1", sha256);
}

std::optional<int64_t> SourceStore::find_stored(const SourceKey& key, const std::string& raw_sha256,
                                                int64_t raw_bytes) {
  return find_id(
      db_,
      "SELECT s.id FROM source_location l JOIN source s ON s.id = l.source_id"
      " WHERE l.raw_bytes = ? AND l.raw_sha256 = ? AND s.run_id = ? AND s.leg = ? AND s.prompt = ?",
      raw_bytes, raw_sha256, key.run_id, key.leg, key.prompt);
}

bool SourceStore::any_stored_with_size(int64_t raw_bytes) {
  return find_id(db_, "SELECT 1 FROM source_location WHERE raw_bytes = ? LIMIT 1", raw_bytes)
      .has_value();
}

int64_t SourceStore::add_source(const SourceKey& key, const std::string& shape, int64_t bytes) {
  prepared(
      db_,
      "INSERT INTO source(run_id, leg, prompt, sha256, shape, bytes) VALUES (?, ?, ?, ?, ?, ?)",
      key.run_id, key.leg, key.prompt, key.sha256, shape, bytes)
      .exec();
  return db_.getLastInsertRowid();
}

void SourceStore::finish_source(int64_t source_id, const std::string& sha256,
                                const std::string& shape, int64_t bytes, int64_t lines,
                                int64_t rows, int64_t duplicates, int64_t conflicts) {
  prepared(
      db_,
      "UPDATE source SET sha256 = ?, shape = ?, bytes = ?, lines = ?, rows = ?, duplicates = ?,"
      " conflicts = ? WHERE id = ?",
      sha256, shape, bytes, lines, rows, duplicates, conflicts, source_id)
      .exec();
}

void SourceStore::add_location(int64_t source_id, const std::string& path,
                               const std::string& raw_sha256, int64_t raw_bytes) {
  SQLite::Statement s(db_, "INSERT OR IGNORE INTO source_location VALUES (?, ?, ?, ?)");
  s.bind(1, source_id);
  s.bind(2, path);
  if (!raw_sha256.empty()) {
    s.bind(3, raw_sha256);
    s.bind(4, raw_bytes);
  }
  s.exec();
}

bool SourceStore::has_location(int64_t source_id, const std::string& relative_path) {
  SQLite::Statement paths =
      prepared(db_, "SELECT path FROM source_location WHERE source_id = ?", source_id);
  while (paths.executeStep()) {
    std::string path = paths.getColumn(0).getString();
    if (size_t bang = path.find('!'); bang != std::string::npos) path[bang] = '/';
    if (identify_run(path).relative_path == relative_path) return true;
  }
  return false;
}

bool SourceStore::add_finding(std::optional<int64_t> source_id, const std::string& file,
                              int64_t line, bool is_error, const std::string& reason,
                              std::string_view raw) {
  SQLite::Statement s(
      db_,
      "INSERT OR IGNORE INTO ingest_error(source_id, file, line, severity, reason, raw)"
      " VALUES (?, ?, ?, ?, ?, ?)");
  bind_optional(s, 1, source_id);
  s.bind(2, file);
  s.bind(3, line);
  s.bind(4, is_error ? "error" : "warning");
  s.bind(5, reason);
  if (!raw.empty()) s.bind(6, raw.data(), static_cast<int>(raw.size()));
  return s.exec() == 1;
}

void SourceStore::add_attribute(int64_t run_id, const std::string& dim, const std::string& value,
                                AttributeRank rank, const std::string& leg,
                                std::optional<int64_t> source_id) {
  SQLite::Statement s(db_,
                      "INSERT OR IGNORE INTO attribute(run_id, dim, value, rank, leg, source_id)"
                      " VALUES (?, ?, ?, ?, ?, ?)");
  s.bind(1, run_id);
  s.bind(2, dim);
  s.bind(3, value);
  s.bind(4, static_cast<int>(rank));
  s.bind(5, leg);
  bind_optional(s, 6, source_id);
  if (s.exec() == 0) return;
  prepared(db_,
           "INSERT OR IGNORE INTO meta SELECT 'unsettled/' || experiment, '' FROM run WHERE id = ?",
           run_id)
      .exec();
}

std::set<std::string> SourceStore::take_unsettled() {
  std::set<std::string> experiments;
  SQLite::Statement keys(db_,
                         "DELETE FROM meta WHERE key GLOB 'unsettled/*' RETURNING substr(key, 11)");
  while (keys.executeStep()) experiments.insert(keys.getColumn(0).getString());
  return experiments;
}

int64_t SourceStore::add_json_facts(int64_t source_id, int64_t run, const RunIdentity& identity,
                                    const JsonFacts& facts) {
  AttributeRank rank = facts.kind == "perf" ? AttributeRank::kPerf
                       : facts.kind == "metadata" || facts.kind == "config"
                           ? AttributeRank::kLeaf
                           : AttributeRank::kSummary;
  for (const Attribute& a : facts.attributes)
    add_attribute(run, a.dim, a.value, rank, identity.leg, source_id);
  if (facts.synthetic) add_attribute(run, "synthetic", "1", rank, identity.leg, source_id);
  for (const Metric& m : facts.metrics) {
    add_metric(source_id, run_id(identity, m.dims), m.leg.empty() ? identity.leg : m.leg, "",
               m.name, m.value, m.text);
  }
  for (const ClaimedVerdict& c : facts.claims) {
    add_claim(source_id, run_id(identity, c.dims), 0, "verdict", c.value, c.text);
  }
  return static_cast<int64_t>(facts.metrics.size());
}

void SourceStore::add_table(int64_t source_id, const Table& table) {
  for (const TableRow& row : table.rows) {
    nlohmann::json cells = nlohmann::json::object();
    for (size_t i = 0; i < std::max(row.cells.size(), table.columns.size()); ++i) {
      if (i >= row.cells.size()) break;
      std::string column =
          i < table.columns.size() ? table.columns[i] : "column " + std::to_string(i + 1);
      cells[column] = row.cell(i);
    }
    prepared(db_, "INSERT OR IGNORE INTO document_row VALUES (?, ?, ?, ?)", source_id, row.line,
             table.section, json_text(cells))
        .exec();
  }
}

void SourceStore::add_report(int64_t source_id, int64_t run_id, const std::string& path) {
  prepared(db_, "INSERT OR IGNORE INTO report VALUES (?, ?, ?)", source_id, run_id, stage_of(path))
      .exec();
}

void SourceStore::add_report_pair(int64_t source_id, int64_t run_id, const ReportPair& pair) {
  static constexpr const char* kStatus[] = {"MATCH", "DRIFT", "MISSING"};
  SQLite::Statement s(
      db_, "INSERT OR IGNORE INTO report_pair VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  s.bind(1, source_id);
  s.bind(2, pair.line);
  s.bind(3, run_id);
  s.bind(4, writer_.prompt_id(run_id, pair.prompt));
  bind_optional(s, 5, pair.layer);
  if (!pair.tensor.empty()) s.bind(6, writer_.tensor_id(pair.tensor).name_id);
  bind_optional(s, 7, pair.token_id);
  bind_optional(s, 8, pair.pos_id);
  s.bind(9, kStatus[pair.status]);
  if (!pair.cause.empty()) s.bind(10, pair.cause);
  if (!pair.root_cause.empty()) s.bind(11, pair.root_cause);
  if (!pair.details.empty()) s.bind(12, pair.details);
  s.exec();
}

void SourceStore::add_claim(int64_t source_id, int64_t run_id, int64_t line,
                            const std::string& kind, const std::string& value,
                            const std::string& text) {
  prepared(db_,
           "INSERT INTO report_claim(source_id, run_id, line, kind, value, text) VALUES (?, ?, ?, "
           "?, ?, ?)",
           source_id, run_id, line, kind, value, text)
      .exec();
}

void SourceStore::add_metric(int64_t source_id, int64_t run_id, const std::string& leg,
                             const std::string& prompt, const std::string& name,
                             std::optional<double> value, const std::string& text) {
  SQLite::Statement s(db_,
                      "INSERT INTO run_metric(run_id, leg, prompt, name, value, text, source_id)"
                      " VALUES (?, ?, ?, ?, ?, ?, ?)");
  s.bind(1, run_id);
  s.bind(2, leg);
  s.bind(3, prompt);
  s.bind(4, name);
  bind_optional(s, 5, value);
  s.bind(6, text);
  s.bind(7, source_id);
  s.exec();
}

void SourceStore::add_log_event(int64_t source_id, int64_t run_id, const std::string& prompt,
                                const LogEvent& event, int64_t seq) {
  nlohmann::json fields = nlohmann::json::object();
  for (const auto& [key, value] : event.fields) fields[key] = value;
  SQLite::Statement s(db_, "INSERT INTO log_event VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
  s.bind(1, source_id);
  s.bind(2, event.line);
  s.bind(3, seq);
  s.bind(4, run_id);
  s.bind(5, prompt);
  s.bind(6, event.tag);
  bind_optional(s, 7, event.step);
  s.bind(8, json_text(fields));
  s.bind(9, event.text);
  s.exec();
}

bool SourceStore::add_readout(int64_t source_id, int64_t run_id, int64_t prompt_id, Side side,
                              int64_t name_id, const Readout& r) {
  SQLite::Statement s(
      db_,
      "INSERT OR IGNORE INTO readout VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  bind_readout(s, run_id, prompt_id, side, name_id, r);
  s.bind(16, source_id);
  s.bind(17, r.line);
  if (s.exec() == 1) return true;
  SQLite::Statement same(
      db_,
      "SELECT 1 FROM readout WHERE run_id = ? AND prompt_id = ? AND side = ? AND step = ?"
      " AND pos_id = ? AND name_id = ? AND top1_id IS ? AND top1_logit IS ? AND top2_id IS ?"
      " AND top2_logit IS ? AND gap IS ? AND vocab IS ? AND route IS ? AND cpu_top1_id IS ?"
      " AND cpu_agrees IS ?");
  bind_readout(same, run_id, prompt_id, side, name_id, r);
  return same.executeStep();
}

void SourceStore::add_run_event(int64_t source_id, int64_t run_id, const RunIdentity& identity,
                                const RunEvent& event) {
  if (event.kind == RunEvent::kStart) start_run(source_id, run_id, identity, event);
  for (const auto& [name, value] : event.attributes) {
    add_attribute(run_id, name, value, AttributeRank::kLeaf, "", source_id);
  }
  if (event.kind == RunEvent::kStart || event.kind == RunEvent::kAttributes) return;
  if (event.kind == RunEvent::kPrompt) return add_prompt(run_id, event);
  SQLite::Statement end(
      db_,
      "UPDATE run SET status = CASE WHEN status IN ('unknown', 'running') THEN ?1 ELSE status END,"
      " finished_at = coalesce(finished_at, ?2), tally = NULL WHERE id = ?3");
  end.bind(1, event.complete ? "complete" : "failed");
  if (!event.finished_at.empty()) end.bind(2, event.finished_at);
  end.bind(3, run_id);
  end.exec();
  if (!event.rows) return;
  add_attribute(run_id, kTraceRows, std::to_string(*event.rows), AttributeRank::kLeaf, "",
                source_id);
}

void SourceStore::start_run(int64_t source_id, int64_t run_id, const RunIdentity& identity,
                            const RunEvent& event) {
  SQLite::Statement start(
      db_,
      "UPDATE run SET status = CASE status WHEN 'unknown' THEN 'running' ELSE status END,"
      " started_at = coalesce(started_at, ?1) WHERE id = ?2");
  if (!event.started_at.empty()) start.bind(1, event.started_at);
  start.bind(2, run_id);
  start.exec();
  if (!event.experiment.empty() && event.experiment != identity.experiment) {
    const ExperimentName name = split_experiment(event.experiment);
    prepared(db_, "UPDATE run SET experiment = ?, family = ?, variant = nullif(?, '') WHERE id = ?",
             event.experiment, name.family, name.variant, run_id)
        .exec();
  }
  if (identity.date.empty() && !event.date.empty()) {
    add_attribute(run_id, "date", event.date, AttributeRank::kPath, "", source_id);
  }
}

void SourceStore::add_prompt(int64_t run_id, const RunEvent& event) {
  const int64_t id = writer_.prompt_id(run_id, event.prompt);
  SQLite::Statement facts(
      db_,
      "UPDATE prompt SET n_tokens = coalesce(?, n_tokens), text_sha256 = coalesce(?, text_sha256),"
      " token_ids = coalesce(?, token_ids) WHERE id = ?");
  bind_optional(facts, 1, event.n_tokens);
  bind_optional(facts, 2, event.text_sha256);
  bind_optional(facts, 3, event.token_ids);
  facts.bind(4, id);
  facts.exec();
  SQLite::Statement plan(db_, "INSERT OR IGNORE INTO plan VALUES (?, ?, ?, ?, ?)");
  for (const RunEvent::Planned& row : event.plan) {
    plan.bind(1, run_id);
    plan.bind(2, id);
    plan.bind(3, row.decode ? 1 : 0);
    plan.bind(4, row.layer);
    plan.bind(5, writer_.tensor_id(row.tensor).tensor_id);
    plan.exec();
    plan.reset();
  }
}

bool SourceStore::use_hash_algo(int64_t run_id, const std::string& hash_algo) {
  prepared(db_,
           "UPDATE run SET hash_algo = ?1 WHERE id = ?2 AND hash_algo <> ?1"
           " AND NOT EXISTS (SELECT 1 FROM trace_row WHERE run_id = ?2 AND hash IS NOT NULL)",
           hash_algo, run_id)
      .exec();
  return find_id(db_, "SELECT 1 FROM run WHERE id = ? AND hash_algo = ?", run_id, hash_algo)
      .has_value();
}

int64_t SourceStore::prompt_id(int64_t run_id, const PromptSymbol& symbol) {
  if (!symbol.is_segment) return writer_.prompt_id(run_id, symbol.name);
  if (symbol.n_tokens) {
    SQLite::Statement named = prepared(
        db_,
        "SELECT id FROM prompt WHERE run_id = ? AND n_tokens = ? AND name NOT GLOB 'seg[0-9]*'",
        run_id, *symbol.n_tokens);
    std::vector<int64_t> ids;
    while (named.executeStep()) ids.push_back(named.getColumn(0).getInt64());
    if (ids.size() == 1) return ids.front();
  }
  int64_t id = writer_.prompt_id(run_id, symbol.name);
  if (symbol.n_tokens)
    prepared(db_, "UPDATE prompt SET n_tokens = ? WHERE id = ?", *symbol.n_tokens, id).exec();
  return id;
}

void SourceStore::set_prompt_length(int64_t run_id, const std::string& prompt, int64_t n_tokens) {
  SQLite::Statement segments = prepared(
      db_, "SELECT id FROM prompt WHERE run_id = ? AND n_tokens = ? AND name GLOB 'seg[0-9]*'",
      run_id, n_tokens);
  std::vector<int64_t> ids;
  while (segments.executeStep()) ids.push_back(segments.getColumn(0).getInt64());
  bool is_new =
      !find_id(db_, "SELECT id FROM prompt WHERE run_id = ? AND name = ?", run_id, prompt);
  if (ids.size() == 1 && is_new) {
    prepared(db_, "UPDATE prompt SET name = ? WHERE id = ?", prompt, ids.front()).exec();
    writer_.forget();
    return;
  }
  prepared(db_, "UPDATE prompt SET n_tokens = ? WHERE id = ?", n_tokens,
           writer_.prompt_id(run_id, prompt))
      .exec();
}

void SourceStore::settle(const std::string& experiment) {
  struct RunRow {
    int64_t id;
    std::string name;
  };
  std::vector<RunRow> runs;
  SQLite::Statement list =
      prepared(db_, "SELECT id, name FROM run WHERE experiment = ?", experiment);
  while (list.executeStep())
    runs.push_back({list.getColumn(0).getInt64(), list.getColumn(1).getString()});

  struct Candidate {
    int64_t distance, rank;
    std::string dim, value;
  };
  for (const RunRow& run : runs) {
    std::vector<Candidate> all;
    for (const RunRow& from : runs) {
      if (from.id != run.id && !run.name.starts_with(from.name + "/")) continue;
      int64_t distance =
          std::count(run.name.begin() + static_cast<long>(from.name.size()), run.name.end(), '/');
      SQLite::Statement q = prepared(
          db_, "SELECT dim, value, rank FROM attribute WHERE run_id = ? ORDER BY id", from.id);
      while (q.executeStep()) {
        all.push_back({distance, q.getColumn(2).getInt64(), q.getColumn(0).getString(),
                       q.getColumn(1).getString()});
      }
    }
    std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
      // By value at last, so that the order of ingest does not matter.
      return std::tie(a.rank, a.distance, a.value) < std::tie(b.rank, b.distance, b.value);
    });
    auto best = [&all](std::string_view dim) -> std::optional<std::string> {
      for (const Candidate& c : all) {
        if (c.dim == dim) return c.value;
      }
      return std::nullopt;
    };
    std::optional<std::string> date, mode = best("mode");
    for (const Candidate& c : all) {
      if (c.dim == "date" && c.rank == static_cast<int>(AttributeRank::kPath)) date = c.value;
    }
    if (!date) {  // no date in the path: the earliest day of work that a timestamp proves
      for (const Candidate& c : all) {
        if (c.dim != "timestamp" || c.value.size() < 10 ||
            c.rank == static_cast<int>(AttributeRank::kDocument))
          continue;
        std::string day = c.value.substr(0, 10);
        if (!date || day < *date) date = day;
      }
    }
    if (auto kv = best("kv_aligned"); !mode && kv) {
      mode = *kv == "1" ? "kv_aligned" : *kv == "0" ? "as_designed" : std::optional<std::string>();
    }
    std::optional<int64_t> seed = text::number<int64_t>(best("seed").value_or(""));
    SQLite::Statement update(
        db_,
        "UPDATE run SET date = ?1, commit_sha = ?2, mode = ?3, dtype = ?4, seed = ?5,"
        " synthetic = ?6 WHERE id = ?7 AND (date, commit_sha, mode, dtype, seed, synthetic)"
        " IS NOT (?1, ?2, ?3, ?4, ?5, ?6)");
    bind_optional(update, 1, date);
    bind_optional(update, 2, best("commit"));
    bind_optional(update, 3, mode);
    bind_optional(update, 4, best("dtype"));
    bind_optional(update, 5, seed);
    update.bind(6, best("synthetic") == "1" ? 1 : 0);
    update.bind(7, run.id);
    update.exec();
  }
}

}  // namespace greta
