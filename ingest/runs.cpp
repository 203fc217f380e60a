#include "ingest/runs.h"

#include <string_view>
#include <vector>

#include "common/utc_time.h"
#include "db/experiment.h"
#include "db/judge.h"
#include "ingest/text.h"

namespace greta {
namespace {

/// What a source states of a run, or of a directory level above it.
struct Stated {
  int64_t rank;
  std::string dim, value;
};

/// All that is stated of a run, most believed first.
std::vector<Stated> stated_of(SQLite::Statement& q, int64_t run_id) {
  std::vector<Stated> all;
  q.reset();
  q.bind(1, run_id);
  while (q.executeStep()) {
    all.push_back(
        {q.getColumn(2).getInt64(), q.getColumn(0).getString(), q.getColumn(1).getString()});
  }
  return all;
}

std::optional<std::string> most_believed(const std::vector<Stated>& all, std::string_view dim) {
  for (const Stated& stated : all) {
    if (stated.dim == dim) return stated.value;
  }
  return std::nullopt;
}

/// The date of the path, else the earliest day of work that a timestamp proves.
std::optional<std::string> date_of(const std::vector<Stated>& all) {
  std::optional<std::string> of_path, earliest;
  for (const Stated& stated : all) {
    if (stated.dim == "date" && stated.rank == static_cast<int>(AttributeRank::kPath)) {
      of_path = stated.value;
    }
    if (stated.dim != "timestamp" || stated.rank == static_cast<int>(AttributeRank::kDocument)) {
      continue;
    }
    std::string day = stated.value.substr(0, 10);
    if (is_day(day) && (!earliest || day < *earliest)) earliest = std::move(day);
  }
  return of_path ? of_path : earliest;
}

std::optional<std::string> mode_of(const std::vector<Stated>& all) {
  if (auto mode = most_believed(all, "mode")) return mode;
  auto kv_aligned = most_believed(all, "kv_aligned");
  if (kv_aligned == "1") return "kv_aligned";
  if (kv_aligned == "0") return "as_designed";
  return std::nullopt;
}

}  // namespace

std::string Runs::free_name_of(const RunEvent& start) {
  if (start.run.empty()) {
    std::map<std::string, std::string> dims;
    if (!start.mode.empty()) dims["mode"] = start.mode;
    return free_run_name(db_, run_name(start.date, start.experiment, dims));
  }
  return free_run_name(db_, start.run) == start.run ? start.run : "";
}

RunIdentity identity_of(const RunEvent& start, const std::string& name) {
  RunIdentity identity;
  identity.stated_name = name;
  identity.date_segment = identity.date = start.date;
  identity.experiment = start.experiment;
  const ExperimentName parts = split_experiment(start.experiment);
  identity.family = parts.family;
  identity.variant = parts.variant;
  return identity;
}

int64_t Runs::run_id(const RunIdentity& identity) {
  const int64_t id = find_or_add(identity);
  change(id);
  return id;
}

void Runs::change(int64_t run_id) {
  if (ingest_id_) {
    sql_("INSERT OR IGNORE INTO ingest_run(run_id, ingest_id) VALUES (?, ?)", run_id, *ingest_id_)
        .exec();
  }
  forget_verdict(db_, run_id);
}

int64_t Runs::find_or_add(const RunIdentity& identity) {
  std::string name = identity.run_name();
  if (auto id = sql_.find_id("SELECT id FROM run WHERE name = ?", name)) return *id;
  NewRun run;
  run.name = name;
  run.experiment = identity.experiment;
  run.family = identity.family;
  run.variant = identity.variant;
  const int64_t id = records_.add_run(run);
  if (!identity.date.empty() && identity.stated_name.empty()) {  // else its run_start states it
    add_attribute(id, "date", identity.date, AttributeRank::kPath, "", {});
  }
  for (const auto& [dim, value] : identity.dims) {
    add_attribute(id, dim, value, AttributeRank::kPath, "", {});
  }
  return id;
}

int64_t Runs::run_id(RunIdentity identity, const std::map<std::string, std::string>& more_dims) {
  for (const auto& [dim, value] : more_dims) identity.dims.try_emplace(dim, value);
  return run_id(identity);
}

void Runs::add_attribute(int64_t run_id, const std::string& dim, const std::string& value,
                         AttributeRank rank, const std::string& leg,
                         std::optional<int64_t> source_id) {
  if (!records_.add_attribute({run_id, dim, value, rank, leg, source_id})) return;
  sql_("INSERT OR IGNORE INTO meta SELECT 'unsettled/' || experiment, '' FROM run WHERE id = ?",
       run_id)
      .exec();
}

std::set<std::string> Runs::take_unsettled() {
  std::set<std::string> experiments;
  SQLite::Statement& keys =
      sql_("DELETE FROM meta WHERE key GLOB 'unsettled/*' RETURNING substr(key, 11)");
  while (keys.executeStep()) experiments.insert(keys.getColumn(0).getString());
  return experiments;
}

std::string Runs::add_run_event(int64_t source_id, int64_t run_id, const RunIdentity& identity,
                                const RunEvent& event) {
  if (event.kind == RunEvent::kStart) start_run(source_id, run_id, identity, event);
  for (const auto& [name, value] : event.attributes) {
    add_attribute(run_id, name, value, AttributeRank::kLeaf, "", source_id);
  }
  if (event.kind == RunEvent::kAttributes) return "";
  if (event.kind == RunEvent::kPrompt) return add_prompt(run_id, event);
  if (event.kind == RunEvent::kStart) {
    add_occasion(source_id, run_id, "start", event.started_at);
  } else {
    end_run(source_id, run_id, event);
  }
  refresh_status(source_id);
  return "";
}

void Runs::refresh_status(int64_t source_id) {
  static const std::string set =
      std::string(kSetStatus) + "(SELECT run_id FROM run_event WHERE source_id = ?)";
  sql_(set.c_str(), source_id).exec();
}

void Runs::add_occasion(int64_t source_id, int64_t run_id, const char* kind,
                        const std::string& at) {
  sql_(
      "INSERT INTO run_event(source_id, kind, nth, run_id, at) SELECT ?1, ?2, 1 + count(*), ?3,"
      " ?4 FROM run_event WHERE source_id = ?1 AND kind = ?2",
      source_id, kind, run_id, at)
      .exec();
}

void Runs::end_run(int64_t source_id, int64_t run_id, const RunEvent& event) {
  add_occasion(source_id, run_id, event.complete ? "complete" : "failed", event.finished_at);
  if (!event.finished_at.empty()) {
    sql_("UPDATE run SET finished_at = max(coalesce(finished_at, ?1), ?1) WHERE id = ?2",
         event.finished_at, run_id)
        .exec();
  }
  if (!event.rows) return;
  add_attribute(run_id, kTraceRows, std::to_string(*event.rows), AttributeRank::kLeaf, "",
                source_id);
}

void Runs::start_run(int64_t source_id, int64_t run_id, const RunIdentity& identity,
                     const RunEvent& event) {
  SQLite::Statement& start = sql_(
      "UPDATE run SET started_at = min(coalesce(started_at, ?1), coalesce(?1, started_at))"
      " WHERE id = ?2");
  if (!event.started_at.empty()) start.bind(1, event.started_at);
  start.bind(2, run_id);
  start.exec();
  if (!event.experiment.empty() && event.experiment != identity.experiment) {
    const ExperimentName name = split_experiment(event.experiment);
    sql_(
        "UPDATE run SET experiment = ?1, family = ?2, variant = nullif(?3, '') WHERE id = ?4"
        " AND (experiment = ?5 OR experiment > ?1)",
        event.experiment, name.family, name.variant, run_id, identity.experiment)
        .exec();
  }
  refresh_lineage(db_, run_id);
  const auto state = [&](const char* dim, const std::string& value, AttributeRank rank) {
    if (!value.empty()) add_attribute(run_id, dim, value, rank, "", source_id);
  };
  // What it names must be what every other start of the run names (view start_value).
  state("run", event.run, AttributeRank::kLeaf);
  state("experiment", event.experiment, AttributeRank::kLeaf);
  const bool of_path = !identity.date.empty() && identity.stated_name.empty();
  state("date", event.date, of_path ? AttributeRank::kLeaf : AttributeRank::kPath);
}

std::string Runs::add_prompt(int64_t run_id, const RunEvent& event) {
  const int64_t id = writer_.prompt_id(run_id, event.prompt);
  const bool is_same = records_.set_prompt(id, event.n_tokens, event.text_sha256, event.token_ids);
  for (const RunEvent::Planned& row : event.plan) {
    const auto tensor = writer_.tensor_id_of_run(run_id, row.tensor);
    if (!tensor) continue;  // its rows are not taken either, and each is an error
    records_.add_plan(run_id, id, row.decode ? Side::kDecode : Side::kPrefill, row.layer,
                      tensor->tensor_id);
  }
  return is_same ? "" : "prompt " + event.prompt + kIsAnnouncedAsTwo;
}

bool Runs::is_hash_algo(int64_t run_id, const std::string& hash_algo) {
  sql_(
      "UPDATE run SET hash_algo = ?1 WHERE id = ?2 AND hash_algo <> ?1"
      " AND NOT EXISTS (SELECT 1 FROM trace_row WHERE run_id = ?2 AND hash IS NOT NULL)",
      hash_algo, run_id)
      .exec();
  return sql_.find_id("SELECT 1 FROM run WHERE id = ? AND hash_algo = ?", run_id, hash_algo)
      .has_value();
}

bool Runs::may_mix_hashes(int64_t run_id, const std::string& hash_algo) {
  return sql_
      .find_id(
          "SELECT 1 FROM run WHERE id = ?1 AND hash_algo IN ('greta-1', 'fnv-256')"
          " AND ?2 IN ('greta-1', 'fnv-256')",
          run_id, hash_algo)
      .has_value();
}

int64_t Runs::prompt_id(int64_t run_id, const PromptSymbol& symbol) {
  if (!symbol.is_segment) return writer_.prompt_id(run_id, symbol.name);
  if (symbol.n_tokens) {
    SQLite::Statement& named = sql_(
        "SELECT id FROM prompt WHERE run_id = ? AND n_tokens = ? AND name NOT GLOB 'seg[0-9]*'",
        run_id, *symbol.n_tokens);
    std::vector<int64_t> ids;
    while (named.executeStep()) ids.push_back(named.getColumn(0).getInt64());
    if (ids.size() == 1) return ids.front();
  }
  int64_t id = writer_.prompt_id(run_id, symbol.name);
  if (symbol.n_tokens)
    sql_("UPDATE prompt SET n_tokens = max(ifnull(n_tokens, ?1), ?1) WHERE id = ?2",
         *symbol.n_tokens, id)
        .exec();
  return id;
}

void Runs::set_prompt_length(int64_t run_id, const std::string& prompt, int64_t n_tokens) {
  SQLite::Statement& segments =
      sql_("SELECT id FROM prompt WHERE run_id = ? AND n_tokens = ? AND name GLOB 'seg[0-9]*'",
           run_id, n_tokens);
  std::vector<int64_t> ids;
  while (segments.executeStep()) ids.push_back(segments.getColumn(0).getInt64());
  bool is_new =
      !sql_.find_id("SELECT id FROM prompt WHERE run_id = ? AND name = ?", run_id, prompt);
  if (ids.size() == 1 && is_new) {
    sql_("UPDATE prompt SET name = ? WHERE id = ?", prompt, ids.front()).exec();
    writer_.forget();
    return;
  }
  sql_("UPDATE prompt SET n_tokens = max(ifnull(n_tokens, ?1), ?1) WHERE id = ?2", n_tokens,
       writer_.prompt_id(run_id, prompt))
      .exec();
}

namespace {

/// The 64 bits of a seed; the column has those beyond INT64_MAX as a negative number.
std::optional<int64_t> seed_of(const std::string& digits) {
  if (const auto seed = text::number<int64_t>(digits)) return seed;
  const auto seed = text::number<uint64_t>(digits);
  return seed ? std::optional(static_cast<int64_t>(*seed)) : std::nullopt;
}

}  // namespace

void Runs::settle(const std::string& experiment) {
  std::vector<int64_t> runs;
  SQLite::Statement& list = sql_("SELECT id FROM run WHERE experiment = ?", experiment);
  while (list.executeStep()) runs.push_back(list.getColumn(0).getInt64());
  SQLite::Statement& stated =
      sql_("SELECT dim, value, rank FROM stated_attribute WHERE run_id = ? ORDER BY dim, believed");
  for (int64_t run_id : runs) {
    const std::vector<Stated> all = stated_of(stated, run_id);
    const std::optional<int64_t> seed = seed_of(most_believed(all, "seed").value_or(""));
    SQLite::Statement& update = sql_(
        "UPDATE run SET date = ?1, commit_sha = ?2, mode = ?3, dtype = ?4, seed = ?5,"
        " synthetic = ?6 WHERE id = ?7 AND (date, commit_sha, mode, dtype, seed, synthetic)"
        " IS NOT (?1, ?2, ?3, ?4, ?5, ?6)");
    bind_value(update, 1, date_of(all));
    bind_value(update, 2, most_believed(all, "commit"));
    bind_value(update, 3, mode_of(all));
    bind_value(update, 4, most_believed(all, "dtype"));
    bind_value(update, 5, seed);
    update.bind(6, most_believed(all, "synthetic") == "1" ? 1 : 0);
    update.bind(7, run_id);
    if (update.exec() == 0) continue;
    refresh_lineage(db_, run_id);
    forget_verdict(db_, run_id);
  }
}

}  // namespace greta
