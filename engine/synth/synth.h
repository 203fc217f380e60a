#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "engine/synth/shape.h"

// Random models that behave: a GGUF file made from a seed, for probes, tests and benchmarks.

namespace greta {

/// Makes the file, on all processors: the same bytes for the same arguments, on every machine.
///
/// Weights are sums of uniform integers, close to normal; norms are about 1 with a deviation of
/// 0.1. Their scales keep a forward pass healthy at any depth: rms 1 behind every norm, residual
/// stream growing by about a tenth a layer, scores before softmax with a deviation of 1.5, logits
/// of 3. `progress` gets values written and values in all, from this thread. Throws what GgufWriter
/// throws, and std::invalid_argument for a shape that no model has.
void synthesise(const SynthShape& shape, const SynthType& type, uint64_t seed,
                const std::filesystem::path& file,
                const std::function<void(int64_t done, int64_t total)>& progress = {});

}  // namespace greta
