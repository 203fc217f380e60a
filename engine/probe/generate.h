#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "engine/forward/forward.h"
#include "engine/forward/sampler.h"
#include "engine/run/trace_sink.h"

// Generates text from a prompt, token by token.

namespace greta {

struct GenerateOptions {
  ForwardOptions forward;
  SamplerOptions sampler;
  TraceSelection selection;  ///< of what is traced when there is a sink
  int64_t max_tokens = 64;
};

/// What a generation did, and how long it took.
struct GenerateResult {
  /// kNoChoice: no logit is a number above −inf.
  enum class Stop { kMaxTokens, kEndToken, kContextFull, kNoChoice };
  Stop stop = Stop::kMaxTokens;
  int64_t n_prompt = 0;
  int64_t n_generated = 0;  ///< without the token that ended it
  int64_t n_decoded = 0;    ///< decode steps: the first token comes from prefill
  double prefill_s = 0;     ///< until the first token is known
  double decode_s = 0;      ///< from there on, choosing tokens included
};

/// Continues a prompt, token by token.
///
/// Traced phases: prefill_last (prefill when that is not selected) for the last token of the
/// prompt, prefill for those before, decode0 for the first generated token and decode for the
/// others. They lie at different positions, so nothing is paired: a generation is traced to be
/// compared with another one.
class Generator {
 public:
  /// All references must outlive it. capacity: positions of the KV cache.
  Generator(const Model& model, const ModelWeights& weights, Backend& backend, int64_t capacity,
            GenerateOptions options);

  std::function<bool(int32_t token)> ends;                      ///< stop before this token?
  std::function<void(int32_t token)> on_token;                  ///< called as each is chosen
  std::function<void(int64_t done, int64_t total)> on_prefill;  ///< for progress

  /// prompt: at least one token, at most `capacity`. sink: nullptr, or a run in which the caller
  /// has begun the prompt. Throws std::invalid_argument for a prompt that does not fit.
  GenerateResult run(std::span<const int32_t> prompt, TraceSink* sink);

 private:
  void prefill(std::span<const int32_t> prompt, TraceSink* sink);
  void decode(int32_t token, int64_t pos, int64_t step, TraceSink* sink);
  void traced(int64_t step, int64_t pos);
  void read_out(const TopLogits& top);
  void hand_over(TraceSink& sink);
  int32_t choose(bool ahead);

  const Model& model_;
  Backend& backend_;
  GenerateOptions options_;
  KvCache cache_;
  Forward forward_;
  Tracer tracer_;
  /// A traced batch whose rows the sink has not got yet: it gets them when the next batch is under
  /// way, so that the device need not wait.
  struct Traced {
    Phase phase;
    int64_t step, pos;
    std::optional<ReadoutRecord> readout;
  };
  std::optional<Traced> traced_;
  Sampler sampler_;
  std::vector<float> logits_;
  int64_t n_prompt_ = 0;  ///< tokens of the prompt in progress
};

}  // namespace greta
