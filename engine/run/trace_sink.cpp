#include "engine/run/trace_sink.h"

#include <array>
#include <cmath>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <unordered_map>

#include "common/run_name_rule.h"

namespace greta {
namespace {

constexpr std::array<std::string_view, kTracePoints> kNames{
    "embd_w_hash",        "embed_out",     "residual_pre_attn",
    "rms_weight",         "attn_norm_out", "q_pre_rope",
    "k_pre_rope",         "v_proj",        "q_post_rope",
    "k_post_rope",        "k_cache",       "v_cache",
    "k_cache_rows",       "v_cache_rows",  "attn_scores",
    "attn_probs",         "attn_out",      "wo_out",
    "residual_post_attn", "ffn_norm_in",   "mlp_out",
    "residual_post_mlp",  "x_out",         "hidden",
    "final_norm",         "lm_head_in",    "logits",
    "logits_top1",        "logits_topk"};
constexpr std::array<std::string_view, kPhaseCount> kPhaseNames{
    "prefill_last", "prefill", "decode0", "decode", "repeat_prefill", "repeat_decode"};

template <class Enum, size_t n>
std::optional<Enum> find(const std::array<std::string_view, n>& names, std::string_view name) {
  for (size_t i = 0; i < n; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

/// Names of points that are not of the forward pass.
class OtherNames {
 public:
  std::string_view name_of(size_t nth) {
    const std::shared_lock lock(mutex_);
    return names_[nth];  // which stays where it is
  }
  std::optional<size_t> find(std::string_view name) {
    const std::shared_lock lock(mutex_);
    const auto found = numbers_.find(name);
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<size_t> add(std::string_view name) {
    const std::unique_lock lock(mutex_);
    if (const auto found = numbers_.find(name); found != numbers_.end()) return found->second;
    if (names_.size() == kMost) return std::nullopt;
    const std::string& kept = names_.emplace_back(name);
    return numbers_[kept] = names_.size() - 1;
  }

 private:
  static constexpr size_t kMost = 64'000;  // with those of the forward pass, what a database holds

  std::shared_mutex mutex_;
  std::deque<std::string> names_;
  std::unordered_map<std::string_view, size_t> numbers_;  // of names_
};

OtherNames& other_names() {
  static OtherNames names;
  return names;
}

void check_name(const char* what, std::string_view name, bool allowed) {
  if (allowed) return;
  throw std::invalid_argument(std::string(what) + " '" + std::string(name) +
                              "': " + std::string(kNamePartRule));
}
void check_part(const char* what, std::string_view name) {
  check_name(what, name, is_name_part(name));
}

}  // namespace

std::string_view trace_point_name(TracePoint point) {
  const auto number = static_cast<size_t>(point);
  return number < kNames.size() ? kNames[number] : other_names().name_of(number - kNames.size());
}

std::optional<TracePoint> trace_point_of(std::string_view name) {
  if (const auto known = find_trace_point(name)) return known;
  std::optional<size_t> nth = other_names().find(name);
  if (!nth) nth = other_names().add(name);
  if (!nth) return std::nullopt;
  return static_cast<TracePoint>(kNames.size() + *nth);
}

std::optional<TracePoint> find_trace_point(std::string_view name) {
  return find<TracePoint>(kNames, name);
}

Stage trace_point_stage(TracePoint point) {
  if (point <= TracePoint::kEmbedOut) return Stage::kEmbed;
  return point < TracePoint::kHidden ? Stage::kLayer : Stage::kHead;
}

std::string_view phase_name(Phase phase) { return kPhaseNames[static_cast<size_t>(phase)]; }

std::optional<Phase> find_phase(std::string_view name) {
  const std::optional<Phase> found = find<Phase>(kPhaseNames, name);
  return found && static_cast<int>(*found) < kTracedPhases ? found : std::nullopt;
}

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
