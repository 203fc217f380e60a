#pragma once
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <vector>

#include "engine/forward/route.h"
#include "engine/hip/op_queue.h"
#include "kernels/gpu/device.h"
#include "kernels/gpu/matmul_mfma.h"
#include "kernels/gpu/matmul_valu.h"

namespace greta {

/// Products of 16-bit operands, by matrix cores or the vendor's library. Activations are rounded,
/// and weights that are not stored in 16 bits are expanded, some rows at a time.
class HalfProducts {
 public:
  /// make_room: as Scratch has it. The vendor's library is loaded on a thread of its own: what
  /// first asks for it waits, and throws what that threw.
  HalfProducts(Stream& stream, const std::function<void()>& make_room);

  /// The usual one first.
  std::vector<Route> routes() const;

  /// Memory for the operands of products.
  struct Operands {
    uint16_t* x = nullptr;        // [n_tokens, cols]
    uint16_t* weights = nullptr;  // of weights that are not stored in 16 bits, some rows at a time
    bool together = false;        // there is room for all of them, and they are multiplied at once
  };
  /// For any of the products of n_tokens tokens. Allocates. Throws std::invalid_argument for a
  /// route that there is not.
  Operands prepare(Route route, int64_t n_tokens, std::span<const Matrix> weights);

  /// Queues products of one x: f32 [n_tokens, cols].
  void multiply(Route route, const Operands& operands, const float* x, int64_t n_tokens,
                std::span<const Product> products);
  /// The same of an operands.x that is there already, in the type that the weights want.
  void multiply(Route route, const Operands& operands, int64_t n_tokens, const Product& product);

  /// The type of operands that suits weights.
  static HalfType type_for(const Matrix& w);

 private:
  Blas* blas() const;  ///< nullptr where there is none
  /// Products of operands.x, all of its type.
  void multiply_together(const Operands& operands, int64_t n_tokens,
                         std::span<const Product> products);
  /// Some rows of a product. Queues what makes halves of their weights where they are none.
  HalfProduct part_of(const Operands& operands, int64_t n_tokens, const Product& product,
                      int64_t row, int64_t rows, uint16_t* expanded);

  Stream& stream_;
  mutable std::unique_ptr<Blas> blas_;
  mutable std::future<std::unique_ptr<Blas>> loading_blas_;
  Scratch<uint16_t> x_;
  Scratch<uint16_t> weights_;
};

}  // namespace greta
