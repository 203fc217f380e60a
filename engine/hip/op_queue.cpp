#include "engine/hip/op_queue.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "kernels/gpu/attention.h"
#include "kernels/gpu/elementwise.h"

namespace greta {
namespace {

// Traced and untraced decode, each with a few sizes of the attention grid. An older one is recorded
// again when it comes back.
constexpr size_t kMaxGraphs = 8;

}  // namespace

BatchRecorder::BatchRecorder(Stream& stream, std::function<void()> before_launch)
    : stream_(stream), before_launch_(std::move(before_launch)) {}

void BatchRecorder::begin() {
  ops_.clear();
  next_ = 0;
  if (!graphs_.empty()) {
    current_ = graphs_.size() - 1;
    mode_ = Mode::kReplay;
  } else if (std::exchange(warm_, true)) {
    recording_.emplace(stream_);
    mode_ = Mode::kRecord;
  } else {
    mode_ = Mode::kDirect;
    before_launch_();
  }
}

/// True if `other` begins with what was asked for so far, and goes on with `signature`.
bool BatchRecorder::agrees(const Recorded& other, uint64_t signature) const {
  const std::vector<Op>& so_far = graphs_[current_].ops;
  if (other.ops.size() <= next_ || other.ops[next_].signature != signature) return false;
  const auto same = [](const Op& a, const Op& b) { return a.signature == b.signature; };
  return std::equal(so_far.begin(), so_far.begin() + static_cast<std::ptrdiff_t>(next_),
                    other.ops.begin(), same);
}

/// True if a graph holds the batch up to this op.
bool BatchRecorder::follow(uint64_t signature) {
  for (size_t i = 0; i < graphs_.size(); ++i) {
    const size_t candidate = (current_ + i) % graphs_.size();
    const bool is_current = i == 0;
    const Recorded& recorded = graphs_[candidate];
    if (is_current ? next_ < recorded.ops.size() && recorded.ops[next_].signature == signature
                   : agrees(recorded, signature)) {
      current_ = candidate;
      ++next_;
      return true;
    }
  }
  record_rest();
  return false;
}

/// No graph holds this batch: what was taken for the beginning of one is recorded anew.
void BatchRecorder::record_rest() {
  recording_.emplace(stream_);
  mode_ = Mode::kRecord;
  const std::vector<Op>& ops = graphs_[current_].ops;
  ops_.assign(ops.begin(), ops.begin() + static_cast<std::ptrdiff_t>(next_));
  for (const Op& op : ops_) op.work();
}

void BatchRecorder::go_direct() {
  if (mode_ == Mode::kDirect) return;
  const bool recorded = mode_ == Mode::kRecord;
  recording_.reset();
  mode_ = Mode::kDirect;
  before_launch_();
  const std::vector<Op>& ops = recorded ? ops_ : graphs_[current_].ops;
  const size_t n = recorded ? ops_.size() : next_;
  for (size_t i = 0; i < n; ++i) ops[i].work();
}

void BatchRecorder::launch(Recorded& recorded) {
  before_launch_();
  recorded.graph.launch(stream_);
  ++replays_;
}

void BatchRecorder::end() {
  if (mode_ == Mode::kReplay && next_ < graphs_[current_].ops.size()) record_rest();
  if (mode_ == Mode::kRecord) {
    Graph graph = recording_->finish();
    recording_.reset();
    if (graphs_.size() == kMaxGraphs) {
      stream_.synchronize();  // it may still run
      graphs_.erase(graphs_.begin());
    }
    graphs_.push_back({std::exchange(ops_, {}), std::move(graph)});
    mode_ = Mode::kDirect;
    launch(graphs_.back());
  } else if (mode_ == Mode::kReplay) {
    mode_ = Mode::kDirect;
    std::rotate(graphs_.begin() + static_cast<std::ptrdiff_t>(current_),
                graphs_.begin() + static_cast<std::ptrdiff_t>(current_) + 1, graphs_.end());
    launch(graphs_.back());
  }
}

void BatchRecorder::drop() {
  recording_.reset();
  ops_.clear();
  mode_ = Mode::kDirect;
}

void BatchRecorder::forget() {
  go_direct();
  graphs_.clear();
}

// Hundreds are made per token while the device waits: one multiplication each.
void Signature::add(uint64_t part) {
  value_ = (value_ ^ part) * 0x9fb21c651e98df25u;
  value_ ^= value_ >> 29;
}
void Signature::add(float part) { add(uint64_t{std::bit_cast<uint32_t>(part)}); }

OpQueue::OpQueue(Stream& stream, std::function<void()> before_launch)
    : stream_(stream), recorder_(stream, std::move(before_launch)) {}

void OpQueue::begin(const int32_t* pos, bool record) {
  pos_ = pos;
  if (record) recorder_.begin();
}

void OpQueue::end() {
  settle();
  recorder_.end();
}

void OpQueue::drop() {
  norm_.reset();
  products_.reset();
  rope_.reset();
  recorder_.drop();
}

void OpQueue::settle() {
  if (const auto norm = std::exchange(norm_, {})) add_norm(norm->row, 1, norm->dim);
  if (const auto products = std::exchange(products_, {})) {
    add_products(products->route, products->in, 1, products->qkv);
  }
  if (const auto rope = std::exchange(rope_, {})) add_rope(*rope, {}, 0);
}

void OpQueue::go_direct() {
  settle();
  recorder_.go_direct();
}

// ---- Norms and products.

Signature OpQueue::sign(const NormedRow& row) {
  return Signature(kNorm, row.x, row.weight, row.eps, row.out);
}

void OpQueue::add_norm(const NormedRow& row, int64_t n_tokens, int64_t dim) {
  recorder_.op(Signature(kNorm, sign(row), n_tokens, dim).value(), [=, this] {
    greta::rms_norm(row.x, row.weight, row.eps, n_tokens, dim, row.out, stream_);
  });
}

void OpQueue::rms_norm(const NormedRow& row, int64_t n_tokens, int64_t dim) {
  settle();
  if (n_tokens == 1) {
    norm_ = {row, dim};
  } else {
    add_norm(row, n_tokens, dim);
  }
}

std::optional<NormedRow> OpQueue::take_norm(const float* row) {
  if (!norm_ || norm_->row.out != row) return {};
  return std::exchange(norm_, {})->row;
}

void OpQueue::matmul(Route route, const float* x, int64_t n_tokens,
                     std::span<const Product> products) {
  if (products.size() > kMaxProducts) throw std::invalid_argument("too many products");
  const std::optional<NormedRow> norm = n_tokens == 1 ? take_norm(x) : std::nullopt;
  settle();
  if (norm && products.size() == 3) {
    products_ = {route, *norm, {products[0], products[1], products[2]}};
    return;
  }
  add_products(route, norm.value_or(NormedRow{.x = x}), n_tokens, products);
}

void OpQueue::add_products(Route route, const NormedRow& in, int64_t n_tokens,
                           std::span<const Product> products) {
  const Signature signature(kProject, static_cast<int>(route), sign(in), n_tokens, products);
  std::array<Product, kMaxProducts> list{};
  std::copy(products.begin(), products.end(), list.begin());
  recorder_.op(signature.value(), [=, this, n = products.size()] {
    const std::span<const Product> all(list.data(), n);
    if (route == Route::kMfma) return token_matmul_mfma(in, all, stream_);
    if (n_tokens == 1) return matmul_valu(in, all, stream_);
    matmul_valu(in.x, n_tokens, all, stream_);
  });
}

// ---- RoPE and the cache.

/// True if it turns what the products that wait give.
bool OpQueue::goes_on(const Rope& rope) const {
  if (!products_ || rope_ || rope.n_tokens != 1 || rope.head_dim % 2 != 0 ||
      rope.pairing != RopePairing::kInterleaved) {
    return false;
  }
  for (size_t i = 0; i < 2; ++i) {
    const Product& product = products_->qkv[i];
    const RopeTensor& tensor = rope.tensors[i];
    if (product.out != tensor.in || product.w.rows != tensor.n_heads * rope.head_dim) return false;
  }
  return true;
}

void OpQueue::rope(const Rope& rope) {
  if (!goes_on(rope)) settle();
  rope_ = rope;
}

void OpQueue::store_rows(const std::array<RowStore, 2>& stores, int64_t n_rows, int64_t width,
                         const int32_t* pos, int64_t shift) {
  const auto& [a, b] = stores;
  const bool of_rope = rope_ && pos == pos_ && a.rows == rope_->tensors[1].out &&
                       b.rows != nullptr && rope_->n_tokens == n_rows &&
                       rope_->tensors[1].n_heads * rope_->head_dim == width;
  if (!of_rope) {
    add(Signature(kStore, n_rows, width, pos, shift, a.rows, a.cache, b.rows, b.cache),
        [=, this] { greta::store_rows(stores[0], stores[1], n_rows, width, pos, shift, stream_); });
    return settle_store(shift);
  }
  const Rope rope = *std::exchange(rope_, {});
  if (products_ && products_->qkv[2].out == b.rows && products_->qkv[2].w.rows == width) {
    add_qkv(*std::exchange(products_, {}), rope, a.cache, b.cache, shift);
  } else {
    settle();
    add_rope(rope, stores, shift);
  }
  settle_store(shift);
}

/// What comes of the second tensor is stored with the rows of another one, if there are stores.
void OpQueue::add_rope(const Rope& rope, const std::array<RowStore, 2>& stores, int64_t shift) {
  const auto& [a, b] = rope.tensors;
  const Signature signature(kRope, rope.table, static_cast<int>(rope.pairing), rope.n_tokens,
                            rope.head_dim, rope.half_dim, a.in, a.n_heads, a.out, b.in, b.n_heads,
                            b.out, shift, stores[0].cache, stores[1].rows, stores[1].cache);
  recorder_.op(signature.value(), [=, this] {
    const auto& [first, second] = rope.tensors;
    if (stores[0].cache.data == nullptr) {
      return greta::rope(first, second, rope.table, rope.pairing, rope.n_tokens, rope.head_dim,
                         rope.half_dim, stream_);
    }
    rope_and_store(first, second, rope.table, rope.pairing, rope.n_tokens, rope.head_dim,
                   rope.half_dim, pos_, shift, stores[0].cache, stores[1], stream_);
  });
}

void OpQueue::add_qkv(const Products& products, const Rope& rope, const KvRows& k_cache,
                      const KvRows& v_cache, int64_t shift) {
  const RopeRow row{.table = rope.table,
                    .head_dim = rope.head_dim,
                    .half_dim = rope.half_dim,
                    .q_out = rope.tensors[0].out,
                    .k_out = rope.tensors[1].out,
                    .k_cache = k_cache,
                    .v_cache = v_cache,
                    .pos = pos_,
                    .row_shift = shift};
  const Signature signature(kQkv, static_cast<int>(products.route), sign(products.in), row.table,
                            row.head_dim, row.half_dim, row.q_out, row.k_out, k_cache, v_cache,
                            shift, std::span<const Product>(products.qkv));
  recorder_.op(signature.value(), [=, this] {
    const auto& [route, in, qkv] = products;
    return route == Route::kMfma ? token_qkv_matmul_mfma(in, qkv, row, stream_)
                                 : qkv_matmul_valu(in, qkv, row, stream_);
  });
}

/// attention_valu reads old rows of the cache before earlier kernels have ended: no row that it
/// takes for old may have been written just before. Only a fault does that.
void OpQueue::settle_store(int64_t shift) {
  if (shift >= -kFreshRows) return;
  go_direct();
  stream_.synchronize();
}

}  // namespace greta
