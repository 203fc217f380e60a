#include "kernels/simd/isa.h"

#include <stdexcept>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace greta {
namespace {

#if defined(__x86_64__)

// Not every compiler's __builtin_cpu_supports knows this name.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

Isa detect() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c()) {
    return Isa::kBaseline;
  }
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return has_avx512 ? Isa::kAvx512 : Isa::kAvx2;
}

#else

Isa detect() { return Isa::kBaseline; }

#endif

}  // namespace

Isa best_isa() {
  static const Isa isa = detect();
  return isa;
}

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kBaseline:
      break;
  }
  return "baseline";
}

Isa isa_of(std::string_view name) {
  if (name.empty()) return best_isa();
  std::string known;
  for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > best_isa()) break;
    if (name == isa_name(isa)) return isa;
    known.append(known.empty() ? "" : ", ").append(isa_name(isa));
  }
  throw std::invalid_argument("this processor has no instruction set '" + std::string(name) +
                              "'; it has " + known);
}

}  // namespace greta
