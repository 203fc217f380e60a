#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/cpu/attention_call.h"

namespace greta {
namespace {

// So many rows are worked on with a block of keys while it is in the nearest cache; a tile is whole
// tokens, so it may have more.
constexpr int64_t kRowsWanted = 96;

// One query of one head.
struct Row {
  int64_t token;
  int64_t head;
  SeenKeys visible;
};

// What a thread keeps for its next tile.
struct TileMemory {
  ThreadScratch q, sums, scores;
  std::vector<Row> rows;
  std::vector<OnlineState> states;  // [row]
  std::vector<float> factors;       // [block, row]: what sums were multiplied with before it
};

// Rows of consecutive tokens that share a KV head, in groups of kTileRows. What fills up the last
// group repeats the last row with zeros for its query, and is never stored.
class Tile {
 public:
  Tile(const AttentionCall& call, const float* key_blocks, const HeadRows& values,
       TileMemory& memory)
      : call_(call), key_blocks_(key_blocks), values_(values), memory_(memory) {}

  void attend(int64_t g, int64_t first_token, int64_t n_tokens);

 private:
  void start(int64_t g, int64_t first_token, int64_t n_tokens);
  void take_in(int64_t block, int64_t first_row);
  void trace(Traced what, int64_t block, int64_t first_row, const SeenKeys* seen) const;
  void finish(int64_t i);
  void finish_trace(int64_t i, float factor);

  const AttentionCall& call_;
  const float* key_blocks_;
  const HeadRows& values_;
  int64_t g_ = 0;
  int64_t n_rows_ = 0, n_padded_ = 0;
  int64_t first_block_ = 0, n_blocks_ = 0;  // of keys: the first that is needed, the end
  TileMemory& memory_;
  float* q_ = nullptr;       // [n_padded, dim]
  float* sums_ = nullptr;    // [n_padded, dim]
  float* scores_ = nullptr;  // [kTileRows, kBlockKeys]
};

void Tile::start(int64_t g, int64_t first_token, int64_t n_tokens) {
  const int64_t group = call_.group();
  const int64_t dim = call_.dim();
  g_ = g;
  n_rows_ = n_tokens * group;
  n_padded_ = (n_rows_ + kTileRows - 1) / kTileRows * kTileRows;
  n_blocks_ = (call_.n_scored(first_token + n_tokens - 1) + kBlockKeys - 1) / kBlockKeys;
  // Of a later token they begin no earlier, but where it is traced and the first is not.
  first_block_ =
      std::min(call_.first_scored(first_token), call_.first_scored(first_token + n_tokens - 1)) /
      kBlockKeys;
  q_ = memory_.q.get(n_padded_ * dim);
  sums_ = memory_.sums.get(n_padded_ * dim);
  scores_ = memory_.scores.get(kTileRows * kBlockKeys);
  memory_.rows.clear();
  for (int64_t i = 0; i < n_padded_; ++i) {
    const int64_t row = std::min(i, n_rows_ - 1);
    const int64_t t = first_token + row / group;
    memory_.rows.push_back({t, call_.head(g, row % group), call_.visible(t)});
    if (i < n_rows_) call_.load_query(t, memory_.rows.back().head, q_ + i * dim);
  }
  std::fill(q_ + n_rows_ * dim, q_ + n_padded_ * dim, 0.0f);
  std::fill_n(sums_, n_padded_ * dim, 0.0f);
  memory_.states.assign(static_cast<size_t>(n_padded_),
                        {-std::numeric_limits<float>::infinity(), 0.0f});
  memory_.factors.assign(static_cast<size_t>(n_blocks_ * n_padded_), 1.0f);
}

void Tile::attend(int64_t g, int64_t first_token, int64_t n_tokens) {
  start(g, first_token, n_tokens);
  for (int64_t block = first_block_; block < n_blocks_; ++block) {
    for (int64_t row = 0; row < n_padded_; row += kTileRows) take_in(block, row);
  }
  for (int64_t row = 0; row < n_rows_; ++row) finish(row);
}

// kTileRows rows against one block of keys.
void Tile::take_in(int64_t block, int64_t first_row) {
  const AttentionKernels& kernels = call_.kernels();
  const Row* rows = &memory_.rows[static_cast<size_t>(first_row)];
  const int64_t dim = call_.dim();
  const int64_t first_key = block * kBlockKeys;
  const int64_t n_keys = call_.n_scored(rows[kTileRows - 1].token) - first_key;
  if (n_keys <= 0) return;

  const auto in_block = [=](int64_t key) {
    return std::clamp<int64_t>(key - first_key, 0, kBlockKeys);
  };
  SeenKeys seen[kTileRows];
  for (int64_t r = 0; r < kTileRows; ++r) {
    seen[r] = {0, in_block(rows[r].visible.end)};
    if (rows[r].visible.begin <= first_key) continue;
    seen[r].begin = in_block(rows[r].visible.begin);
    if (seen[r].begin == seen[r].end) seen[r] = {};
  }
  const float* keys = key_blocks_ + (g_ * call_.n_blocks() + block) * dim * kBlockKeys;
  const float* values = values_.head(g_) + first_key * values_.row_stride;
  float* factors = &memory_.factors[static_cast<size_t>(block * n_padded_ + first_row)];

  kernels.tile_scores(q_ + first_row * dim, dim, keys, std::min(n_keys, kBlockKeys),
                      call_.shape().scale, scores_);
  trace(Traced::kScores, block, first_row, seen);
  kernels.tile_weights(scores_, seen, call_.rule(), &memory_.states[static_cast<size_t>(first_row)],
                       factors);
  trace(Traced::kProbs, block, first_row, seen);
  kernels.tile_values(scores_, seen, factors, values, values_.row_stride, dim,
                      sums_ + first_row * dim);
}

// Copies scores_ to the trace; weights of keys that a row does not see are zero.
void Tile::trace(Traced what, int64_t block, int64_t first_row, const SeenKeys* seen) const {
  const int64_t n_heads = call_.shape().n_heads;
  const int64_t first_key = block * kBlockKeys;
  for (int64_t r = 0; r < std::min(kTileRows, n_rows_ - first_row); ++r) {
    const Row& row = memory_.rows[static_cast<size_t>(first_row + r)];
    float* to = call_.traced(what, row.token, row.head);
    if (to == nullptr) continue;
    const float* from = scores_ + r * kBlockKeys;
    const SeenKeys kept = what == Traced::kScores ? SeenKeys{0, kBlockKeys} : seen[r];
    const int64_t end = std::min(kBlockKeys, call_.position(row.token) + 1 - first_key);
    for (int64_t j = 0; j < end; ++j) {
      to[(first_key + j) * n_heads] = kept.begin <= j && j < kept.end ? from[j] : 0.0f;
    }
  }
}

void Tile::finish(int64_t i) {
  const Row& row = memory_.rows[static_cast<size_t>(i)];
  const float factor = 1.0f / memory_.states[static_cast<size_t>(i)].sum;
  float* sums = sums_ + i * call_.dim();
  for (int64_t d = 0; d < call_.shape().head_dim; ++d) sums[d] *= factor;
  call_.store_output(row.token, row.head, sums);
  finish_trace(i, factor);
}

// The weights of a block were multiplied, as parts of the sums, with the factors of all later
// blocks and the last one of all.
void Tile::finish_trace(int64_t i, float factor) {
  const Row& row = memory_.rows[static_cast<size_t>(i)];
  float* probs = call_.traced(Traced::kProbs, row.token, row.head);
  if (probs == nullptr) return;
  const int64_t n_heads = call_.shape().n_heads;
  const int64_t n = std::min(row.visible.end, call_.position(row.token) + 1);
  for (int64_t block = n_blocks_ - 1; block >= row.visible.begin / kBlockKeys; --block) {
    const int64_t begin = std::max(row.visible.begin, block * kBlockKeys);
    const int64_t end = std::min(n, (block + 1) * kBlockKeys);
    for (int64_t j = begin; j < end; ++j) probs[j * n_heads] *= factor;
    factor *= memory_.factors[static_cast<size_t>(block * n_padded_ + i)];
  }
}

}  // namespace

void attention_online(const AttentionShape& shape, const float* q, ConstKvRows k, ConstKvRows v,
                      float* out, const AttentionTrace& trace, ThreadPool& pool, Isa isa) {
  const AttentionCall call(shape, q, k, v, out, trace, isa);
  thread_local ThreadScratch key_scratch, value_scratch;
  const float* key_blocks = call.key_blocks(key_scratch, pool);
  const HeadRows values = call.values(value_scratch, pool);
  const int64_t tile_tokens = std::max<int64_t>(1, kRowsWanted / call.group());
  const int64_t n_tiles = (shape.n_tokens + tile_tokens - 1) / tile_tokens;
  // All tiles of a KV head, then the next: its keys and values stay in cache.
  pool.run(shape.n_kv_heads * n_tiles, 1, [&](int64_t begin, int64_t end) {
    thread_local TileMemory memory;
    Tile tile(call, key_blocks, values, memory);
    for (int64_t item = begin; item < end; ++item) {
      // Late tokens see most keys and come first: what is left at the end is short.
      const int64_t first = (n_tiles - 1 - item % n_tiles) * tile_tokens;
      tile.attend(item / n_tiles, first, std::min(tile_tokens, shape.n_tokens - first));
    }
  });
}

}  // namespace greta
