#include "cli/warehouse/origin.h"

#include <cstdio>
#include <cstdlib>

#include "common/utf8.h"

namespace greta {
namespace {

constexpr int64_t kMaxWrittenOut = 8;

std::string difference_of(const Query& row, int status, int grade, int rel_l2, int tolerance) {
  std::string text = row.text(status);
  if (!row.is_null(grade)) text += " " + row.text(grade);
  if (row.text(status) != "DRIFT" || row.is_null(rel_l2)) return text;
  char size[96];
  std::snprintf(size, sizeof size, " rel_l2=%.3g (tolerance %.3g)", row.cell(rel_l2).real,
                row.cell(tolerance).real);
  return text + size;
}

}  // namespace

std::string listed_layers(const std::string& layers) {
  const size_t dash = layers.find('-');
  if (dash == std::string::npos) return layers;
  const int64_t first = std::atoll(layers.c_str()), last = std::atoll(layers.c_str() + dash + 1);
  if (last - first >= kMaxWrittenOut) return layers;
  std::string text;
  for (int64_t layer = first; layer <= last; ++layer) {
    text += (text.empty() ? "" : ",") + std::to_string(layer);
  }
  return text;
}

std::string telling_probe(const std::string& segment, const std::string& untraced_layers) {
  if (!untraced_layers.empty()) {
    return "greta-infer probe … --layers " + listed_layers(untraced_layers);
  }
  return std::string("greta-infer probe …") + (segment.empty() ? " --layers all" : "") +
         " --tensors all";
}

std::string Origin::probe() const {
  return kind == "UNSAMPLED" ? telling_probe(segment, untraced_layers) : "";
}

std::string Origin::text() const {
  if (kind.empty() || kind == "PROPAGATED") return kind;
  std::string text = kind;
  if (!segment.empty()) text += ": " + utf8::printable(segment);
  if (const std::string tells = probe(); !tells.empty()) text += "; " + tells + " tells where";
  return text;
}

Origin Origins::at(int64_t run_id, const FailPlace& place, Gate gate) {
  if (place.cause.empty() || !place.layer) return {};
  if (!query_) {
    query_ = std::make_unique<Query>(
        db_,
        "SELECT origin, numeric_origin, segment, untraced_layers, status, class, rel_l2, tolerance"
        " FROM comparison_placed WHERE side IN (0, 1) AND fails AND run_id = ?1"
        " AND key_prompt_id = (SELECT id FROM prompt WHERE run_id = ?1 AND name = ?2)"
        " AND key_pos_id = ?3 AND key_layer = ?4"
        " AND key_tensor_id = (SELECT tensor_id FROM tensor_name WHERE name = ?5) LIMIT 1");
  }
  Query& query = *query_;
  query.reset();
  query.bind(1, run_id).bind(2, place.prompt).bind(3, place.pos.value_or(-1));
  query.bind(4, *place.layer).bind(5, place.tensor);
  if (!query.step()) return {};
  return {query.text(gate == Gate::kNumeric ? 1 : 0), query.text(2), query.text(3),
          difference_of(query, 4, 5, 6, 7)};
}

}  // namespace greta
