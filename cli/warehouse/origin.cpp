#include "cli/warehouse/origin.h"

#include <cstdio>

#include "common/utf8.h"

namespace greta {
namespace {

constexpr int64_t kMaxWrittenOut = 8;

/// Of a row of status, class, rel_l2, tolerance, measure, location and tolerance_source, from
/// column `first` on.
std::string difference_of(const Query& row, int first) {
  const std::string status = row.text(first);
  std::string text = status;
  if (!row.is_null(first + 1)) text += " " + row.text(first + 1);
  if (status != "DRIFT" || row.is_null(first + 2)) return text;
  char tolerance[48];
  std::snprintf(tolerance, sizeof tolerance, " (tolerance %.3g, ", row.cell(first + 3).real);
  return text + " rel_l2=" +
         distance_text(row.cell(first + 2).real, row.text(first + 4), row.text(first + 5)) +
         tolerance + row.text(first + 6) + ")";
}

}  // namespace

std::string distance_text(double rel_l2, std::string_view measure, const std::string& location,
                          std::string_view exact) {
  char size[32];
  std::snprintf(size, sizeof size, "%.3g", rel_l2);
  if (measure != "exact") return size;
  return size + (" " + std::string(exact)) + (location.empty() ? "" : ", " + location);
}

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

std::string Origin::text(std::string_view tells) const {
  if (kind.empty() || kind == "PROPAGATED") return kind;
  std::string text = kind;
  if (!segment.empty()) text += ": " + utf8::printable(segment);
  if (const std::string command = probe(); !command.empty()) {
    text += "; " + command + " " + std::string(tells);
  }
  return text;
}

Origin origin_at(QueryPool& statements, int64_t run_id, const FailPlace& place, Gate gate) {
  if (place.cause.empty() || !place.layer) return {};
  RunQuery ids(statements, run_id,
               "SELECT q.id, m.tensor_id FROM prompt q CROSS JOIN tensor_name m"
               " WHERE q.run_id = ?1 AND q.name = ?2 AND m.name = ?3",
               {place.prompt, place.tensor});
  if (!ids.step()) return {};
  RunQuery query(
      statements, run_id,
      std::string(gate == Gate::kStrict ? "SELECT s.origin" : "SELECT s.numeric_origin") +
          ", s.segment, s.untraced_layers, s.status, s.class, s.rel_l2, s.tolerance, s.measure,"
          " (SELECT d.location FROM located_difference d WHERE d.id = s.difference_id),"
          " CASE s.tolerance < (SELECT o.rel_l2 FROM run_tolerance o WHERE o.run_id = s.run_id"
          "   AND o.tensor_id = s.key_tensor_id) WHEN 1 THEN 'calibrated' WHEN 0 THEN 'shipped' END"
          " FROM comparison_origin s"
          " WHERE s.side IN (0, 1) AND s.fails AND s.run_id = ?1 AND s.other_run_id = ?1"
          " AND s.key_prompt_id = ?2 AND s.key_pos_id = ?3 AND s.key_layer = ?4"
          " AND s.key_tensor_id = ?5 LIMIT 1");
  query.bind(2, ids.integer(0)).bind(3, place.pos.value_or(-1));
  query.bind(4, *place.layer).bind(5, ids.integer(1));
  if (!query.step()) return {};
  return {query.text(0),           query.text(1), query.text(2),
          difference_of(query, 3), query.text(7), query.text(8)};
}

}  // namespace greta
