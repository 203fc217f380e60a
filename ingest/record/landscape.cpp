#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "ingest/record/shapes.h"
#include "ingest/repeated_keys.h"

namespace greta::record {
namespace {

/// A choice as JSON: numbers that are not finite, which writers print as bare words, are null.
std::string finite_json(std::string_view token) {
  std::string out;
  bool in_string = false;
  for (size_t i = 0; i < token.size();) {
    const size_t end = std::min(token.find_first_of("\"\\{}[]:, \t", i), token.size());
    const std::string_view word = token.substr(i, end - i);
    const auto number = in_string || word.empty() ? std::nullopt : real(word);
    const bool is_finite = !number || std::isfinite(*number);
    out += is_finite && !is_nonfinite_literal(in_string ? "" : word) ? word : "null";
    if (end == token.size()) break;
    if (token[end] == '"') in_string = !in_string;
    i = end;
    out += token[i++];
    if (token[end] == '\\' && i < token.size()) out += token[i++];
  }
  return out;
}

}  // namespace

void read_landscape(LineReader& in) {
  TraceRow row;
  row.layer = -1;
  if (!in.step_and_position(row, {kPosId})) return;
  auto phase = in.line_phase(phase_of_step(row.step));
  if (!phase) return;
  if (phase->name == "prefill") phase->name = "prefill_last";
  if (phase->name == "decode" && row.step == 1) phase->name = "decode0";
  RowContext c;
  row.prompt_id = in.line_prompt();
  row.name_id = in.name("logits_topk");
  in.set_phase(row, c, *phase);

  Readout out = in.readout_of(row);
  RepeatedKeys repeated;
  const auto watch = [&repeated](int, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    repeated.watch(event, parsed);
    return true;
  };
  auto choice = [&](Key k, std::optional<int64_t>& id, std::optional<double>& logit) {
    auto json = nlohmann::json::parse(finite_json(in.fields.token[k]), watch, false);
    if (!json.is_object()) return;
    if (auto it = json.find("id"); it != json.end() && it->is_number_integer())
      id = it->get<int64_t>();
    if (auto it = json.find("logit"); it != json.end()) {
      if (it->is_number()) {
        logit = it->get<double>();
      } else {
        in.fields.take(k);
        in.reject(k, false, "has a logit that is no finite number; kept as text");
        in.doubts.flags |= kFlagNonfiniteStatistic;
      }
    }
    if (json.size() == size_t{id.has_value()} + size_t{logit.has_value()}) in.fields.take(k);
  };
  choice(kTop1, out.top1_id, out.top1_logit);
  if (in.fields.states(kTop2)) choice(kTop2, out.top2_id, out.top2_logit);
  if (!repeated.first().empty())
    return in.add_finding(true, repeated.first() + " is written twice");
  const bool is_finite = (in.doubts.flags & kFlagNonfiniteStatistic) == 0;
  if (!out.top1_id && is_finite) return in.add_finding(true, "top1 is not an object with an id");
  out.gap = in.real_field(kGap);
  in.set_shape("landscape");
  in.add(row, std::move(c), in.extra_json({}, {}));
  in.batch->readouts.push_back(std::move(out));
}

}  // namespace greta::record
