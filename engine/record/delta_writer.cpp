#include "engine/record/delta_writer.h"

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "engine/record/line_file.h"
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

}  // namespace

struct DeltaWriter::State {
  explicit State(const std::filesystem::path& path) : file(path, LineFile::Existing::kAppend) {}

  Delta* of(Phase phase) {
    for (size_t i = 0; i < kPhases.size(); ++i) {
      if (kPhases[i] == phase) return &deltas[i];
    }
    return nullptr;
  }
  void write_prompt();
  std::string line_of(Phase phase, const Delta& delta) const;

  LineFile file;
  std::string prompt;
  std::array<Delta, kPhases.size()> deltas;
};

std::string DeltaWriter::State::line_of(Phase phase, const Delta& delta) const {
  JsonObject line;
  line.add("prompt_id", prompt).add("phase", phase_name(phase));
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
  add_probe_of(line, "cpu_probe_prefill_top1", deltas[0]);
  add_probe_of(line, "cpu_probe_decode0_top1", deltas[1]);
  return line.take();
}

void DeltaWriter::State::write_prompt() {
  for (size_t i = 0; i < kPhases.size(); ++i) {
    if (deltas[i].any_row() || deltas[i].readout) file.write(line_of(kPhases[i], deltas[i]));
  }
  deltas = {};
  file.flush();
}

DeltaWriter::DeltaWriter(const std::filesystem::path& file)
    : state_(std::make_unique<State>(file)) {}

DeltaWriter::~DeltaWriter() = default;

void DeltaWriter::begin_prompt(const PromptRecord& prompt) {
  state_->write_prompt();
  state_->prompt = prompt.name;
}

void DeltaWriter::rows(std::vector<TraceRecord> rows) {
  for (const TraceRecord& row : rows) {
    Delta* delta = state_->of(row.phase);
    if (delta == nullptr) continue;
    if (row.point == TracePoint::kHidden) keep_first(delta->hidden, row);
    if (row.point == TracePoint::kFinalNorm) keep_first(delta->norm, row);
    if (row.point == TracePoint::kLogits) keep_first(delta->logits, row);
  }
}

void DeltaWriter::readout(const ReadoutRecord& readout) {
  if (Delta* delta = state_->of(readout.phase)) keep_first(delta->readout, readout);
}

void DeltaWriter::end(bool) {
  state_->write_prompt();
  state_->file.close();
}

}  // namespace greta
