#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/gpu/device.h"

namespace greta {

/// A kernel, or a few, timed as one: what it moves and computes at least.
struct BenchCase {
  std::string name;
  double bytes = 0;  ///< read and written, each once
  double flops = 0;
  std::function<void(Stream&)> run;  ///< queues it; owns its buffers
};

std::vector<BenchCase> matmul_valu_cases();
std::vector<BenchCase> matmul_mfma_cases();
std::vector<BenchCase> attention_cases();
std::vector<BenchCase> small_cases();

}  // namespace greta
