#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace greta {

/// What the forward pass can trace, in forward order. Names are those of the table tensor_name.
/// Values from kTracePoints on are points of other engines (trace_point_of).
enum class TracePoint : uint16_t {
  kEmbdWHash,  ///< row of the embedding table, a weight; layer 0
  kEmbedOut,   ///< layer 0
  kResidualPreAttn,
  kRmsWeight,  ///< weight of the attention norm
  kAttnNormOut,
  kQPreRope,
  kKPreRope,
  kVProj,
  kQPostRope,
  kKPostRope,
  kKCache,
  kVCache,  ///< rows read back at the position
  kKCacheRows,
  kVCacheRows,  ///< rows 0..pos, as attention finds them
  kAttnScores,
  kAttnProbs,  ///< keys 0..pos, index = key · heads + head
  kAttnOut,    ///< heads concatenated, before the output projection
  kWoOut,
  kResidualPostAttn,
  kFfnNormIn,  ///< what enters the FFN
  kMlpOut,
  kResidualPostMlp,
  kXOut,    ///< the same values
  kHidden,  ///< from here on after the stack: kLayerAfterStack
  kFinalNorm,
  kLmHeadIn,
  kLogits,
  kLogitsTop1,
  kLogitsTopk,
};
inline constexpr int kTracePoints = static_cast<int>(TracePoint::kLogitsTopk) + 1;

/// Layer number of everything after the stack.
inline constexpr int kLayerAfterStack = -1;

/// q_post_rope
std::string_view trace_point_name(TracePoint point);
/// Of those that the forward pass can trace.
std::optional<TracePoint> find_trace_point(std::string_view name);
/// The point of this name, whatever engine it is of: one that is new is one more, for as long as
/// the program runs. Nothing when it has more names than a database can hold. From any thread.
std::optional<TracePoint> trace_point_of(std::string_view name);
/// k_cache_rows, v_cache_rows: as long as the sequence, and told by nothing but their other side.
inline bool is_cache_rows(TracePoint point) {
  return point == TracePoint::kKCacheRows || point == TracePoint::kVCacheRows;
}

/// Where a trace point of the forward pass lives.
enum class Stage { kEmbed, kLayer, kHead };
Stage trace_point_stage(TracePoint point);

/// Phases of a run and the side of the comparison each is on. Rows of a repeat are on neither: they
/// say whether a row comes out alike when its prompt is run again.
enum class Phase : uint8_t {
  kPrefillLast,
  kPrefill,
  kDecode0,
  kDecode,
  kRepeatPrefill,
  kRepeatDecode
};
inline constexpr int kPhaseCount = static_cast<int>(Phase::kRepeatDecode) + 1;
inline constexpr int kTracedPhases = static_cast<int>(Phase::kDecode) + 1;  ///< can be asked for
std::string_view phase_name(Phase phase);
/// Of those that can be asked for.
std::optional<Phase> find_phase(std::string_view name);
inline bool is_decode(Phase phase) {
  return phase >= Phase::kDecode0 && phase != Phase::kRepeatPrefill;
}

}  // namespace greta
