#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend.h"
#include "engine/hip_fingerprints.h"
#include "engine/hip_recorder.h"
#include "engine/hip_upload.h"
#include "engine/race.h"
#include "kernels/attention.h"
#include "kernels/blas.h"
#include "kernels/device.h"
#include "kernels/elementwise.h"
#include "kernels/fingerprint.h"
#include "kernels/matmul_mfma.h"
#include "kernels/matmul_valu.h"
#include "kernels/top_k.h"
#include "kernels/weight_layout.h"

namespace greta {
namespace {

// Weights in 16 bits are made for as many rows at a time as fit this.
constexpr size_t kHalfWeightBytes = size_t{512} << 20;

enum OpId : uint64_t {
  kEmbed = 1,
  kNorm,
  kProject,
  kAddTo,
  kFeedForward,
  kRopeTable,
  kTurn,
  kStore,
  kAttend,
  kAddUp,
  kTop,
  kPrints,
  kFill,
  kCopy,
  kScale,
  kFp16,
  kRaceBits,
};

HalfType half_type_of(const Matrix& w) {
  return w.type == WeightType::kBF16 ? HalfType::kBF16 : HalfType::kF16;
}

/// Memory that operations use among themselves and that grows when one needs more.
template <class T>
class Scratch {
 public:
  explicit Scratch(const char* purpose) : purpose_(purpose) {}

  /// At least n values. make_room: called before smaller memory is given back.
  template <class MakeRoom>
  T* get(size_t n, const MakeRoom& make_room) {
    if (n > memory_.size()) {
      make_room();
      memory_ = {};
      memory_ = DeviceBuffer<T>(n, purpose_);
    }
    return memory_.data();
  }
  size_t size() const { return memory_.size(); }

 private:
  const char* purpose_;
  DeviceBuffer<T> memory_;
};

class HipBackend final : public Backend {
 public:
  ~HipBackend() override {
    try {
      stream_.synchronize();
    } catch (const DeviceError&) {  // whoever waited for the work has been told
    }
  }
  HipBackend()
      : info_(device_info()),
        recorder_(stream_, [this] { before_launch(); }),
        fingerprints_(stream_, [this] { recorder_.forget(); }),
        uploader_(stream_),
        batch_words_(kBatchWords, "token and position"),
        top_scratch_(top_k_scratch(), "scratch of top-k") {
    set_bytes(top_scratch_.data(), top_scratch_.size(), 0, stream_);
    if (Blas::available()) blas_.emplace(stream_);
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
    if (op == Op::kAttention || !blas_) return {Route::kMfma, Route::kValu};
    return {Route::kBlas, Route::kMfma, Route::kValu};
  }
  int64_t replays() const override { return recorder_.replays(); }
  int64_t usual_batch() const override { return 2048; }

  Buffer allocate(int64_t n) override {
    go_direct();
    auto memory = DeviceBuffer<float>(static_cast<size_t>(n), "activations or the KV cache");
    float* const data = memory.data();
    buffers_.emplace(data, std::move(memory));
    return Buffer(data, [this](float* p) { release(p); });
  }
  Matrix upload(const Matrix& host) override {
    has_bf16_ = has_bf16_ || host.type == WeightType::kBF16;
    Matrix on_device = host;
    weights_.emplace_back(host.bytes(), "weights");
    on_device.data = weights_.back().data();
    uploader_.copy(host, weights_.back().data());
    return on_device;
  }
  const float* upload(std::span<const float> host) override {
    vectors_.push_back(vector_of<float>(host));
    return vectors_.back().data();
  }
  void fill(float* data, int64_t n, float value) override {
    op(Signature(kFill, data, n, value), [=, this] { greta::fill(data, n, value, stream_); });
  }
  void copy(const float* from, int64_t n, float* to) override {
    // Rows of the cache, which a fault copies: their place depends on the position.
    go_direct();
    copy_on_device(from, static_cast<size_t>(n), to, stream_);
  }
  void read(const float* from, int64_t n, float* host) override {
    go_direct();
    copy_to_host<float>(from, {host, static_cast<size_t>(n)}, stream_);
    stream_.synchronize();
  }
  int64_t queue_read(const float* from, int64_t n) override {
    go_direct();
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
  void synchronize() override {
    go_direct();
    stream_.synchronize();
  }

  void begin_batch(std::span<const int32_t> tokens, int64_t first_pos) override {
    start(tokens, static_cast<int64_t>(tokens.size()), first_pos);
    ids_ = pos_ + 1;
  }
  void begin_next(const float* top, int k, int64_t first_pos) override {
    start({}, 1, first_pos);
    ids_ = reinterpret_cast<const int32_t*>(top + k);
  }
  void end_batch() override {
    settle();
    print_rows(fingerprints_.finish());
    recorder_.end();
    fingerprints_.end();
  }

  void embed(const Matrix& table, float* out) override {
    op(Signature(kEmbed, table, ids_, n_tokens_, out),
       [=, this, ids = ids_, n = n_tokens_] { greta::embed(table, ids, n, out, stream_); });
  }
  void rms_norm(const float* x, const float* weight, float eps, int64_t n_tokens, int64_t dim,
                float* out) override {
    settle();
    pending_norm_ = PendingNorm{{x, weight, eps, out}, n_tokens, dim};
    if (n_tokens > 1) settle();
  }
  void add(const float* a, const float* b, int64_t n, float* out) override {
    op(Signature(kAddUp, a, b, n, out), [=, this] { greta::add(a, b, n, out, stream_); });
  }

  void project(Route route, const float* x, int64_t n_tokens,
               std::span<const Product> products) override {
    if (products.size() > kMaxProducts) throw std::invalid_argument("too many products");
    Signature signature(kProject);
    signature.add(static_cast<int>(route));
    signature.add(x);
    signature.add(n_tokens);
    std::array<DeviceProduct, kMaxProducts> list{};
    for (size_t i = 0; i < products.size(); ++i) {
      signature.add(products[i].w);
      signature.add(products[i].out);
      list[i] = {products[i].w, products[i].out};
    }
    if (route == Route::kValu) {
      if (const auto norm = take_norm(x)) {
        signature.add(sign(*norm));
        return op(signature, [=, this, n = products.size()] {
          matmul_valu(norm->row, {list.data(), n}, stream_);
        });
      }
      return op(signature, [=, this, n = products.size()] {
        matmul_valu(x, n_tokens, {list.data(), n}, stream_);
      });
    }
    const HalfOperand halves = prepare(route, n_tokens, products);
    op(signature, [=, this, n = products.size()] {
      std::optional<HalfType> made;
      for (const DeviceProduct& product : std::span(list.data(), n)) {
        const HalfType type = half_type_of(product.w);
        if (made != type) halves_of(x, n_tokens * product.w.cols, type, halves.x, stream_);
        made = type;
        multiply(route, halves, product.w, n_tokens, product.out);
      }
    });
  }
  void project_add(Route route, const float* x, int64_t n_tokens, const Product& product,
                   const float* residual, float* sum) override {
    if (route != Route::kValu) {
      project(route, x, n_tokens, {&product, 1});
      return add(residual, product.out, n_tokens * product.w.rows, sum);
    }
    op(Signature(kAddTo, x, n_tokens, product.w, product.out, residual, sum), [=, this] {
      matmul_add_valu(x, n_tokens, {product.w, product.out}, residual, sum, stream_);
    });
  }
  void feed_forward(const FeedForward& ffn, const float* x, int64_t n_tokens, float* gated,
                    const float* residual, float* sum) override {
    const int64_t n = n_tokens * ffn.up.rows;
    const Signature signature = Signature(kFeedForward, static_cast<int>(ffn.gate_up_route),
                                          ffn.gate, ffn.up, x, n_tokens, gated);
    const bool halves_next = ffn.down_route != Route::kValu;
    if (ffn.gate_up_route == Route::kValu) {
      if (const auto norm = take_norm(x)) {
        op(Signature(kFeedForward, signature, sign(*norm)),
           [=, this] { gated_matmul_valu(norm->row, ffn.gate, ffn.up, gated, stream_); });
        return project_add(ffn.down_route, gated, n_tokens, ffn.down, residual, sum);
      }
      op(signature,
         [=, this] { gated_matmul_valu(x, n_tokens, ffn.gate, ffn.up, gated, stream_); });
      return project_add(ffn.down_route, gated, n_tokens, ffn.down, residual, sum);
    }
    float* const both = wide_.get(2 * static_cast<size_t>(n), [this] { make_room(); });
    const std::array<Product, 2> products{{{ffn.gate, both}, {ffn.up, both + n}}};
    project(ffn.gate_up_route, x, n_tokens, products);
    if (!halves_next) {
      op(signature, [=, this] { swiglu(both, both + n, n, gated, stream_); });
      return project_add(ffn.down_route, gated, n_tokens, ffn.down, residual, sum);
    }
    const HalfOperand halves = prepare(ffn.down_route, n_tokens, {&ffn.down, 1});
    op(Signature(kFeedForward, signature, static_cast<int>(ffn.down_route), ffn.down.w,
                 ffn.down.out),
       [=, this] {
         swiglu_halves(both, both + n, n, half_type_of(ffn.down.w), halves.x, stream_);
         multiply(ffn.down_route, halves, ffn.down.w, n_tokens, ffn.down.out);
       });
    add(residual, ffn.down.out, n_tokens * ffn.down.w.rows, sum);
  }

  void rope(int64_t first_pos, std::span<const double> inv_freq, RopePairing pairing,
            int64_t n_tokens, int64_t head_dim, std::span<const Turn> turns) override {
    const auto half = static_cast<int64_t>(inv_freq.size());
    const float* const table = rope_table(first_pos - first_pos_, inv_freq, n_tokens);
    if (turns.size() > 2) throw std::invalid_argument("too many tensors to turn");
    settle();
    PendingRope& rope = pending_rope_.emplace();
    rope = {.table = table,
            .pairing = pairing,
            .n_tokens = n_tokens,
            .head_dim = head_dim,
            .half = half,
            .tensors = {}};
    for (size_t i = 0; i < turns.size(); ++i) {
      rope.tensors[i] = {turns[i].in, turns[i].n_heads, turns[i].out};
    }
  }
  void store_rows(int64_t n_rows, int64_t width, int64_t first_row,
                  std::span<const CacheRows> stores) override {
    if (stores.size() > 2) throw std::invalid_argument("too many caches to store to");
    std::array<RowStore, 2> both{};
    for (size_t i = 0; i < stores.size(); ++i) both[i] = {stores[i].rows, stores[i].cache};
    const int64_t shift = first_row - first_pos_;
    const bool of_rope = pending_rope_ && both[1].rows != nullptr &&
                         both[0].rows == pending_rope_->tensors[1].out &&
                         pending_rope_->n_tokens == n_rows &&
                         pending_rope_->tensors[1].n_heads * pending_rope_->head_dim == width;
    if (of_rope) return turn(*std::exchange(pending_rope_, {}), shift, both);
    op(Signature(kStore, n_rows, width, shift, both[0].rows, both[0].cache, both[1].rows,
                 both[1].cache),
       [=, this] { greta::store_rows(both[0], both[1], n_rows, width, pos_, shift, stream_); });
    settle_store(shift);
  }
  void attention(Route route, const AttentionShape& shape, const float* q, const float* k,
                 const float* v, float* out, const AttentionTrace& trace) override {
    if (shape.first_pos != first_pos_) throw std::invalid_argument("attention of another batch");
    // Sized for the next power of two, so that a graph serves many positions.
    const int64_t needed = std::max<int64_t>(first_pos_ + shape.n_tokens + shape.mask_shift, 1);
    const int64_t max_keys = std::min(
        static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(needed, 256)))),
        std::max(shape.cache_rows, needed));
    const bool mfma = route == Route::kMfma;
    if (!mfma && route != Route::kValu) unknown_route(route, "attention", "MFMA and VALU");
    const size_t bytes =
        mfma ? attention_mfma_scratch(shape, max_keys) : attention_valu_scratch(shape, max_keys);
    void* const scratch = mfma ? attention_mfma_.get(bytes, [this] { make_room(); })
                               : attention_valu_scratch_of(bytes);
    const Signature signature =
        Signature(kAttend, mfma, shape.n_heads, shape.n_kv_heads, shape.head_dim, shape.n_tokens,
                  shape.mask_shift, shape.cache_rows, shape.scale, shape.modulo_heads,
                  shape.k_head_stride, shape.v_transposed, shape.subtract_max, shape.score_shift,
                  max_keys, q, k, v, out, trace.scores, trace.probs, trace.first_query, scratch);
    op(signature, [=, this] {
      const auto run = mfma ? attention_mfma : attention_valu;
      run(shape, pos_, max_keys, q, k, v, out, trace, scratch, stream_);
    });
  }

  void top_k(const float* values, int64_t n, int k, float* top) override {
    op(Signature(kTop, values, n, k, top), [=, this] {
      greta::top_k(values, n, k, top, reinterpret_cast<int32_t*>(top + k), top_scratch_.data(),
                   stream_);
    });
  }

  void queue_fingerprints(std::span<const RowRef> rows, int64_t sample_values) override {
    print_rows(fingerprints_.add(rows, sample_values));
  }
  std::vector<RowPrint> fetch_fingerprints() override { return fingerprints_.fetch(); }

  void scale(float* data, int64_t n, float factor) override {
    op(Signature(kScale, data, n, factor), [=, this] { greta::scale(data, n, factor, stream_); });
  }
  void project_fp16_accumulate(const float* x, int64_t n_tokens, int64_t step,
                               const Product& product) override {
    op(Signature(kFp16, x, n_tokens, step, product.w, product.out), [=, this] {
      matmul_fp16_accumulate(x, n_tokens, step, {product.w, product.out}, stream_);
    });
  }
  void race(float* rows, int64_t n_rows, int64_t width, int64_t count, uint64_t seed) override {
    const BitTransfer* const hits = race_hits(width, count, seed);
    op(Signature(kRaceBits, rows, n_rows, width, hits, count),
       [=, this] { transfer_bits(rows, n_rows, width, hits, count, stream_); });
  }

 private:
  /// Scratch for a product on 16-bit operands.
  struct HalfOperand {
    uint16_t* x;        // [n_tokens, cols]
    uint16_t* weights;  // of weights that are not stored in 16 bits, some rows at a time
  };

  // Tokens and position, as the device has them: ids lie behind the position.
  static constexpr size_t kBatchWords = 64;
  static constexpr size_t kBatchSlots = 4;
  struct BatchSlot {
    PinnedBuffer<int32_t> words;
    Event copied;
  };

  // Pairs of operations that one launch does as well: the first of a pair waits for the next one to
  // show whether it is the second. Every operation settles what waits.
  struct PendingNorm {
    NormedRow row;
    int64_t n_tokens, dim;
  };
  struct PendingRope {
    const float* table;
    RopePairing pairing;
    int64_t n_tokens, head_dim, half;
    std::array<RopeTensor, 2> tensors;
  };

  struct ReadSlot {
    PinnedBuffer<float> values;
    Event done;
  };

  template <class Work>
  void op(const Signature& signature, const Work& work) {
    settle();
    recorder_.op(signature.value(), work);
  }
  /// Before something that has to wait.
  void go_direct() {
    settle();
    recorder_.go_direct();
  }
  void settle() {
    if (const auto norm = std::exchange(pending_norm_, {})) {
      op(sign(*norm), [=, this, row = norm->row] {
        greta::rms_norm(row.x, row.weight, row.eps, norm->n_tokens, norm->dim, row.out, stream_);
      });
    }
    if (pending_rope_) turn(*std::exchange(pending_rope_, {}), 0, {});
  }
  /// The norm of one token's row that is waiting to be made, if it is `row`.
  std::optional<PendingNorm> take_norm(const float* row) {
    if (!pending_norm_ || pending_norm_->row.out != row) return {};
    return std::exchange(pending_norm_, {});
  }
  static Signature sign(const PendingNorm& norm) {
    return Signature(kNorm, norm.row.x, norm.row.weight, norm.row.eps, norm.n_tokens, norm.dim,
                     norm.row.out);
  }
  /// attention_valu reads old rows of the cache before earlier kernels have ended: no row that it
  /// takes for old may have been written just before. Only a fault does that.
  void settle_store(int64_t shift) {
    if (shift >= -kFreshRows) return;
    go_direct();
    stream_.synchronize();
  }
  /// RoPE, and what comes of the second tensor stored with the rows of another one.
  void turn(const PendingRope& rope, int64_t shift, const std::array<RowStore, 2>& stores) {
    const auto& [a, b] = rope.tensors;
    const Signature signature(kTurn, rope.table, static_cast<int>(rope.pairing), rope.n_tokens,
                              rope.head_dim, rope.half, a.in, a.n_heads, a.out, b.in, b.n_heads,
                              b.out, shift, stores[0].cache, stores[1].rows, stores[1].cache);
    op(signature, [=, this] {
      const auto& [first, second] = rope.tensors;
      if (stores[0].cache == nullptr) {
        return greta::rope(first, second, rope.table, rope.pairing, rope.n_tokens, rope.head_dim,
                           rope.half, stream_);
      }
      rope_and_store(first, second, rope.table, rope.pairing, rope.n_tokens, rope.head_dim,
                     rope.half, pos_, shift, stores[0].cache, stores[1], stream_);
    });
    settle_store(shift);
  }

  void print_rows(const FingerprintQueue::Work& work) {
    if (work.parts == nullptr) return;
    if (recorder_.is_direct()) fingerprints_.upload();
    op(Signature(kPrints, work.parts, static_cast<uint64_t>(work.limits.n_rows),
                 static_cast<uint64_t>(work.limits.n_long_parts),
                 static_cast<uint64_t>(work.limits.n_parts), work.aside, work.results, work.samples,
                 work.sample_values),
       [=, this] { work.run(stream_); });
  }

  void before_launch() { fingerprints_.upload(); }

  void make_room() {
    recorder_.forget();
    stream_.synchronize();
  }

  /// tokens: empty where the device has them.
  void start(std::span<const int32_t> tokens, int64_t n_tokens, int64_t first_pos) {
    recorder_.drop();
    pending_norm_.reset();
    pending_rope_.reset();
    n_tokens_ = n_tokens;
    upload_batch(tokens, first_pos);
    fingerprints_.begin(n_tokens_ == 1);
    if (n_tokens_ == 1) recorder_.begin();
  }
  void upload_batch(std::span<const int32_t> tokens, int64_t first_pos) {
    if (first_pos < 0 || first_pos > std::numeric_limits<int32_t>::max() / 2) {
      throw std::invalid_argument("position " + std::to_string(first_pos) + " is out of range");
    }
    first_pos_ = first_pos;
    const size_t n = tokens.size() + 1;
    if (n > batch_words_.size()) {
      make_room();
      batch_words_ = DeviceBuffer<int32_t>(n, "tokens and position");
    }
    pos_ = batch_words_.data();
    BatchSlot& slot = batch_slots_[n_batches_++ % kBatchSlots];
    slot.copied.synchronize();
    if (slot.words.size() < n) slot.words = PinnedBuffer<int32_t>(n, "tokens and position");
    slot.words[0] = static_cast<int32_t>(first_pos);
    std::copy(tokens.begin(), tokens.end(), slot.words.data() + 1);
    copy_to_device<int32_t>({slot.words.data(), n}, batch_words_.data(), stream_);
    slot.copied.record(stream_);
  }

  void release(float* data) {
    if (!recorder_.is_direct()) recorder_.drop();  // an error ended the batch
    buffers_.erase(data);                          // freeing waits for the device
  }

  template <class T>
  DeviceBuffer<T> vector_of(std::span<const T> host) {
    go_direct();  // nothing can be allocated while a batch is recorded
    DeviceBuffer<T> memory(host.size(), "weights and tables");
    copy_to_device<T>(host, memory.data(), uploads_);
    uploads_.synchronize();
    return memory;
  }

  [[noreturn]] static void unknown_route(Route route, const char* what, const char* known) {
    throw std::invalid_argument("the GPU has no route " + std::string(route_name(route)) + " for " +
                                what + "; it has " + known);
  }

  HalfOperand prepare(Route route, int64_t n_tokens, std::span<const Product> products) {
    if (route != Route::kMfma && !(route == Route::kBlas && blas_)) {
      unknown_route(route, "a matrix product", blas_ ? "BLAS, MFMA and VALU" : "MFMA and VALU");
    }
    size_t x = 0, weights = 0;
    for (const Product& product : products) {
      x = std::max(x, static_cast<size_t>(n_tokens * product.w.cols));
      if (!is_half(product.w)) {
        weights = std::max(weights, static_cast<size_t>(rows_at_once(product.w) * product.w.cols));
      }
    }
    const auto room = [this] { make_room(); };
    return {half_x_.get(x, room), half_weights_.get(weights, room)};
  }
  static bool is_half(const Matrix& w) {
    return w.type == WeightType::kF16 || w.type == WeightType::kBF16;
  }
  static int64_t rows_at_once(const Matrix& w) {
    const auto fit = static_cast<int64_t>(kHalfWeightBytes / sizeof(uint16_t)) / w.cols;
    return std::clamp<int64_t>(fit, 1, w.rows);
  }
  /// out = halves.x · wᵀ.
  void multiply(Route route, const HalfOperand& halves, const Matrix& w, int64_t n_tokens,
                float* out) {
    const int64_t step = is_half(w) ? w.rows : rows_at_once(w);
    for (int64_t row = 0; row < w.rows; row += step) {
      const int64_t rows = std::min(step, w.rows - row);
      const auto* stored = reinterpret_cast<const uint16_t*>(w.data);
      if (!is_half(w)) {
        to_halves(w, row, rows, half_type_of(w), halves.weights, stream_);
        stored = halves.weights;
      }
      const HalfProduct product{.type = half_type_of(w),
                                .x = halves.x,
                                .w = stored,
                                .n_tokens = n_tokens,
                                .rows = rows,
                                .cols = w.cols,
                                .out = out + row,
                                .out_stride = w.rows};
      if (route == Route::kBlas) {
        blas_->matmul(product);
      } else {
        matmul_mfma(product, stream_);
      }
    }
  }

  /// The counters in it begin as zeros.
  void* attention_valu_scratch_of(size_t bytes) {
    const size_t before = attention_valu_.size();
    std::byte* const memory = attention_valu_.get(bytes, [this] { make_room(); });
    if (attention_valu_.size() != before) set_bytes(memory, bytes, 0, stream_);
    return memory;
  }

  /// The table of a batch for one set of frequencies and one shift, made when first asked for.
  struct RopeTable {
    std::vector<double> inv_freq;
    DeviceBuffer<double> on_device;
    int64_t shift = 0;
    Scratch<float> values{"cosines and sines"};
    float* table = nullptr;
    size_t used_in = 0;  // number of the batch
  };
  const float* rope_table(int64_t shift, std::span<const double> inv_freq, int64_t n_tokens) {
    const auto same = [&](const RopeTable& t) {
      return t.shift == shift &&
             std::equal(t.inv_freq.begin(), t.inv_freq.end(), inv_freq.begin(), inv_freq.end());
    };
    auto found = std::find_if(rope_tables_.begin(), rope_tables_.end(), same);
    if (found == rope_tables_.end()) {
      found = rope_tables_.emplace(rope_tables_.end());
      found->shift = shift;
      found->inv_freq.assign(inv_freq.begin(), inv_freq.end());
      found->on_device = vector_of<double>(inv_freq);
    }
    RopeTable& t = *found;
    if (t.used_in == n_batches_) return t.table;
    t.used_in = n_batches_;
    const auto half = static_cast<int64_t>(inv_freq.size());
    t.table = t.values.get(static_cast<size_t>(2 * half * n_tokens), [this] { make_room(); });
    op(Signature(kRopeTable, t.on_device.data(), shift, n_tokens, half, t.table),
       [=, this, freq = t.on_device.data(), table = t.table] {
         greta::rope_table(freq, pos_, shift, n_tokens, half, table, stream_);
       });
    return t.table;
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

  std::optional<PendingNorm> pending_norm_;
  std::optional<PendingRope> pending_rope_;

  DeviceInfo info_;
  Stream stream_;   // all work
  Stream uploads_;  // small tables, while a batch may be recorded on the other
  BatchRecorder recorder_;
  FingerprintQueue fingerprints_;
  WeightUploader uploader_;
  std::optional<Blas> blas_;
  bool has_bf16_ = false;
  std::array<ReadSlot, 4> reads_;
  int64_t n_reads_ = 0;

  std::map<float*, DeviceBuffer<float>> buffers_;
  std::deque<DeviceBuffer<std::byte>> weights_;
  std::deque<DeviceBuffer<float>> vectors_;

  DeviceBuffer<int32_t> batch_words_;
  std::array<BatchSlot, kBatchSlots> batch_slots_;
  size_t n_batches_ = 0;
  int64_t n_tokens_ = 0;
  int64_t first_pos_ = 0;
  const int32_t* pos_ = nullptr;  // device
  const int32_t* ids_ = nullptr;  // device

  DeviceBuffer<std::byte> top_scratch_;
  Scratch<std::byte> attention_valu_{"scratch of attention"};
  Scratch<std::byte> attention_mfma_{"scratch of attention"};
  Scratch<uint16_t> half_x_{"activations in 16 bits"};
  Scratch<uint16_t> half_weights_{"weights in 16 bits"};
  Scratch<float> wide_{"gate and up of the feed-forward network"};
  std::deque<RopeTable> rope_tables_;
  std::map<std::array<uint64_t, 3>, DeviceBuffer<BitTransfer>> race_hits_;
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
