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

namespace greta {

/// How a probe runs.
struct ProbeOptions {
  ForwardOptions forward;
  TraceSelection selection;
  bool rms_verify = false;   ///< recompute the final norm in double
  bool cpu_probe = false;    ///< recompute the logits in double
  int64_t decode_steps = 0;  ///< greedy tokens after decode0, traced as phase decode
  int n_threads = 0;         ///< of the checks on the CPU
};

/// A prompt to probe.
struct ProbePrompt {
  std::string name;
  std::string text_sha256;      ///< empty when given as ids
  std::vector<int32_t> tokens;  ///< at least one
};

/// The same token at the same position, once by prefill and once by decode, into a trace sink.
///
/// Prefill runs the whole prompt (P tokens) and its last position is traced; then every activation
/// and every cache row from P − 1 on (kv_aligned: from P on) is overwritten with NaN, and the last
/// token runs again by the decode path on the cache of the others. Before prefill all of them are
/// NaN: what an earlier prompt left, or nobody wrote, does not look like a result.
class Probe {
 public:
  /// All references must outlive it. max_prompt: longest prompt, in tokens. Throws
  /// std::invalid_argument when a row to trace would have more values than a fingerprint covers.
  Probe(const Model& model, const ModelWeights& weights, Backend& backend, int64_t max_prompt,
        ProbeOptions options);

  /// Called after each traced batch; for progress.
  std::function<void(const std::string& prompt, const char* phase)> on_progress;

  void run(const ProbePrompt& prompt, TraceSink& sink);

  /// Routes in force, as the run record keeps them.
  std::string routes_text() const { return forward_.options().routes.text(); }

 private:
  void prefill(const ProbePrompt& prompt, TraceSink& sink);
  void decode(int32_t token, int64_t pos, Phase phase, int64_t step, TraceSink& sink);
  void emit(Phase phase, int64_t step, int64_t pos, TraceSink& sink);
  std::string audit(bool decode) const;

  const Model& model_;
  Backend& backend_;
  ProbeOptions options_;
  KvCache cache_;
  Forward forward_;
  Tracer tracer_;
  std::optional<HeadProbe> head_probe_;
};

}  // namespace greta
