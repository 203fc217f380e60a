#include <nlohmann/json.hpp>

#include "ingest/record/shapes.h"
#include "ingest/repeated_keys.h"

namespace greta::record {

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
    auto json = nlohmann::json::parse(in.fields.token[k], watch, false);
    if (!json.is_object()) return;
    if (auto it = json.find("id"); it != json.end() && it->is_number_integer())
      id = it->get<int64_t>();
    if (auto it = json.find("logit"); it != json.end() && it->is_number())
      logit = it->get<double>();
    if (json.size() == size_t{id.has_value()} + size_t{logit.has_value()}) in.fields.take(k);
  };
  choice(kTop1, out.top1_id, out.top1_logit);
  if (in.fields.states(kTop2)) choice(kTop2, out.top2_id, out.top2_logit);
  if (!repeated.first().empty())
    return in.add_finding(true, repeated.first() + " is written twice");
  if (!out.top1_id) return in.add_finding(true, "top1 is not an object with an id");
  out.gap = in.real_field(kGap);
  in.set_shape("landscape");
  in.add(row, std::move(c), in.extra_json({}, {}));
  in.batch->readouts.push_back(std::move(out));
}

}  // namespace greta::record
