#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/greta_infer/probe_arguments.h"

namespace greta {

/// An option of a probe with the values that it takes: batch, 1 and 7; route.lm_head, dot and gemm.
struct Variation {
  std::string key;
  std::vector<std::string> values;
};

/// Of KEY=V1,V2. Throws UsageError for a key that does not vary, a value that is empty or there
/// twice.
Variation parse_variation(const std::string& text);

/// One value of each.
using Combination = std::vector<std::pair<std::string, std::string>>;

/// All of them, the last key's values next to each other, but for backends and threads: those
/// change least often. Throws UsageError for a key that is there twice, and when there are more
/// than max.
std::vector<Combination> combinations(std::vector<Variation> variations, size_t max);

/// "batch-7.lm_head-dot": RunRecord's label, without the mode, which the run's name has anyhow.
std::string label_of(const Combination& combination);

/// "batch=7 route.lm_head=dot", for people.
std::string text_of(const Combination& combination);

/// The probe that a combination changes `base` to; routes come to those that it has. Throws
/// CLI::ParseError or std::invalid_argument for a value that the option does not take.
ProbeArguments varied(const ProbeArguments& base, const Combination& combination);

}  // namespace greta
