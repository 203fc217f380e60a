#include "trace/run.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "trace/arguments.h"
#include "trace/status.h"

namespace greta::trace {
namespace {

constexpr size_t kMaxNameBytes = 256;
constexpr size_t kMaxPrompts = 100'000;
constexpr size_t kMaxPoints = 1'000;   // as many as one file may name
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

void Run::add_values(const greta_row& first, ValueType type, const void* values, size_t n_rows,
                     size_t n, size_t stride_bytes, std::span<const int32_t> token_ids) {
  check_values(values, n_rows, n);
  TraceRecord record = record_of(first, n_rows);
  for (const int32_t id : token_ids) {
    if (id < 0) throw BadArgument("token id " + std::to_string(id) + " is negative");
  }
  record.point = point_of(first.tensor);
  const size_t prompt = prompt_of(first.prompt);
  std::vector<TraceRecord> rows;
  for (size_t i = 0; i < n_rows; ++i) {
    const Floats row(type, static_cast<const char*>(values) + i * stride_bytes, n);
    record.fingerprint = fingerprint(row.get());
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

}  // namespace greta::trace
