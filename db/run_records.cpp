#include "db/run_records.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <type_traits>

#include "db/judge.h"

namespace greta {
namespace {

void bind_value(SQLite::Statement& s, int i, const std::string& text) {
  text.empty() ? s.bind(i) : s.bind(i, text);
}
template <class T>
void bind_value(SQLite::Statement& s, int i, const std::optional<T>& value) {
  value ? s.bind(i, *value) : s.bind(i);
}

void bind_key(SQLite::Statement& s, const ReadoutRow& r) {
  s.bind(1, r.run_id);
  s.bind(2, r.prompt_id);
  s.bind(3, static_cast<int>(r.side));
  s.bind(4, r.step);
  s.bind(5, r.pos_id);
  s.bind(6, r.name_id);
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
auto said_by(const ReadoutRow& r) {
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

}  // namespace

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

int64_t RunRecords::add_run(const NewRun& run) {
  SQLite::Statement& insert = sql_(
      "INSERT INTO run(name, experiment, family, variant, date, commit_sha, mode, dtype, seed,"
      " hash_algo, status, started_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  insert.bind(1, run.name);
  insert.bind(2, run.experiment);
  bind_value(insert, 3, run.family);
  bind_value(insert, 4, run.variant);
  bind_value(insert, 5, run.date);
  bind_value(insert, 6, run.commit_sha);
  bind_value(insert, 7, run.mode);
  bind_value(insert, 8, run.dtype);
  bind_value(insert, 9, run.seed);
  insert.bind(10, run.hash_algo);
  insert.bind(11, run.status);
  bind_value(insert, 12, run.started_at);
  insert.exec();
  const int64_t id = db_.getLastInsertRowid();
  sql_(kRefreshLineage, id).exec();
  return id;
}

int64_t RunRecords::add_source(const NewSource& source) {
  SQLite::Statement& insert = sql_(
      "INSERT INTO source(run_id, leg, prompt, sha256, shape, bytes) VALUES (?, ?, ?, ?, ?, ?)");
  insert.bind(1, source.run_id);
  insert.bind(2, source.leg);
  insert.bind(3, source.prompt);
  insert.bind(4, source.sha256);
  insert.bind(5, source.shape);
  insert.bind(6, source.bytes);
  insert.exec();
  return db_.getLastInsertRowid();
}

bool RunRecords::add_attribute(const NewAttribute& attribute) {
  SQLite::Statement& insert = sql_(
      "INSERT OR IGNORE INTO attribute(run_id, dim, value, rank, leg, source_id)"
      " VALUES (?, ?, ?, ?, ?, ?)");
  insert.bind(1, attribute.run_id);
  insert.bind(2, attribute.dim);
  insert.bind(3, attribute.value);
  insert.bind(4, static_cast<int>(attribute.rank));
  insert.bind(5, attribute.leg);
  bind_value(insert, 6, attribute.source_id);
  if (insert.exec() == 0) return false;
  if (is_of_lineage(attribute.dim)) sql_(kRefreshLineage, attribute.run_id).exec();
  return true;
}

void RunRecords::finish_run(int64_t run_id, bool complete, const std::string& finished_at) {
  SQLite::Statement& run = sql_("UPDATE run SET status = ?, finished_at = ? WHERE id = ?");
  run.bind(1, complete ? "complete" : "failed");
  run.bind(2, finished_at);
  run.bind(3, run_id);
  run.exec();
}

bool RunRecords::set_prompt(int64_t prompt_id, std::optional<int64_t> n_tokens,
                            const std::optional<std::string>& text_sha256,
                            const std::optional<std::string>& token_ids) {
  const auto bind = [&](SQLite::Statement& statement) {
    bind_value(statement, 1, n_tokens);
    bind_value(statement, 2, text_sha256);
    bind_value(statement, 3, token_ids);
    statement.bind(4, prompt_id);
  };
  SQLite::Statement& other = sql_(
      "SELECT (n_tokens <> ?1 OR text_sha256 <> ?2 OR token_ids <> ?3) IS TRUE FROM prompt"
      " WHERE id = ?4");
  bind(other);
  const bool is_other = other.executeStep() && other.getColumn(0).getInt() != 0;
  other.reset();
  SQLite::Statement& facts = sql_(
      "UPDATE prompt SET n_tokens = coalesce(max(n_tokens, ?1), n_tokens, ?1),"
      " text_sha256 = coalesce(max(text_sha256, ?2), text_sha256, ?2),"
      " token_ids = coalesce(max(token_ids, ?3), token_ids, ?3) WHERE id = ?4");
  bind(facts);
  facts.exec();
  return !is_other;
}

void RunRecords::add_plan(int64_t run_id, int64_t prompt_id, Side side, int64_t layer,
                          int64_t tensor_id) {
  SQLite::Statement& insert = sql_("INSERT OR IGNORE INTO plan VALUES (?, ?, ?, ?, ?)");
  insert.bind(1, run_id);
  insert.bind(2, prompt_id);
  insert.bind(3, static_cast<int>(side));
  insert.bind(4, layer);
  insert.bind(5, tensor_id);
  insert.exec();
}

std::optional<ReadoutRow> RunRecords::add_readout(const ReadoutRow& readout) {
  constexpr int kFirstValue = 7;
  SQLite::Statement& insert = sql_(
      "INSERT OR IGNORE INTO readout VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
      "?)");
  bind_key(insert, readout);
  std::apply(
      [&insert](const auto&... value) {
        int at = kFirstValue;
        (bind_value(insert, at++, value), ...);
      },
      said_by(readout));
  insert.bind(18, readout.source_id);
  insert.bind(19, readout.line);
  if (insert.exec() > 0) return std::nullopt;

  SQLite::Statement& of_key = sql_(
      "SELECT top1_id, top1_logit, top2_id, top2_logit, gap, vocab, route, cpu_top1_id, cpu_agrees,"
      " norm_error, logits_error, source_id, line FROM readout WHERE run_id = ? AND prompt_id = ? "
      "AND side = ? AND step = ?"
      " AND pos_id = ? AND name_id = ?");
  bind_key(of_key, readout);
  if (!of_key.executeStep()) return std::nullopt;
  ReadoutRow there;
  std::apply(
      [&of_key](auto&... value) {
        int at = 0;
        (take(of_key.getColumn(at++), value), ...);
      },
      std::tie(there.top1_id, there.top1_logit, there.top2_id, there.top2_logit, there.gap,
               there.vocab, there.route, there.cpu_top1_id, there.cpu_agrees, there.norm_error,
               there.logits_error));
  there.source_id = of_key.getColumn(11).getInt64();
  there.line = of_key.getColumn(12).getInt64();
  of_key.reset();
  if (said_by(there) == said_by(readout)) return std::nullopt;
  if (said_by(readout) < said_by(there)) return readout;
  SQLite::Statement& drop = sql_(
      "DELETE FROM readout WHERE run_id = ? AND prompt_id = ? AND side = ? AND step = ?"
      " AND pos_id = ? AND name_id = ?");
  bind_key(drop, readout);
  drop.exec();
  add_readout(readout);
  return there;
}

}  // namespace greta
