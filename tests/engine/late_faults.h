#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/forward/fault.h"
#include "engine/synth/synth.h"

namespace greta {

/// True if the most telling finding about a fault's first failing pair says what the fault does.
/// findings: of the view diagnosis, the most telling first. rounding: the pair differs by rounding
/// only, so that it is right to say so.
bool tells(FaultKind kind, std::span<const std::string> findings, bool rounding);

/// True if a finding speaks of the whole row, though a part of it differs: ProbeLab::part().
bool contradicts(std::string_view finding, std::string_view part);

/// Which faults of the catalogue begin late.
struct LateFaults {
  std::vector<std::string> faults;  ///< none: all
  std::vector<int> layers;
  SynthShape shape;           ///< of the model
  std::string type, backend;  ///< of its weights; what runs it
  bool all = false;           ///< every fault at every layer, else two of them at the first
};

struct LateCount {
  int faults = 0, not_found = 0;
  int hidden = 0;  ///< that change no bit of their tensor here: another route with the same sums
  int told = 0;    ///< with the right first finding
};

/// Injects faults that begin with the second decoded token, with position 97 or with prompts of 256
/// tokens. Each must be the strict first fail at its tensor and layer, and its position the first
/// that differs. Prints those that are not, and those of which the first finding is not right.
LateCount late_faults(const LateFaults& wanted);

}  // namespace greta
