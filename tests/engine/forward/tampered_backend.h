#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/forward/backend.h"

namespace greta {

/// A backend whose operations a test can leave out or change: what a broken kernel would do.
class TamperedBackend final : public Backend {
 public:
  /// Called instead of an operation that writes `n` values to `out`; `compute` is the operation.
  /// name: of the function below.
  using Tamper = std::function<void(std::string_view name, float* out, int64_t n,
                                    std::function<void()> compute)>;

  explicit TamperedBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  /// nullptr: everything is computed as it should be.
  Tamper tamper;
  bool may_run_ahead = true;
  std::function<int64_t()> has_free_bytes;  ///< empty: as many as there are

  std::string name() const override { return inner_->name(); }
  std::string device() const override { return inner_->device(); }
  std::string isa() const override { return inner_->isa(); }
  std::string arithmetic(const RouteTable& routes) const override {
    return inner_->arithmetic(routes);
  }
  std::vector<Route> routes(Op op) const override { return inner_->routes(op); }
  int64_t free_bytes() const override {
    return has_free_bytes ? has_free_bytes() : inner_->free_bytes();
  }
  Buffer allocate(int64_t n) override { return inner_->allocate(n); }
  std::vector<Matrix> upload(std::span<const Matrix> host, const LoadProgress& on_load) override {
    return inner_->upload(host, on_load);
  }
  const float* upload(std::span<const float> host) override { return inner_->upload(host); }
  void fill(float* data, int64_t n, float value) override { inner_->fill(data, n, value); }
  void copy(const float* from, int64_t n, float* to) override { inner_->copy(from, n, to); }
  void read(const float* from, int64_t n, float* host) override { inner_->read(from, n, host); }
  void synchronize() override { inner_->synchronize(); }
  int64_t queue_read(const float* from, int64_t n) override { return inner_->queue_read(from, n); }
  void fetch_read(int64_t number, std::span<float> host) override {
    inner_->fetch_read(number, host);
  }
  bool runs_ahead() const override { return may_run_ahead && inner_->runs_ahead(); }
  bool fingerprints_at_end() const override { return inner_->fingerprints_at_end(); }
  void begin_batch(std::span<const int32_t> tokens, std::span<const Stretch> stretches) override {
    n_tokens_ = static_cast<int64_t>(tokens.size());
    stretches_.assign(stretches.begin(), stretches.end());
    inner_->begin_batch(tokens, stretches);
  }
  void begin_next(const float* top, int k, int64_t first_pos) override {
    n_tokens_ = 1;
    stretches_ = {{.n_tokens = 1, .first_pos = first_pos}};
    inner_->begin_next(top, k, first_pos);
  }
  void end_batch() override { inner_->end_batch(); }
  int64_t replays() const override { return inner_->replays(); }
  int64_t usual_batch() const override { return inner_->usual_batch(); }
  void top_k(const float* values, int64_t n, int k, float* top) override {
    inner_->top_k(values, n, k, top);
  }
  void queue_fingerprints(std::span<const RowRef> rows, int64_t sample_values) override {
    inner_->queue_fingerprints(rows, sample_values);
  }
  std::vector<FingerprintedRow> fetch_fingerprints() override {
    return inner_->fetch_fingerprints();
  }

  void embed(const Matrix& table, int64_t first, float* out) override {
    run("embed", out, (n_tokens_ - first) * table.cols, [&] { inner_->embed(table, first, out); });
  }
  void rms_norm(const float* x, const float* weight, float eps, int64_t n, int64_t dim,
                float* out) override {
    run("rms_norm", out, n * dim, [&] { inner_->rms_norm(x, weight, eps, n, dim, out); });
  }
  void project(Route route, const float* x, int64_t n, std::span<const Product> products) override {
    for (const Product& product : products) {
      run("project", product.out, n * product.w.rows, [&] {
        inner_->project(route, x, n, {&product, 1});
      });
    }
  }
  void project_add(Route route, const float* x, int64_t n, const Product& product,
                   const float* residual, float* sum) override {
    run("project_add", product.out, n * product.w.rows,
        [&] { inner_->project_add(route, x, n, product, residual, sum); });
  }
  void feed_forward(const FeedForward& ffn, const float* x, int64_t n, float* gated,
                    const float* residual, float* sum) override {
    run("feed_forward", ffn.down.out, n * ffn.down.w.rows,
        [&] { inner_->feed_forward(ffn, x, n, gated, residual, sum); });
  }
  void finish_heads(int64_t n, int64_t head_dim, float eps,
                    std::span<const HeadTensor> tensors) override {
    for (const HeadTensor& tensor : tensors) {
      run("finish_heads", tensor.rows, n * tensor.n_heads * head_dim, [&] {
        inner_->finish_heads(n, head_dim, eps, {&tensor, 1});
      });
    }
  }
  void rope(int64_t shift, const RopeTurn& turn, int64_t head_dim,
            std::span<const RopeTensor> tensors) override {
    for (const RopeTensor& tensor : tensors) {
      run("rope", tensor.out, n_tokens_ * tensor.n_heads * head_dim, [&] {
        inner_->rope(shift, turn, head_dim, {&tensor, 1});
      });
    }
  }
  void store_rows(size_t stretch, int64_t width, int64_t first_row,
                  std::span<const RowStore> stores) override {
    for (const RowStore& store : stores) {
      auto* const first = static_cast<float*>((store.cache + first_row * width).data);
      run("store_rows", first, stretches_[stretch].n_tokens * width, [&] {
        inner_->store_rows(stretch, width, first_row, {&store, 1});
      });
    }
  }
  void read_rows(size_t stretch, int64_t width, std::optional<int64_t> first_token,
                 const std::array<RowRead, 2>& reads) override {
    inner_->read_rows(stretch, width, first_token, reads);
  }
  void attention(size_t stretch, Route route, const AttentionShape& shape, const float* q,
                 ConstKvRows k, ConstKvRows v, float* out, const AttentionTrace& trace) override {
    run("attention", out, shape.n_tokens * shape.n_heads * shape.head_dim,
        [&] { inner_->attention(stretch, route, shape, q, k, v, out, trace); });
  }
  void add(const float* a, const float* b, int64_t n, float* out) override {
    run("add", out, n, [&] { inner_->add(a, b, n, out); });
  }

  void scale(KvRows values, int64_t n, float factor) override { inner_->scale(values, n, factor); }
  void project_fp16_accumulate(const float* x, int64_t n, int64_t step,
                               const Product& product) override {
    inner_->project_fp16_accumulate(x, n, step, product);
  }
  void race(float* rows, int64_t n_rows, int64_t width, int64_t count, uint64_t seed) override {
    inner_->race(rows, n_rows, width, count, seed);
  }

 private:
  template <class Compute>
  void run(std::string_view name, float* out, int64_t n, const Compute& compute) {
    if (tamper) {
      tamper(name, out, n, compute);
    } else {
      compute();
    }
  }

  std::unique_ptr<Backend> inner_;
  int64_t n_tokens_ = 0;
  std::vector<Stretch> stretches_;
};

}  // namespace greta
