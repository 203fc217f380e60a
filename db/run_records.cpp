#include "db/run_records.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <tuple>
#include <type_traits>
#include <utility>

#include "db/judge.h"

namespace greta {
namespace {

void in_small_letters(std::string& text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::optional<std::string> null_if_empty(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

template <class T>
void take(const SQLite::Column& column, std::optional<T>& value) {
  if (column.isNull()) return;
  if constexpr (std::is_same_v<T, std::string>) {
    value = column.getString();
  } else if constexpr (std::is_same_v<T, double>) {
    value = column.getDouble();
  } else {
    value = column.getInt64();
  }
}

/// What a readout says, in the order of the table.
template <class Row>
auto said_by(Row& r) {
  return std::tie(r.top1_id, r.top1_logit, r.top2_id, r.top2_logit, r.gap, r.vocab, r.route,
                  r.cpu_top1_id, r.cpu_agrees, r.norm_error, r.logits_error);
}

constexpr const char* kRefreshLineage =
    "INSERT OR REPLACE INTO lineage_member SELECT * FROM run_lineage WHERE run_id = ?";

/// True if the view run_lineage reads attributes of this name.
bool is_of_lineage(const std::string& dim) {
  constexpr const char* kDims[] = {"backend", "model", "model_file", "suite", "kv_cache", "inject"};
  return std::find(std::begin(kDims), std::end(kDims), dim) != std::end(kDims);
}

/// Key of `meta` under which the writer of a run is noted.
std::string process_key(int64_t run_id) { return "writer/" + std::to_string(run_id); }

}  // namespace

std::string free_run_name(SQLite::Database& db, const std::string& name) {
  SQLite::Statement taken(db, "SELECT 1 FROM run WHERE name = ?");
  const auto is_free = [&taken](const std::string& candidate) {
    taken.reset();
    taken.bind(1, candidate);
    return !taken.executeStep();
  };
  if (is_free(name)) return name;
  const size_t end = name.find_last_not_of("0123456789");
  const bool is_numbered = end != std::string::npos && name[end] == '#' && end + 1 < name.size();
  const std::string base = name.substr(0, is_numbered ? end : name.size()) + "#";
  int64_t number = 2;
  while (!is_free(base + std::to_string(number))) ++number;
  return base + std::to_string(number);
}

void refresh_lineage(SQLite::Database& db, int64_t run_id) {
  SQLite::Statement refresh(db, kRefreshLineage);
  refresh.bind(1, run_id);
  refresh.exec();
}

void forget_verdicts_about(SQLite::Database& db, const std::string& about) {
  SQLite::Statement runs(
      db, "SELECT id FROM run WHERE name = ?1 OR name > ?1 || '/' AND name < ?1 || '0'");
  runs.bind(1, about);
  while (runs.executeStep()) forget_verdict(db, runs.getColumn(0).getInt64());
}

void store_noise_floor(SQLite::Database& db, const CalibratedModel& model,
                       std::span<const NoiseFloor> floors, const std::string& measured_at) {
  Statements sql(db);
  for (const NoiseFloor& floor : floors) {
    sql("INSERT OR REPLACE INTO noise_floor(tensor_id, layer, model_sha256, dtype, backend, rel_l2,"
        " gain, pairs, measured_at)"
        " VALUES ((SELECT id FROM tensor WHERE name = ?), ?, ?, ?, ?, ?, ?, ?, ?)",
        floor.tensor, floor.layer, model.model, model.dtype, model.backend, floor.rel_l2,
        floor.gain, floor.pairs, measured_at)
        .exec();
  }
  SQLite::Statement& runs =
      sql("SELECT DISTINCT run_id FROM attribute WHERE value = ?"
          " AND dim IN ('model_root', 'model_sha256')",
          model.model);
  while (runs.executeStep()) forget_verdict(db, runs.getColumn(0).getInt64());
}

void note_run_process(SQLite::Database& db, int64_t run_id) {
  const Process process = this_process();
  Statements sql(db);
  sql("INSERT OR REPLACE INTO meta(key, value) VALUES (?, ?)", process_key(run_id),
      process.host + "\t" + std::to_string(process.pid) + "\t" + process.start)
      .exec();
}

void forget_run_process(SQLite::Database& db, int64_t run_id) {
  Statements sql(db);
  sql("DELETE FROM meta WHERE key = ?1 AND NOT EXISTS"
      " (SELECT 1 FROM run WHERE id = ?2 AND status = 'running')",
      process_key(run_id), run_id)
      .exec();
}

std::optional<Process> process_of_run(SQLite::Database& db, int64_t run_id) {
  SQLite::Statement query(db, "SELECT value FROM meta WHERE key = ?");
  query.bind(1, process_key(run_id));
  if (!query.executeStep()) return std::nullopt;
  const std::string text = query.getColumn(0).getString();
  const size_t pid = text.find('\t'), start = text.find('\t', pid + 1);
  if (pid == std::string::npos || start == std::string::npos) return std::nullopt;
  Process process{text.substr(0, pid), 0, text.substr(start + 1)};
  const auto [end, error] =
      std::from_chars(text.data() + pid + 1, text.data() + start, process.pid);
  if (error != std::errc() || end != text.data() + start || process.pid < 1) return std::nullopt;
  return process;
}

std::string canonical_dtype(std::string_view spelling) {
  std::string text(spelling.substr(spelling.rfind('.') + 1));  // torch.float32
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  in_small_letters(text);
  if (text == "half") return "f16";
  if (text == "float") return "f32";
  if (text == "double") return "f64";
  for (const auto& [name, start] : {std::pair("bfloat", "bf"), std::pair("float", "f")}) {
    if (text.starts_with(name)) return start + text.substr(std::string_view(name).size());
  }
  return text;
}

namespace {

/// One spelling of what a run says of itself, where greta knows others: a dtype, a SHA.
std::string canonical(std::string_view dim, std::string_view value) {
  if (dim == "dtype" || dim == "kv_cache") return canonical_dtype(value);
  std::string text(value);
  if (dim == "commit" && text.find_first_not_of("0123456789abcdefABCDEF") == text.npos) {
    in_small_letters(text);
  }
  return text;
}

std::optional<std::string> canonical(std::string_view dim,
                                     const std::optional<std::string>& value) {
  return value ? std::optional(canonical(dim, std::string_view(*value))) : std::nullopt;
}

}  // namespace

int64_t RunRecords::add_run(const NewRun& run) {
  sql_(
      "INSERT INTO run(name, experiment, family, variant, date, commit_sha, mode, dtype, seed,"
      " hash_algo, status, started_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      run.name, run.experiment, null_if_empty(run.family), null_if_empty(run.variant), run.date,
      canonical("commit", run.commit_sha), run.mode, canonical("dtype", run.dtype), run.seed,
      run.hash_algo, run.status, run.started_at)
      .exec();
  const int64_t id = db_.getLastInsertRowid();
  sql_(kRefreshLineage, id).exec();
  return id;
}

int64_t RunRecords::add_source(const NewSource& source) {
  sql_("INSERT INTO source(run_id, leg, prompt, sha256, shape, bytes) VALUES (?, ?, ?, ?, ?, ?)",
       source.run_id, source.leg, source.prompt, source.sha256, source.shape, source.bytes)
      .exec();
  return db_.getLastInsertRowid();
}

bool RunRecords::add_attribute(const NewAttribute& attribute) {
  SQLite::Statement& insert = sql_(
      "INSERT OR IGNORE INTO attribute(run_id, dim, value, rank, leg, source_id)"
      " VALUES (?, ?, ?, ?, ?, ?)",
      attribute.run_id, attribute.dim, canonical(attribute.dim, std::string_view(attribute.value)),
      static_cast<int>(attribute.rank), attribute.leg, attribute.source_id);
  if (insert.exec() == 0) return false;
  if (is_of_lineage(attribute.dim)) sql_(kRefreshLineage, attribute.run_id).exec();
  return true;
}

void RunRecords::finish_run(int64_t run_id, bool complete, const std::string& finished_at) {
  sql_("UPDATE run SET status = ?, finished_at = ? WHERE id = ?", complete ? "complete" : "failed",
       finished_at, run_id)
      .exec();
}

bool RunRecords::set_prompt(int64_t prompt_id, std::optional<int64_t> n_tokens,
                            const std::optional<std::string>& text_sha256,
                            const std::optional<std::string>& token_ids) {
  const bool is_other = sql_.find_id(
                                "SELECT 1 FROM prompt WHERE id = ?4"
                                " AND (n_tokens <> ?1 OR text_sha256 <> ?2 OR token_ids <> ?3)",
                                n_tokens, text_sha256, token_ids, prompt_id)
                            .has_value();
  sql_(
      "UPDATE prompt SET n_tokens = coalesce(max(n_tokens, ?1), n_tokens, ?1),"
      " text_sha256 = coalesce(max(text_sha256, ?2), text_sha256, ?2),"
      " token_ids = coalesce(max(token_ids, ?3), token_ids, ?3) WHERE id = ?4",
      n_tokens, text_sha256, token_ids, prompt_id)
      .exec();
  return !is_other;
}

void RunRecords::add_plan(int64_t run_id, int64_t prompt_id, Side side, int64_t layer,
                          int64_t tensor_id) {
  sql_("INSERT OR IGNORE INTO plan VALUES (?, ?, ?, ?, ?)", run_id, prompt_id,
       static_cast<int>(side), layer, tensor_id)
      .exec();
}

std::optional<ReadoutRow> RunRecords::add_readout(const ReadoutRow& readout) {
  std::optional<ReadoutRow> there = find_readout(readout);
  if (there && said_by(*there) == said_by(readout)) return std::nullopt;
  if (there && said_by(readout) < said_by(*there)) return readout;
  std::apply(
      [&](const auto&... values) {
        sql_(
            "INSERT OR REPLACE INTO readout"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            readout.run_id, readout.prompt_id, static_cast<int>(readout.side), readout.step,
            readout.pos_id, readout.name_id, values..., readout.source_id, readout.line)
            .exec();
      },
      said_by(readout));
  return there;
}

std::optional<ReadoutRow> RunRecords::find_readout(const ReadoutRow& key) {
  SQLite::Statement& found = sql_(
      "SELECT top1_id, top1_logit, top2_id, top2_logit, gap, vocab, route, cpu_top1_id, cpu_agrees,"
      " norm_error, logits_error, source_id, line FROM readout WHERE run_id = ? AND prompt_id = ?"
      " AND side = ? AND step = ? AND pos_id = ? AND name_id = ?",
      key.run_id, key.prompt_id, static_cast<int>(key.side), key.step, key.pos_id, key.name_id);
  if (!found.executeStep()) return std::nullopt;
  ReadoutRow there;
  int at = 0;
  std::apply([&](auto&... values) { (take(found.getColumn(at++), values), ...); }, said_by(there));
  there.source_id = found.getColumn(at++).getInt64();
  there.line = found.getColumn(at).getInt64();
  found.reset();
  return there;
}

}  // namespace greta
