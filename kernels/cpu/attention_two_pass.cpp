#include <algorithm>
#include <limits>

#include "kernels/cpu/attention_call.h"

namespace greta {
namespace {

// Far enough for memory to answer, near enough for the second-level cache to hold what came.
constexpr int64_t kKeysAhead = 2 * kBlockKeys;

// One query over the KV heads [begin, end). Loops go over blocks of keys outside and heads inside,
// so that the cache's rows are read in the order in which they lie in memory.
class Query {
 public:
  Query(const AttentionCall& call, int64_t t, int64_t begin, int64_t end, Scratch& scratch);

  void attend(const HeadRows& keys, const HeadRows& values);

 private:
  void score(const HeadRows& keys);
  void normalise();
  void weigh(const HeadRows& values);
  void trace(Traced what, int64_t n) const;
  const float* ahead(const HeadRows& rows, int64_t g, int64_t key, int64_t n_keys) const;
  int64_t head(int64_t i) const { return call_.head(begin_ + i / group_, i % group_); }

  const AttentionCall& call_;
  int64_t t_, begin_, end_;
  int64_t group_, dim_;
  int64_t n_scored_, n_visible_;
  int64_t stride_;  // of one head's scores
  float* scores_;   // [heads of the range, stride], later the probabilities
  float* q_;        // [heads of the range, dim]
  float* out_;      // [heads of the range, dim]
};

Query::Query(const AttentionCall& call, int64_t t, int64_t begin, int64_t end, Scratch& scratch)
    : call_(call),
      t_(t),
      begin_(begin),
      end_(end),
      group_(call.group()),
      dim_(call.dim()),
      n_scored_(call.n_scored(t)),
      n_visible_(call.n_visible(t)),
      stride_((n_scored_ + kDimStep - 1) / kDimStep * kDimStep) {
  const int64_t n_heads = (end - begin) * group_;
  scores_ = scratch.get(n_heads * (stride_ + 2 * dim_));
  q_ = scores_ + n_heads * stride_;
  out_ = q_ + n_heads * dim_;
}

void Query::attend(const HeadRows& keys, const HeadRows& values) {
  const int64_t n_heads = (end_ - begin_) * group_;
  for (int64_t i = 0; i < n_heads; ++i) {
    call_.load_query(t_, head(i), q_ + i * dim_);
  }
  score(keys);
  normalise();
  weigh(values);
  for (int64_t i = 0; i < n_heads; ++i) {
    call_.store_output(t_, head(i), out_ + i * dim_);
  }
}

// What to fetch while a block from `key` on is worked on: a later block, if there is one and no
// other query has brought it near.
const float* Query::ahead(const HeadRows& rows, int64_t g, int64_t key, int64_t n_keys) const {
  const int64_t later = key + kKeysAhead;
  if (call_.shape().n_tokens > 1 || later + kBlockKeys > n_keys) return nullptr;
  return rows.head(g) + later * rows.row_stride;
}

void Query::score(const HeadRows& keys) {
  for (int64_t key = 0; key < n_scored_; key += kBlockKeys) {
    const int64_t n = std::min(kBlockKeys, n_scored_ - key);
    for (int64_t g = begin_; g < end_; ++g) {
      const int64_t first = (g - begin_) * group_;
      call_.kernels().dot_scores(q_ + first * dim_, group_, dim_,
                                 keys.head(g) + key * keys.row_stride, keys.row_stride, n,
                                 ahead(keys, g, key, n_scored_), call_.shape().scale,
                                 scores_ + first * stride_ + key, stride_);
    }
  }
}

void Query::normalise() {
  trace(Traced::kScores, n_scored_);
  for (int64_t i = 0; i < (end_ - begin_) * group_ && n_visible_ > 0; ++i) {
    call_.kernels().softmax(scores_ + i * stride_, n_visible_, call_.rule());
  }
  trace(Traced::kProbs, n_visible_);
}

// Copies the first n values of each head to the trace, zeros for the keys after them.
void Query::trace(Traced what, int64_t n) const {
  if (call_.traced(what, t_, 0) == nullptr) return;
  const int64_t n_heads = call_.shape().n_heads;
  const int64_t n_keys = call_.position(t_) + 1;
  for (int64_t key = 0; key < n_keys; key += kDimStep) {
    const int64_t end = std::min(n_keys, key + kDimStep);
    for (int64_t i = 0; i < (end_ - begin_) * group_; ++i) {
      float* to = call_.traced(what, t_, head(i));
      const float* from = scores_ + i * stride_;
      for (int64_t j = key; j < end; ++j) to[j * n_heads] = j < n ? from[j] : 0.0f;
    }
  }
}

// The sums of the blocks are added up: shorter chains of additions round less.
void Query::weigh(const HeadRows& values) {
  const float start = n_visible_ > 0 ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  std::fill_n(out_, (end_ - begin_) * group_ * dim_, start);
  for (int64_t key = 0; key < n_visible_; key += kBlockKeys) {
    const int64_t n = std::min(kBlockKeys, n_visible_ - key);
    for (int64_t g = begin_; g < end_; ++g) {
      const int64_t first = (g - begin_) * group_;
      call_.kernels().weigh(scores_ + first * stride_ + key, stride_, group_,
                            values.head(g) + key * values.row_stride, values.row_stride, n,
                            ahead(values, g, key, n_visible_), dim_, out_ + first * dim_);
    }
  }
}

}  // namespace

void attention_two_pass(const AttentionShape& shape, const float* q, const float* k, const float* v,
                        float* out, const AttentionTrace& trace, ThreadPool& pool, Isa isa) {
  const AttentionCall call(shape, q, k, v, out, trace, isa);
  thread_local Scratch key_scratch, value_scratch;
  const HeadRows keys = call.keys(key_scratch, pool);
  const HeadRows values = call.values(value_scratch, pool);
  const auto attend = [&](int64_t t, int64_t begin, int64_t end) {
    thread_local Scratch scratch;
    Query(call, t, begin, end, scratch).attend(keys, values);
  };
  if (shape.n_tokens == 1) {
    // Every row is needed once: each thread takes neighbouring heads, to read long stretches.
    const int64_t share = (shape.n_kv_heads + pool.size() - 1) / pool.size();
    pool.run(shape.n_kv_heads, share, [&](int64_t begin, int64_t end) { attend(0, begin, end); });
  } else {
    // All queries of a KV head, then the next: its keys and values stay in cache.
    pool.run(shape.n_kv_heads * shape.n_tokens, 1, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const int64_t g = item / shape.n_tokens;
        attend(item % shape.n_tokens, g, g + 1);
      }
    });
  }
}

}  // namespace greta
