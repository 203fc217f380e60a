#include "engine/hip/backend.h"

#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/forward/fault.h"
#include "engine/hip/attention.h"
#include "engine/hip/batch_input.h"
#include "engine/hip/fingerprints.h"
#include "engine/hip/half_products.h"
#include "engine/hip/op_queue.h"
#include "engine/hip/upload.h"
#include "kernels/gpu/device.h"
#include "kernels/gpu/elementwise.h"
#include "kernels/gpu/matmul_mfma.h"
#include "kernels/gpu/matmul_valu.h"

namespace greta {
namespace {

class HipBackend final : public Backend {
 public:
  HipBackend()
      : info_(device_info()),
        ops_(stream_, [this] { fingerprints_.upload(); }),
        input_(stream_, forget()),
        rope_tables_(stream_, ops_, forget()),
        fingerprints_(stream_, [this] { ops_.recorder().forget(); }),
        uploader_(stream_),
        halves_(stream_, forget()),
        attention_(stream_, ops_, forget()),
        wide_("gate and up of the feed-forward network", forget()),
        top_scratch_(top_k_scratch(), "scratch of top-k") {
    set_bytes(top_scratch_.data(), top_scratch_.size(), 0, stream_);
  }
  ~HipBackend() override {
    try {
      stream_.synchronize();
    } catch (const DeviceError&) {  // whoever waited for the work has been told
    }
  }

  std::string name() const override { return "hip"; }
  std::string device() const override {
    return info_.name + ", " + info_.architecture + ", " +
           std::to_string(info_.memory_bytes >> 30) + " GiB";
  }
  std::string arithmetic(const RouteTable& routes) const override {
    for (int op = 0; op < kOps; ++op) {
      for (const bool decode : {false, true}) {
        const Route route = routes.of(static_cast<Op>(op), decode);
        if (route != Route::kValu) return has_bf16_ ? "bf16" : "f16";
      }
    }
    return "f32";
  }
  std::vector<Route> routes(Op op) const override {
    if (op == Op::kAttention) return {Route::kMfma, Route::kValu};
    std::vector<Route> routes = halves_.routes();
    routes.push_back(Route::kValu);
    return routes;
  }
  Route invariant_route(Op) const override { return Route::kMfma; }
  int64_t replays() const override { return ops_.recorder().replays(); }
  int64_t usual_batch() const override { return 2048; }

  int64_t free_bytes() const override { return static_cast<int64_t>(device_memory().free_bytes); }
  Buffer allocate(int64_t n) override {
    ops_.go_direct();
    auto memory = DeviceBuffer<float>(static_cast<size_t>(n), "activations or the KV cache");
    float* const data = memory.data();
    buffers_.emplace(data, std::move(memory));
    return Buffer(data, [this](float* p) { release(p); });
  }
  std::vector<Matrix> upload(std::span<const Matrix> host, const LoadProgress& on_load) override {
    // In one piece: to allocate a matrix takes as long as to copy a small one.
    constexpr size_t kAlignment = 256;
    std::vector<size_t> places;
    size_t size_bytes = 0;
    for (const Matrix& matrix : host) {
      places.push_back(size_bytes);
      size_bytes += (matrix.bytes() + kAlignment - 1) / kAlignment * kAlignment;
      has_bf16_ = has_bf16_ || matrix.type == WeightType::kBF16;
    }
    std::byte* const memory = weights_.emplace_back(size_bytes, "weights").data();
    std::vector<std::byte*> to;
    std::vector<Matrix> on_device(host.begin(), host.end());
    for (size_t i = 0; i < host.size(); ++i) {
      to.push_back(memory + places[i]);
      on_device[i].data = to[i];
    }
    uploader_.copy(host, to, on_load);
    halves_.routes();  // loaded beside it; that it cannot be is said now
    return on_device;
  }
  const float* upload(std::span<const float> host) override {
    vectors_.push_back(vector_of<float>(host));
    return vectors_.back().data();
  }
  void fill(float* data, int64_t n, float value) override {
    ops_.add(Signature(kFill, data, n, value), [=, this] { greta::fill(data, n, value, stream_); });
  }
  void copy(const float* from, int64_t n, float* to) override {
    // Rows of the cache, which a fault copies: their place depends on the position.
    ops_.go_direct();
    copy_on_device(from, static_cast<size_t>(n), to, stream_);
  }
  void read(const float* from, int64_t n, float* host) override {
    ops_.go_direct();
    copy_to_host<float>(from, {host, static_cast<size_t>(n)}, stream_);
    stream_.synchronize();
  }
  int64_t queue_read(const float* from, int64_t n) override {
    ops_.go_direct();
    ReadSlot& slot = reads_[static_cast<size_t>(n_reads_) % reads_.size()];
    if (slot.values.size() < static_cast<size_t>(n)) {
      slot.done.synchronize();
      slot.values = PinnedBuffer<float>(static_cast<size_t>(n), "values read");
    }
    copy_to_host<float>(from, slot.values.span().first(static_cast<size_t>(n)), stream_);
    slot.done.record(stream_);
    return n_reads_++;
  }
  void fetch_read(int64_t number, std::span<float> host) override {
    const ReadSlot& slot = reads_[static_cast<size_t>(number) % reads_.size()];
    slot.done.synchronize();
    std::copy_n(slot.values.data(), host.size(), host.begin());
  }
  bool runs_ahead() const override { return true; }
  bool fingerprints_at_end() const override { return true; }
  void synchronize() override {
    ops_.go_direct();
    stream_.synchronize();
  }

  void begin_batch(std::span<const int32_t> tokens, std::span<const Stretch> stretches) override {
    start(tokens, static_cast<int64_t>(tokens.size()), stretches);
    ids_ = input_.ids();
  }
  void begin_next(const float* top, int k, int64_t first_pos) override {
    const Stretch stretch{.n_tokens = 1, .first_pos = first_pos};
    start({}, 1, {&stretch, 1});
    ids_ = reinterpret_cast<const int32_t*>(top + k);
  }
  void end_batch() override {
    attention_.end();
    print_rows(fingerprints_.finish());
    ops_.end();
    fingerprints_.end();
  }

  void embed(const Matrix& table, int64_t first, float* out) override {
    ops_.add(Signature(kEmbed, table, ids_ + first, n_tokens_ - first, out),
             [=, this, ids = ids_ + first, n = n_tokens_ - first] {
               greta::embed(table, ids, n, out, stream_);
             });
  }
  void rms_norm(const float* x, const float* weight, float eps, int64_t n_tokens, int64_t dim,
                float* out) override {
    ops_.rms_norm({x, weight, eps, out}, n_tokens, dim);
  }
  void add(const float* a, const float* b, int64_t n, float* out) override {
    ops_.add(Signature(kAdd, a, b, n, out), [=, this] { greta::add(a, b, n, out, stream_); });
  }

  void project(Route route, const float* x, int64_t n_tokens,
               std::span<const Product> products) override {
    if (in_one_launch(route, n_tokens, products.front().w)) {
      return ops_.matmul(route, x, n_tokens, products);
    }
    std::vector<Matrix> weights;
    for (const Product& product : products) weights.push_back(product.w);
    const HalfProducts::Operands operands = halves_.prepare(route, n_tokens, weights);
    const Signature signature(kProject, static_cast<int>(route), x, n_tokens, operands.x,
                              operands.weights, products);
    ops_.add(signature, [=, this, all = std::vector(products.begin(), products.end())] {
      halves_.multiply(route, operands, x, n_tokens, all);
    });
  }
  void project_add(Route route, const float* x, int64_t n_tokens, const Product& product,
                   const float* residual, float* sum) override {
    if (!in_one_launch(route, n_tokens, product.w)) {
      project(route, x, n_tokens, {&product, 1});
      return add(residual, product.out, n_tokens * product.w.rows, sum);
    }
    ops_.add(Signature(kProjectAdd, static_cast<int>(route), x, n_tokens, product.w, product.out,
                       residual, sum),
             [=, this] {
               if (route == Route::kMfma) {
                 return token_matmul_add_mfma(x, product, residual, sum, stream_);
               }
               matmul_add_valu(x, n_tokens, product, residual, sum, stream_);
             });
  }
  void feed_forward(const FeedForward& ffn, const float* x, int64_t n_tokens, float* gated,
                    const float* residual, float* sum) override {
    if (in_one_launch(ffn.gate_up_route, n_tokens, ffn.gate)) {
      gate_up_in_one_launch(ffn, x, n_tokens, gated);
      return project_add(ffn.down_route, gated, n_tokens, ffn.down, residual, sum);
    }
    const int64_t n = n_tokens * ffn.up.rows;
    float* const gate = wide_.get(2 * static_cast<size_t>(n));
    float* const up = gate + n;
    const std::array<Product, 2> products{{{ffn.gate, gate}, {ffn.up, up}}};
    project(ffn.gate_up_route, x, n_tokens, products);
    if (in_one_launch(ffn.down_route, n_tokens, ffn.down.w)) {
      ops_.add(Signature(kFeedForward, gate, n, gated),
               [=, this] { swiglu(gate, up, n, gated, stream_); });
      return project_add(ffn.down_route, gated, n_tokens, ffn.down, residual, sum);
    }
    const Route route = ffn.down_route;
    const HalfProducts::Operands operands = halves_.prepare(route, n_tokens, {&ffn.down.w, 1});
    ops_.add(Signature(kFeedForward, gate, n, static_cast<int>(route), ffn.down.w, ffn.down.out,
                       operands.x, operands.weights),
             [=, this, down = ffn.down] {
               swiglu_halves(gate, up, n, HalfProducts::type_for(down.w), operands.x, stream_);
               halves_.multiply(route, operands, n_tokens, down);
             });
    add(residual, ffn.down.out, n_tokens * ffn.down.w.rows, sum);
  }

  void finish_heads(int64_t n_tokens, int64_t head_dim, float eps,
                    std::span<const HeadTensor> tensors) override {
    Signature signature(kHeads, n_tokens, head_dim, eps);
    for (const HeadTensor& tensor : tensors) {
      for (const float* p : {static_cast<const float*>(tensor.rows), tensor.bias, tensor.norm}) {
        signature.add(p);
      }
      signature.add(tensor.n_heads);
    }
    ops_.add(signature, [=, this, all = std::vector(tensors.begin(), tensors.end())] {
      greta::finish_heads(all, n_tokens, head_dim, eps, stream_);
    });
  }
  void rope(int64_t shift, const RopeTurn& turn, int64_t head_dim,
            std::span<const RopeTensor> tensors) override {
    if (tensors.size() > 2) throw std::invalid_argument("too many tensors to turn");
    const float* const table = rope_tables_.get(turn, input_.pos(), shift, stretches_);
    const auto half_dim = static_cast<int64_t>(turn.inv_freq.size());
    OpQueue::Rope rope{table, turn.pairing, n_tokens_, head_dim, half_dim, {}};
    std::copy(tensors.begin(), tensors.end(), rope.tensors.begin());
    ops_.rope(rope);
  }
  void store_rows(size_t stretch, int64_t width, int64_t first_row,
                  std::span<const RowStore> stores) override {
    if (stores.size() > 2) throw std::invalid_argument("too many caches to store to");
    std::array<RowStore, 2> both{};
    std::copy(stores.begin(), stores.end(), both.begin());
    const Stretch& its = stretches_[stretch];
    ops_.store_rows(both, its.n_tokens, width, input_.pos() + stretch, first_row - its.first_pos);
  }
  void read_rows(size_t stretch, int64_t width, std::optional<int64_t> first_token,
                 const std::array<RowRead, 2>& reads) override {
    const Stretch& its = stretches_[stretch];
    const KvRead read{.a = reads[0],
                      .b = reads[1],
                      .first_pos = input_.pos() + stretch,
                      .n_tokens = its.n_tokens,
                      .all = !first_token,
                      .first_token = first_token.value_or(0)};
    // A power of two, so that a graph serves many positions.
    const auto end = static_cast<uint64_t>(its.first_pos + its.n_tokens);
    const auto max_rows = static_cast<int64_t>(
        first_token ? static_cast<uint64_t>(its.n_tokens - *first_token) : std::bit_ceil(end));
    ops_.add(Signature(kReadRows, width, max_rows, read.a.cache, read.a.to, read.b.cache, read.b.to,
                       read.first_pos, read.n_tokens, read.all, read.first_token),
             [=, this] { greta::read_rows(read, width, max_rows, stream_); });
  }
  void attention(size_t stretch, Route route, const AttentionShape& shape, const float* q,
                 ConstKvRows k, ConstKvRows v, float* out, const AttentionTrace& trace) override {
    if (shape.first_pos != stretches_[stretch].first_pos) {
      throw std::invalid_argument("attention of another batch");
    }
    attention_.add(route, shape, input_.pos() + stretch, q, k, v, out, trace);
  }

  void top_k(const float* values, int64_t n, int k, float* top) override {
    ops_.add(Signature(kTop, values, n, k, top), [=, this] {
      greta::top_k(values, n, k, top, reinterpret_cast<int32_t*>(top + k), top_scratch_.data(),
                   stream_);
    });
  }

  void queue_fingerprints(std::span<const RowRef> rows, int64_t sample_values) override {
    print_rows(fingerprints_.add(rows, sample_values));
  }
  std::vector<FingerprintedRow> fetch_fingerprints() override { return fingerprints_.fetch(); }

  void scale(KvRows values, int64_t n, float factor) override {
    ops_.add(Signature(kScale, values, n, factor),
             [=, this] { greta::scale(values, n, factor, stream_); });
  }
  void project_fp16_accumulate(const float* x, int64_t n_tokens, int64_t step,
                               const Product& product) override {
    ops_.add(Signature(kFp16Accumulate, x, n_tokens, step, product.w, product.out), [=, this] {
      matmul_fp16_accumulate(x, n_tokens, step, {product.w, product.out}, stream_);
    });
  }
  void race(float* rows, int64_t n_rows, int64_t width, int64_t count, uint64_t seed) override {
    const BitTransfer* const hits = race_hits(width, count, seed);
    ops_.add(Signature(kRace, rows, n_rows, width, hits, count),
             [=, this] { transfer_bits(rows, n_rows, width, hits, count, stream_); });
  }

 private:
  struct ReadSlot {
    PinnedBuffer<float> values;
    Event done;
  };

  /// For memory that recorded launches may name.
  std::function<void()> forget() {
    return [this] {
      ops_.recorder().forget();
      stream_.synchronize();
    };
  }

  /// tokens: empty where the device has them.
  void start(std::span<const int32_t> tokens, int64_t n_tokens,
             std::span<const Stretch> stretches) {
    ops_.drop();
    n_tokens_ = n_tokens;
    stretches_.assign(stretches.begin(), stretches.end());
    input_.upload(tokens, stretches);
    rope_tables_.begin();
    attention_.begin(n_tokens == 1);
    fingerprints_.begin(n_tokens == 1);
    ops_.begin(input_.pos(), n_tokens == 1);
  }

  /// True if one launch multiplies by this route, with what comes before and after.
  static bool in_one_launch(Route route, int64_t n_tokens, const Matrix& w) {
    return route == Route::kValu ||
           (route == Route::kMfma && n_tokens == 1 && fits_token_matmul_mfma(w.cols));
  }

  void gate_up_in_one_launch(const FeedForward& ffn, const float* x, int64_t n_tokens,
                             float* gated) {
    const Route route = ffn.gate_up_route;
    const auto norm = n_tokens == 1 ? ops_.take_norm(x) : std::nullopt;
    const NormedRow row = norm.value_or(NormedRow{.x = x});
    ops_.add(Signature(kFeedForward, static_cast<int>(route), ffn.gate, ffn.up, x, n_tokens, gated,
                       row.x, row.weight, row.eps),
             [=, this] {
               if (route == Route::kMfma) {
                 return token_gated_matmul_mfma(row, ffn.gate, ffn.up, gated, stream_);
               }
               if (norm) return gated_matmul_valu(row, ffn.gate, ffn.up, gated, stream_);
               gated_matmul_valu(x, n_tokens, ffn.gate, ffn.up, gated, stream_);
             });
  }

  void print_rows(const FingerprintQueue::Work& work) {
    if (work.parts == nullptr) return;
    if (ops_.recorder().is_direct()) fingerprints_.upload();
    ops_.add(Signature(kFingerprints, work.parts, static_cast<uint64_t>(work.limits.n_rows),
                       static_cast<uint64_t>(work.limits.n_long_parts),
                       static_cast<uint64_t>(work.limits.n_parts), work.aside, work.results,
                       work.samples, work.sample_values, work.codes.codes, work.codes.n, work.tasks,
                       static_cast<uint64_t>(work.n_tasks), work.pairs,
                       static_cast<uint64_t>(work.n_pairs), work.parts_of_pairs, work.differences),
             [=, this] { work.run(stream_); });
  }

  void release(float* data) {
    try {
      if (ops_.recorder().is_direct()) ops_.settle();
    } catch (const DeviceError&) {  // who waits for the result will be told
    }
    ops_.drop();           // recorded: an error ended the batch
    buffers_.erase(data);  // freeing waits for the device
  }

  template <class T>
  DeviceBuffer<T> vector_of(std::span<const T> host) {
    ops_.go_direct();  // nothing can be allocated while a batch is recorded
    DeviceBuffer<T> memory(host.size(), "weights and tables");
    copy_to_device<T>(host, memory.data(), stream_);
    return memory;
  }

  const BitTransfer* race_hits(int64_t width, int64_t count, uint64_t seed) {
    DeviceBuffer<BitTransfer>& hits =
        race_hits_[{seed, static_cast<uint64_t>(width), static_cast<uint64_t>(count)}];
    if (hits.size() == 0) {
      std::vector<BitTransfer> list;
      for (int64_t i = 0; i < count; ++i) {
        const RaceHit hit = race_hit(seed, i, width);
        list.push_back({hit.index, hit.neighbour, hit.bit});
      }
      hits = vector_of<BitTransfer>(list);
    }
    return hits.data();
  }

  DeviceInfo info_;
  Stream stream_;
  OpQueue ops_;
  BatchInput input_;
  RopeTables rope_tables_;
  FingerprintQueue fingerprints_;
  WeightUploader uploader_;
  HalfProducts halves_;
  AttentionCalls attention_;
  Scratch<float> wide_;
  DeviceBuffer<std::byte> top_scratch_;
  std::map<std::array<uint64_t, 3>, DeviceBuffer<BitTransfer>> race_hits_;

  bool has_bf16_ = false;
  std::map<float*, DeviceBuffer<float>> buffers_;
  std::deque<DeviceBuffer<std::byte>> weights_;
  std::deque<DeviceBuffer<float>> vectors_;
  std::array<ReadSlot, 4> reads_;
  int64_t n_reads_ = 0;

  int64_t n_tokens_ = 0;  // of the batch
  std::vector<Stretch> stretches_;
  const int32_t* ids_ = nullptr;  // device
};

}  // namespace

int gpu_count() { return device_count(); }

std::unique_ptr<Backend> make_hip_backend() {
  if (device_count() == 0) {
    throw DeviceError("no GPU can be used: the driver finds none; --backend cpu needs none");
  }
  use_device(0);
  return std::make_unique<HipBackend>();
}

}  // namespace greta
