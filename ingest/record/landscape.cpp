#include <nlohmann/json.hpp>

#include "ingest/record/shapes.h"

namespace greta::record {

void read_landscape(LineReader& in) {
  TraceRow row;
  row.layer = -1;
  if (!in.step_and_position(row, {kPosId})) return;
  RowContext c;
  row.prompt_id = in.line_prompt();
  row.name_id = in.name("logits_topk");
  std::string_view phase_name = row.step == 0   ? "prefill_last"
                                : row.step == 1 ? "decode0"
                                                : "decode";
  in.set_phase(row, c, phase_name, phase_name);

  Readout out = in.readout_of(row);
  auto choice = [&in](Key k, std::optional<int64_t>& id, std::optional<double>& logit) {
    auto json = nlohmann::json::parse(in.fields.token[k], nullptr, false);
    if (!json.is_object()) return;
    if (auto it = json.find("id"); it != json.end() && it->is_number_integer())
      id = it->get<int64_t>();
    if (auto it = json.find("logit"); it != json.end() && it->is_number())
      logit = it->get<double>();
    if (json.size() == size_t{id.has_value()} + size_t{logit.has_value()}) in.fields.take(k);
  };
  choice(kTop1, out.top1_id, out.top1_logit);
  if (in.fields.has(kTop2)) choice(kTop2, out.top2_id, out.top2_logit);
  if (!out.top1_id) return in.add_finding(true, "top1 is not an object with an id");
  out.gap = in.real_field(kGap);
  in.set_shape("landscape");
  in.add(row, std::move(c), in.extra_json({}, {}));
  in.batch->readouts.push_back(std::move(out));
}

}  // namespace greta::record
