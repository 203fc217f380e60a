#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "kernels/gpu/device.h"
#include "kernels/gpu/matmul_valu.h"
#include "kernels/matrix.h"

// Matrix products of 16-bit floats on matrix cores: f32 accumulation, f32 result.

namespace greta {

/// A product out [n_tokens, rows] = x [n_tokens, cols] · w [rows, cols]ᵀ of halves of one type.
/// Device memory, row-major without gaps. cols any; multiples of 64 are fastest, and then of 8.
struct HalfProduct {
  HalfType type = HalfType::kF16;
  const uint16_t* x = nullptr;
  const uint16_t* w = nullptr;
  int64_t n_tokens = 0, rows = 0, cols = 0;
  float* out = nullptr;
  int64_t out_stride = 0;  ///< values from one token's results to the next one's, at least rows
};

/// Sums are made in chunks of this many columns, the last one's rest, each from 0 on, which are
/// then added in order: so a product of one token can have several wavefronts on a row.
constexpr int64_t mfma_chunk_columns(int64_t cols) {
  const int64_t n = cols < 4096 ? 1 : cols < 8192 ? 2 : 4;
  return n == 1 ? cols : (cols + 256 * n - 1) / (256 * n) * 256;
}

/// What a block computes of a product, from many tokens and rows to few.
enum class MfmaTile { kWide, kSquare, kSmall, kThin };

/// The tile that suits a product's shape.
MfmaTile mfma_tile(const HalfProduct& product);

/// Queues the product on matrix cores, by the tile that suits it or by a given one (a small one
/// where cols do not suit that). A token's result has the same bits whatever the tile, the batch
/// and its place there. Throws std::length_error for more than 2²² columns.
void matmul_mfma(const HalfProduct& product, Stream& stream);
void matmul_mfma(const HalfProduct& product, MfmaTile tile, Stream& stream);

/// Queues up to kMaxProducts products of one x, in one launch where a device and their shapes suit
/// that: a product of few rows alone leaves most of a device idle. The bits of each alone. Throws
/// std::invalid_argument for more products, or of different x.
void matmul_mfma(std::span<const HalfProduct> products, Stream& stream);

/// True if the device has the instructions of kernels/gpu/warpgroup.h, and the product suits them.
bool fits_wide_matmul(const HalfProduct& product);

/// Queues matmul_mfma() of products of one x by them, in wide tiles and in one launch: the same
/// bits, in less time.
void wide_matmul(std::span<const HalfProduct> products, Stream& stream);

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

// ---- Products of one token on matrix cores, with all that kernels/gpu/matmul_valu.h does before
// and after them, straight from stored weights of any type: decode where a token must have the bits
// that it has in a batch. The activations, and weights not stored in 16 bits, are rounded as
// halves_of() and to_halves() do; results have the bits of matmul_mfma() of these. Device memory;
// work is queued, nothing is allocated.

/// True if the device's shared memory holds a token of so many columns. Where it does not,
/// halves_of() and matmul_mfma() give the same bits.
bool fits_token_matmul_mfma(int64_t cols);

/// Up to kMaxProducts products of in.x, normed first if in.weight is not null. Types may differ.
void token_matmul_mfma(const NormedRow& in, std::span<const Product> products, Stream& stream);

/// As qkv_matmul_valu() does.
void token_qkv_matmul_mfma(const NormedRow& in, const std::array<Product, 3>& qkv,
                           const RopeRow& rope, Stream& stream);

/// As matmul_add_valu() does.
void token_matmul_add_mfma(const float* x, const Product& product, const float* residual,
                           float* sum, Stream& stream);

/// As gated_matmul_valu() does.
void token_gated_matmul_mfma(const NormedRow& in, const Matrix& gate, const Matrix& up, float* out,
                             Stream& stream);

}  // namespace greta
