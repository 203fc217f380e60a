#pragma once

#include <string>
#include <vector>

namespace greta {

/// Which faults of the catalogue begin late.
struct LateFaults {
  std::vector<std::string> faults;  ///< none: all
  std::vector<int> layers;
  std::string type, backend;  ///< of the model's weights; what runs it
  bool all = false;           ///< every fault at every layer, else two of them at the first
};

/// Injects faults that begin with the second decoded token, with position 97 or with prompts of 256
/// tokens. Each must be the strict first fail at its tensor and layer, and its position the first
/// that differs. Prints those that are not, and returns how many, and one more when less than 90 %
/// have the right first finding.
int late_faults(const LateFaults& wanted);

}  // namespace greta
