// Products of 16-bit floats at the shapes of a llama3-8b: matrix cores and BLAS.
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/fingerprint/fingerprint.h"
#include "kernels/gpu/matmul_mfma.h"
#include "tests/bench/gpu/gpu_bench.h"

namespace greta {
namespace {

// Magnitudes from 0.5 to 2, as f16 and as bf16 alike: what the operands are changes the power that
// products take, and so the clock.
std::vector<uint16_t> some_halves(HalfType type) {
  std::vector<uint16_t> halves(size_t{1} << 20);
  const uint16_t one_half = type == HalfType::kF16 ? 0x3800 : 0x3f00;
  const uint16_t fraction = type == HalfType::kF16 ? 0x07ff : 0x00ff;
  for (size_t i = 0; i < halves.size(); ++i) {
    const auto random = static_cast<uint16_t>(mix64(i));
    halves[i] = static_cast<uint16_t>(one_half + (random & (0x8000 | fraction)));
  }
  return halves;
}

DeviceBuffer<uint16_t> filled(size_t n, HalfType type, Stream& stream) {
  const std::vector<uint16_t> some = some_halves(type);
  DeviceBuffer<uint16_t> buffer(n, "halves");
  for (size_t begin = 0; begin < n; begin += some.size()) {
    const size_t count = std::min(some.size(), n - begin);
    copy_to_device<uint16_t>(std::span(some).first(count), buffer.data() + begin, stream);
  }
  return buffer;
}

struct Shape {
  const char* what;
  int64_t n_tokens, rows, cols;
};

struct Operands {
  DeviceBuffer<uint16_t> x, w;
  DeviceBuffer<float> out;
  HalfProduct product;

  Operands(HalfType type, const Shape& shape, Stream& stream)
      : x(filled(static_cast<size_t>(shape.n_tokens * shape.cols), type, stream)),
        w(filled(static_cast<size_t>(shape.rows * shape.cols), type, stream)),
        out(static_cast<size_t>(shape.n_tokens * shape.rows), "results"),
        product{type,       x.data(),   w.data(),   shape.n_tokens,
                shape.rows, shape.cols, out.data(), shape.rows} {
    stream.synchronize();
  }
};

class Cases {
 public:
  void add_shape(HalfType type, const Shape& shape, bool every_tile) {
    const auto operands = std::make_shared<Operands>(type, shape, stream_);
    const std::string suffix = std::string(type == HalfType::kF16 ? "f16" : "bf16") + "/" +
                               shape.what + "/" + std::to_string(shape.n_tokens);
    add("mfma/" + suffix, shape,
        [operands](Stream& stream) { matmul_mfma(operands->product, stream); });
    if (every_tile) {
      constexpr const char* kNames[] = {"wide", "square", "small", "thin"};
      for (int i = 0; i < 4; ++i) {
        add("mfma/" + suffix + "/" + kNames[i], shape, [operands, i](Stream& stream) {
          matmul_mfma(operands->product, static_cast<MfmaTile>(i), stream);
        });
      }
    }
    if (!Blas::available()) return;
    // Made by the first run, which is not recorded: only then is the stream known.
    const auto blas = std::make_shared<std::optional<Blas>>();
    add("blas/" + suffix, shape, [operands, blas](Stream& stream) {
      if (!*blas) blas->emplace(stream);
      (*blas)->matmul(operands->product);
    });
  }

  std::vector<BenchCase> take() { return std::move(cases_); }

 private:
  void add(std::string name, const Shape& shape, std::function<void(Stream&)> run) {
    const auto tokens = static_cast<double>(shape.n_tokens), rows = static_cast<double>(shape.rows),
               cols = static_cast<double>(shape.cols);
    cases_.push_back({std::move(name), 2 * cols * (tokens + rows) + 4 * tokens * rows,
                      2 * tokens * rows * cols, std::move(run)});
  }

  Stream stream_;
  std::vector<BenchCase> cases_;
};

}  // namespace

std::vector<BenchCase> matmul_mfma_cases() {
  Cases cases;
  cases.add_shape(HalfType::kF16, {"attn_q", 2048, 4096, 4096}, true);
  cases.add_shape(HalfType::kF16, {"attn_k", 2048, 1024, 4096}, true);
  cases.add_shape(HalfType::kF16, {"ffn_gate", 2048, 14336, 4096}, true);
  cases.add_shape(HalfType::kF16, {"ffn_down", 2048, 4096, 14336}, true);
  cases.add_shape(HalfType::kBF16, {"ffn_gate", 2048, 14336, 4096}, false);
  for (int64_t n_tokens : {1, 16, 128, 512}) {
    cases.add_shape(HalfType::kF16, {"attn_q", n_tokens, 4096, 4096}, true);
  }
  return cases.take();
}

}  // namespace greta
