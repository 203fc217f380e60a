#include "tests/queries/harm/told_run.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "db/judge.h"
#include "kernels/fingerprint/fingerprint.h"

namespace greta::harm {
namespace {

RowSketch stored(const ToldSketch& sketch, int64_t n) {
  return {.n = n, .derived = false, .sum_sq = sketch.sum_sq, .bucket = sketch.bucket};
}

RowSketch derived_from(const std::vector<float>& sample) {
  const Fingerprint f = fingerprint(sample);
  return {.n = static_cast<int64_t>(f.n), .derived = true, .sum_sq = f.sum_sq, .bucket = f.sketch};
}

}  // namespace

std::string canonical(const std::string& tensor) {
  static const std::map<std::string, std::string> kAliases = {{"x_in", "residual_pre_attn"},
                                                              {"rms_in", "residual_pre_attn"},
                                                              {"norm_out", "attn_norm_out"},
                                                              {"q_proj", "q_pre_rope"},
                                                              {"ffn_norm", "ffn_norm_in"}};
  const auto found = kAliases.find(tensor);
  return found == kAliases.end() ? tensor : found->second;
}

int side_of(const ToldRow& row) {
  return row.phase.starts_with("prefill") ? 0 : row.phase.starts_with("decode") ? 1 : kNoSide;
}

bool demands_partner(const ToldRow& row) { return row.phase == "prefill_last"; }

Pairing pairing_of(const ToldRow& row) {
  return {row.prompt, row.pos, row.layer, canonical(row.tensor), row.token};
}

Teller::Teller(Warehouse& w)
    : w_(w),
      writer_(w.db),
      records_(w.db),
      source_(w.db,
              "INSERT INTO source(run_id, sha256, shape, bytes) VALUES (?1, ?2,"
              " CASE ?2 WHEN '0' THEN 'engine' ELSE 'stage_trace' END, 0)"),
      given_(w.db, "UPDATE source SET rows = ?, duplicates = ? WHERE id = ?") {}

void Teller::tell(const std::string& name, const ToldRun& run) {
  const int64_t id =
      w_.run({.name = name, .dtype = run.dtype, .hash_algo = run.hash_algo, .status = run.status});
  tell_rows(id, run);
  tell_facts(id, run);
}

int64_t Teller::add_source(int64_t run_id, size_t nth) {
  source_.bind(1, run_id);
  source_.bind(2, std::to_string(nth));
  source_.exec();
  source_.reset();
  return w_.db.getLastInsertRowid();
}

TraceRow Teller::row_of(int64_t run_id, const ToldRow& told, RowSketch& sketch) {
  TraceRow row;
  const PhaseId phase = writer_.phase_id(told.phase);
  const TensorId tensor = writer_.tensor_id(told.tensor);
  row.run_id = run_id;
  row.prompt_id = writer_.prompt_id(run_id, told.prompt);
  row.side = phase.side;
  row.phase_id = phase.id;
  row.pos_id = told.pos;
  row.layer = told.layer;
  row.tensor_id = tensor.tensor_id;
  row.name_id = tensor.name_id;
  row.step = told.step;
  row.token_id = told.token;
  if (told.pos >= 0) row.logical_tok_idx = told.pos;
  row.n = told.n;
  row.hash = told.hash;
  row.min = told.min;
  row.max = told.max;
  row.mean = told.mean;
  row.abs_sum = told.abs_sum;
  row.nan = told.nan;
  row.inf = told.inf;
  row.flags = (told.nonfinite ? kFlagNonfiniteStatistic : 0) | (told.claimed ? kFlagClaimed : 0);
  row.sample = told.sample;
  if (told.sketch) {
    sketch = stored(*told.sketch, told.n.value_or(0));
    row.sketch = &sketch;
  } else if (!told.sample.empty()) {
    sketch = derived_from(told.sample);
    row.sketch = &sketch;
  }
  return row;
}

void Teller::tell_rows(int64_t run_id, const ToldRun& run) {
  constexpr size_t kBatch = 12;  // a writer's batch does not know the whole run
  int files = 1;
  for (const ToldRow& row : run.rows) files = std::max(files, row.file + 1);
  sources_.clear();
  for (size_t i = 0; i <= static_cast<size_t>(files); ++i)
    sources_.push_back(add_source(run_id, i));
  std::vector<TraceRow> rows;
  std::vector<RowSketch> sketches(run.rows.size());
  std::map<int64_t, std::pair<int64_t, int64_t>> given;  // source -> rows, duplicates
  for (size_t i = 0; i < run.rows.size(); ++i) {
    const ToldRow& told = run.rows[i];
    TraceRow row = row_of(run_id, told, sketches[i]);
    row.source_id = told.claimed ? sources_.back() : sources_[static_cast<size_t>(told.file)];
    row.line = static_cast<int64_t>(i) + 1;
    const auto write = [&] {
      auto& [count, duplicates] = given[rows.front().source_id];
      count += static_cast<int64_t>(rows.size());
      duplicates += writer_.write(rows).duplicates;
      rows.clear();
    };
    if (!rows.empty() && rows.front().source_id != row.source_id) write();
    rows.push_back(row);
    if (rows.size() == kBatch || i + 1 == run.rows.size()) write();
  }
  for (const auto& [source, counts] : given) {
    given_.bind(1, counts.first);
    given_.bind(2, counts.second);
    given_.bind(3, source);
    given_.exec();
    given_.reset();
  }
}

void Teller::tell_facts(int64_t run_id, const ToldRun& run) {
  for (const ToldPlan& p : run.plan) {
    records_.add_plan(run_id, writer_.prompt_id(run_id, p.prompt), static_cast<Side>(p.side),
                      p.layer, writer_.tensor_id(p.tensor).tensor_id);
  }
  if (run.stated_rows)
    records_.add_attribute({.run_id = run_id,
                            .dim = kTraceRows,
                            .value = std::to_string(*run.stated_rows),
                            .rank = AttributeRank::kEngine,
                            .leg = "",
                            .source_id = sources_.front()});
  for (const ToldDocument& document : run.documents) {
    const std::string path = "run" + std::to_string(run_id) + "_report" +
                             std::to_string(&document - run.documents.data());
    const int64_t source = w_.report(path, 0, document.table);
    if (!document.verdict.empty()) w_.claim(source, 1, document.verdict);
  }
  for (size_t i = 0; i < run.rejected.size(); ++i) {
    w_.db.exec("INSERT INTO ingest_error(source_id, file, line, severity, reason) VALUES (" +
               std::to_string(sources_.front()) + ", 'f', " + std::to_string(i + 1) +
               ", 'error', 'not JSON')");
  }
}

void open_an_ingest(SQLite::Database& db, int64_t run_id) {
  const std::string id = std::to_string(1'000'000 + run_id);
  db.exec("INSERT OR IGNORE INTO ingest VALUES (" + id +
          ", '2026-01-01T00:00:00Z', 'h', 1, 'p', '', '[]');"
          "INSERT OR IGNORE INTO ingest_run VALUES (" +
          std::to_string(run_id) + ", " + id + ")");
  forget_verdict(db, run_id);  // as who ingests does, without triggers
}

std::string text_of(const ToldRun& run) {
  std::ostringstream text;
  const auto put = [&text](const char* name, const auto& value) {
    if (value) text << " " << name << " " << *value;
  };
  text << run.hash_algo << " " << run.status << " " << run.dtype.value_or("-") << " "
       << run.rejected.size() << " lines rejected" << (run.ingest_open ? ", ingest open" : "");
  put("rows stated", run.stated_rows);
  for (const ToldRow& row : run.rows) {
    text << "\n"
         << row.prompt << " " << row.phase << " " << row.tensor << " layer " << row.layer << " at "
         << row.pos << " step " << row.step << " file " << row.file
         << (row.claimed ? " claimed" : "") << (row.nonfinite ? " nonfinite" : "")
         << (row.sketch ? " sketch" : "") << " sample " << row.sample.size();
    put("token", row.token);
    put("n", row.n);
    put("hash", row.hash);
    put("min", row.min);
    put("max", row.max);
    put("nan", row.nan);
    put("inf", row.inf);
  }
  for (const ToldPlan& p : run.plan)
    text << "\nplan " << p.prompt << " " << p.side << " " << p.layer << " " << p.tensor;
  for (const ToldDocument& document : run.documents) {
    text << "\ndocument " << document.verdict;
    for (const ReportRow& row : document.table) text << " " << row.status;
  }
  return text.str();
}

}  // namespace greta::harm
