#include "tests/queries/harm/told_run.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <map>

#include "common/json_text.h"
#include "db/judge.h"
#include "kernels/fingerprint/fingerprint.h"

namespace greta::harm {
namespace {

/// prefilllast, decode0: a phase without what writers put between its words.
std::string bare(const std::string& phase) {
  std::string out;
  for (char c : phase) {
    if (std::isalnum(static_cast<unsigned char>(c)))
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return std::isnan(value) ? "NaN" : std::isinf(value) ? "Infinity" : text;
}

template <class Values>
std::string list_of(const Values& values) {
  std::string out;
  for (const auto& value : values)
    out += (out.empty() ? "" : ",") + number(static_cast<double>(value));
  return "[" + out + "]";
}

std::string line_of(const ToldRow& row, const std::string& run_algo) {
  const std::string algo = row.algo.empty() ? run_algo : row.algo;
  std::string out = R"({"event":"stage_trace","prompt_id":")" + row.prompt + R"(","phase":")" +
                    row.phase + R"(","point":")" + row.tensor + R"(","layer":)" +
                    std::to_string(row.layer) + R"(,"step":)" + std::to_string(row.step) +
                    R"(,"pos_id":)" + std::to_string(row.pos);
  const auto put = [&out](const char* key, const std::string& value) {
    out += std::string(",\"") + key + "\":" + value;
  };
  if (algo != "fnv-256") put("hash_algo", "\"" + algo + "\"");
  if (row.token) put("token_id", std::to_string(*row.token));
  if (row.n) put(algo == "fnv-256" ? "sample_n" : "n", std::to_string(*row.n));
  if (row.hash) put("hash", std::to_string(*row.hash));
  if (row.nonfinite) put("min", "NaN");
  if (row.min && !row.nonfinite) put("min", number(*row.min));
  if (row.max) put("max", number(*row.max));
  if (row.mean) put("mean", number(*row.mean));
  if (row.abs_sum) put("abs_sum", number(*row.abs_sum));
  if (row.nan) put("nan", std::to_string(*row.nan));
  if (row.inf) put("inf", std::to_string(*row.inf));
  if (row.sketch) put("sum_sq", number(row.sketch->sum_sq));
  if (row.sketch) put("sketch", list_of(row.sketch->bucket));
  if (!row.sample.empty()) put("sample", list_of(row.sample));
  return out + "}\n";
}

std::string plan_lines(const ToldRun& run) {
  std::map<std::string, std::string> of_prompt;
  for (const ToldPlan& p : run.plan) {
    std::string& entries = of_prompt[p.prompt];
    entries += std::string(entries.empty() ? "" : ",") + R"({"side":")" +
               (p.side == 0 ? "prefill" : "decode") + R"(","layer":)" + std::to_string(p.layer) +
               R"(,"points":[")" + p.tensor + "\"]}";
  }
  std::string out;
  for (const auto& [prompt, entries] : of_prompt) {
    out += R"({"event":"run_prompt","prompt_id":")" + prompt + R"(","plan":[)" + entries + "]}\n";
  }
  return out;
}

/// What the run says of itself.
std::string run_lines(const ToldRun& run) {
  std::string out;
  if (run.dtype)
    out += R"({"event":"run_attributes","attributes":{"dtype":")" + *run.dtype + "\"}}\n";
  out += plan_lines(run);
  if (run.status != "unknown") out += "{\"event\":\"run_start\"}\n";
  if (run.status == "complete" || run.status == "failed") {
    out += R"({"event":"run_end","status":")" + run.status + "\"" +
           (run.stated_rows ? ",\"rows\":" + std::to_string(*run.stated_rows) : "") + "}\n";
  }
  return out;
}

std::string markdown_of(const ToldDocument& document) {
  std::string out = "# Report\n\n";
  if (!document.verdict.empty()) out += "RESULT: " + document.verdict + "\n\n";
  if (document.table.empty()) return out;
  out += "| PROMPT | POS_ID | LAYER | TENSOR | FIRST_FAIL | DETAILS |\n|---|---|---|---|---|---|\n";
  for (const ReportRow& row : document.table) {
    const char* fail = row.status == "MATCH"     ? "None"
                       : row.status == "MISSING" ? "TRACE_OFFSET"
                                                 : "ATTN_OUT_DRIFT";
    out += "| " + row.prompt + " | " + std::to_string(row.pos_id.value_or(0)) + " | " +
           std::to_string(row.layer.value_or(0)) + " | " + row.tensor.value_or("") + " | " + fail +
           " | - |\n";
  }
  return out;
}

/// Each of the lines, with where it is told if that is not the run's first file.
std::vector<std::string> script_of(const ToldRun& run) {
  std::vector<std::string> out = {run_lines(run)};
  for (const ToldRow& row : run.rows) {
    const std::string where = row.claimed    ? "in a document: "
                              : row.file > 0 ? "in file " + std::to_string(row.file) + ": "
                                             : "";
    out.push_back(where + line_of(row, run.hash_algo));
  }
  for (const std::string& line : run.rejected) out.push_back(line + "\n");
  for (const ToldDocument& document : run.documents) out.push_back(markdown_of(document));
  if (run.ingest_open) out.push_back("an ingest that has not ended\n");
  return out;
}

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
  const std::string phase = bare(row.phase);
  return phase.starts_with("prefill") ? 0 : phase.starts_with("decode") ? 1 : kNoSide;
}

bool demands_partner(const ToldRow& row) { return bare(row.phase) == "prefilllast"; }

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

void write_files(const TemporaryFolder& folder, const std::string& name, const ToldRun& run) {
  const std::string root = run_of_folder(name) + "/";
  std::map<int, std::string> files;
  std::string claimed;
  for (const ToldRow& row : run.rows)
    (row.claimed ? claimed : files[row.file]) += line_of(row, run.hash_algo);
  for (const std::string& line : run.rejected) files[0] += line + "\n";
  for (const auto& [file, text] : files)
    folder.write(root + "traces/f" + std::to_string(file) + "_trace.jsonl", text);
  const std::string lines = run_lines(run);
  if (!lines.empty()) folder.write(root + "run.jsonl", lines);
  if (!claimed.empty()) folder.write(root + "notes.md", "# Notes\n\n```\n" + claimed + "```\n");
  for (size_t i = 0; i < run.documents.size(); ++i)
    folder.write(root + "report_" + std::to_string(i) + ".md", markdown_of(run.documents[i]));
}

std::string script_of_change(const ToldRun& before, const ToldRun& after) {
  std::vector<std::string> was = script_of(before), now = script_of(after);
  std::string out;
  const auto put = [&out](const char* sign, const std::string& line) { out += sign + line; };
  for (const std::string& line : was) {
    const auto same = std::find(now.begin(), now.end(), line);
    put(same == now.end() ? "- " : "  ", line);
    if (same != now.end()) now.erase(same);
  }
  for (const std::string& line : now) put("+ ", line);
  return out;
}

}  // namespace greta::harm
