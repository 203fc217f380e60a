#include "kernels/cpu/elementwise.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <vector>

#include "kernels/cpu/quantise.h"
#include "kernels/cpu/simd_kernels.h"

namespace greta {
namespace {

// About as much work as waking a thread costs is the least that a piece should be.
constexpr int64_t kCheapValues = 16384;  // loaded, added and stored
constexpr int64_t kExpValues = 2048;     // an exponential each

const ElementwiseKernels& kernels_of(Isa isa) {
  return GRETA_SELECT_KERNELS(isa, elementwise_kernels);
}

int64_t rows_per_piece(int64_t row_values) {
  return std::max<int64_t>(1, kCheapValues / std::max<int64_t>(1, row_values));
}

void check(bool ok, const char* what) {
  if (!ok) throw std::invalid_argument(what);
}

// Cosine and sine of one token for all values of a head, as ElementwiseKernels::rotate_* want them.
struct HeadTurn {
  std::vector<float> cosine, sine;

  void set(int64_t position, const RopeTurn& turn) {
    const size_t pairs = turn.inv_freq.size();
    cosine.resize(2 * pairs);
    sine.resize(2 * pairs);
    for (size_t i = 0; i < pairs; ++i) {
      const double angle = static_cast<double>(position) * turn.inv_freq[i];
      const bool halves = turn.pairing == RopePairing::kHalves;
      const size_t first = halves ? i : 2 * i;
      const size_t second = halves ? i + pairs : 2 * i + 1;
      cosine[first] = cosine[second] = static_cast<float>(turn.magnitude * std::cos(angle));
      sine[second] = static_cast<float>(turn.magnitude * std::sin(angle));
      sine[first] = -sine[second];
    }
  }
};

}  // namespace

void rms_norm(const float* x, const float* weight, float eps, int64_t n_tokens, int64_t dim,
              float* out, ThreadPool& pool, Isa isa) {
  check(dim >= 1, "rms_norm: a row needs at least one value");
  const auto row = kernels_of(isa).rms_norm;
  pool.run(n_tokens, rows_per_piece(dim), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) row(x + t * dim, weight, eps, dim, out + t * dim);
  });
}

void finish_heads(const HeadTensor& tensor, int64_t n_tokens, int64_t head_dim, float eps,
                  ThreadPool& pool, Isa isa) {
  check(head_dim >= 1, "finish_heads: a head needs at least one value");
  const ElementwiseKernels& kernels = kernels_of(isa);
  const int64_t n_heads = tensor.n_heads;
  pool.run(n_tokens * n_heads, rows_per_piece(head_dim), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* const head = tensor.rows + i * head_dim;
      if (tensor.bias != nullptr) {
        kernels.add(head, tensor.bias + i % n_heads * head_dim, head_dim, head);
      }
      if (tensor.norm != nullptr) kernels.rms_norm(head, tensor.norm, eps, head_dim, head);
    }
  });
}

void rope(const RopeTensor& tensor, int64_t first_pos, const RopeTurn& turn, int64_t n_tokens,
          int64_t head_dim, ThreadPool& pool, Isa isa) {
  const auto rope_dim = 2 * static_cast<int64_t>(turn.inv_freq.size());
  check(tensor.n_heads >= 0 && rope_dim <= head_dim, "rope: more planes than a head has room for");
  const ElementwiseKernels& kernels = kernels_of(isa);
  const auto rotate =
      turn.pairing == RopePairing::kHalves ? kernels.rotate_halves : kernels.rotate_interleaved;
  pool.run(n_tokens, 1, [&](int64_t begin, int64_t end) {
    thread_local HeadTurn own;
    for (int64_t t = begin; t < end; ++t) {
      own.set(first_pos + t, turn);
      for (int64_t h = 0; h < tensor.n_heads; ++h) {
        const float* const from = tensor.in + (t * tensor.n_heads + h) * head_dim;
        float* const to = tensor.out + (t * tensor.n_heads + h) * head_dim;
        rotate(from, own.cosine.data(), own.sine.data(), rope_dim, to);
        if (from != to) std::copy(from + rope_dim, from + head_dim, to + rope_dim);
      }
    }
  });
}

void swiglu(const float* gate, const float* up, int64_t n, float* out, ThreadPool& pool, Isa isa) {
  const auto part = kernels_of(isa).swiglu;
  pool.run(n, kExpValues, [&](int64_t begin, int64_t end) {
    part(gate + begin, up + begin, end - begin, out + begin);
  });
}

void add(const float* a, const float* b, int64_t n, float* out, ThreadPool& pool, Isa isa) {
  const auto part = kernels_of(isa).add;
  pool.run(n, kCheapValues, [&](int64_t begin, int64_t end) {
    part(a + begin, b + begin, end - begin, out + begin);
  });
}

void embed(const Matrix& table, const int32_t* ids, int64_t n_tokens, float* out,
           ThreadPool& pool) {
  const size_t row_bytes = table.row_bytes();
  const auto cols = static_cast<size_t>(table.cols);
  pool.run(n_tokens, rows_per_piece(table.cols), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const std::byte* row = table.data + static_cast<size_t>(ids[t]) * row_bytes;
      dequantise(table.type, {row, row_bytes}, {out + static_cast<size_t>(t) * cols, cols});
    }
  });
}

}  // namespace greta
