#include "engine/run/trace_sink.h"

#include <cmath>
#include <stdexcept>

#include "common/run_name_rule.h"

namespace greta {
namespace {

void check_name(const char* what, std::string_view name, bool allowed) {
  if (allowed) return;
  throw std::invalid_argument(std::string(what) + " '" + std::string(name) +
                              "': " + std::string(kNamePartRule));
}
void check_part(const char* what, std::string_view name) {
  check_name(what, name, is_name_part(name));
}

}  // namespace

std::string base_run_name(const RunRecord& run) {
  if (!run.name.empty()) {
    check_name("run name", run.name, is_run_name(run.name));
    return run.name;
  }
  check_part("date", run.date);
  check_part("experiment", run.experiment);
  std::string name = run.date + "/" + run.experiment;
  if (run.mode.empty()) return name;
  check_part("mode", run.mode);
  name += "/" + run.mode;
  if (run.label.empty()) return name;
  check_part("label", run.label);
  return name + "." + run.label;
}

void TraceSink::attribute(const std::string&, const std::string&) {}

std::optional<double> PairDifference::rel_l2() const {
  return finite ? std::optional(values.rel_l2()) : std::nullopt;
}

std::vector<double> PairDifference::shares() const {
  const double sum = values.sum_sq();
  std::vector<double> shares(static_cast<size_t>(segments.n), 0.0);
  for (size_t s = 0; s < shares.size() && sum > 0; ++s) shares[s] = values.segment_sum_sq[s] / sum;
  return shares;
}

std::optional<double> top_gap(const ReadoutRecord& r) {
  const bool both = r.top1_id >= 0 && r.top2_id >= 0 && std::isfinite(r.top1_logit) &&
                    std::isfinite(r.top2_logit);
  if (!both) return std::nullopt;
  return static_cast<double>(r.top1_logit) - static_cast<double>(r.top2_logit);
}

}  // namespace greta
