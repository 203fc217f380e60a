#include "tests/queries/lineage/judged_rows.h"

#include <algorithm>
#include <cmath>

namespace greta::lineage {

Point point_of(const std::string& written) {
  static const std::map<std::string, Point> points = {
      {"embed_out", {"embed_out", 10, false, "EMBED_DRIFT"}},
      {"residual_pre_attn", {"residual_pre_attn", 20, false, "RESIDUAL_PRE_ATTN_DRIFT"}},
      {"x_in", {"residual_pre_attn", 20, false, "X_IN_DRIFT"}},
      {"q_pre_rope", {"q_pre_rope", 40, false, "Q_PRE_ROPE_DRIFT"}},
      {"q_proj", {"q_pre_rope", 40, false, "Q_PRE_ROPE_DRIFT"}},
      {"q_post_rope", {"q_post_rope", 50, false, "Q_POST_ROPE_DRIFT"}},
      {"attn_out", {"attn_out", 70, false, "ATTN_OUT_DRIFT"}},
      {"x_out", {"x_out", 115, false, "X_OUT_DRIFT"}},
      {"final_norm", {"final_norm", 202, true, "FINAL_NORM_DRIFT"}},
      {"rms", {"final_norm", 202, true, "FINAL_NORM_DRIFT"}},
      {"logits", {"logits", 210, true, "LOGITS_DRIFT"}},
      // what nobody knows is last in its layer
      {"gate_17", {"gate_17", 1000, false, "GATE_17_DRIFT"}}};
  return points.at(written);
}

int64_t forward_layer(const Point& point, int64_t layer) {
  return point.is_head || layer < 0 ? 1000000 : layer;
}

int phase_number(const std::string& phase) {
  return phase == "prefill_last" ? 1 : phase == "prefill" ? 2 : phase == "decode0" ? 3 : 4;
}

double tolerance(const ToldRun& run, const Point& point) {
  if (point.name == "embed_out") return 0;
  const std::string dtype = run.dtype.value_or("");
  return dtype == "f32" ? 1e-4 : dtype == "bf16" ? 3e-2 : 1e-2;
}

namespace {

bool same_content(const ToldRow& x, const ToldRow& y) {
  return x.token == y.token && x.n == y.n && x.has_hash == y.has_hash && x.is_nan == y.is_nan &&
         x.max == y.max &&
         (x.has_hash ? x.hash() == y.hash() : x.has_sketch == y.has_sketch && x.value == y.value);
}

bool is_ambiguous(const Crowd& crowd) {
  return std::any_of(crowd.begin(), crowd.end(),
                     [&](const ToldRow* row) { return !same_content(*crowd[0], *row); });
}

double distance(const ToldRow& x, const ToldRow& y) {
  const auto norm = [](const std::vector<float>& values) {
    double sum = 0;
    for (float v : values) sum += static_cast<double>(v) * static_cast<double>(v);
    return std::sqrt(sum);
  };
  std::vector<float> apart = x.values();
  const std::vector<float> other = y.values();
  for (size_t i = 0; i < apart.size(); ++i) apart[i] -= other[i];
  return norm(apart) / std::max(norm(x.values()), norm(other));
}

}  // namespace

Judged held_against(const Crowd& xs, const Crowd& ys, double tolerance) {
  const ToldRow &x = *xs[0], &y = *ys[0];
  const bool same_length = x.n == y.n, hashes = x.has_hash && y.has_hash,
             by_hash = hashes && same_length;
  const bool sketches = x.has_sketch && y.has_sketch && same_length,
             same_sketch = sketches && x.value == y.value;
  const bool other_statistics = x.max && y.max && *x.max != *y.max;
  if (is_ambiguous(xs) || is_ambiguous(ys)) return {Status::kAmbiguous};
  if (by_hash && x.hash() == y.hash() && other_statistics) return {Status::kConflict};
  if (!hashes && same_sketch && other_statistics) return {Status::kConflict};
  if (x.is_nan || y.is_nan) return {Status::kNonfinite};
  if (x.token != y.token) return {Status::kIncomparable};
  if (by_hash && x.hash() == y.hash()) return {Status::kMatch};
  if (by_hash || (sketches && !same_sketch)) {
    // equal sketches of other statistics do not show where the rows differ
    if (!sketches || (same_sketch && other_statistics)) return {Status::kDrift, Class::kUnknown};
    return {Status::kDrift, distance(x, y) <= tolerance ? Class::kRounding : Class::kDivergent};
  }
  return {Status::kIncomparable, same_sketch ? Class::kRounding : Class::kNone};
}

}  // namespace greta::lineage
