#pragma once

// Instruction sets that the vector kernels are compiled for, and the choice among them.
//
// A kernel file that needs vectors is named *_simd.cpp and is compiled once per instruction set,
// with GRETA_ISA defined as the namespace it must put its code in. It offers its entry points as
// one table of function pointers:
//
//   x_kernels.h   struct XKernels { void (*f)(...); };  GRETA_DECLARE_KERNELS(XKernels, x_kernels)
//   x_simd.cpp    namespace greta::GRETA_ISA { const XKernels x_kernels = {f}; }
//   x.cpp         GRETA_SELECT_KERNELS(isa, x_kernels).f(...)

#include <string_view>

namespace greta {

/// Weakest first. kBaseline is what every processor of the architecture has.
enum class Isa { kBaseline, kAvx2, kAvx512 };

/// The best of them that this processor and operating system support; found once.
Isa best_isa();

/// "baseline", "avx2", "avx512".
const char* isa_name(Isa isa);
/// The one of that name; the best where it is empty. Throws std::invalid_argument for a name that
/// there is not, and for one that this processor does not have.
Isa isa_of(std::string_view name);

}  // namespace greta

#if defined(__x86_64__)

#define GRETA_DECLARE_KERNELS(Table, name) \
  namespace baseline {                     \
  extern const Table name;                 \
  }                                        \
  namespace avx2 {                         \
  extern const Table name;                 \
  }                                        \
  namespace avx512 {                       \
  extern const Table name;                 \
  }

#define GRETA_SELECT_KERNELS(isa, name)          \
  ((isa) == ::greta::Isa::kAvx512 ? avx512::name \
   : (isa) == ::greta::Isa::kAvx2 ? avx2::name   \
                                  : baseline::name)

#else

#define GRETA_DECLARE_KERNELS(Table, name) \
  namespace baseline {                     \
  extern const Table name;                 \
  }

#define GRETA_SELECT_KERNELS(isa, name) ((void)(isa), baseline::name)

#endif
