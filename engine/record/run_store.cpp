#include "engine/record/run_store.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "db/database.h"
#include "db/experiment.h"

namespace greta {
namespace {

constexpr size_t kMaxContextBytes = 16u << 20;
constexpr int64_t kEngineRank = 0;  // nobody knows better

template <class T>
void bind_or_null(SQLite::Statement& statement, int index, const std::optional<T>& value) {
  value ? statement.bind(index, *value) : statement.bind(index);
}
void bind_or_null(SQLite::Statement& statement, int index, const std::string& text) {
  text.empty() ? statement.bind(index) : statement.bind(index, text);
}

/// Identity of one execution of an engine, in the form of a content's SHA-256.
std::string new_identity() {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::random_device random;
  std::string text;
  while (text.size() < 64) {
    for (unsigned word = random(), i = 0; i < 8; ++i, word >>= 4) text += kDigits[word & 15];
  }
  return text;
}

std::optional<double> finite(double value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> token(int32_t id) {
  return id < 0 ? std::nullopt : std::optional<int64_t>(id);
}

}  // namespace

RunStore::RunStore(SQLite::Database& db, const RunRecord& run) : db_(db), writer_(db) {
  run_name_ = free_run_name(db, base_run_name(run));
  const ExperimentName name = split_experiment(run.experiment);
  SQLite::Statement insert(
      db_,
      "INSERT INTO run(name, experiment, family, variant, date, commit_sha, mode,"
      " dtype, seed, hash_algo, status, started_at)"
      " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'greta-1', 'running', ?)");
  insert.bind(1, run_name_);
  insert.bind(2, run.experiment);
  insert.bind(3, name.family);
  bind_or_null(insert, 4, name.variant);
  insert.bind(5, run.date);
  bind_or_null(insert, 6, run.commit_sha);
  bind_or_null(insert, 7, run.mode);
  bind_or_null(insert, 8, run.dtype);
  insert.bind(9, run.seed);
  bind_or_null(insert, 10, run.started_at);
  insert.exec();
  run_id_ = db_.getLastInsertRowid();
  SQLite::Statement source(
      db_, "INSERT INTO source(run_id, sha256, shape, bytes) VALUES (?, ?, 'engine', 0)");
  source.bind(1, run_id_);
  source.bind(2, new_identity());
  source.exec();
  source_id_ = db_.getLastInsertRowid();
  add_attributes(run);
  for (int i = 0; i < kTracePoints; ++i) {
    tensors_[static_cast<size_t>(i)] =
        writer_.tensor_id(trace_point_name(static_cast<TracePoint>(i)));
  }
  for (size_t i = 0; i < phases_.size(); ++i) {
    phases_[i] = writer_.phase_id(phase_name(static_cast<Phase>(i)));
  }
}

// What `run` has in columns is an attribute too: an ingest of more about the same experiment
// settles the columns anew from the attributes.
void RunStore::add_attributes(const RunRecord& run) {
  add_attribute("date", run.date);
  add_attribute("commit", run.commit_sha);
  add_attribute("mode", run.mode);
  add_attribute("dtype", run.dtype);
  add_attribute("seed", std::to_string(run.seed));
  for (const auto& [name, value] : run.attributes) add_attribute(name, value);
}

void RunStore::add_attribute(const std::string& name, const std::string& value) {
  if (value.empty()) return;
  SQLite::Statement insert(db_,
                           "INSERT OR IGNORE INTO attribute(run_id, dim, value, rank, source_id)"
                           " VALUES (?, ?, ?, ?, ?)");
  insert.bind(1, run_id_);
  insert.bind(2, name);
  insert.bind(3, value);
  insert.bind(4, kEngineRank);
  insert.bind(5, source_id_);
  insert.exec();
}

void RunStore::add_prompt(const PromptRecord& prompt) {
  prompt_id_ = writer_.prompt_id(run_id_, prompt.name);
  SQLite::Statement facts(
      db_, "UPDATE prompt SET n_tokens = ?, text_sha256 = ?, token_ids = ? WHERE id = ?");
  facts.bind(1, static_cast<int64_t>(prompt.token_ids.size()));
  bind_or_null(facts, 2, prompt.text_sha256);
  facts.bind(3, nlohmann::json(prompt.token_ids).dump());
  facts.bind(4, prompt_id_);
  facts.exec();
  SQLite::Statement plan(db_, "INSERT OR IGNORE INTO plan VALUES (?, ?, ?, ?, ?)");
  for (const PlannedRow& row : prompt.plan) {
    plan.bind(1, run_id_);
    plan.bind(2, prompt_id_);
    plan.bind(3, row.decode ? 1 : 0);
    plan.bind(4, row.layer);
    plan.bind(5, tensors_[static_cast<size_t>(row.point)].tensor_id);
    plan.exec();
    plan.reset();
  }
}

TraceRow RunStore::row_of(const TraceRecord& record) {
  const Fingerprint& f = record.fingerprint;
  const PhaseId& phase = phases_[static_cast<size_t>(record.phase)];
  const TensorId& tensor = tensors_[static_cast<size_t>(record.point)];
  TraceRow row;
  row.run_id = run_id_;
  row.prompt_id = prompt_id_;
  row.side = phase.side;
  row.phase_id = phase.id;
  row.pos_id = record.pos_id;
  row.layer = record.layer;
  row.tensor_id = tensor.tensor_id;
  row.name_id = tensor.name_id;
  row.step = record.step;
  row.token_id = record.token_id;
  row.logical_tok_idx = record.pos_id;
  row.n = static_cast<int64_t>(f.n);
  row.hash = f.hash;
  row.min = finite(static_cast<double>(f.min));
  row.max = finite(static_cast<double>(f.max));
  row.mean = finite(f.mean);
  row.abs_sum = f.abs_sum;
  row.nan = static_cast<int64_t>(f.nan);
  row.inf = static_cast<int64_t>(f.inf);
  row.nz_count = static_cast<int64_t>(f.nz_count);
  row.context_id = context_id(record);
  row.source_id = source_id_;
  row.line = ++rows_;
  row.sample = record.sample;
  return row;
}

void RunStore::add_rows(std::span<const TraceRecord> records) {
  trace_rows_.clear();
  sketches_.clear();
  sketches_.reserve(records.size());  // rows point into it
  for (const TraceRecord& record : records) {
    RowSketch& sketch = sketches_.emplace_back();
    sketch.n = static_cast<int64_t>(record.fingerprint.n);
    sketch.sum_sq = record.fingerprint.sum_sq;
    sketch.bucket = record.fingerprint.sketch;
    trace_rows_.push_back(row_of(record));
    trace_rows_.back().sketch = &sketch;
  }
  const WriteCounts counts = writer_.write(trace_rows_);
  SQLite::Statement update(db_,
                           "UPDATE source SET lines = ?1, rows = ?1, duplicates = duplicates + ?2,"
                           " conflicts = conflicts + ?3 WHERE id = ?4");
  update.bind(1, rows_);
  update.bind(2, counts.duplicates);
  update.bind(3, static_cast<int64_t>(counts.conflict_lines.size()));
  update.bind(4, source_id_);
  update.exec();
}

/// Rows of a batch share all of these but `extra`, so nearly all are found.
int64_t RunStore::context_id(const TraceRecord& record) {
  std::string& key = context_key_;
  key.assign(1, record.route ? static_cast<char>(*record.route) : '\xff');
  const int64_t numbers[] = {record.seq_len, record.token_index, tokens_total(record)};
  key.append(reinterpret_cast<const char*>(numbers), sizeof numbers);
  key += record.extra;
  if (auto found = contexts_.find(key); found != contexts_.end()) return found->second;
  RowContext context;
  if (record.route) context.route = std::string(route_name(*record.route));
  context.seq_len = record.seq_len;
  context.token_index = record.token_index;
  context.tokens_total = tokens_total(record);
  if (!record.extra.empty()) context.extra = record.extra;
  if (context_bytes_ > kMaxContextBytes) {  // then stored again: harmless
    contexts_.clear();
    context_bytes_ = 0;
  }
  context_bytes_ += key.size();
  return contexts_[key] = writer_.add_context(context);
}

void RunStore::add_readout(const ReadoutRecord& r) {
  SQLite::Statement insert(
      db_,
      "INSERT OR IGNORE INTO readout VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  const auto logit = [](int32_t id, float value) {
    return id < 0 ? std::nullopt : finite(static_cast<double>(value));
  };
  insert.bind(1, run_id_);
  insert.bind(2, prompt_id_);
  insert.bind(3, static_cast<int>(phases_[static_cast<size_t>(r.phase)].side));
  insert.bind(4, r.step);
  insert.bind(5, r.pos_id);
  insert.bind(6, tensors_[static_cast<size_t>(TracePoint::kLogits)].name_id);
  bind_or_null(insert, 7, token(r.top1_id));
  bind_or_null(insert, 8, logit(r.top1_id, r.top1_logit));
  bind_or_null(insert, 9, token(r.top2_id));
  bind_or_null(insert, 10, logit(r.top2_id, r.top2_logit));
  bind_or_null(insert, 11, top_gap(r));
  insert.bind(12, r.vocab);
  insert.bind(13, std::string(route_name(r.route)));
  if (r.cpu_top1_id) {
    bind_or_null(insert, 14, token(*r.cpu_top1_id));
    insert.bind(15, r.cpu_top1_id == r.top1_id ? 1 : 0);
  }
  insert.bind(16, source_id_);
  insert.bind(17, ++readouts_);
  insert.exec();
}

void RunStore::finish(bool complete, const std::string& finished_at) {
  SQLite::Statement run(db_, "UPDATE run SET status = ?, finished_at = ? WHERE id = ?");
  run.bind(1, complete ? "complete" : "failed");
  run.bind(2, finished_at);
  run.bind(3, run_id_);
  run.exec();
  add_attribute(kTraceRows, std::to_string(rows_));
}

}  // namespace greta
