#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <thread>
#include <utility>

#include "engine/forward/backend.h"
#include "engine/forward/fault.h"
#include "kernels/blocks.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/matmul.h"
#include "kernels/row_difference.h"

namespace greta {
namespace {

/// Of the system; without limit where it does not say.
int64_t available_bytes() {
  std::ifstream info("/proc/meminfo");
  for (std::string name; info >> name;) {
    int64_t kibibytes = 0;
    if (name == "MemAvailable:" && info >> kibibytes) return kibibytes << 10;
    info.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::numeric_limits<int64_t>::max();
}

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name"))
      return line.substr(std::min(line.find(": ") + 2, line.size()));
  }
  return "CPU";
}

using Matmul = void (*)(const Matrix&, const float*, int64_t, float*, ThreadPool&, Isa);

Matmul matmul_of(Route route) {
  if (route == Route::kDot) return matmul_dot;
  if (route == Route::kGemm) return matmul_gemm;
  throw std::invalid_argument("the CPU has no route " + std::string(route_name(route)) +
                              " for a matrix product; it has GEMM and DOT");
}

class CpuBackend final : public Backend {
 public:
  CpuBackend(int n_threads, Isa isa) : pool_(n_threads), isa_(isa) {}

  std::string name() const override { return "cpu"; }
  std::string device() const override {
    return cpu_model() + ", " + isa() + ", " + std::to_string(pool_.size()) + " threads";
  }
  std::string isa() const override { return isa_name(isa_); }
  std::string arithmetic(const RouteTable&) const override { return "f32"; }
  std::vector<Route> routes(Op op) const override {
    if (op == Op::kAttention) return {Route::kOnline, Route::kTwoPass};
    return {Route::kGemm, Route::kDot};
  }

  int64_t usual_batch() const override { return 512; }

  int64_t free_bytes() const override { return available_bytes(); }
  Buffer allocate(int64_t n) override {
    constexpr size_t kAlignment = 64;
    const size_t bytes =
        (static_cast<size_t>(n) * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
    auto* data = static_cast<float*>(std::aligned_alloc(kAlignment, std::max(bytes, kAlignment)));
    if (data == nullptr) {
      throw std::runtime_error("out of memory: " + std::to_string(bytes >> 20) +
                               " MiB asked for activations or the KV cache; a smaller "
                               "--max-seq-len needs less");
    }
    return Buffer(data, [](float* p) { std::free(p); });
  }
  std::vector<Matrix> upload(std::span<const Matrix> host, const LoadProgress&) override {
    return {host.begin(), host.end()};
  }
  const float* upload(std::span<const float> host) override { return host.data(); }
  void fill(float* data, int64_t n, float value) override { std::fill_n(data, n, value); }
  void copy(const float* from, int64_t n, float* to) override { std::copy_n(from, n, to); }
  void read(const float* from, int64_t n, float* host) override { std::copy_n(from, n, host); }
  void synchronize() override {}
  int64_t queue_read(const float* from, int64_t n) override {
    reads_[static_cast<size_t>(n_reads_) % reads_.size()].assign(from, from + n);
    return n_reads_++;
  }
  void fetch_read(int64_t number, std::span<float> host) override {
    const std::vector<float>& values = reads_[static_cast<size_t>(number) % reads_.size()];
    std::copy_n(values.begin(), host.size(), host.begin());
  }

  void begin_batch(std::span<const int32_t> tokens, std::span<const Stretch> stretches) override {
    tokens_.assign(tokens.begin(), tokens.end());
    stretches_.assign(stretches.begin(), stretches.end());
    queued_.clear();
  }
  void begin_next(const float* top, int k, int64_t first_pos) override {
    const auto token = std::bit_cast<int32_t>(top[k]);
    const Stretch stretch{.n_tokens = 1, .first_pos = first_pos};
    begin_batch({&token, 1}, {&stretch, 1});
  }
  void end_batch() override {
    if (!queued_.empty()) ended_.push_back(std::exchange(queued_, {}));
  }
  void embed(const Matrix& table, int64_t first, float* out) override {
    greta::embed(table, tokens_.data() + first, static_cast<int64_t>(tokens_.size()) - first, out,
                 pool_);
  }
  void rms_norm(const float* x, const float* weight, float eps, int64_t n_tokens, int64_t dim,
                float* out) override {
    greta::rms_norm(x, weight, eps, n_tokens, dim, out, pool_, isa_);
  }
  void project(Route route, const float* x, int64_t n_tokens,
               std::span<const Product> products) override {
    const Matmul matmul = matmul_of(route);
    for (const Product& product : products)
      matmul(product.w, x, n_tokens, product.out, pool_, isa_);
  }
  void project_add(Route route, const float* x, int64_t n_tokens, const Product& product,
                   const float* residual, float* sum) override {
    project(route, x, n_tokens, {&product, 1});
    greta::add(residual, product.out, n_tokens * product.w.rows, sum, pool_, isa_);
  }
  void feed_forward(const FeedForward& ffn, const float* x, int64_t n_tokens, float* gated,
                    const float* residual, float* sum) override {
    const int64_t n = n_tokens * ffn.up.rows;
    if (n > n_scratch_) {
      scratch_ = allocate(n);
      n_scratch_ = n;
    }
    const Matmul matmul = matmul_of(ffn.gate_up_route);
    matmul(ffn.gate, x, n_tokens, gated, pool_, isa_);
    matmul(ffn.up, x, n_tokens, scratch_.get(), pool_, isa_);
    swiglu(gated, scratch_.get(), n, gated, pool_, isa_);
    project_add(ffn.down_route, gated, n_tokens, ffn.down, residual, sum);
  }
  void finish_heads(int64_t n_tokens, int64_t head_dim, float eps,
                    std::span<const HeadTensor> tensors) override {
    for (const HeadTensor& tensor : tensors) {
      greta::finish_heads(tensor, n_tokens, head_dim, eps, pool_, isa_);
    }
  }
  void rope(int64_t shift, const RopeTurn& turn, int64_t head_dim,
            std::span<const RopeTensor> tensors) override {
    for (RopeTensor tensor : tensors) {
      for (const Stretch& one : stretches_) {
        greta::rope(tensor, one.first_pos + shift, turn, one.n_tokens, head_dim, pool_, isa_);
        const int64_t n = one.n_tokens * tensor.n_heads * head_dim;
        tensor.in += n;
        tensor.out += n;
      }
    }
  }
  void store_rows(size_t stretch, int64_t width, int64_t first_row,
                  std::span<const RowStore> stores) override {
    for (const RowStore& store : stores) {
      const int64_t n = stretches_[stretch].n_tokens * width;
      const KvRows to = store.cache + first_row * width;
      if (to.type == KvType::kF16) {
        std::transform(store.rows, store.rows + n, static_cast<uint16_t*>(to.data), f32_to_f16);
      } else {
        std::copy_n(store.rows, n, static_cast<float*>(to.data));
      }
    }
  }
  void read_rows(size_t stretch, int64_t width, std::optional<int64_t> first_token,
                 const std::array<RowRead, 2>& reads) override {
    const Stretch& its = stretches_[stretch];
    const int64_t first = first_token ? its.first_pos + *first_token : 0;
    const int64_t n = (its.first_pos + its.n_tokens - first) * width;
    for (const RowRead& read : reads) {
      if (read.cache.type == KvType::kF16) {
        const auto* const from = static_cast<const uint16_t*>(read.cache.data) + first * width;
        std::transform(from, from + n, read.to, f16_to_f32);
      } else {
        std::copy_n(static_cast<const float*>(read.cache.data) + first * width, n, read.to);
      }
    }
  }
  void attention(size_t, Route route, const AttentionShape& shape, const float* q, ConstKvRows k,
                 ConstKvRows v, float* out, const AttentionTrace& trace) override {
    if (route == Route::kOnline) return attention_online(shape, q, k, v, out, trace, pool_, isa_);
    if (route == Route::kTwoPass)
      return attention_two_pass(shape, q, k, v, out, trace, pool_, isa_);
    throw std::invalid_argument("the CPU has no route " + std::string(route_name(route)) +
                                " for attention; it has ONLINE and TWO_PASS");
  }
  void add(const float* a, const float* b, int64_t n, float* out) override {
    greta::add(a, b, n, out, pool_, isa_);
  }

  void top_k(const float* values, int64_t n, int k, float* top) override {
    const auto key = [&](int32_t i) {
      return std::isnan(values[i]) ? -std::numeric_limits<float>::infinity() : values[i];
    };
    order_.resize(static_cast<size_t>(n));
    for (int32_t i = 0; i < n; ++i) order_[static_cast<size_t>(i)] = i;
    const auto middle = order_.begin() + std::min<int64_t>(k, n);
    std::partial_sort(order_.begin(), middle, order_.end(), [&](int32_t a, int32_t b) {
      return key(a) != key(b) ? key(a) > key(b) : a < b;
    });
    for (int i = 0; i < k; ++i) {
      const int32_t id = i < n ? order_[static_cast<size_t>(i)] : -1;
      top[i] = i < n ? values[id] : std::numeric_limits<float>::quiet_NaN();
      top[k + i] = std::bit_cast<float>(id);
    }
  }

  void queue_fingerprints(std::span<const RowRef> rows, int64_t sample_values) override {
    const size_t first = queued_.size();
    queued_.resize(first + rows.size());
    pool_.run(static_cast<int64_t>(rows.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const RowRef& row = rows[static_cast<size_t>(i)];
        FingerprintedRow& print = queued_[first + static_cast<size_t>(i)];
        print.fingerprint = fingerprint({row.data, static_cast<size_t>(row.n)});
        print.sample.assign(row.data, row.data + std::min(row.n, sample_values));
        if (row.keep != nullptr) std::copy_n(row.data, row.n, row.keep);
        if (row.other != nullptr) {
          print.difference = row_difference({row.other, row.data, row.n, row.segments});
        }
      }
    });
  }
  std::vector<FingerprintedRow> fetch_fingerprints() override {
    std::vector<FingerprintedRow> oldest = std::move(ended_.front());
    ended_.pop_front();
    return oldest;
  }

  void scale(KvRows values, int64_t n, float factor) override {
    if (values.type == KvType::kF16) {
      auto* const halves = static_cast<uint16_t*>(values.data);
      for (int64_t i = 0; i < n; ++i) halves[i] = f32_to_f16(f16_to_f32(halves[i]) * factor);
    } else {
      auto* const data = static_cast<float*>(values.data);
      for (int64_t i = 0; i < n; ++i) data[i] *= factor;
    }
  }
  void project_fp16_accumulate(const float* x, int64_t n_tokens, int64_t step,
                               const Product& product) override {
    matmul_fp16_accumulate(product.w, x, n_tokens, step, product.out, pool_);
  }
  void race(float* rows, int64_t n_rows, int64_t width, int64_t count, uint64_t seed) override {
    for (int64_t row = 0; row < n_rows; ++row) {
      float* values = rows + row * width;
      for (int64_t i = 0; i < count; ++i) {
        const RaceHit hit = race_hit(seed, i, width);
        values[hit.index] = race_value(values[hit.index], values[hit.neighbour], hit.bit);
      }
    }
  }

 private:
  ThreadPool pool_;
  Isa isa_;
  std::vector<int32_t> tokens_;
  std::vector<Stretch> stretches_;  // of the batch
  std::vector<int32_t> order_;
  std::array<std::vector<float>, 4> reads_;
  int64_t n_reads_ = 0;
  std::vector<FingerprintedRow> queued_;             // of the batch in progress
  std::deque<std::vector<FingerprintedRow>> ended_;  // of those before it that were not fetched
  Buffer scratch_;
  int64_t n_scratch_ = 0;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(int n_threads, Isa isa) {
  if (n_threads <= 0)
    n_threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return std::make_unique<CpuBackend>(n_threads, isa);
}

}  // namespace greta
