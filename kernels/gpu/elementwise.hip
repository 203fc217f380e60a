#include <algorithm>
#include <stdexcept>

#include "kernels/gpu/dequant.h"
#include "kernels/gpu/device_math.h"
#include "kernels/gpu/elementwise.h"
#include "kernels/gpu/row_norm.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/wave.h"
#include "kernels/gpu/weight_planes.h"

namespace greta {
namespace {

constexpr int kElementThreads = 256;
constexpr int kVector = 4;  // values of a 16-byte access

__device__ int64_t thread_index() {
  return static_cast<int64_t>(blockIdx.x) * kElementThreads + threadIdx.x;
}

// ---- out[i] = f(i-th values), four at a time where addresses allow.

template <class F>
__global__ __launch_bounds__(kElementThreads) void map_vec4_kernel(F f, const float* a,
                                                                   const float* b,
                                                                   int64_t n_vectors, float* out) {
  const int64_t i = thread_index();
  if (i >= n_vectors) return;
  const Floats4 left = load_as<Floats4>(a + kVector * i);
  const Floats4 right = load_as<Floats4>(b + kVector * i);
  Floats4 result;
  GRETA_UNROLL
  for (int j = 0; j < kVector; ++j) result.value[j] = f(left.value[j], right.value[j]);
  store_as(out + kVector * i, result);
}

template <class F>
__global__ __launch_bounds__(kElementThreads) void map_kernel(F f, const float* a, const float* b,
                                                              int64_t n, float* out) {
  const int64_t i = thread_index();
  if (i < n) out[i] = f(a[i], b[i]);
}

template <class F>
void map(const char* name, F f, const float* a, const float* b, int64_t n, float* out,
         Stream& stream) {
  if (n % kVector == 0 && aligned16(a, b, out)) {
    const int64_t n_vectors = n / kVector;
    launch({name, blocks_for(n_vectors, kElementThreads), kElementThreads}, stream,
           map_vec4_kernel<F>, f, a, b, n_vectors, out);
  } else {
    launch({name, blocks_for(n, kElementThreads), kElementThreads}, stream, map_kernel<F>, f, a, b,
           n, out);
  }
}

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

struct SwiGlu {
  __device__ float operator()(float gate, float up) const { return silu(gate) * up; }
};

struct Constant {
  float value;
  __device__ float operator()(float, float) const { return value; }
};

struct Times {
  float factor;
  __device__ float operator()(float a, float) const { return a * factor; }
};

// ---- embed: one thread per weights that are read together.

template <WeightType kType>
__global__ __launch_bounds__(kElementThreads) void embed_kernel(DeviceWeights table,
                                                                const int32_t* ids, int64_t cols,
                                                                float* out) {
  allow_next();
  wait_for_previous();
  constexpr int kEach = kWeightsPerLoad<kType>;
  const int64_t column = kEach * thread_index();
  if (column >= cols) return;
  const int64_t token = blockIdx.y;
  float values[kEach];
  load_weights<kType>(table, ids[token] * cols + column, values);
  GRETA_UNROLL
  for (int i = 0; i < kEach; ++i) out[token * cols + column + i] = values[i];
}

template <WeightType kType>
void launch_embed(const Matrix& table, const int32_t* ids, int64_t n_tokens, float* out,
                  Stream& stream) {
  // A grid is at most 65535 high.
  constexpr int64_t kMaxRows = 65535;
  const unsigned width = blocks_for(table.cols / kWeightsPerLoad<kType>, kElementThreads);
  for (int64_t first = 0; first < n_tokens; first += kMaxRows) {
    const auto rows = static_cast<unsigned>(std::min(kMaxRows, n_tokens - first));
    launch({.name = "embed", .grid = {width, rows}, .block = kElementThreads, .early = true},
           stream, embed_kernel<kType>, device_weights(table), ids + first, table.cols,
           out + first * table.cols);
  }
}

// ---- rms_norm: a block per row, four neighbours at a time. A row of up to kHeld such groups per
// ---- thread is read once.

constexpr int kHeld = 4;
static_assert(kNormGroup == kVector);

// Values k .. k + 3 of a row, zeros beyond its end.
template <bool kVectors>
__device__ Floats4 load_group(const float* row, int64_t k, int64_t dim) {
  if constexpr (kVectors) {
    return load_as<Floats4>(row + k);
  } else {
    Floats4 v;
    for (int j = 0; j < kVector; ++j) v.value[j] = k + j < dim ? row[k + j] : 0.0f;
    return v;
  }
}

template <bool kVectors>
__device__ void store_normed(Floats4 v, float factor, const float* weight, int64_t k, int64_t dim,
                             float* out) {
  const Floats4 w = load_group<kVectors>(weight, k, dim);
  GRETA_UNROLL
  for (int j = 0; j < kVector; ++j) v.value[j] = normed(v.value[j], factor, w.value[j]);
  if constexpr (kVectors) {
    store_as(out + k, v);
  } else {
    for (int j = 0; j < kVector && k + j < dim; ++j) out[k + j] = v.value[j];
  }
}

template <bool kVectors>
__global__ __launch_bounds__(kNormThreads) void rms_norm_kernel(const float* x, const float* weight,
                                                                float eps, int64_t dim,
                                                                float* out) {
  allow_next();
  wait_for_previous();
  const float* const row = x + blockIdx.x * dim;
  float* const out_row = out + blockIdx.x * dim;
  const int64_t first = static_cast<int64_t>(threadIdx.x) * kVector;

  double sum[1] = {};
  Floats4 held[kHeld];
  GRETA_UNROLL
  for (int h = 0; h < kHeld; ++h) {
    const int64_t k = first + h * kNormStride;
    held[h] = k < dim ? load_group<kVectors>(row, k, dim) : Floats4{};
    add_squares(held[h], sum[0]);
  }
  for (int64_t k = first + kHeld * kNormStride; k < dim; k += kNormStride) {
    add_squares(load_group<kVectors>(row, k, dim), sum[0]);
  }
  const float factor = norm_factor(sum, dim, eps);

  GRETA_UNROLL
  for (int h = 0; h < kHeld; ++h) {
    const int64_t k = first + h * kNormStride;
    if (k < dim) store_normed<kVectors>(held[h], factor, weight, k, dim, out_row);
  }
  for (int64_t k = first + kHeld * kNormStride; k < dim; k += kNormStride) {
    store_normed<kVectors>(load_group<kVectors>(row, k, dim), factor, weight, k, dim, out_row);
  }
}

// ---- finish_heads: kHeadLanes threads per head.

constexpr int kHeadLanes = 32;
constexpr int kMaxHeadTensors = 3;

struct Heads {
  HeadTensor tensors[kMaxHeadTensors];
  int64_t n_heads;  // of all tensors and tokens
  uint32_t heads_per_token, head_dim;
  float eps;
};

__global__ __launch_bounds__(kElementThreads) void finish_heads_kernel(Heads heads) {
  allow_next();
  wait_for_previous();
  const int64_t i = thread_index() / kHeadLanes;
  const bool is_head = i < heads.n_heads;  // all lanes take part in the sum
  const int64_t token = i / heads.heads_per_token;
  auto head = static_cast<uint32_t>(i % heads.heads_per_token);
  HeadTensor tensor = heads.tensors[0];
  GRETA_UNROLL
  for (int t = 1; t < kMaxHeadTensors; ++t) {
    if (head < tensor.n_heads) continue;
    head -= static_cast<uint32_t>(tensor.n_heads);
    tensor = heads.tensors[t];
  }
  float* const row =
      tensor.rows + (token * tensor.n_heads + head) * static_cast<int64_t>(heads.head_dim);
  const float* const bias = tensor.bias != nullptr ? tensor.bias + head * heads.head_dim : nullptr;
  const uint32_t n = is_head ? heads.head_dim : 0, lane = threadIdx.x % kHeadLanes;

  double sum = 0;
  for (uint32_t d = lane; d < n; d += kHeadLanes) {
    const float x = bias != nullptr ? row[d] + bias[d] : row[d];
    sum = fma(static_cast<double>(x), static_cast<double>(x), sum);
    row[d] = x;
  }
  sum = wave_reduce<kHeadLanes>(sum, Plus{});
  if (tensor.norm == nullptr) return;
  const double mean = sum / static_cast<double>(heads.head_dim);
  const auto factor = static_cast<float>(1.0 / sqrt(mean + static_cast<double>(heads.eps)));
  for (uint32_t d = lane; d < n; d += kHeadLanes) row[d] = normed(row[d], factor, tensor.norm[d]);
}

// ---- rope.

__global__ __launch_bounds__(kElementThreads) void rope_table_kernel(
    const double* inv_freq, double magnitude, const int32_t* first_pos, int64_t pos_shift,
    int64_t n_tokens, int64_t half_dim, float* table) {
  allow_next();
  wait_for_previous();
  const int64_t i = thread_index();
  if (i >= n_tokens * half_dim) return;
  const int64_t pos = *first_pos + pos_shift + i / half_dim;
  const double angle = static_cast<double>(pos) * inv_freq[i % half_dim];
  table[2 * i] = static_cast<float>(magnitude * cos(angle));
  table[2 * i + 1] = static_cast<float>(magnitude * sin(angle));
}

struct RopeShape {
  uint32_t blocks_per_token;
  uint32_t head_dim, half_dim;
};

// Where b's rows and those of another tensor as wide are stored; without a cache: nowhere.
struct RopeStore {
  const int32_t* first_row = nullptr;
  int64_t row_shift = 0;
  KvRows b_cache = {};
  RowStore other = {};
};

// One thread per pair of values, and per value that is copied; first those of a, then those of b,
// then as many as b has for the rows that are only stored.
template <RopePairing kPairing>
__global__ __launch_bounds__(kElementThreads) void rope_kernel(RopeTensor a, RopeTensor b,
                                                               const float* table, RopeShape shape,
                                                               RopeStore store) {
  allow_next();
  wait_for_previous();
  const int64_t token = blockIdx.x / shape.blocks_per_token;
  const uint32_t i = blockIdx.x % shape.blocks_per_token * kElementThreads + threadIdx.x;
  const uint32_t half = shape.half_dim;
  const uint32_t per_head = shape.head_dim - half;
  const auto a_heads = static_cast<uint32_t>(a.n_heads), b_heads = static_cast<uint32_t>(b.n_heads);
  const uint32_t head = i / per_head, pair = i % per_head;
  // The values of a head that this thread has: one, or two.
  const bool turned = pair < half, neighbours = kPairing == RopePairing::kInterleaved;
  const uint32_t first = !turned ? half + pair : neighbours ? 2 * pair : pair;
  const uint32_t second = !turned ? first : neighbours ? first + 1 : pair + half;

  const int64_t width = b.n_heads * shape.head_dim;
  const int64_t cache_row =
      store.b_cache.data != nullptr ? *store.first_row + store.row_shift + token : 0;
  if (head >= a_heads + b_heads) {
    const uint32_t other_head = head - a_heads - b_heads;
    if (store.b_cache.data == nullptr || other_head >= b_heads) return;
    const int64_t at = static_cast<int64_t>(other_head) * shape.head_dim;
    const float* const from = store.other.rows + token * width + at;
    const int64_t to = cache_row * width + at;
    store_kv(store.other.cache, to + first, from[first]);
    store_kv(store.other.cache, to + second, from[second]);
    return;
  }
  const bool is_a = head < a_heads;
  const int64_t in_row = static_cast<int64_t>(is_a ? head : head - a_heads) * shape.head_dim;
  const int64_t offset = token * (is_a ? a.n_heads : b.n_heads) * shape.head_dim + in_row;
  const float* const from = (is_a ? a.in : b.in) + offset;
  float* const to = (is_a ? a.out : b.out) + offset;
  float x = from[first], y = from[second];
  if (turned) {
    const auto turn = load_as<float2>(table + 2 * (token * half + pair));
    const float old = x;
    x = turned_first(old, y, turn);
    y = turned_second(old, y, turn);
  }
  to[first] = x;
  to[second] = y;
  if (is_a || store.b_cache.data == nullptr) return;
  const int64_t cached = cache_row * width + in_row;
  store_kv(store.b_cache, cached + first, x);
  store_kv(store.b_cache, cached + second, y);
}

void launch_rope(const RopeTensor& a, const RopeTensor& b, const float* table, RopePairing pairing,
                 int64_t n_tokens, int64_t head_dim, int64_t half_dim, const RopeStore& store,
                 Stream& stream) {
  const int64_t n_heads = a.n_heads + b.n_heads + (store.b_cache.data != nullptr ? b.n_heads : 0);
  const unsigned per_token = blocks_for(n_heads * (head_dim - half_dim), kElementThreads);
  const auto kernel = pairing == RopePairing::kInterleaved ? rope_kernel<RopePairing::kInterleaved>
                                                           : rope_kernel<RopePairing::kHalves>;
  const RopeShape shape{per_token, static_cast<uint32_t>(head_dim),
                        static_cast<uint32_t>(half_dim)};
  launch({.name = "rope",
          .grid = blocks_for(n_tokens * per_token, 1),
          .block = kElementThreads,
          .early = true},
         stream, kernel, a, b, table, shape, store);
}

// ---- Rows.

__device__ void store_values(const KvRows& cache, int64_t at, float value) {
  store_kv(cache, at, value);
}
__device__ void store_values(const KvRows& cache, int64_t at, const Floats4& four) {
  if (cache.type == KvType::kF16) {
    GRETA_UNROLL
    for (int i = 0; i < 4; ++i) store_kv(cache, at + i, four.value[i]);
  } else {
    store_as(static_cast<float*>(cache.data) + at, four);
  }
}

template <class T>
__global__ __launch_bounds__(kElementThreads) void store_rows_kernel(RowStore a, RowStore b,
                                                                     int64_t n, int64_t width,
                                                                     const int32_t* first_row,
                                                                     int64_t row_shift) {
  allow_next();
  wait_for_previous();
  const int64_t i = thread_index();
  if (i >= n) return;
  const int64_t first = (*first_row + row_shift) * width;
  for (const RowStore& store : {a, b}) {
    if (store.rows == nullptr) continue;
    constexpr int64_t kValues = sizeof(T) / sizeof(float);
    store_values(store.cache, first + kValues * i, load_as<T>(store.rows + kValues * i));
  }
}

__global__ __launch_bounds__(kElementThreads) void read_rows_kernel(KvRead read, int64_t width) {
  allow_next();
  wait_for_previous();
  const int64_t end = (*read.first_pos + read.n_tokens) * width;
  const int64_t first = (read.all ? 0 : *read.first_pos + read.first_token) * width;
  const int64_t step = int64_t{gridDim.x} * kElementThreads;
  for (int64_t i = first + thread_index(); i < end; i += step) {
    for (const RowRead& rows : {read.a, read.b}) {
      rows.to[i - first] = rows.cache.type == KvType::kF16
                               ? f16_value(static_cast<const uint16_t*>(rows.cache.data)[i])
                               : static_cast<const float*>(rows.cache.data)[i];
    }
  }
}

struct TimesHalf {
  uint16_t* data;
  int64_t n;
  float factor;
};
__global__ __launch_bounds__(kElementThreads) void scale_halves_kernel(TimesHalf of) {
  allow_next();
  wait_for_previous();
  const int64_t i = thread_index();
  if (i < of.n) of.data[i] = f16_bits(f16_value(of.data[i]) * of.factor);
}

__global__ __launch_bounds__(kElementThreads) void transfer_bits_kernel(
    float* rows, int64_t n_rows, int64_t width, const BitTransfer* transfers, int64_t n) {
  const int64_t row = thread_index();
  if (row >= n_rows) return;
  float* const values = rows + row * width;
  for (int64_t i = 0; i < n; ++i) {
    const BitTransfer t = transfers[i];
    const uint32_t mask = uint32_t{1} << t.bit;
    const auto mine = bits_as<uint32_t>(values[t.index]);
    const auto theirs = bits_as<uint32_t>(values[t.neighbour]);
    values[t.index] = bits_as<float>((mine & ~mask) | (theirs & mask));
  }
}

}  // namespace

void embed(const Matrix& table, const int32_t* ids, int64_t n_tokens, float* out, Stream& stream) {
  with_weight_type(table.type, [&](auto type) {
    launch_embed<decltype(type)::value>(table, ids, n_tokens, out, stream);
  });
}

void rms_norm(const float* x, const float* weight, float eps, int64_t n_tokens, int64_t dim,
              float* out, Stream& stream) {
  const auto kernel = dim % kVector == 0 && aligned16(x, weight, out) ? rms_norm_kernel<true>
                                                                      : rms_norm_kernel<false>;
  launch(
      {.name = "rms_norm", .grid = blocks_for(n_tokens, 1), .block = kNormThreads, .early = true},
      stream, kernel, x, weight, eps, dim, out);
}

void finish_heads(std::span<const HeadTensor> tensors, int64_t n_tokens, int64_t head_dim,
                  float eps, Stream& stream) {
  if (tensors.size() > kMaxHeadTensors)
    throw std::invalid_argument("finish_heads: too many tensors");
  Heads heads{};
  std::copy(tensors.begin(), tensors.end(), heads.tensors);
  for (const HeadTensor& tensor : tensors) {
    heads.heads_per_token += static_cast<uint32_t>(tensor.n_heads);
  }
  heads.n_heads = n_tokens * heads.heads_per_token;
  heads.head_dim = static_cast<uint32_t>(head_dim);
  heads.eps = eps;
  launch({.name = "finish_heads",
          .grid = blocks_for(heads.n_heads * kHeadLanes, kElementThreads),
          .block = kElementThreads,
          .early = true},
         stream, finish_heads_kernel, heads);
}

void rope_table(const double* inv_freq, double magnitude, const int32_t* first_pos,
                int64_t pos_shift, int64_t n_tokens, int64_t half_dim, float* table,
                Stream& stream) {
  launch({.name = "rope_table",
          .grid = blocks_for(n_tokens * half_dim, kElementThreads),
          .block = kElementThreads,
          .early = true},
         stream, rope_table_kernel, inv_freq, magnitude, first_pos, pos_shift, n_tokens, half_dim,
         table);
}

void rope(const RopeTensor& a, const RopeTensor& b, const float* table, RopePairing pairing,
          int64_t n_tokens, int64_t head_dim, int64_t half_dim, Stream& stream) {
  launch_rope(a, b, table, pairing, n_tokens, head_dim, half_dim, {}, stream);
}

void rope_and_store(const RopeTensor& a, const RopeTensor& b, const float* table,
                    RopePairing pairing, int64_t n_tokens, int64_t head_dim, int64_t half_dim,
                    const int32_t* first_row, int64_t row_shift, KvRows b_cache,
                    const RowStore& other, Stream& stream) {
  launch_rope(a, b, table, pairing, n_tokens, head_dim, half_dim,
              {first_row, row_shift, b_cache, other}, stream);
}

void swiglu(const float* gate, const float* up, int64_t n, float* out, Stream& stream) {
  map("swiglu", SwiGlu{}, gate, up, n, out, stream);
}

void add(const float* a, const float* b, int64_t n, float* out, Stream& stream) {
  map("add", Sum{}, a, b, n, out, stream);
}

void fill(float* data, int64_t n, float value, Stream& stream) {
  map("fill", Constant{value}, data, data, n, data, stream);
}

void scale(KvRows values, int64_t n, float factor, Stream& stream) {
  if (values.type == KvType::kF16) {
    return launch({"scale", blocks_for(n, kElementThreads), kElementThreads}, stream,
                  scale_halves_kernel, TimesHalf{static_cast<uint16_t*>(values.data), n, factor});
  }
  auto* const data = static_cast<float*>(values.data);
  map("scale", Times{factor}, data, data, n, data, stream);
}

void read_rows(const KvRead& read, int64_t width, int64_t max_rows, Stream& stream) {
  constexpr int64_t kMostBlocks = 2048;
  const int64_t n = std::max<int64_t>(width * max_rows, 1);
  launch({.name = "read_rows",
          .grid =
              static_cast<unsigned>(std::min<int64_t>(blocks_for(n, kElementThreads), kMostBlocks)),
          .block = kElementThreads,
          .early = true},
         stream, read_rows_kernel, read, width);
}

void store_rows(const RowStore& a, const RowStore& b, int64_t n_rows, int64_t width,
                const int32_t* first_row, int64_t row_shift, Stream& stream) {
  const bool wide = width % kVector == 0 && aligned16(a.rows, a.cache.data, b.rows, b.cache.data);
  const int64_t per_row = wide ? width / kVector : width;
  const auto kernel = wide ? store_rows_kernel<Floats4> : store_rows_kernel<float>;
  const int64_t n = n_rows * per_row;
  launch({.name = "store_rows",
          .grid = blocks_for(n, kElementThreads),
          .block = kElementThreads,
          .early = true},
         stream, kernel, a, b, n, width, first_row, row_shift);
}

void transfer_bits(float* rows, int64_t n_rows, int64_t width, const BitTransfer* transfers,
                   int64_t n, Stream& stream) {
  launch({"transfer_bits", blocks_for(n_rows, kElementThreads), kElementThreads}, stream,
         transfer_bits_kernel, rows, n_rows, width, transfers, n);
}

}  // namespace greta
