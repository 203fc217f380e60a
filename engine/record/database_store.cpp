#include <sqlite3.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <unordered_map>

#include "common/utc_time.h"
#include "db/experiment.h"
#include "db/forget.h"
#include "db/judge.h"
#include "db/run_records.h"
#include "db/trace_writer.h"
#include "db/transaction.h"
#include "engine/record/run_store.h"

namespace greta {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMaxContextBytes = 16u << 20;
constexpr milliseconds kLastPatience{500};  // for what can be left undone

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

std::string advice(int code) {
  if (code == SQLITE_READONLY_DBMOVED)
    return "leave it in its place while it is written, and run again";
  switch (code & 0xff) {
    case SQLITE_FULL:
      return "make room on its disk and run again";
    case SQLITE_IOERR:
      return "make room on its disk, or write to another one, and run again";
    case SQLITE_BUSY:
      return "end what holds it, or wait longer (--wait), and run again";
    case SQLITE_READONLY:
      return "make it writable and run again";
    default:
      return "check it with `greta-db check`, or write to another file";
  }
}

/// One run of an engine as it stands in a greta database. After a transaction that was rolled back
/// only fail() is of use.
class DatabaseStore final : public RunStore {
 public:
  DatabaseStore(const std::filesystem::path& path, const RunRecord& run, milliseconds patience);

  std::string run_name() const override { return run_name_; }
  std::vector<double> tolerances() const override;
  void write(const std::vector<RunItem>& items) override;
  void finish() override;
  std::exception_ptr fail(std::exception_ptr cause) override;
  void hurry() override { wait_.set_patience(kLastPatience); }

 private:
  void begin(const RunRecord& run);
  void add(size_t, const PromptRecord& prompt);
  void add(size_t prompt, const std::vector<PlannedRow>& plan);
  void add(size_t prompt, const std::vector<TraceRecord>& rows);
  void add(size_t prompt, const ReadoutRecord& readout);
  void add(size_t, const RunRecord::Attribute& attribute);
  void add(size_t, const RunEnd& end);
  void write_rows();
  void add_attribute(const std::string& name, const std::string& value);
  TraceRow row_of(int64_t prompt_id, const TraceRecord& record);
  void add_difference(int64_t prompt_id, const TraceRecord& record);
  const PhaseId& phase_id(Phase phase);
  const TensorId& tensor_of(TracePoint point);
  std::optional<int64_t> context_id(const TraceRecord& record);

  const std::filesystem::path file_;
  LockWait wait_;
  SQLite::Database db_;
  RunRecords records_;
  TraceWriter writer_;
  std::string run_name_;
  int64_t run_id_ = 0, source_id_ = 0;
  std::vector<int64_t> prompt_ids_;
  int64_t rows_ = 0, readouts_ = 0;
  std::vector<std::optional<TensorId>> tensors_;  // by TracePoint; those of other engines as met
  std::array<std::optional<PhaseId>, kPhaseCount>
      phases_{};  // by Phase; those that rows had so far
  std::unordered_map<std::string, int64_t> contexts_;
  std::string context_key_;
  size_t context_bytes_ = 0;          // in contexts_
  std::vector<TraceRow> trace_rows_;  // taken and not written; kept for their memory
  std::vector<RowSketch> sketches_;   // of trace_rows_; the records are borrowed until then
};

SQLite::Database open_waiting(const std::filesystem::path& path, LockWait& wait) {
  wait.on_long_wait = LockWait::usual().on_long_wait;
  return open_for_writing(path, wait);
}

DatabaseStore::DatabaseStore(const std::filesystem::path& path, const RunRecord& run,
                             milliseconds patience)
    : file_(path), wait_(patience), db_(open_waiting(path, wait_)), records_(db_), writer_(db_) {
  in_transaction(db_, [&] { begin(run); });
  // From here on a stop is the caller's to heed: what is given is written.
  wait_.ends_on_stop = false;
  sqlite3_progress_handler(db_.getHandle(), 0, nullptr, nullptr);
}

/// Refuses a dtype that no tolerance knows: every difference of the run would stay undecided.
void check_dtype(SQLite::Database& db, const std::string& dtype) {
  if (dtype.empty()) return;
  SQLite::Statement known(db,
                          "SELECT group_concat(DISTINCT dtype), max(dtype = ?) FROM tolerance"
                          " WHERE dtype IS NOT NULL");
  known.bind(1, canonical_dtype(dtype));
  known.executeStep();
  if (known.getColumn(1).getInt() != 0) return;
  throw std::invalid_argument("dtype " + dtype + " has no tolerance (" +
                              known.getColumn(0).getString() +
                              " have): `greta-db tolerance set --dtype " + dtype +
                              " 0.03` says up to which distance a difference is rounding");
}

/// Adds the run, status running, with its source and its attributes.
void DatabaseStore::begin(const RunRecord& run) {
  check_dtype(db_, run.dtype);
  const auto known = [](const std::string& text) {
    return text.empty() ? std::nullopt : std::optional(text);
  };
  run_name_ = free_run_name(db_, base_run_name(run));
  if (!run.name.empty() && run_name_ != run.name) {
    const std::optional<RunToForget> left = left_behind_run(db_, run.name);
    if (!left || !run.replaces_failed) throw RunExists(run.name, left.has_value());
    forget_left_behind(db_, *left);
    run_name_ = free_run_name(db_, run.name);
    if (run_name_ != run.name) throw RunExists(run.name, false);  // as a level of other runs
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
  note_run_process(db_, run_id_);
  source_id_ = records_.add_source({run_id_, "", "", new_identity(), "engine", 0});
  // A column of `run` is an attribute too: an ingest of more about the same experiment
  // settles the columns anew from the attributes.
  add_attribute("experiment", run.experiment);
  add_attribute("date", run.date);
  add_attribute("commit", run.commit_sha);
  add_attribute("mode", run.mode);
  add_attribute("dtype", run.dtype);
  add_attribute("seed", std::to_string(run.seed));
  for (const auto& [dim, value] : run.attributes) add_attribute(dim, value);
  for (int i = 0; i < kTracePoints; ++i) {
    tensors_.emplace_back(writer_.tensor_id(trace_point_name(static_cast<TracePoint>(i))));
  }
}

const TensorId& DatabaseStore::tensor_of(TracePoint point) {
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

const PhaseId& DatabaseStore::phase_id(Phase phase) {
  std::optional<PhaseId>& id = phases_[static_cast<size_t>(phase)];
  if (!id) id = writer_.phase_id(phase_name(phase));
  return *id;
}

std::vector<double> DatabaseStore::tolerances() const {
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

void DatabaseStore::add_attribute(const std::string& name, const std::string& value) {
  if (value.empty()) return;
  records_.add_attribute({run_id_, name, value, AttributeRank::kEngine, "", source_id_});
}

void DatabaseStore::add(size_t, const PromptRecord& prompt) {
  const int64_t id = writer_.prompt_id(run_id_, prompt.name);
  prompt_ids_.push_back(id);
  const bool known = !prompt.token_ids.empty();
  records_.set_prompt(
      id, known ? std::optional(static_cast<int64_t>(prompt.token_ids.size())) : std::nullopt,
      prompt.text_sha256.empty() ? std::nullopt : std::optional(prompt.text_sha256),
      known ? std::optional(nlohmann::json(prompt.token_ids).dump()) : std::nullopt);
  add(prompt_ids_.size() - 1, prompt.plan);
}

void DatabaseStore::add(size_t prompt, const std::vector<PlannedRow>& plan) {
  for (const PlannedRow& row : plan) {
    records_.add_plan(run_id_, prompt_ids_.at(prompt), row.decode ? Side::kDecode : Side::kPrefill,
                      row.layer, tensor_of(row.point).tensor_id);
  }
}

TraceRow DatabaseStore::row_of(int64_t prompt_id, const TraceRecord& record) {
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

/// Takes rows, which write_rows() writes together with those taken before.
void DatabaseStore::add(size_t prompt, const std::vector<TraceRecord>& rows) {
  const int64_t of_prompt = prompt_ids_.at(prompt);
  for (const TraceRecord& record : rows) {
    sketches_.push_back(sketch_of(record.fingerprint));
    trace_rows_.push_back(row_of(of_prompt, record));
    if (record.difference) add_difference(of_prompt, record);
  }
}

void DatabaseStore::write_rows() {
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

void DatabaseStore::add_difference(int64_t prompt_id, const TraceRecord& record) {
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
std::optional<int64_t> DatabaseStore::context_id(const TraceRecord& record) {
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

void DatabaseStore::add(size_t prompt, const ReadoutRecord& r) {
  const auto logit = [](int32_t id, float value) {
    const bool is_said = id >= 0 && std::isfinite(value);
    return is_said ? std::optional<double>(value) : std::nullopt;
  };
  ReadoutRow row;
  row.run_id = run_id_;
  row.prompt_id = prompt_ids_.at(prompt);
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

void DatabaseStore::add(size_t, const RunRecord::Attribute& attribute) {
  add_attribute(attribute.first, attribute.second);
}

void DatabaseStore::add(size_t, const RunEnd& end) {
  records_.finish_run(run_id_, end.complete, utc_now());
  forget_run_process(db_, run_id_);
  add_attribute(kTraceRows, std::to_string(rows_));
}

void DatabaseStore::write(const std::vector<RunItem>& items) {
  // The last commit is synced to disk, and with it all before.
  const bool last = std::holds_alternative<RunEnd>(items.back().what);
  if (last) db_.exec("PRAGMA synchronous = FULL");
  in_transaction(db_, [&] {
    forget_verdict(db_, run_id_);
    for (const RunItem& item : items) {
      if (!std::holds_alternative<std::vector<TraceRecord>>(item.what)) write_rows();
      std::visit([&](const auto& what) { add(item.prompt, what); }, item.what);
    }
    write_rows();
  });
}

/// Marks the run failed if the file still takes that.
std::exception_ptr DatabaseStore::fail(std::exception_ptr cause) {
  wait_.set_patience(kLastPatience);
  try {
    in_transaction(db_, [this] {
      forget_verdict(db_, run_id_);
      add(0, RunEnd{false});
    });
  } catch (const SQLite::Exception&) {
    // It stays running, which is INCOMPLETE as well.
  }
  try {
    std::rethrow_exception(cause);
  } catch (const SQLite::Exception& error) {
    return std::make_exception_ptr(
        RunWriteError(error.getErrorCode(), "cannot write the traces of run " + run_name_ + " to " +
                                                file_.string() + ": " + error.what() + "; " +
                                                advice(error.getErrorCode()) +
                                                ". What was written stays, as an incomplete run"));
  } catch (...) {
    return cause;
  }
}

/// Keeps the verdict, and what changed, and empties the write-ahead log. The run is whole without
/// either, so neither waits long for others.
void DatabaseStore::finish() {
  wait_.set_patience(kLastPatience);
  try {
    judge(db_, {&run_id_, 1});
    make_durable(db_);
  } catch (const SQLite::Exception&) {
  }
}

}  // namespace

std::unique_ptr<RunStore> store_in_database(const std::filesystem::path& database,
                                            const RunRecord& run,
                                            std::optional<milliseconds> patience) {
  return std::make_unique<DatabaseStore>(database, run,
                                         patience.value_or(LockWait::usual().patience()));
}

}  // namespace greta
