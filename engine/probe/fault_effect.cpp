#include "engine/probe/fault_effect.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>

namespace greta {
namespace {

// A softmax without its maximum stays finite when the scores are moved by no more.
constexpr double kHarmlessShift = 60;

bool touches_cache(FaultKind kind) {
  return kind == FaultKind::kKvWrongSlot || kind == FaultKind::kStaleKvTail;
}

bool turns(FaultKind kind) {
  return kind == FaultKind::kRopeTheta || kind == FaultKind::kRopeThetaKept ||
         kind == FaultKind::kRopePairing;
}

/// Why a fault is none in this model, wherever it is.
std::string why_not_in(const ModelConfig& c, const Fault& fault) {
  const std::string kv_heads =
      "the model has " + std::to_string(c.n_kv_heads) + " KV head" + (c.n_kv_heads == 1 ? "" : "s");
  const auto factor = static_cast<float>(fault.magnitude);
  switch (fault.kind) {
    case FaultKind::kGqaHeadMapping:
      if (c.n_kv_heads == c.n_heads) return kv_heads + ", one for every query head";
      [[fallthrough]];
    case FaultKind::kKvHeadStride:
    case FaultKind::kVLayoutTransposed:
      return c.n_kv_heads == 1 ? kv_heads : "";
    case FaultKind::kRopeTheta:
    case FaultKind::kRopeThetaKept:
      if (fault.magnitude == 1) return "a factor of 1";
      [[fallthrough]];
    case FaultKind::kRopePairing:
      return c.rope_dim == 2 ? "RoPE turns one pair of a head, by the position itself" : "";
    case FaultKind::kRmsNormEps:
      return c.rms_eps * factor == c.rms_eps ? "epsilon stays as it is" : "";
    case FaultKind::kQuantScale:
    case FaultKind::kKCacheSpoiled:
      return factor == 1 ? "a factor of 1" : "";
    default:
      return "";
  }
}

/// Whether a fault changes what prefill has read by then: rows of decode tell of it, and only they.
bool comes_after_prefill(const Fault& fault, bool decode) {
  return fault.kind == FaultKind::kKCacheSpoiled && !decode;
}

/// Why a fault is none for the token at `pos`.
std::string why_not_at(int64_t pos, const Fault& fault) {
  if (pos == 0 && fault.kind == FaultKind::kKCacheSpoiled) {
    return "position 0 has no row before its own";
  }
  if (pos == 0 && turns(fault.kind)) return "RoPE does not turn position 0";
  if (pos == 0 && fault.kind == FaultKind::kSoftmaxNoMax &&
      std::abs(fault.magnitude) <= kHarmlessShift) {
    return "position 0 sees one key, whose probability is 1";
  }
  return "";
}

/// Whether a fault changes scores and no other step of attention: where there is one key, nothing
/// comes of that.
bool changes_scores_only(FaultKind kind) {
  return kind == FaultKind::kQuantScale || kind == FaultKind::kKvHeadStride ||
         kind == FaultKind::kRopePosOffByOne;
}

/// Whether windows hide row 0 from the token at `pos` in every layer that a fault is in.
bool hides_row_0(const ModelConfig& config, const Fault& fault, int64_t pos) {
  const auto first = static_cast<size_t>(fault.layer.value_or(0));
  const size_t end = fault.layer ? first + 1 : static_cast<size_t>(config.n_layers);
  for (size_t layer = first; layer < end; ++layer) {
    const int64_t window = config.window_of(layer);
    if (window == 0 || pos < window) return false;
  }
  return true;
}

/// Whether a row of the token at `pos` is traced that the fault changes, or what follows from it.
bool is_traced(const Fault& fault, int64_t pos, const TraceSelection& selection,
               const ModelConfig& config) {
  const int64_t n_layers = config.n_layers;
  const TracePoint shows_at = fault_info(fault.kind).shows_at;
  const bool spoils_hidden_row =
      fault.kind == FaultKind::kKCacheSpoiled && hides_row_0(config, fault, pos);
  const bool ends_in_scores = (pos == 0 && changes_scores_only(fault.kind)) || spoils_hidden_row;
  for (int p = static_cast<int>(shows_at); p < kTracePoints; ++p) {
    const auto point = static_cast<TracePoint>(p);
    const bool seen = !ends_in_scores || point <= TracePoint::kAttnScores;
    if (!seen || !selection.wants(point)) continue;
    if (trace_point_stage(point) == Stage::kHead) return true;
    const int first = fault.layer.value_or(0);
    const int64_t end = fault.layer ? first + 1 : n_layers;
    for (int layer = first; layer < end; ++layer) {
      if (selection.wants_layer(layer)) return true;
    }
  }
  if (ends_in_scores || trace_point_stage(shows_at) == Stage::kHead) return false;
  for (int p = 0; p < kTracePoints; ++p) {  // of later layers
    const auto point = static_cast<TracePoint>(p);
    const bool activation = point != TracePoint::kRmsWeight;
    if (!activation || trace_point_stage(point) != Stage::kLayer || !selection.wants(point))
      continue;
    for (int layer = fault.layer.value_or(0) + 1; layer < n_layers; ++layer) {
      if (selection.wants_layer(layer)) return true;
    }
  }
  return false;
}

/// What prefill leaves in the cache for decode, and the last position where a fault changes it.
std::optional<int64_t> last_cached(const FaultScene& scene, const Fault& fault, int64_t n_layers) {
  const TracePoint shows_at = fault_info(fault.kind).shows_at;
  if (comes_after_prefill(fault, false)) {  // of kv_aligned another prefill may have come
    const bool prefilled_again = scene.prefills_all && !scene.decode_stores;
    return (prefilled_again ? scene.end : scene.n_prompt) - 1;
  }
  if (trace_point_stage(shows_at) == Stage::kHead) return std::nullopt;
  const bool own_rows = shows_at != TracePoint::kQPreRope && shows_at <= TracePoint::kVCache;
  if (!own_rows && fault.layer.value_or(0) + 1 == n_layers) return std::nullopt;
  // Decode writes the row of the last token itself, unless it is kv_aligned.
  const int64_t last = scene.n_prompt - (scene.decode_stores ? 2 : 1);
  if (last < 0 || (last == 0 && !own_rows && changes_scores_only(fault.kind))) return std::nullopt;
  if (fault.kind == FaultKind::kStaleKvTail && scene.decode_stores) return std::nullopt;
  return last;
}

/// The last position of a side that has a traced row.
std::optional<int64_t> last_traced(const FaultScene& scene, bool decode,
                                   const TraceSelection& selection) {
  if (decode) {
    if (selection.wants(Phase::kDecode) && scene.end > scene.decode_from + 1) return scene.end - 1;
    const bool has_first = scene.end > scene.decode_from;
    if (selection.wants(Phase::kDecode0) && has_first) return scene.decode_from;
    return std::nullopt;
  }
  if (selection.wants(Phase::kPrefillLast)) {
    return (scene.prefills_all ? scene.end : scene.n_prompt) - 1;
  }
  const bool before_last = selection.wants(Phase::kPrefill) && scene.n_prompt > 1;
  return before_last ? std::optional(scene.n_prompt - 2) : std::nullopt;
}

/// Why a fault shows on no row of one side.
std::string why_not_on(const FaultScene& scene, bool decode, const Fault& fault,
                       const ModelConfig& config, const TraceSelection& selection) {
  const std::string side = decode ? "decode" : "prefill";
  if (fault.kind == FaultKind::kRopeThetaKept && !scene.after_longer) {
    return "no longer prompt runs before this one";
  }
  if (decode && touches_cache(fault.kind) && !scene.decode_stores) {
    return "in kv_aligned decode leaves the K and V rows to prefill";
  }
  const bool after = comes_after_prefill(fault, decode);
  std::optional<int64_t> last = after ? std::nullopt : last_traced(scene, decode, selection);
  const bool own = last.has_value();
  if (!own && !decode && last_traced(scene, true, selection)) {  // decode's rows tell of it
    last = last_cached(scene, fault, config.n_layers);
  }
  if (!last) return side + " has no traced row";
  const int64_t pos = last.value_or(0);
  if (pos < fault.onset.pos) {
    return side + " is traced up to position " + std::to_string(pos);
  }
  const int64_t step = pos - scene.decode_from + 1;
  if (decode && step < fault.onset.step) return "decode ends with step " + std::to_string(step);
  if (scene.n_prompt < fault.onset.n_prompt) {
    return "the prompt has " + std::to_string(scene.n_prompt) +
           (scene.n_prompt == 1 ? " token" : " tokens");
  }
  if ((own || after) && !is_traced(fault, pos, selection, config)) {
    return "of position " + std::to_string(pos) + " nothing is traced that it changes";
  }
  return why_not_at(pos, fault);
}

/// Whether `first` is in force wherever `fault` is: then it is the one that counts.
bool covers(const Fault& first, const Fault& fault) {
  return first.kind == fault.kind && (first.prefill || !fault.prefill) &&
         (first.decode || !fault.decode) && (!first.layer || first.layer == fault.layer) &&
         first.has_begun(fault.onset);
}

}  // namespace

FaultScene probe_scene(int64_t n_prompt, int64_t n_steps, Mode mode,
                       const TraceSelection& selection) {
  return {.n_prompt = n_prompt,
          .decode_from = n_prompt - 1,
          .end = n_prompt + n_steps,
          .prefills_all = selection.wants(Phase::kDecode),
          .decode_stores = mode != Mode::kKvAligned};
}

FaultScene generation_scene(int64_t n_prompt, int64_t n_decoded) {
  return {.n_prompt = n_prompt,
          .decode_from = n_prompt,
          .end = n_prompt + n_decoded,
          .prefills_all = false,
          .decode_stores = true};
}

std::string why_without_effect(std::span<const Fault> faults, size_t i, const ModelConfig& config,
                               const TraceSelection& selection,
                               std::span<const FaultScene> scenes) {
  const Fault& fault = faults[i];
  for (const Fault& before : faults.first(i)) {
    if (covers(before, fault)) return before.text() + " is in force wherever it is";
  }
  if (fault.layer && *fault.layer >= config.n_layers) {
    return "the model has layers 0 to " + std::to_string(config.n_layers - 1);
  }
  if (std::string why = why_not_in(config, fault); !why.empty()) return why;
  std::string why = "there is no prompt";
  for (const FaultScene& scene : scenes) {
    for (const bool decode : {false, true}) {
      if (!(decode ? fault.decode : fault.prefill)) continue;
      why = why_not_on(scene, decode, fault, config, selection);
      if (why.empty()) return why;
    }
  }
  return why + (scenes.size() > 1 ? ", as in all other prompts" : "");
}

void refuse_faults_without_effect(const FaultSet& faults, const ModelConfig& config,
                                  const TraceSelection& selection,
                                  std::span<const FaultScene> scenes) {
  for (size_t i = 0; i < faults.all().size(); ++i) {
    const std::string why = why_without_effect(faults.all(), i, config, selection, scenes);
    if (why.empty()) continue;
    throw std::invalid_argument("fault " + faults.all()[i].text() +
                                " would change nothing: " + why);
  }
}

}  // namespace greta
