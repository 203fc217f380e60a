#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/attention_shape.h"
#include "kernels/gpu/device.h"
#include "kernels/matrix.h"
#include "kernels/rows.h"

// The small operations of a block on the GPU: kernels/cpu/elementwise.h with a Stream at the
// end. All arrays f32, row-major without gaps, device memory. Work is queued; nothing is allocated.
// A row's result has the same bits in any batch. Throws DeviceError when a launch fails.
//
// What differs between tokens of a generation (ids, position) is read from device memory, so that a
// recorded graph can be replayed for another token.

namespace greta {

/// out[t] = row ids[t] of table, expanded to f32, for any weight type, with the CPU's bits.
/// ids: i32 [n_tokens], device, all in range; out: [n_tokens, cols].
void embed(const Matrix& table, const int32_t* ids, int64_t n_tokens, float* out, Stream& stream);

/// out[t][k] = x[t][k] / sqrt(mean_k x² + eps) · weight[k]; the sum of squares in double, each
/// value within 2 ulp. x, out: [n_tokens, dim], may be equal; weight: [dim]. (Zhang and Sennrich
/// 2019.)
void rms_norm(const float* x, const float* weight, float eps, int64_t n_tokens, int64_t dim,
              float* out, Stream& stream);

/// The heads of up to three tensors: rows += bias, then every head over its root mean square times
/// the norm, each where there is one; in place. The sum of squares in double, in an order that
/// depends on head_dim alone.
void finish_heads(std::span<const HeadTensor> tensors, int64_t n_tokens, int64_t head_dim,
                  float eps, Stream& stream);

/// Cosine and sine of the angles (*first_pos + pos_shift + t)·inv_freq[i] times magnitude, computed
/// in double and rounded once: what rope() turns by. One table serves all layers of a batch.
/// inv_freq: f64 [half_dim], device; first_pos: i32, device; table: [n_tokens, half_dim, 2].
void rope_table(const double* inv_freq, double magnitude, const int32_t* first_pos,
                int64_t pos_shift, int64_t n_tokens, int64_t half_dim, float* table,
                Stream& stream);

/// Rotates each head of token t of a and of b by row t of the table (Su et al. 2021); values from
/// 2·half_dim on are copied. A tensor without heads is left out.
void rope(const RopeTensor& a, const RopeTensor& b, const float* table, RopePairing pairing,
          int64_t n_tokens, int64_t head_dim, int64_t half_dim, Stream& stream);

/// rope(), and what it makes of b is also stored to rows *first_row + row_shift, ... of b_cache, as
/// are the rows of `other`, which are as wide: one launch for what follows the projections.
void rope_and_store(const RopeTensor& a, const RopeTensor& b, const float* table,
                    RopePairing pairing, int64_t n_tokens, int64_t head_dim, int64_t half_dim,
                    const int32_t* first_row, int64_t row_shift, KvRows b_cache,
                    const RowStore& other, Stream& stream);

/// out[i] = gate[i] / (1 + e^−gate[i]) · up[i], within 3 ulp; n values, out may be gate. (Shazeer
/// 2020, SwiGLU.)
void swiglu(const float* gate, const float* up, int64_t n, float* out, Stream& stream);

/// out[i] = a[i] + b[i]; out may be either.
void add(const float* a, const float* b, int64_t n, float* out, Stream& stream);

/// data[i] = value, with its bits.
void fill(float* data, int64_t n, float value, Stream& stream);

/// values[i] *= factor, rounded to what they are stored as.
void scale(KvRows values, int64_t n, float factor, Stream& stream);

/// Copies the rows of a and of b to rows *first_row + row_shift, ... of their caches. first_row:
/// i32, device.
void store_rows(const RowStore& a, const RowStore& b, int64_t n_rows, int64_t width,
                const int32_t* first_row, int64_t row_shift, Stream& stream);

/// Rows of two caches up to that of the last of n_tokens tokens, the first at *first_pos (i32,
/// device): all, or those of the tokens from first_token on.
struct KvRead {
  RowRead a, b;
  const int32_t* first_pos = nullptr;
  int64_t n_tokens = 0;
  bool all = true;
  int64_t first_token = 0;
};
/// Copies them. The grid is for max_rows rows, however many there are.
void read_rows(const KvRead& read, int64_t width, int64_t max_rows, Stream& stream);

/// Value `index` of a row takes one bit from value `neighbour`.
struct BitTransfer {
  int64_t index;
  int64_t neighbour;
  uint32_t bit;  ///< 0 .. 31
};

/// Applies the transfers, one after the other, to each of n_rows rows of `width` values: what a
/// race between neighbours looks like. transfers: [n], device.
void transfer_bits(float* rows, int64_t n_rows, int64_t width, const BitTransfer* transfers,
                   int64_t n, Stream& stream);

inline constexpr int kMaxTopK = 8;

/// Scratch of top_k in bytes, for any n; zeroed before the first call, left fit for the next.
size_t top_k_scratch();

/// Queues the greatest k of n values, greatest first, in the CPU backend's order: ties go to the
/// lower index, −0 equals +0, NaN counts as −∞. top: f32 [k], the values with their bits; ids: i32
/// [k], their indices; beyond n: NaN and −1. k ≤ kMaxTopK, n < 2³¹, else std::invalid_argument.
/// Device memory; scratch is 8-byte aligned.
void top_k(const float* values, int64_t n, int k, float* top, int32_t* ids, void* scratch,
           Stream& stream);

// ---- Floats rounded to 16 bits, which products on matrix cores take. Device memory.

/// out[i] = x[i] to nearest even, n values.
void halves_of(const float* x, int64_t n, HalfType type, uint16_t* out, Stream& stream);

/// out[i] = silu(gate[i])·up[i], computed as swiglu() does, then to nearest even.
void swiglu_halves(const float* gate, const float* up, int64_t n, HalfType type, uint16_t* out,
                   Stream& stream);

}  // namespace greta
