// Attention at the shapes of a llama3-8b: a decoded token, and a prompt's last 2048.
#include <memory>
#include <string>
#include <vector>

#include "kernels/gpu/attention.h"
#include "tests/bench/gpu/gpu_bench.h"

namespace greta {
namespace {

constexpr int64_t kHeads = 32, kKvHeads = 8, kHeadDim = 128;

AttentionShape shape_of(int64_t n_tokens, int64_t n_keys) {
  AttentionShape shape;
  shape.n_heads = kHeads;
  shape.n_kv_heads = kKvHeads;
  shape.head_dim = kHeadDim;
  shape.n_tokens = n_tokens;
  shape.first_pos = n_keys - n_tokens;
  shape.cache_rows = n_keys;
  shape.scale = 0x1.6a09e6p-4f;  // 1/√128
  shape.k_head_stride = kHeadDim;
  return shape;
}

struct Arrays {
  DeviceBuffer<float> q, k, v, out;
  DeviceBuffer<int32_t> first_pos;
  DeviceBuffer<std::byte> scratch;

  Arrays(const AttentionShape& shape, size_t scratch_bytes, Stream& stream)
      : q(some_values(shape.n_tokens * kHeads * kHeadDim)),
        k(some_values(shape.cache_rows * kKvHeads * kHeadDim)),
        v(some_values(shape.cache_rows * kKvHeads * kHeadDim)),
        out(q.size(), "results"),
        first_pos(1, "position"),
        scratch(scratch_bytes, "scratch") {
    const std::vector<int32_t> pos{static_cast<int32_t>(shape.first_pos)};
    copy_to_device<int32_t>(pos, first_pos.data(), stream);
    set_bytes(scratch.data(), scratch.size(), 0, stream);
    stream.synchronize();
  }
};

// A multiplication and an addition for every value of K and of V and every head that sees it.
double flops_of(const AttentionShape& shape) {
  double pairs = 0;
  for (int64_t t = 0; t < shape.n_tokens; ++t)
    pairs += static_cast<double>(shape.first_pos + t + 1);
  return 4 * pairs * kHeads * kHeadDim;
}

double bytes_of(const AttentionShape& shape) {
  return 8.0 * kHeadDim *
         static_cast<double>(shape.n_tokens * kHeads + shape.cache_rows * kKvHeads);
}

// max_keys: what the grid is laid out for, in a run that may go on to generate. One run follows the
// other in the same cache, which the device's own caches may hold.
BenchCase valu_case(int64_t n_tokens, int64_t n_keys, int64_t max_keys) {
  const AttentionShape shape = shape_of(n_tokens, n_keys);
  Stream stream;
  const auto a = std::make_shared<Arrays>(shape, attention_valu_scratch(shape, max_keys), stream);
  return {"attention_valu/" + std::to_string(n_tokens) + " on " + std::to_string(n_keys) + " of " +
              std::to_string(max_keys),
          bytes_of(shape), flops_of(shape), [=](Stream& queue) {
            attention_valu(shape, a->first_pos.data(), max_keys, a->q.data(), a->k.data(),
                           a->v.data(), a->out.data(), {}, a->scratch.data(), queue);
          }};
}

// Every run in the cache of another layer, as in a model: what it reads comes from memory.
BenchCase layers_case(bool mfma, int64_t n_keys) {
  const AttentionShape shape = shape_of(1, n_keys);
  const size_t n_layers = 1 + (size_t{200} << 20) / static_cast<size_t>(bytes_of(shape));
  const auto scratch_of = mfma ? attention_mfma_scratch : attention_valu_scratch;
  Stream stream;
  std::vector<std::shared_ptr<Arrays>> layers;
  for (size_t i = 0; i < n_layers; ++i) {
    layers.push_back(std::make_shared<Arrays>(shape, scratch_of(shape, n_keys), stream));
  }
  const auto next = std::make_shared<size_t>(0);
  return {std::string(mfma ? "attention_mfma" : "attention_valu") + "/1 on " +
              std::to_string(n_keys) + ", layer by layer",
          bytes_of(shape), flops_of(shape), [=](Stream& queue) {
            const Arrays& a = *layers[(*next)++ % layers.size()];
            (mfma ? attention_mfma : attention_valu)(shape, a.first_pos.data(), n_keys, a.q.data(),
                                                     a.k.data(), a.v.data(), a.out.data(), {},
                                                     a.scratch.data(), queue);
          }};
}

BenchCase mfma_case(int64_t n_tokens, int64_t n_keys) {
  const AttentionShape shape = shape_of(n_tokens, n_keys);
  Stream stream;
  const auto a = std::make_shared<Arrays>(shape, attention_mfma_scratch(shape, n_keys), stream);
  return {"attention_mfma/" + std::to_string(n_tokens) + " on " + std::to_string(n_keys),
          bytes_of(shape), flops_of(shape), [=](Stream& queue) {
            attention_mfma(shape, a->first_pos.data(), n_keys, a->q.data(), a->k.data(),
                           a->v.data(), a->out.data(), {}, a->scratch.data(), queue);
          }};
}

}  // namespace

std::vector<BenchCase> attention_cases() {
  return {valu_case(1, 2048, 2048),   valu_case(1, 2048, 16384), valu_case(1, 4096, 4096),
          valu_case(1, 16384, 16384), layers_case(false, 2048),  layers_case(false, 3000),
          layers_case(false, 8192),   layers_case(false, 16384), layers_case(true, 300),
          layers_case(true, 2048),    layers_case(true, 3000),   layers_case(true, 8192),
          layers_case(true, 16384),   valu_case(16, 2048, 2048), mfma_case(2048, 2048),
          mfma_case(2048, 16384),     mfma_case(16384, 16384)};
}

}  // namespace greta
