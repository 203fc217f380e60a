#include "ingest/foreign/rows.h"

#include <algorithm>
#include <utility>

namespace greta {

int64_t ForeignRows::symbol(std::map<std::string, int64_t>& known, const std::string& name,
                            bool& is_new) {
  const auto [it, added] = known.try_emplace(name, static_cast<int64_t>(known.size()));
  is_new = added;
  return it->second;
}

void ForeignRows::begin(const TracePlace& place, int64_t line, std::string extra) {
  if (batch_.is_full()) flush();
  place_ = place;
  line_ = line;
  bool is_new = false;
  name_ = symbol(names_, place.tensor, is_new);
  if (is_new) batch_.names.push_back(place.tensor);
  RowContext context;
  batch_.kept_bytes += extra.size();
  context.extra = std::move(extra);
  batch_.contexts.push_back(std::move(context));
  ++context_;
}

TraceRow& ForeignRows::add(const std::string& prompt, const std::string& phase, int64_t step,
                           int64_t pos_id) {
  if (batch_.is_full()) flush();
  TraceRow row;
  bool is_new = false;
  row.prompt_id = symbol(prompts_, prompt, is_new);
  if (is_new) batch_.prompts.push_back({prompt, false, {}});
  row.phase_id = symbol(phases_, phase, is_new);
  if (is_new) batch_.phases.push_back(phase);
  row.pos_id = pos_id;
  row.layer = place_.layer;
  row.name_id = name_;
  row.step = step;
  row.context_id = context_;
  row.line = line_;
  ++rows_;
  return batch_.rows.emplace_back(std::move(row));
}

TraceRow& ForeignRows::add_whole(const std::string& prompt, const std::string& phase,
                                 int64_t step) {
  TraceRow& row = add(prompt, phase, step, kUnknownPosition);
  row.flags |= kFlagTensor;
  return row;
}

void ForeignRows::set(TraceRow& row, const Fingerprint& f) {
  row.n = static_cast<int64_t>(f.n);
  if (f.n == 0) return;
  set_statistics_of(row, f);
  batch_.hash_algo = "greta-1";
  row.hash = f.hash;
  row.sketch = &batch_.sketches.emplace_back(sketch_of(f));
}

void ForeignRows::set_hash(TraceRow& row, uint64_t hash, const std::string& algorithm) {
  row.hash = hash;
  batch_.hash_algo = algorithm;
}

void ForeignRows::set_printed(TraceRow& row, std::span<const float> values) {
  row.sketch = &batch_.sketches.emplace_back(sketch_of(fingerprint(values), true));
}

void ForeignRows::find(int64_t line, bool is_error, std::string reason, std::string raw) {
  if (batch_.is_full()) flush();
  batch_.findings.push_back({line, is_error, std::move(reason), std::string(kept_part(raw))});
}

void ForeignRows::note_dtype(std::string_view dtype, uint64_t values) {
  dtypes_[std::string(dtype)] += values;
}

void ForeignRows::note_attribute(const std::string& name, const std::string& value) {
  attributes_.emplace_back(name, value);
}

void ForeignRows::flush() {
  // The tensor at hand may have more rows.
  batch_.contexts_from = std::max<int64_t>(context_, 0);
  take_(batch_);
  batch_.clear();
}

void ForeignRows::finish() {
  RunEvent event;
  event.kind = RunEvent::kAttributes;
  event.attributes = std::move(attributes_);
  const auto most = std::max_element(dtypes_.begin(), dtypes_.end(),
                                     [](auto& a, auto& b) { return a.second < b.second; });
  if (most != dtypes_.end()) event.attributes.emplace_back("dtype", most->first);
  if (!event.attributes.empty()) batch_.events.push_back(std::move(event));
  flush();
}

}  // namespace greta
