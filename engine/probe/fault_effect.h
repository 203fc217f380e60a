#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/forward/fault.h"
#include "engine/forward/forward.h"
#include "engine/forward/model.h"
#include "engine/forward/tracer.h"

// A fault that changes nothing would let a run pass as if the fault had been missed: it is refused
// before the run.

namespace greta {

/// What a run computes of one prompt, as far as faults care.
struct FaultScene {
  int64_t n_prompt = 0;        ///< tokens
  int64_t decode_from = 0;     ///< position of decode step 1
  int64_t end = 0;             ///< first position that decode does not reach
  bool prefills_all = false;   ///< what is decoded is prefilled as well
  bool decode_stores = false;  ///< K and V of the tokens that are decoded and traced
  bool after_longer = false;   ///< it runs after a longer prompt
};
/// The scene of Probe::run(), and of run_again() where n_steps is 0.
FaultScene probe_scene(int64_t n_prompt, int64_t n_steps, Mode mode,
                       const TraceSelection& selection);
/// Of Generator::run().
FaultScene generation_scene(int64_t n_prompt, int64_t n_decoded);

/// Why fault number `i` of some changes no bit of what is traced in any of the scenes; empty when
/// it may.
std::string why_without_effect(std::span<const Fault> faults, size_t i, const ModelConfig& config,
                               const TraceSelection& selection, std::span<const FaultScene> scenes);

/// Throws std::invalid_argument for the first fault without effect, with its name and why.
void refuse_faults_without_effect(const FaultSet& faults, const ModelConfig& config,
                                  const TraceSelection& selection,
                                  std::span<const FaultScene> scenes);

}  // namespace greta
