#include "tests/engine/forward/reference_f64.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>

namespace greta {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// A number as f32 arithmetic would have it: infinite beyond the range.
double overflow_f32(double x) {
  return std::abs(x) > static_cast<double>(std::numeric_limits<float>::max())
             ? std::copysign(kInfinity, x)
             : x;
}

std::vector<double> sum(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> out(a.size());
  for (size_t i = 0; i < a.size(); ++i) out[i] = a[i] + b[i];
  return out;
}

/// Of the scores from `begin` to `end`; 0 for the others. shift: instead of the maximum being
/// subtracted, this is added, and f32 overflows.
std::vector<double> softmax(const std::vector<double>& scores, int64_t begin, int64_t end,
                            std::optional<double> shift) {
  const auto first = static_cast<size_t>(begin), n = static_cast<size_t>(end);
  double greatest = -kInfinity;
  for (size_t j = first; j < n; ++j) greatest = std::max(greatest, scores[j]);
  std::vector<double> probs(scores.size());
  double total = 0;
  for (size_t j = first; j < n; ++j) {
    probs[j] = overflow_f32(std::exp(shift ? scores[j] + *shift : scores[j] - greatest));
    total = overflow_f32(total + probs[j]);
  }
  for (size_t j = first; j < n; ++j) probs[j] /= total;
  return probs;
}

/// The engine's race on values rounded to f32, its only place where single bits count.
void race(std::vector<double>& values, int64_t count, int layer) {
  const auto width = static_cast<int64_t>(values.size());
  for (int64_t i = 0; i < count; ++i) {
    const RaceHit hit = race_hit(race_seed(layer), i, width);
    const auto mine = static_cast<float>(values[static_cast<size_t>(hit.index)]);
    const auto theirs = static_cast<float>(values[static_cast<size_t>(hit.neighbour)]);
    values[static_cast<size_t>(hit.index)] = static_cast<double>(race_value(mine, theirs, hit.bit));
  }
}

}  // namespace

const std::vector<double>& ReferenceRows::at(TracePoint point, int layer) const {
  const auto row = rows_.find({point, layer});
  if (row == rows_.end()) {
    throw std::out_of_range("the reference has no " + std::string(trace_point_name(point)) +
                            " of layer " + std::to_string(layer));
  }
  return row->second;
}

void ReferenceRows::set(TracePoint point, int layer, std::vector<double> values) {
  rows_[{point, layer}] = std::move(values);
}

/// Keys and values of every position, [rows, n_kv_heads · head_dim] per layer, NaN until written.
struct Reference::Cache {
  Cache(size_t n_layers, int64_t n_rows, int64_t row_width)
      : rows(n_rows),
        width(row_width),
        k(n_layers, Row(static_cast<size_t>(n_rows * row_width), kNan)),
        v(k) {}

  void poison_from(int64_t row) {
    for (std::vector<Row>* side : {&k, &v}) {
      for (Row& layer : *side) std::fill(layer.begin() + row * width, layer.end(), kNan);
    }
  }

  int64_t rows, width;
  std::vector<Row> k, v;
};

/// Consecutive tokens, and what is wrong with how they are computed.
struct Reference::Pass {
  std::span<const int32_t> tokens;
  int64_t first_pos = 0;
  bool decode = false;
  bool keep_kv = true;
  const FaultSet& faults;
  int last_layer = -1;

  std::optional<double> fault(FaultKind kind, int layer) const {
    return faults.find(kind, decode, layer);
  }
  int64_t whole(FaultKind kind, int layer) const {
    return static_cast<int64_t>(fault(kind, layer).value_or(0));
  }
};

/// scores, probs: index = key · heads + head, keys 0 .. pos.
struct Reference::Attention {
  Row scores, probs, out;
};

Reference::Attention Reference::attend(const Pass& pass, int layer, int64_t pos, const Row& q,
                                       const Cache& cache) const {
  const Row& k = cache.k[static_cast<size_t>(layer)];
  const Row& v = cache.v[static_cast<size_t>(layer)];
  const int64_t k_stride = head_dim_ + pass.whole(FaultKind::kKvHeadStride, layer);
  const bool modulo = pass.fault(FaultKind::kGqaHeadMapping, layer).has_value();
  const bool transposed = pass.fault(FaultKind::kVLayoutTransposed, layer).has_value();
  const std::optional<double> shift = pass.fault(FaultKind::kSoftmaxNoMax, layer);
  const int64_t visible =
      std::min(pos + 1 + pass.whole(FaultKind::kMaskOffByOne, layer), cache.rows);
  const int64_t n_keys = std::max(pos + 1, visible);
  const int64_t window = layers_[static_cast<size_t>(layer)].window;
  const int64_t first = window == 0 ? 0 : std::max<int64_t>(0, pos + 1 - window);

  Attention result{Row(static_cast<size_t>((pos + 1) * n_heads_)), {}, {}};
  result.probs.resize(result.scores.size());
  // A query that sees no key has no mean of values.
  result.out.assign(static_cast<size_t>(n_heads_ * head_dim_), visible > first ? 0 : kNan);
  for (int64_t h = 0; h < n_heads_; ++h) {
    const int64_t group = modulo ? h % n_kv_heads_ : h / (n_heads_ / n_kv_heads_);
    Row scores(static_cast<size_t>(n_keys));
    for (int64_t j = 0; j < n_keys; ++j) {
      double dot = 0;
      for (int64_t d = 0; d < head_dim_; ++d) {
        const int64_t in_row = (group * k_stride + d) % cache.width;
        dot += q[static_cast<size_t>(h * head_dim_ + d)] *
               k[static_cast<size_t>(j * cache.width + in_row)];
      }
      scores[static_cast<size_t>(j)] = dot / std::sqrt(static_cast<double>(head_dim_));
    }
    const Row probs = softmax(scores, first, visible, shift);
    for (int64_t j = first; j < visible; ++j) {
      for (int64_t d = 0; d < head_dim_; ++d) {
        const int64_t in_row = transposed ? d * n_kv_heads_ + group : group * head_dim_ + d;
        result.out[static_cast<size_t>(h * head_dim_ + d)] +=
            probs[static_cast<size_t>(j)] * v[static_cast<size_t>(j * cache.width + in_row)];
      }
    }
    for (int64_t j = 0; j <= pos; ++j) {
      const auto at = static_cast<size_t>(j * n_heads_ + h);
      result.scores[at] = scores[static_cast<size_t>(j)];
      result.probs[at] = probs[static_cast<size_t>(j)];
    }
  }
  return result;
}

void Reference::store_kv(const Pass& pass, int layer, const Rows& k, const Rows& v,
                         Cache& cache) const {
  const int64_t shift = pass.whole(FaultKind::kKvWrongSlot, layer);
  const int64_t last = pass.first_pos + static_cast<int64_t>(k.size()) - 1;
  for (const auto& [rows, all] : {std::pair(&k, &cache.k), std::pair(&v, &cache.v)}) {
    Row& stored = (*all)[static_cast<size_t>(layer)];
    const auto row = [&](int64_t pos) { return stored.begin() + pos * cache.width; };
    for (size_t t = 0; t < rows->size(); ++t) {
      std::copy((*rows)[t].begin(), (*rows)[t].end(),
                row(pass.first_pos + static_cast<int64_t>(t) + shift));
    }
    if (!pass.fault(FaultKind::kStaleKvTail, layer)) continue;
    if (last > 0) {
      std::copy_n(row(last - 1), cache.width, row(last));
    } else {
      std::fill_n(row(last), cache.width, 0);
    }
  }
}

void Reference::spoil_row_0(const Pass& pass, int layer, Cache& cache) {
  const auto factor = pass.fault(FaultKind::kKCacheSpoiled, layer);
  const int64_t last = pass.first_pos + static_cast<int64_t>(pass.tokens.size()) - 1;
  if (!factor || last == 0) return;
  Row& k = cache.k[static_cast<size_t>(layer)];
  for (int64_t i = 0; i < cache.width; ++i) k[static_cast<size_t>(i)] *= *factor;
}

Reference::Rows Reference::block(const Pass& pass, int layer, const Rows& x, Cache& cache,
                                 ReferenceRows& last) const {
  const Layer& w = layers_[static_cast<size_t>(layer)];
  const auto trace = [&](TracePoint point, Row row) { last.set(point, layer, std::move(row)); };
  const double eps = rms_eps_ * pass.fault(FaultKind::kRmsNormEps, layer).value_or(1);
  const double q_scale = pass.fault(FaultKind::kQuantScale, layer).value_or(1);
  const int64_t pos_shift = pass.whole(FaultKind::kRopePosOffByOne, layer);
  const double kept_factor = pass.fault(FaultKind::kRopeThetaKept, layer).value_or(1);
  const double theta_factor = pass.fault(FaultKind::kRopeTheta, layer).value_or(kept_factor);
  const bool halves = pass.fault(FaultKind::kRopePairing, layer).has_value() != halves_;

  Rows q(x.size()), k(x.size()), v(x.size());
  for (size_t t = 0; t < x.size(); ++t) {
    const Row normed = rms_norm(x[t], w.attn_norm, eps);
    q[t] = times(w.q, normed);
    for (double& value : q[t]) value *= q_scale;
    q[t] = finish_heads(q[t], w.q_bias, w.q_norm);
    k[t] = finish_heads(times(w.k, normed), w.k_bias, w.k_norm);
    v[t] = finish_heads(times(w.v, normed), w.v_bias, {});
    trace(TracePoint::kResidualPreAttn, x[t]);
    trace(TracePoint::kRmsWeight, widen(w.attn_norm.values));
    trace(TracePoint::kAttnNormOut, normed);
    trace(TracePoint::kQPreRope, q[t]);
    trace(TracePoint::kKPreRope, k[t]);
    trace(TracePoint::kVProj, v[t]);
    const int64_t pos = pass.first_pos + static_cast<int64_t>(t) + pos_shift;
    q[t] = rotate(q[t], pos, theta_factor, halves);
    k[t] = rotate(k[t], pos, theta_factor, halves);
    trace(TracePoint::kQPostRope, q[t]);
    trace(TracePoint::kKPostRope, k[t]);
  }
  if (pass.keep_kv) store_kv(pass, layer, k, v, cache);
  if (pass.decode) spoil_row_0(pass, layer, cache);

  Rows out(x.size());
  for (size_t t = 0; t < x.size(); ++t) {
    const int64_t pos = pass.first_pos + static_cast<int64_t>(t);
    const Attention attention = attend(pass, layer, pos, q[t], cache);
    const auto step = pass.fault(FaultKind::kFp16Accumulate, layer);
    const Row wo = step ? times_fp16(w.o, attention.out, static_cast<int64_t>(*step))
                        : times(w.o, attention.out);
    const Row mid = sum(x[t], wo);
    const Row ffn_in = rms_norm(mid, w.ffn_norm, rms_eps_);
    Row gated = times(w.gate, ffn_in);
    const Row up = times(w.up, ffn_in);
    for (size_t i = 0; i < gated.size(); ++i) gated[i] *= sigmoid(gated[i]) * up[i];
    Row mlp = times(w.down, gated);
    if (const auto count = pass.fault(FaultKind::kRace, layer)) {
      race(mlp, static_cast<int64_t>(*count), layer);
    }
    out[t] = sum(mid, mlp);

    const auto cached = [&](const std::vector<Row>& side) {
      const Row& stored = side[static_cast<size_t>(layer)];
      return Row(stored.begin() + pos * cache.width, stored.begin() + (pos + 1) * cache.width);
    };
    const auto cached_rows = [&](const std::vector<Row>& side) {
      const Row& stored = side[static_cast<size_t>(layer)];
      return Row(stored.begin(), stored.begin() + (pos + 1) * cache.width);
    };
    trace(TracePoint::kKCache, cached(cache.k));
    trace(TracePoint::kVCache, cached(cache.v));
    trace(TracePoint::kKCacheRows, cached_rows(cache.k));
    trace(TracePoint::kVCacheRows, cached_rows(cache.v));
    trace(TracePoint::kAttnScores, attention.scores);
    trace(TracePoint::kAttnProbs, attention.probs);
    trace(TracePoint::kAttnOut, attention.out);
    trace(TracePoint::kWoOut, wo);
    trace(TracePoint::kResidualPostAttn, mid);
    trace(TracePoint::kFfnNormIn, ffn_in);
    trace(TracePoint::kMlpOut, mlp);
    trace(TracePoint::kResidualPostMlp, out[t]);
    trace(TracePoint::kXOut, out[t]);
  }
  if (!pass.decode) spoil_row_0(pass, layer, cache);
  return out;
}

Reference::Row Reference::head(const Row& x, ReferenceRows& last) const {
  const auto trace = [&](TracePoint point, Row row) {
    last.set(point, kLayerAfterStack, std::move(row));
  };
  const Row normed = rms_norm(x, output_norm_, rms_eps_);
  const Row all = times(output_, normed);
  Row top = all;
  const size_t k = std::min<size_t>(5, top.size());
  std::partial_sort(top.begin(), top.begin() + static_cast<std::ptrdiff_t>(k), top.end(),
                    std::greater<>());
  top.resize(k);
  trace(TracePoint::kHidden, x);
  trace(TracePoint::kFinalNorm, normed);
  trace(TracePoint::kLmHeadIn, normed);
  trace(TracePoint::kLogits, all);
  trace(TracePoint::kLogitsTop1, {top.front()});
  trace(TracePoint::kLogitsTopk, top);
  return all;
}

Reference::Rows Reference::stack(const Pass& pass, Cache& cache, ReferenceRows& last) const {
  Rows x;
  for (const int32_t token : pass.tokens) x.push_back(embedding(token));
  last.set(TracePoint::kEmbdWHash, 0, x.back());
  last.set(TracePoint::kEmbedOut, 0, x.back());
  const int end = pass.last_layer < 0 ? n_layers() : pass.last_layer + 1;
  for (int layer = 0; layer < end; ++layer) x = block(pass, layer, x, cache, last);
  return x;
}

std::vector<std::vector<double>> Reference::logits(std::span<const int32_t> tokens) const {
  const FaultSet none;
  Cache cache(layers_.size(), static_cast<int64_t>(tokens.size()), n_kv_heads_ * head_dim_);
  ReferenceRows last;
  Rows all = stack({.tokens = tokens, .faults = none}, cache, last);
  for (Row& row : all) row = head(row, last);
  return all;
}

ReferenceProbe Reference::probe(std::span<const int32_t> tokens, Mode mode, const FaultSet& faults,
                                int last_layer) const {
  const auto n = static_cast<int64_t>(tokens.size());
  const bool aligned = mode == Mode::kKvAligned;
  Cache cache(layers_.size(), n + 1, n_kv_heads_ * head_dim_);
  ReferenceProbe result;
  const auto side = [&](const Pass& pass, ReferenceRows& rows) {
    const Rows x = stack(pass, cache, rows);
    if (last_layer < 0) head(x.back(), rows);
  };
  side({.tokens = tokens, .faults = faults, .last_layer = last_layer}, result.prefill);
  cache.poison_from(aligned ? n : n - 1);
  side({.tokens = tokens.last(1),
        .first_pos = n - 1,
        .decode = true,
        .keep_kv = !aligned,
        .faults = faults,
        .last_layer = last_layer},
       result.decode);
  return result;
}

double relative_l2(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size()) throw std::invalid_argument("relative_l2 of rows of unequal length");
  double difference = 0, norm_a = 0, norm_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return kNan;
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm_a += a[i] * a[i];
    norm_b += b[i] * b[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference / std::max(norm_a, norm_b));
}

std::vector<double> widen(std::span<const float> values) { return {values.begin(), values.end()}; }

}  // namespace greta
