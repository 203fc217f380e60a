#include "engine/forward/trace_point.h"

#include <array>

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

}  // namespace

std::string_view trace_point_name(TracePoint point) { return kNames[static_cast<size_t>(point)]; }

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

}  // namespace greta
