#pragma once

#include <memory>
#include <string>

#include "kernels/gpu/device.h"
#include "kernels/gpu/matmul_mfma.h"

namespace greta {

/// The vendor's matrix products: cuBLAS, or hipBLAS. The library is loaded when the first object is
/// made, so a program starts where there is none. One object serves one stream.
class Blas {
 public:
  /// Throws DeviceError that names the library and what failed.
  explicit Blas(Stream& stream);
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  /// Whether the library is there and can be used.
  static bool available();

  /// Queues the product, f32 accumulation; may be recorded into a graph. Throws DeviceError with
  /// the sizes.
  void matmul(const HalfProduct& product);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace greta
