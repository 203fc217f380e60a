#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "engine/record/run_store.h"
#include "engine/record/trace_json.h"

namespace greta {
namespace {

/// What is known of one phase.
struct Delta {
  std::optional<TraceRecord> hidden, norm, logits;
  std::optional<ReadoutRecord> readout;

  const TraceRecord* any_row() const {
    for (const auto* row : {&hidden, &norm, &logits}) {
      if (*row) return &**row;
    }
    return nullptr;
  }
};

constexpr std::array kPhases{Phase::kPrefillLast, Phase::kDecode0};

void add_row(JsonObject& line, const std::string& prefix, const std::optional<TraceRecord>& row) {
  if (!row) return;
  const Fingerprint& f = row->fingerprint;
  line.add(prefix + "_n", f.n)
      .add(prefix + "_hash", f.hash)
      .add(prefix + "_min", static_cast<double>(f.min))
      .add(prefix + "_max", static_cast<double>(f.max))
      .add(prefix + "_mean", f.mean);
}

/// A prompt's own last token: those that are decoded after it have prefill's side too.
template <class Record>
void keep_first(std::optional<Record>& kept, const Record& record) {
  if (!kept) kept = record;
}

/// Members of a row's extra that begin with `prefix`.
void add_extra(JsonObject& line, std::string_view prefix, const std::optional<TraceRecord>& row) {
  if (!row || row->extra.empty()) return;
  const nlohmann::json extra = nlohmann::json::parse(row->extra, nullptr, false);
  if (!extra.is_object()) return;
  for (const auto& [key, value] : extra.items()) {
    if (key.starts_with(prefix) && key != "lm_head_route") line.raw(key, value.dump());
  }
}

void add_probe_of(JsonObject& line, const char* key, const Delta& delta) {
  if (delta.readout && delta.readout->cpu_top1_id && *delta.readout->cpu_top1_id >= 0) {
    line.add(key, *delta.readout->cpu_top1_id);
  }
}

/// store_lm_head
class LmHeadStore final : public RunStore {
 public:
  explicit LmHeadStore(const std::filesystem::path& path)
      : file_(path, LineFile::Existing::kAppend) {}

  void write(const std::vector<RunItem>& items) override {
    for (const RunItem& item : items) {
      std::visit([&](const auto& what) { add(item.prompt, what); }, item.what);
    }
  }

 private:
  struct Prompt {
    std::string name;
    std::array<Delta, kPhases.size()> deltas;
  };

  void add(size_t, const PromptRecord& prompt) {
    if (has_any_) write_prompts();
    prompts_.emplace(n_prompts_++, Prompt{prompt.name, {}});
  }
  void add(size_t prompt, const std::vector<TraceRecord>& rows);
  void add(size_t prompt, const ReadoutRecord& readout) {
    if (Delta* delta = delta_of(prompt, readout.phase)) keep_first(delta->readout, readout);
  }
  void add(size_t, const std::vector<PlannedRow>&) {}
  void add(size_t, const RunRecord::Attribute&) {}
  void add(size_t, const RunEnd&) {
    write_prompts();
    file_.close();
  }
  Delta* delta_of(size_t prompt, Phase phase);
  static std::string line_of(const Prompt& prompt, Phase phase, const Delta& delta);
  void write_prompts();

  LineFile file_;
  size_t n_prompts_ = 0;
  std::map<size_t, Prompt> prompts_;  // those that are not written yet
  bool has_any_ = false;              // of them there is something to write
};

/// Nothing for what has no place in the lines.
Delta* LmHeadStore::delta_of(size_t prompt, Phase phase) {
  const auto found = prompts_.find(prompt);
  const auto place = std::find(kPhases.begin(), kPhases.end(), phase);
  if (found == prompts_.end() || place == kPhases.end()) return nullptr;
  has_any_ = true;
  return &found->second.deltas[static_cast<size_t>(place - kPhases.begin())];
}

std::string LmHeadStore::line_of(const Prompt& prompt, Phase phase, const Delta& delta) {
  JsonObject line;
  line.add("prompt_id", prompt.name).add("phase", phase_name(phase));
  if (const TraceRecord* row = delta.any_row()) {
    line.add("step", row->step)
        .add("tokens_total", tokens_total(*row))
        .add("seq_len", row->seq_len)
        .add("pos_id", row->pos_id);
  } else {
    line.add("step", delta.readout->step).add("pos_id", delta.readout->pos_id);
  }
  line.add("hash_algo", "greta-1");
  add_row(line, "hidden", delta.hidden);
  add_row(line, "rms", delta.norm);
  add_extra(line, "rms_", delta.norm);
  add_row(line, "logits", delta.logits);
  if (delta.readout) {
    add_readout(line, *delta.readout);
    line.add("lm_head_route", delta.readout->route);
  }
  add_extra(line, "lm_head_", delta.logits);
  if (delta.readout) add_cpu_probe(line, *delta.readout);
  add_probe_of(line, "cpu_probe_prefill_top1", prompt.deltas[0]);
  add_probe_of(line, "cpu_probe_decode0_top1", prompt.deltas[1]);
  return line.take();
}

void LmHeadStore::write_prompts() {
  for (const auto& [number, prompt] : prompts_) {
    for (size_t i = 0; i < kPhases.size(); ++i) {
      const Delta& delta = prompt.deltas[i];
      if (delta.any_row() || delta.readout) file_.write(line_of(prompt, kPhases[i], delta));
    }
  }
  prompts_.clear();
  has_any_ = false;
  file_.flush();
}

void LmHeadStore::add(size_t prompt, const std::vector<TraceRecord>& rows) {
  for (const TraceRecord& row : rows) {
    Delta* delta = delta_of(prompt, row.phase);
    if (delta == nullptr) continue;
    if (row.point == TracePoint::kHidden) keep_first(delta->hidden, row);
    if (row.point == TracePoint::kFinalNorm) keep_first(delta->norm, row);
    if (row.point == TracePoint::kLogits) keep_first(delta->logits, row);
  }
}

}  // namespace

std::unique_ptr<RunStore> store_lm_head(const std::filesystem::path& file) {
  return std::make_unique<LmHeadStore>(file);
}

}  // namespace greta
