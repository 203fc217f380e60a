#include "trace/run.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <nlohmann/json.hpp>

#include "db/database.h"
#include "engine/record/run_store.h"
#include "trace/arguments.h"
#include "trace/status.h"

namespace greta::trace {
namespace {

constexpr size_t kMaxNameBytes = 256;
constexpr size_t kMaxPrompts = 100'000;
constexpr size_t kMaxPoints = 4'000;   // as many as one file may name
constexpr size_t kRowsTogether = 256;  // given to the writer at once: 130 KB
constexpr const char* kUnnamedPrompt = "prompt";

/// Values of a row as f32: where they lie, or a copy.
class Floats {
 public:
  Floats(ValueType type, const void* values, size_t n) {
    const bool is_aligned = reinterpret_cast<uintptr_t>(values) % alignof(float) == 0;
    if (n == 0) return;
    if (type == ValueType::kF32 && is_aligned) {
      span_ = {static_cast<const float*>(values), n};
      return;
    }
    copy_ = std::make_unique_for_overwrite<float[]>(n);
    widen(type, values, n, copy_.get());
    span_ = {copy_.get(), n};
  }
  std::span<const float> get() const { return span_; }

 private:
  std::span<const float> span_;
  std::unique_ptr<float[]> copy_;
};

void check_values(const void* values, size_t n_rows, size_t n) {
  if (values == nullptr && n_rows > 0 && n > 0) throw BadArgument("values is NULL");
  if (n > kMaxFingerprintValues) throw BadArgument("a row of more than 2^31 values");
}

// SQLite's memory of which locks a process holds goes through fork(), and the locks do not: a
// database that is opened in such a child can be damaged.
std::atomic<int> open_databases = 0;
std::atomic<bool> forked_amid_databases = false;
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] {
  if (open_databases > 0) forked_amid_databases = true;
});

/// Any bytes that the system takes.
std::string path_of(const char* path) {
  if (path == nullptr || *path == '\0') throw BadArgument("path is missing");
  return path;
}

LineFile open_lines_at(const std::string& path) {
  return path == "-" ? LineFile::standard_output() : LineFile(path, LineFile::Existing::kRefuse);
}

}  // namespace

size_t Run::begin_prompt(const PromptRecord& prompt) {
  if (prompts_.size() == kMaxPrompts) throw BadArgument("more than 100,000 prompts");
  const auto [added, is_new] = prompts_.try_emplace(prompt.name, prompts_.size());
  if (!is_new) throw BadArgument("the run has a prompt " + prompt.name + " already");
  try {
    queue_.begin_prompt(prompt);
  } catch (...) {
    prompts_.erase(added);
    throw;
  }
  return added->second;
}

void Run::add_prompt(const PromptRecord& prompt) {
  const std::unique_lock lock(prompts_mutex_);
  begin_prompt(prompt);
}

size_t Run::the_only_prompt() {
  {
    const std::shared_lock lock(prompts_mutex_);
    if (prompts_.size() == 1) return 0;
  }
  const std::unique_lock lock(prompts_mutex_);
  if (prompts_.size() > 1) throw BadArgument("prompt is NULL, and the run has several");
  if (prompts_.size() == 1) return 0;
  PromptRecord prompt;
  prompt.name = kUnnamedPrompt;
  return begin_prompt(prompt);
}

size_t Run::prompt_of(const char* name) {
  if (name == nullptr) return the_only_prompt();
  {
    const std::shared_lock lock(prompts_mutex_);
    if (const auto found = prompts_.find(std::string_view(name)); found != prompts_.end()) {
      return found->second;
    }
  }
  throw BadArgument("the run has no prompt " + text_of(name, "prompt"));
}

TracePoint Run::point_of(const char* tensor) {
  if (tensor != nullptr) {
    const std::shared_lock lock(points_mutex_);
    if (const auto found = points_.find(std::string_view(tensor)); found != points_.end()) {
      return found->second;
    }
  }
  const std::string name = required_text(tensor, "tensor", kMaxNameBytes);
  const std::unique_lock lock(points_mutex_);
  const std::optional<TracePoint> point =
      points_.size() < kMaxPoints ? trace_point_of(name) : std::nullopt;
  if (!point) throw BadArgument("more names of tensors than a run may bring: " + name);
  return points_[name] = *point;
}

void Run::add_plan(const char* prompt, std::span<const greta_planned> rows) {
  std::vector<PlannedRow> plan;
  for (const greta_planned& row : rows) {
    if (row.side != GRETA_SIDE_PREFILL && row.side != GRETA_SIDE_DECODE) {
      throw BadArgument("side " + std::to_string(row.side) + " is no greta_side");
    }
    plan.push_back({row.side == GRETA_SIDE_DECODE, layer_of(row.layer), point_of(row.tensor)});
  }
  queue_.plan(prompt_of(prompt), std::move(plan));
}

namespace {

/// Infinities of a mask are as they should be: inf counts the others, and extra has their number.
/// extra says that there is a mask, or values of attention scores do, whose infinities are -inf.
void leave_masked_out(TraceRecord& record, std::span<const float> values = {}) {
  Fingerprint& f = record.fingerprint;
  if (f.inf == 0 || f.nan + f.inf >= f.n) return;  // a row of nothing else is a fault
  auto extra =
      record.extra.empty() ? nlohmann::json::object() : nlohmann::json::parse(record.extra);
  const nlohmann::json said = extra.value("masked", nlohmann::json());
  uint64_t masked = 0;
  if (said.is_boolean()) {
    masked = said == true ? f.inf : 0;
  } else if (!said.is_null()) {
    masked = said.is_number_unsigned() ? said.get<uint64_t>() : f.inf + 1;
    if (masked > f.inf) throw BadArgument("masked is true, false or a number of its infinities");
  } else if (record.point == TracePoint::kAttnScores && !values.empty() &&
             std::find(values.begin(), values.end(), INFINITY) == values.end()) {
    masked = f.inf;
  }
  if (masked == 0) return;
  f.inf -= masked;
  extra["masked"] = masked;
  record.extra = extra.dump();
}

}  // namespace

void Run::add_values(const greta_row& first, ValueType type, const void* values, size_t n_rows,
                     size_t n, size_t stride_bytes, std::span<const int32_t> token_ids) {
  check_values(values, n_rows, n);
  TraceRecord record = record_of(first, n_rows);
  for (const int32_t id : token_ids) {
    if (id < 0) throw BadArgument("token id " + std::to_string(id) + " is negative");
  }
  record.point = point_of(first.tensor);
  const size_t prompt = prompt_of(first.prompt);
  const std::string extra = record.extra;
  std::vector<TraceRecord> rows;
  for (size_t i = 0; i < n_rows; ++i) {
    const Floats row(type, static_cast<const char*>(values) + i * stride_bytes, n);
    record.fingerprint = fingerprint(row.get());
    record.extra = extra;
    leave_masked_out(record, row.get());
    const auto sample = row.get().first(std::min(sample_values_, n));
    record.sample.assign(sample.begin(), sample.end());
    if (!token_ids.empty()) record.token_id = token_ids[i];
    rows.push_back(record);
    ++record.pos_id;
    if (record.logical_tok_idx) ++*record.logical_tok_idx;
    if (rows.size() == kRowsTogether || i + 1 == n_rows) {
      queue_.rows(prompt, std::exchange(rows, {}));
    }
  }
}

void Run::add_fingerprint(const greta_row& row, const Fingerprint& fingerprint) {
  TraceRecord record = record_of(row);
  record.point = point_of(row.tensor);
  record.fingerprint = fingerprint;
  {
    TraceRow stated;
    const RowSketch sketch = sketch_of(fingerprint);
    set_statistics_of(stated, fingerprint);
    stated.hash = fingerprint.hash;
    stated.sketch = &sketch;
    if (const std::string doubt = sketch_doubt(stated); !doubt.empty()) {
      throw BadArgument("a sketch that " + doubt);
    }
    const std::lock_guard lock(still_hash_mutex_);
    if (still_hash_.has_seen(stated)) {
      throw BadArgument("a hash that stands still: that of rows whose values are others");
    }
  }
  leave_masked_out(record);
  std::vector<TraceRecord> rows;
  rows.push_back(std::move(record));
  queue_.rows(prompt_of(row.prompt), std::move(rows));
}

void Run::add_attribute(const RunRecord::Attribute& fact) {
  queue_.attribute(fact.first, fact.second);
}

void Run::note_refusal(const std::string& why) {
  const std::lock_guard lock(refusals_mutex_);
  if (n_refusals_++ == 0) first_refusal_ = why;
}

void Run::end(bool complete) {
  std::string lacks;
  {
    const std::lock_guard lock(refusals_mutex_);
    if (complete && n_refusals_ > 0) {
      lacks = std::to_string(n_refusals_) +
              " calls that add rows were refused, the first because " + first_refusal_;
    }
  }
  if (lacks.empty()) return queue_.end(complete);
  queue_.attribute("refused", lacks);
  queue_.end(false);
  throw Refused(GRETA_ERROR_REFUSED, lacks);
}

Fingerprint fingerprint_of_values(ValueType type, const void* values, size_t n) {
  check_values(values, 1, n);
  return fingerprint(Floats(type, values, n).get());
}

Target::Target(const char* path, greta_kind kind)
    : database_(kind == GRETA_DATABASE ? path_of(path) : "") {
  if (kind == GRETA_DATABASE) {
    if (forked_amid_databases) {
      throw Refused(GRETA_ERROR_STATE,
                    "this process was forked while a database was open for traces, and SQLite "
                    "cannot open one in it: start it by exec (in Python: spawn), or write JSON "
                    "lines");
    }
    check_database_name(database_);
    open_for_writing(database_);
    ++open_databases;
  } else if (kind == GRETA_JSONL) {
    lines_.emplace(open_lines_at(path_of(path)));
  } else {
    throw BadArgument("kind " + std::to_string(static_cast<int>(kind)) + " is no greta_kind");
  }
}

Target::~Target() {
  if (!database_.empty()) --open_databases;
}

std::shared_ptr<Run> Target::begin_run(const greta_run_info& info) {
  const RunRecord record = run_record_of(info);
  base_run_name(record);  // throws before anything is written
  if (!database_.empty()) {
    return std::make_shared<Run>(store_in_database(database_, record), info.sample_values);
  }
  const std::lock_guard lock(mutex_);
  if (!lines_) throw Refused(GRETA_ERROR_STATE, "a file of JSON lines has one run");
  return std::make_shared<Run>(store_in_lines(*std::exchange(lines_, std::nullopt), record),
                               info.sample_values);
}

}  // namespace greta::trace
