#include "engine/record/run_store.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "db/database.h"
#include "db/experiment.h"
#include "db/run_records.h"

namespace greta {
namespace {

constexpr size_t kMaxContextBytes = 16u << 20;

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

std::optional<int64_t> token(int32_t id) {
  return id < 0 ? std::nullopt : std::optional<int64_t>(id);
}

}  // namespace

RunStore::RunStore(SQLite::Database& db, const RunRecord& run)
    : db_(db), records_(db), writer_(db) {
  const auto known = [](const std::string& text) {
    return text.empty() ? std::nullopt : std::optional(text);
  };
  run_name_ = free_run_name(db, base_run_name(run));
  if (!run.name.empty() && run_name_ != run.name) {
    throw RunExists(run.name);
  }
  const ExperimentName name = split_experiment(run.experiment);
  NewRun row;
  row.name = run_name_;
  row.experiment = run.experiment;
  row.family = name.family;
  row.variant = name.variant;
  row.date = run.date;
  row.commit_sha = known(run.commit_sha);
  row.mode = known(run.mode);
  row.dtype = known(run.dtype);
  row.started_at = known(run.started_at);
  row.seed = run.seed;
  row.hash_algo = "greta-1";
  row.status = "running";
  run_id_ = records_.add_run(row);
  note_run_process(db, run_id_);
  source_id_ = records_.add_source({run_id_, "", "", new_identity(), "engine", 0});
  add_attributes(run);
  for (int i = 0; i < kTracePoints; ++i) {
    tensors_.emplace_back(writer_.tensor_id(trace_point_name(static_cast<TracePoint>(i))));
  }
}

const TensorId& RunStore::tensor_of(TracePoint point) {
  const auto number = static_cast<size_t>(point);
  if (number >= tensors_.size()) tensors_.resize(number + 1);
  std::optional<TensorId>& id = tensors_[number];
  if (!id) id = writer_.tensor_id_of_run(run_id_, trace_point_name(point));
  if (!id) {
    throw DatabaseError("run " + run_name_ +
                        " brings more names of tensors than the database has"
                        " room for: " +
                        std::string(trace_point_name(point)));
  }
  return *id;
}

const PhaseId& RunStore::phase_id(Phase phase) {
  std::optional<PhaseId>& id = phases_[static_cast<size_t>(phase)];
  if (!id) id = writer_.phase_id(phase_name(phase));
  return *id;
}

std::vector<double> RunStore::tolerances() {
  std::vector<double> tolerances;
  SQLite::Statement query(db_,
                          "SELECT rel_l2 FROM run_tolerance WHERE run_id = ? AND tensor_id = ?");
  for (const auto& tensor : tensors_) {
    query.reset();
    query.bind(1, run_id_);
    query.bind(2, tensor->tensor_id);
    tolerances.push_back(query.executeStep() ? query.getColumn(0).getDouble() : 0);
  }
  return tolerances;
}

// What `run` has in columns is an attribute too: an ingest of more about the same experiment
// settles the columns anew from the attributes.
void RunStore::add_attributes(const RunRecord& run) {
  add_attribute("experiment", run.experiment);
  add_attribute("date", run.date);
  add_attribute("commit", run.commit_sha);
  add_attribute("mode", run.mode);
  add_attribute("dtype", run.dtype);
  add_attribute("seed", std::to_string(run.seed));
  for (const auto& [name, value] : run.attributes) add_attribute(name, value);
}

void RunStore::add_attribute(const std::string& name, const std::string& value) {
  if (value.empty()) return;
  records_.add_attribute({run_id_, name, value, AttributeRank::kEngine, "", source_id_});
}

void RunStore::add_prompt(const PromptRecord& prompt) {
  const int64_t id = writer_.prompt_id(run_id_, prompt.name);
  prompt_ids_.push_back(id);
  const bool known = !prompt.token_ids.empty();
  records_.set_prompt(
      id, known ? std::optional(static_cast<int64_t>(prompt.token_ids.size())) : std::nullopt,
      prompt.text_sha256.empty() ? std::nullopt : std::optional(prompt.text_sha256),
      known ? std::optional(nlohmann::json(prompt.token_ids).dump()) : std::nullopt);
  add_plan(n_prompts() - 1, prompt.plan);
}

void RunStore::add_plan(size_t prompt, std::span<const PlannedRow> plan) {
  for (const PlannedRow& row : plan) {
    records_.add_plan(run_id_, prompt_id(prompt), row.decode ? Side::kDecode : Side::kPrefill,
                      row.layer, tensor_of(row.point).tensor_id);
  }
}

TraceRow RunStore::row_of(int64_t prompt_id, const TraceRecord& record) {
  const Fingerprint& f = record.fingerprint;
  const PhaseId& phase = phase_id(record.phase);
  const TensorId& tensor = tensor_of(record.point);
  TraceRow row;
  row.run_id = run_id_;
  row.prompt_id = prompt_id;
  row.side = phase.side;
  row.phase_id = phase.id;
  row.pos_id = record.pos_id;
  row.layer = record.layer;
  row.tensor_id = tensor.tensor_id;
  row.name_id = tensor.name_id;
  row.step = record.step;
  row.token_id = token(record.token_id);
  row.logical_tok_idx = record.logical_tok_idx;
  if (!row.logical_tok_idx && record.pos_id >= 0) row.logical_tok_idx = record.pos_id;
  set_statistics_of(row, f);
  if (f.n > 0) row.hash = f.hash;  // equal hashes of no values say nothing
  row.context_id = context_id(record);
  row.source_id = source_id_;
  row.line = ++rows_;
  row.sample = record.sample;
  return row;
}

void RunStore::take_rows(size_t prompt, std::span<const TraceRecord> records) {
  const int64_t of_prompt = prompt_id(prompt);
  for (const TraceRecord& record : records) {
    sketches_.push_back(sketch_of(record.fingerprint));
    trace_rows_.push_back(row_of(of_prompt, record));
    if (record.difference) add_difference(of_prompt, record);
  }
}

void RunStore::write_rows() {
  if (trace_rows_.empty()) return;
  for (size_t i = 0; i < trace_rows_.size(); ++i) {
    if (sketches_[i].n > 0) trace_rows_[i].sketch = &sketches_[i];
  }
  const WriteCounts counts = writer_.write(trace_rows_);
  trace_rows_.clear();
  sketches_.clear();
  SQLite::Statement update(db_,
                           "UPDATE source SET lines = ?1, rows = ?1, duplicates = duplicates + ?2,"
                           " conflicts = conflicts + ?3 WHERE id = ?4");
  update.bind(1, rows_);
  update.bind(2, counts.duplicates - counts.taken_over);
  update.bind(3, static_cast<int64_t>(counts.conflict_lines.size()));
  update.bind(4, source_id_);
  update.exec();
}

void RunStore::add_difference(int64_t prompt_id, const TraceRecord& record) {
  const PairDifference& of = *record.difference;
  const RowDifference& values = of.values;
  DifferenceRow row;
  row.run_id = run_id_;
  row.prompt_id = prompt_id;
  row.pos_id = record.pos_id;
  row.layer = record.layer;
  row.tensor_id = tensor_of(record.point).tensor_id;
  row.prefill_hash = of.prefill_hash;
  row.decode_hash = of.decode_hash;
  row.n = values.n;
  row.differing = values.differing;
  row.first_at = values.first;
  row.last_at = values.last;
  row.rel_l2 = of.rel_l2();
  row.max_abs = values.max_abs;
  if (values.max_abs_at >= 0) row.max_abs_at = values.max_abs_at;
  row.max_ulp = values.max_ulp;
  row.heads = of.heads;
  row.shares = of.shares();
  records_.add_difference(row);
}

/// Rows of a batch share all of these but `extra`, so nearly all are found. Nothing where there is
/// nothing to say.
std::optional<int64_t> RunStore::context_id(const TraceRecord& record) {
  const bool has_batch = record.seq_len > 0;
  if (record.route.empty() && !has_batch && record.extra.empty()) return std::nullopt;
  std::string& key = context_key_;
  key.assign(record.route).push_back('\0');
  const int64_t numbers[] = {record.seq_len, record.token_index, tokens_total(record)};
  key.append(reinterpret_cast<const char*>(numbers), sizeof numbers);
  key += record.extra;
  if (auto found = contexts_.find(key); found != contexts_.end()) return found->second;
  RowContext context;
  if (!record.route.empty()) context.route = record.route;
  if (has_batch) {
    context.seq_len = record.seq_len;
    context.token_index = record.token_index;
    context.tokens_total = tokens_total(record);
  }
  if (!record.extra.empty()) context.extra = record.extra;
  if (context_bytes_ > kMaxContextBytes) {  // then stored again: harmless
    contexts_.clear();
    context_bytes_ = 0;
  }
  context_bytes_ += key.size();
  return contexts_[key] = writer_.add_context(context);
}

void RunStore::add_readout(size_t prompt, const ReadoutRecord& r) {
  const auto logit = [](int32_t id, float value) {
    const bool is_said = id >= 0 && std::isfinite(value);
    return is_said ? std::optional<double>(value) : std::nullopt;
  };
  ReadoutRow row;
  row.run_id = run_id_;
  row.prompt_id = prompt_id(prompt);
  row.side = phase_id(r.phase).side;
  row.step = r.step;
  row.pos_id = r.pos_id;
  row.name_id = tensor_of(TracePoint::kLogits).name_id;
  row.top1_id = token(r.top1_id);
  row.top1_logit = logit(r.top1_id, r.top1_logit);
  row.top2_id = token(r.top2_id);
  row.top2_logit = logit(r.top2_id, r.top2_logit);
  row.gap = top_gap(r);
  row.vocab = r.vocab;
  row.route = r.route;
  if (r.cpu_top1_id) {
    row.cpu_top1_id = token(*r.cpu_top1_id);
    row.cpu_agrees = r.cpu_top1_id == r.top1_id ? 1 : 0;
  }
  row.norm_error = r.norm_error;
  row.logits_error = r.logits_error;
  row.source_id = source_id_;
  row.line = ++readouts_;
  records_.add_readout(row);
}

void RunStore::finish(bool complete, const std::string& finished_at) {
  records_.finish_run(run_id_, complete, finished_at);
  forget_run_process(db_, run_id_);
  add_attribute(kTraceRows, std::to_string(rows_));
}

}  // namespace greta
