#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/probe/pair_watch.h"
#include "engine/probe/probe.h"

namespace greta {

/// The rows of a pair, of its prompt run again, and what decode's operation makes of the input of
/// either side: one token, by decode's route, plan and kernel.
struct Replayed {
  TraceRecord prefill, decode;  ///< with all values as their samples
  std::vector<float> alone;     ///< of prefill's input
  std::vector<float> again;     ///< of decode's own: other than its row where the call was wrong
};

/// Trace points whose rows the operation behind `point` reads; attention reads the cache as well.
/// Throws std::invalid_argument for a weight and for what is a copy: no operation makes those.
std::vector<TracePoint> inputs_of(TracePoint point);

/// Runs a prompt as a probe does, then the one operation behind `place` again, by itself: what it
/// makes of each side's input tells whether a difference arises in the operation, in how the pass
/// calls it, or comes with the input.
/// options.selection is of no account. Throws std::invalid_argument as inputs_of() and Probe do,
/// std::runtime_error when a side does not reach the place.
///
/// together: the prompts that were computed together, of which `which` is the one.
Replayed replay(const Model& model, const ModelWeights& weights, Backend& backend,
                ProbeOptions options, std::span<const ProbePrompt> together, size_t which,
                const PairPlace& place);
/// The same of a prompt that was by itself.
inline Replayed replay(const Model& model, const ModelWeights& weights, Backend& backend,
                       ProbeOptions options, const ProbePrompt& prompt, const PairPlace& place) {
  return replay(model, weights, backend, std::move(options), {&prompt, 1}, 0, place);
}

}  // namespace greta
