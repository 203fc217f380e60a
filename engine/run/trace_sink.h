#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/fingerprint/fingerprint.h"
#include "kernels/row_difference.h"

// What an engine says about a run, in the order in which it happens. A sink writes it down.

namespace greta {

/// Points that the forward pass can trace, in forward order. Names are those of the table
/// tensor_name. Values from kTracePoints on are points of other engines (trace_point_of).
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
/// The point of this name that the forward pass can trace.
std::optional<TracePoint> find_trace_point(std::string_view name);
/// The point of this name, whatever engine it is of: one that is new is one more, for as long as
/// the program runs. Nothing when it has more names than a database can hold. From any thread.
std::optional<TracePoint> trace_point_of(std::string_view name);
/// k_cache_rows, v_cache_rows: as long as the sequence, and told by nothing but their other side.
inline bool is_cache_rows(TracePoint point) {
  return point == TracePoint::kKCacheRows || point == TracePoint::kVCacheRows;
}

/// Part of the model where a trace point lives.
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
/// The phase of this name that can be asked for.
std::optional<Phase> find_phase(std::string_view name);
inline bool is_decode(Phase phase) {
  return phase >= Phase::kDecode0 && phase != Phase::kRepeatPrefill;
}

/// What is known of a run when it starts.
struct RunRecord {
  std::string experiment;        ///< b3_66_v2
  std::string date;              ///< YYYY-MM-DD
  std::string commit_sha;        ///< of the engine's build; empty when unknown
  std::string mode;              ///< as_designed, kv_aligned, batch_invariant; empty for none
  std::string name;              ///< what the run is called, where somebody says; else empty
  bool replaces_failed = false;  ///< a run of that name that failed, or whose process is gone
  std::string label;  ///< what tells it from other runs of its mode, as its name; or empty
  std::string dtype;  ///< of the arithmetic, which sets the tolerance: f32
  int64_t seed = 0;
  std::string started_at;                                 ///< ISO 8601 UTC
  using Attribute = std::pair<std::string, std::string>;  ///< name, value
  /// Everything else: dirty, host, device, backend, model, model_root, model_sha256, weights,
  /// routes, inject, env.NAME, ...; a name may occur more than once.
  std::vector<Attribute> attributes;
};

/// What the run is called where nothing else has that name: its name, or
/// <date>/<experiment>[/<mode>[.<label>]]. Throws std::invalid_argument when a part is empty or
/// cannot be part of a name.
std::string base_run_name(const RunRecord& run);

/// A tensor row that the run must trace, or it is incomplete.
struct PlannedRow {
  bool decode = false;
  int layer = 0;
  TracePoint point{};
};

struct PromptRecord {
  std::string name;         ///< p0_short
  std::string text_sha256;  ///< of the text; empty when the prompt was given as ids
  std::vector<int32_t> token_ids;
  std::vector<PlannedRow> plan;
};

/// How a row differs from that of the other side of its comparison.
struct PairDifference {
  uint64_t prefill_hash = 0, decode_hash = 0;
  RowDifference values;  ///< x: the row that was there first
  RowSegments segments;
  int64_t heads = 0;    ///< that the segments are, as many of them each; 0: equal slices
  bool finite = false;  ///< all values of both rows are

  /// Nothing where a value is not finite.
  std::optional<double> rel_l2() const;
  /// Of each segment in the squared difference; all 0 where no finite values are apart.
  std::vector<double> shares() const;
};

/// One traced tensor row. A step, position or token of -1 is not known.
struct TraceRecord {
  TracePoint point{};
  int layer = 0;
  Phase phase{};
  int64_t step = 0;
  int64_t pos_id = 0;
  int32_t token_id = 0;
  std::optional<int64_t> logical_tok_idx = {};  ///< where it is not pos_id
  int64_t seq_len = 0;      ///< tokens of the batch; 0: not known, nor token_index
  int64_t token_index = 0;  ///< row in the batch
  std::string route;        ///< how it was computed: MFMA; empty when not known
  Fingerprint fingerprint;
  std::vector<float> sample;                         ///< leading values; empty when not wanted
  std::string extra;                                 ///< JSON object, empty for none
  std::shared_ptr<const PairDifference> difference;  ///< from the other side, where it is known
};

/// Tokens of the sequence up to the end of the row's batch.
inline int64_t tokens_total(const TraceRecord& row) {
  return row.pos_id - row.token_index + row.seq_len;
}

/// What a row of logits chose.
struct ReadoutRecord {
  Phase phase{};
  int64_t step = 0;
  int64_t pos_id = 0;
  int32_t top1_id = 0;  ///< -1 for none: no logit is a number, or there is no second one
  float top1_logit = 0;
  int32_t top2_id = 0;
  float top2_logit = 0;
  int64_t vocab = 0;
  std::string route;                   ///< of the LM head
  std::optional<int32_t> cpu_top1_id;  ///< chosen by the CPU probe, -1 when it saw no number
  /// Relative L2 distance of the final norm, and of the logits, from double arithmetic on the
  /// hidden state; 1e30 when it is not finite. Nothing: not worked out.
  std::optional<double> norm_error, logits_error;
};

/// top1_logit − top2_logit, nothing when one of them is missing or not finite.
std::optional<double> top_gap(const ReadoutRecord& readout);

/// Takes a run as it happens: prompts that begin, rows and readouts of those that have begun, in
/// any order of the prompts; end once. Calls come from one thread. A sink that cannot write throws
/// from the next call.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  /// Returns the number of the prompt in the run, from 0.
  virtual size_t begin_prompt(const PromptRecord& prompt) = 0;
  virtual void rows(size_t prompt, std::vector<TraceRecord> rows) = 0;
  virtual void readout(size_t prompt, const ReadoutRecord& readout) = 0;
  /// Something about the run that was not known when it started, as RunRecord::attributes. A sink
  /// that keeps no attributes need not take it.
  virtual void attribute(const std::string& name, const std::string& value);
  /// Everything given so far is on disk when it returns. complete = false marks the run failed.
  virtual void end(bool complete) = 0;
};

}  // namespace greta
