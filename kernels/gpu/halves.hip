#include "kernels/gpu/device_math.h"
#include "kernels/gpu/elementwise.h"
#include "kernels/gpu/runtime.h"

// out[i] = half(f(i-th values)), eight results to a thread where addresses allow: one 16-byte
// store.

namespace greta {
namespace {

constexpr int kHalvesThreads = 256;
constexpr int kHalvesVector = 8;

struct First {
  static constexpr bool kUsesSecond = false;
  __device__ float operator()(float a, float) const { return a; }
};
struct SwiGluOfHalves {
  static constexpr bool kUsesSecond = true;
  __device__ float operator()(float gate, float up) const { return silu(gate) * up; }
};

template <HalfType kType, class F>
__global__ __launch_bounds__(kHalvesThreads) void halves_vec8_kernel(const float* a, const float* b,
                                                                     int64_t n_vectors,
                                                                     uint16_t* out) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kHalvesThreads + threadIdx.x;
  if (i >= n_vectors) return;
  Floats4 left[2], right[2];
  GRETA_UNROLL
  for (int j = 0; j < 2; ++j) {
    left[j] = load_as<Floats4>(a + kHalvesVector * i + 4 * j);
    right[j] = F::kUsesSecond ? load_as<Floats4>(b + kHalvesVector * i + 4 * j) : left[j];
  }
  Words4 words;
  GRETA_UNROLL
  for (int j = 0; j < 4; ++j) {
    const float* const from = &left[j / 2].value[j % 2 * 2];
    const float* const with = &right[j / 2].value[j % 2 * 2];
    const uint32_t low = half_bits<kType>(F{}(from[0], with[0]));
    const uint32_t high = half_bits<kType>(F{}(from[1], with[1]));
    words.word[j] = low | high << 16;
  }
  store_as(out + kHalvesVector * i, words);
}

template <HalfType kType, class F>
__global__ __launch_bounds__(kHalvesThreads) void halves_kernel(const float* a, const float* b,
                                                                int64_t n, uint16_t* out) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kHalvesThreads + threadIdx.x;
  if (i < n) out[i] = half_bits<kType>(F{}(a[i], b[i]));
}

template <HalfType kType, class F>
void launch_halves(const char* name, const float* a, const float* b, int64_t n, uint16_t* out,
                   Stream& stream) {
  if (n % kHalvesVector == 0 && aligned16(a, b, out)) {
    const int64_t n_vectors = n / kHalvesVector;
    launch({name, blocks_for(n_vectors, kHalvesThreads), kHalvesThreads}, stream,
           halves_vec8_kernel<kType, F>, a, b, n_vectors, out);
  } else {
    launch({name, blocks_for(n, kHalvesThreads), kHalvesThreads}, stream, halves_kernel<kType, F>,
           a, b, n, out);
  }
}

template <class F>
void launch_halves(const char* name, const float* a, const float* b, int64_t n, HalfType type,
                   uint16_t* out, Stream& stream) {
  if (type == HalfType::kF16) {
    launch_halves<HalfType::kF16, F>(name, a, b, n, out, stream);
  } else {
    launch_halves<HalfType::kBF16, F>(name, a, b, n, out, stream);
  }
}

}  // namespace

void halves_of(const float* x, int64_t n, HalfType type, uint16_t* out, Stream& stream) {
  launch_halves<First>("halves_of", x, x, n, type, out, stream);
}

void swiglu_halves(const float* gate, const float* up, int64_t n, HalfType type, uint16_t* out,
                   Stream& stream) {
  launch_halves<SwiGluOfHalves>("swiglu_halves", gate, up, n, type, out, stream);
}

}  // namespace greta
