// What a token's graph has between the products, at the shapes of a llama3-8b.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/fingerprint/fingerprint.h"
#include "kernels/gpu/elementwise.h"
#include "kernels/gpu/fingerprint.h"
#include "kernels/gpu/matmul_mfma.h"
#include "tests/bench/gpu/gpu_bench.h"

namespace greta {
namespace {

constexpr int64_t kDim = 4096, kHeads = 32, kKvHeads = 8, kHeadDim = 128, kHidden = 14336;
constexpr int64_t kVocab = 128256, kPrompt = 2048;

// Values in and as many results: read and written once.
struct Arrays {
  DeviceBuffer<float> in, second, out;

  explicit Arrays(int64_t n, int64_t n_second = 0)
      : in(some_values(n)), second(some_values(n_second)), out(static_cast<size_t>(n), "results") {}
};

double bytes_of(int64_t n) { return 4 * static_cast<double>(n); }

BenchCase top_k_case() {
  const auto values = std::make_shared<Arrays>(kVocab);
  const auto results = std::make_shared<std::pair<DeviceBuffer<int32_t>, DeviceBuffer<std::byte>>>(
      DeviceBuffer<int32_t>(kMaxTopK, "indices"),
      DeviceBuffer<std::byte>(top_k_scratch(), "scratch"));
  Stream stream;
  set_bytes(results->second.data(), results->second.size(), 0, stream);
  stream.synchronize();
  return {"top_k/5 of 128256", bytes_of(kVocab), 0, [=](Stream& queue) {
            top_k(values->in.data(), kVocab, 5, values->out.data(), results->first.data(),
                  results->second.data(), queue);
          }};
}

BenchCase rms_norm_case(int64_t n_tokens) {
  const auto arrays = std::make_shared<Arrays>(n_tokens * kDim, kDim);
  return {"rms_norm/" + std::to_string(n_tokens), bytes_of(2 * n_tokens * kDim + kDim), 0,
          [=](Stream& stream) {
            rms_norm(arrays->in.data(), arrays->second.data(), 1e-5f, n_tokens, kDim,
                     arrays->out.data(), stream);
          }};
}

BenchCase rope_case(int64_t n_tokens) {
  const auto q = std::make_shared<Arrays>(n_tokens * kDim, n_tokens * kHeadDim);
  const auto k = std::make_shared<Arrays>(n_tokens * kKvHeads * kHeadDim);
  return {"rope/" + std::to_string(n_tokens),
          bytes_of(n_tokens * kHeadDim * (2 * kHeads + 2 * kKvHeads + 1)), 0, [=](Stream& stream) {
            rope({q->in.data(), kHeads, q->out.data()}, {k->in.data(), kKvHeads, k->out.data()},
                 q->second.data(), RopePairing::kHalves, n_tokens, kHeadDim, kHeadDim / 2, stream);
          }};
}

BenchCase swiglu_halves_case() {
  constexpr int64_t n = kPrompt * kHidden;
  const auto arrays = std::make_shared<Arrays>(n, n);
  return {"swiglu_halves/2048", 2.5 * bytes_of(n), 0, [=](Stream& stream) {
            swiglu_halves(arrays->in.data(), arrays->second.data(), n, HalfType::kF16,
                          reinterpret_cast<uint16_t*>(arrays->out.data()), stream);
          }};
}

BenchCase halves_of_case() {
  constexpr int64_t n = kPrompt * kDim;
  const auto arrays = std::make_shared<Arrays>(n);
  return {"halves_of/2048", 1.5 * bytes_of(n), 0, [=](Stream& stream) {
            halves_of(arrays->in.data(), n, HalfType::kF16,
                      reinterpret_cast<uint16_t*>(arrays->out.data()), stream);
          }};
}

// The rows that one layer gives for one token, when all are traced.
struct LayerRows {
  DeviceBuffer<float> values = some_values(kHidden);
  FingerprintLimits limits{};
  DeviceBuffer<FingerprintCounts> counts{1, "counts"};
  DeviceBuffer<FingerprintPart> parts;
  DeviceBuffer<DeviceFingerprint> results;
  DeviceBuffer<uint16_t> codes{1 << 14, "places in sketches"};
  double bytes = 0;

  LayerRows() {
    FingerprintPlan plan;
    for (const auto& [n_rows, n] :
         {std::pair<int, int64_t>{13, kDim}, {4, kKvHeads * kHeadDim}, {3, kHidden}}) {
      for (int i = 0; i < n_rows; ++i) plan.add(values.data(), n);
      bytes += n_rows * bytes_of(n);
    }
    limits = {plan.n_rows(), plan.n_long_parts(), plan.n_parts()};
    std::vector<FingerprintPart> host_parts(plan.n_parts());
    plan.write(host_parts);
    const std::vector<FingerprintCounts> host_counts{plan.counts()};
    parts = DeviceBuffer<FingerprintPart>(plan.n_parts(), "parts");
    results = DeviceBuffer<DeviceFingerprint>(plan.n_rows(), "fingerprints");
    Stream stream;
    make_sketch_codes(codes.data(), codes.size(), stream);
    copy_to_device<FingerprintCounts>(host_counts, counts.data(), stream);
    copy_to_device<FingerprintPart>(host_parts, parts.data(), stream);
    stream.synchronize();
  }
};

BenchCase fingerprint_case() {
  const auto rows = std::make_shared<LayerRows>();
  return {"fingerprints/20 rows of a layer", rows->bytes, 0, [=](Stream& stream) {
            fingerprint_rows(rows->counts.data(), rows->parts.data(), rows->limits,
                             {rows->codes.data(), rows->codes.size()}, rows->results.data(),
                             stream);
          }};
}

}  // namespace

std::vector<BenchCase> small_cases() {
  return {top_k_case(),       rms_norm_case(1), rms_norm_case(kPrompt), rope_case(1),
          rope_case(kPrompt), halves_of_case(), swiglu_halves_case(),   fingerprint_case()};
}

}  // namespace greta
