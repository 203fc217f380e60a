#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/forward/forward.h"
#include "engine/forward/trace_sink.h"
#include "engine/probe/head_probe.h"
#include "engine/probe/pair_watch.h"

namespace greta {

inline constexpr int64_t kDefaultRepeats = 2;

/// How a probe runs.
struct ProbeOptions {
  ForwardOptions forward;
  TraceSelection selection;
  bool rms_verify = false;   ///< recompute the final norm in double
  bool cpu_probe = false;    ///< recompute the logits in double
  int64_t decode_steps = 0;  ///< greedy tokens after decode0, for prompts that do not say
  int n_threads = 0;         ///< of the checks on the CPU
  /// Memory of the backend for rows of the side that comes first, so that each pair is compared
  /// value by value; what does not fit is not.
  int64_t kept_bytes = int64_t{256} << 20;
  int64_t repeats =
      kDefaultRepeats;  ///< how often a prompt runs again that has a pair beyond rounding
};

/// A prompt to probe.
struct ProbePrompt {
  std::string name;
  std::string text_sha256;      ///< empty when given as ids
  std::vector<int32_t> tokens;  ///< at least one
  std::optional<int64_t> decode_steps = {};
};

/// The same token at the same position, once by prefill and once by decode, into a trace sink.
///
/// Prefill runs the whole prompt (P tokens) and its last position is traced; then every activation
/// and every cache row from P − 1 on (kv_aligned: from P on) is overwritten with NaN, and the last
/// token runs again by the decode path on the cache of the others. Before prefill all of them are
/// NaN: what an earlier prompt left, or nobody wrote, does not look like a result.
///
/// Then N tokens are decoded greedily, and, with everything NaN again, a prefill of prompt and
/// tokens gives each of them its other side (phase prefill_last). In kv_aligned the order is turned
/// around: the tokens are learned first, and decode attends over what that prefill wrote, the last
/// token first, so that all that a token must not read is NaN.
///
/// The two rows of a pair are compared value by value on the device: the record of the second one
/// has their difference.
class Probe {
 public:
  /// All references must outlive it. capacity: positions of the longest prompt with the tokens that
  /// are decoded after it. Throws std::invalid_argument when a row to trace would have more values
  /// than a fingerprint covers.
  Probe(const Model& model, const ModelWeights& weights, Backend& backend, int64_t capacity,
        ProbeOptions options);

  /// Called after each traced batch; for progress.
  std::function<void(const std::string& prompt, const char* phase)> on_progress;

  /// A prompt with a pair beyond these relative L2 distances (by TracePoint; in batch_invariant
  /// with one that differs at all) runs again, and the sink is given the rows of its first such
  /// place as those of a repeat: those of a race change. Without this none does.
  void repeat_beyond(std::vector<double> tolerances);

  void run(const ProbePrompt& prompt, TraceSink& sink);

  /// Routes in force, as the run record keeps them.
  std::string routes_text() const { return forward_.options().routes.text(); }

 private:
  /// What a batch is traced as, and its first token.
  struct Traced {
    Phase last;        ///< of its last token
    bool ends_prompt;  ///< that token has a readout, traced or not
    int64_t step, first_pos, n_tokens;
  };
  void run_once(const ProbePrompt& prompt, TraceSink& sink);
  void continue_prompt(const ProbePrompt& prompt, int64_t n_steps, TraceSink& sink);
  std::vector<int32_t> generate(const ProbePrompt& prompt, int64_t n_steps, bool traced,
                                TraceSink& sink);
  void prefill(const ProbePrompt& prompt, std::span<const int32_t> tokens, TraceSink& sink);
  void decode(int32_t token, int64_t pos, int64_t step, bool keep_kv, Tracer* tracer);
  void decode_traced(int32_t token, int64_t pos, int64_t step, bool keep_kv, TraceSink& sink);
  void emit(const Traced& batch, TraceSink& sink);
  ReadoutRecord read_out(Phase phase, int64_t step, int64_t pos, int64_t token);
  void check_head(size_t traced, int64_t token, ReadoutRecord& readout);
  int64_t step_at(int64_t pos) const { return pos - n_prompt_ + 2; }  ///< of decode
  std::string audit(bool decode) const;

  const Model& model_;
  Backend& backend_;
  ProbeOptions options_;
  KvCache cache_;
  Forward forward_;
  Tracer tracer_;
  std::optional<HeadProbe> head_probe_;
  PairWatch watch_;
  int64_t n_prompt_ = 0;  ///< tokens of the prompt in progress
  int64_t repeat_ = 0;    ///< which one is in progress; 0: the run that is judged
};

}  // namespace greta
