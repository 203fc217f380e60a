#include <algorithm>
#include <limits>

#include "kernels/cpu/attention_call.h"
#include "kernels/cpu/simd_kernels.h"

namespace greta {
namespace {

// The sum over V is a sum over parts of so many keys, and a part one over blocks, whoever computes
// them: it can be shared out among threads, and shorter chains of additions round less.
constexpr int64_t kPartKeys = 2 * kBlockKeys;

// Far enough for memory to answer, near enough for the second-level cache to hold what came.
constexpr int64_t kKeysAhead = kBlockKeys;

// One query over the KV heads [begin, end). Loops go over blocks of keys outside and heads inside,
// so that the cache's rows are read in the order in which they lie in memory.
class Query {
 public:
  Query(const AttentionCall& call, const HeadRows& keys, const HeadRows& values, int64_t t,
        int64_t begin, int64_t end, ThreadScratch& scratch);

  /// loop(n, body) calls body(first, last) over pieces that cover [0, n).
  template <class Loop>
  void attend(Loop loop);

 private:
  void load();
  void score(int64_t first_key, int64_t end_key);
  void weigh(int64_t first_part, int64_t end_part);
  void store();
  void trace(Traced what, SeenKeys kept, int64_t first_key, int64_t end_key) const;

  bool sees_any() const { return visible_.begin < visible_.end; }
  int64_t head(int64_t i) const { return call_.head(begin_ + i / group_, i % group_); }
  bool traced(Traced what) const { return call_.traced(what, t_, 0) != nullptr; }
  const float* ahead(const HeadRows& rows, int64_t g, int64_t key, int64_t end_key) const;

  const AttentionCall& call_;
  const HeadRows& keys_;
  const HeadRows& values_;
  int64_t t_, begin_, end_;
  int64_t group_, dim_;
  int64_t n_heads_;  // query heads of the range
  int64_t first_scored_, n_scored_, n_traced_;
  SeenKeys visible_;
  int64_t first_part_, n_parts_;  // of the visible keys
  int64_t stride_;                // of one head's scores
  float* scores_;                 // [n_heads, stride], later the probabilities
  float* q_;                      // [n_heads, dim]
  float* parts_;                  // [n_parts, n_heads, dim], and at last the output in the first
};

Query::Query(const AttentionCall& call, const HeadRows& keys, const HeadRows& values, int64_t t,
             int64_t begin, int64_t end, ThreadScratch& scratch)
    : call_(call),
      keys_(keys),
      values_(values),
      t_(t),
      begin_(begin),
      end_(end),
      group_(call.group()),
      dim_(call.dim()),
      n_heads_((end - begin) * group_),
      first_scored_(call.first_scored(t)),
      n_scored_(call.n_scored(t)),
      n_traced_(call.position(t) + 1),
      visible_(call.visible(t)),
      first_part_(visible_.begin / kPartKeys),
      n_parts_(sees_any() ? divide_up(visible_.end, kPartKeys) - first_part_ : 0),
      // A softmax may overwrite kDimStep values from the end of the visible keys on.
      stride_((divide_up(n_scored_, kDimStep) + (visible_.begin > 0 ? 1 : 0)) * kDimStep) {
  const int64_t n_outputs = std::max<int64_t>(1, n_parts_);
  scores_ = scratch.get(n_heads_ * (stride_ + dim_ + n_outputs * dim_));
  q_ = scores_ + n_heads_ * stride_;
  parts_ = q_ + n_heads_ * dim_;
}

template <class Loop>
void Query::attend(Loop loop) {
  load();
  loop(divide_up(n_scored_ - first_scored_, kBlockKeys), [this](int64_t first, int64_t last) {
    score(first_scored_ + first * kBlockKeys,
          std::min(first_scored_ + last * kBlockKeys, n_scored_));
  });
  const auto trace_all = [&](Traced what, SeenKeys kept) {
    if (!traced(what)) return;
    loop(n_traced_, [=, this](int64_t first, int64_t last) { trace(what, kept, first, last); });
  };
  trace_all(Traced::kScores, {0, n_scored_});
  if (sees_any()) {
    loop(n_heads_, [this](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        call_.kernels().softmax(scores_ + i * stride_ + visible_.begin,
                                visible_.end - visible_.begin, call_.rule());
      }
    });
  }
  trace_all(Traced::kProbs, visible_);
  loop(n_parts_, [this](int64_t first, int64_t last) { weigh(first, last); });
  store();
}

void Query::load() {
  for (int64_t i = 0; i < n_heads_; ++i) call_.load_query(t_, head(i), q_ + i * dim_);
}

// What to fetch while the block at `key` is worked on: a later block before end_key, unless other
// queries have brought it near.
const float* Query::ahead(const HeadRows& rows, int64_t g, int64_t key, int64_t end_key) const {
  const int64_t later = key + kKeysAhead;
  if (call_.shape().n_tokens > 1 || later + kBlockKeys > end_key) return nullptr;
  return rows.head(g) + later * rows.row_stride;
}

void Query::score(int64_t first_key, int64_t end_key) {
  for (int64_t key = first_key; key < end_key; key += kBlockKeys) {
    const int64_t n = std::min(kBlockKeys, end_key - key);
    for (int64_t g = begin_; g < end_; ++g) {
      const int64_t first = (g - begin_) * group_;
      call_.kernels().dot_scores(q_ + first * dim_, group_, dim_,
                                 keys_.head(g) + key * keys_.row_stride, keys_.row_stride, n,
                                 ahead(keys_, g, key, end_key), call_.shape().scale,
                                 scores_ + first * stride_ + key, stride_);
    }
  }
}

void Query::weigh(int64_t first_part, int64_t end_part) {
  const int64_t part_values = n_heads_ * dim_;
  const int64_t end_key = std::min((first_part_ + end_part) * kPartKeys, visible_.end);
  std::fill(parts_ + first_part * part_values, parts_ + end_part * part_values, 0.0f);
  for (int64_t block = (first_part_ + first_part) * kPartKeys; block < end_key;
       block += kBlockKeys) {
    const int64_t key = std::max(block, visible_.begin);
    const int64_t n = std::min(block + kBlockKeys, end_key) - key;
    if (n <= 0) continue;
    float* out = parts_ + (block / kPartKeys - first_part_) * part_values;
    for (int64_t g = begin_; g < end_; ++g) {
      const int64_t first = (g - begin_) * group_;
      call_.kernels().weigh(scores_ + first * stride_ + key, stride_, group_,
                            values_.head(g) + key * values_.row_stride, values_.row_stride, n,
                            ahead(values_, g, key, end_key), dim_, out + first * dim_);
    }
  }
}

void Query::store() {
  const int64_t part_values = n_heads_ * dim_;
  const ElementwiseKernels& kernels = GRETA_SELECT_KERNELS(call_.isa(), elementwise_kernels);
  for (int64_t part = 1; part < n_parts_; ++part) {
    kernels.add(parts_, parts_ + part * part_values, part_values, parts_);
  }
  if (n_parts_ == 0) {
    std::fill_n(parts_, part_values, std::numeric_limits<float>::quiet_NaN());
  }
  for (int64_t i = 0; i < n_heads_; ++i) call_.store_output(t_, head(i), parts_ + i * dim_);
}

// Copies values of keys [first_key, end_key) to the trace, zeros for those that are not kept.
void Query::trace(Traced what, SeenKeys kept, int64_t first_key, int64_t end_key) const {
  const int64_t step = call_.shape().n_heads;
  for (int64_t key = first_key; key < end_key; key += kDimStep) {
    const int64_t end = std::min(end_key, key + kDimStep);
    for (int64_t i = 0; i < n_heads_; ++i) {
      float* to = call_.traced(what, t_, head(i));
      const float* from = scores_ + i * stride_;
      for (int64_t j = key; j < end; ++j) {
        to[j * step] = kept.begin <= j && j < kept.end ? from[j] : 0.0f;
      }
    }
  }
}

// A single query that sees many keys: threads share its keys, and so read long stretches.
void attend_together(const AttentionCall& call, const HeadRows& keys, const HeadRows& values,
                     ThreadPool& pool) {
  thread_local ThreadScratch scratch;
  Query query(call, keys, values, 0, 0, call.shape().n_kv_heads, scratch);
  query.attend([&pool](int64_t n, const auto& body) {
    if (n > 0) pool.run(n, divide_up(n, 2 * pool.size()), body);
  });
}

// Threads share queries and KV heads, at most `share` heads each time. All queries of a head, then
// the next: its keys and values stay in cache.
void attend_apart(const AttentionCall& call, const HeadRows& keys, const HeadRows& values,
                  int64_t share, ThreadPool& pool) {
  const int64_t n_tokens = call.shape().n_tokens;
  const int64_t n_kv_heads = call.shape().n_kv_heads;
  const auto attend = [&](int64_t item) {
    thread_local ThreadScratch scratch;
    const int64_t begin = item / n_tokens * share;
    Query query(call, keys, values, item % n_tokens, begin, std::min(begin + share, n_kv_heads),
                scratch);
    query.attend([](int64_t n, const auto& body) { body(int64_t{0}, n); });
  };
  pool.run(divide_up(n_kv_heads, share) * n_tokens, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) attend(item);
  });
}

}  // namespace

void attention_two_pass(const AttentionShape& shape, const float* q, ConstKvRows k, ConstKvRows v,
                        float* out, const AttentionTrace& trace, ThreadPool& pool, Isa isa) {
  const AttentionCall call(shape, q, k, v, out, trace, isa);
  thread_local ThreadScratch key_scratch, value_scratch;
  const HeadRows keys = call.keys(key_scratch, pool);
  const HeadRows values = call.values(value_scratch, pool);
  if (shape.n_tokens > 1) {
    attend_apart(call, keys, values, 1, pool);
  } else if (call.n_keys() >= 2 * pool.size() * kPartKeys) {
    attend_together(call, keys, values, pool);
  } else {
    attend_apart(call, keys, values, divide_up(shape.n_kv_heads, pool.size()), pool);
  }
}

}  // namespace greta
