#include "tests/kernels/kernel_fixture.h"

#include <limits>

namespace greta {

double rel_l2(const Values& actual, const std::vector<double>& expected, double least_rms) {
  EXPECT_EQ(actual.size(), expected.size());
  double error = 0, norm = 0, n = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const auto value = static_cast<double>(actual[i]);
    if (!std::isfinite(value) && !std::isfinite(expected[i])) continue;
    if (!std::isfinite(value - expected[i])) return std::numeric_limits<double>::infinity();
    error += (value - expected[i]) * (value - expected[i]);
    norm += expected[i] * expected[i];
    ++n;
  }
  norm = std::max(norm, n * least_rms * least_rms);
  return norm == 0 ? std::sqrt(error) : std::sqrt(error / norm);
}

Expected multiply_in_double(const Values& weights, int64_t rows, const Values& x,
                            int64_t n_tokens) {
  const auto n_rows = static_cast<size_t>(rows);
  const size_t n = static_cast<size_t>(n_tokens) * n_rows, cols = weights.size() / n_rows;
  Expected expected{std::vector<double>(n), std::vector<double>(n)};
  for (size_t i = 0; i < n; ++i) {
    const float* row = weights.data() + i % n_rows * cols;
    const float* token = x.data() + i / n_rows * cols;
    double value = 0, square = 0;
    for (size_t k = 0; k < cols; ++k) {
      const double product = static_cast<double>(row[k]) * static_cast<double>(token[k]);
      value += product;
      square += product * product;
    }
    expected.value[i] = value;
    expected.square[i] = square;
  }
  return expected;
}

}  // namespace greta

namespace greta::attention_problem {
namespace {

void reference_head(const Problem& p, int64_t t, int64_t h, Reference& ref) {
  const AttentionShape& s = p.shape;
  const int64_t g = s.modulo_heads ? h % s.n_kv_heads : h * s.n_kv_heads / s.n_heads;
  const int64_t pos = s.first_pos + t;
  const int64_t n_visible = std::min(pos + 1 + s.mask_shift, s.cache_rows);
  const int64_t first = s.window == 0 ? 0 : std::max<int64_t>(0, pos + 1 - s.window);
  const int64_t q_at = (t * s.n_heads + h) * s.head_dim;
  std::vector<double> score(static_cast<size_t>(std::max(n_visible, pos + 1)));
  const float* key = p.k.data();
  for (double& of_key : score) {
    double dot = 0;
    int64_t column = g * s.k_head_stride % p.row();
    for (int64_t d = 0; d < s.head_dim; ++d) {
      dot += static_cast<double>(p.q[static_cast<size_t>(q_at + d)]) *
             static_cast<double>(key[column]);
      if (++column == p.row()) column = 0;
    }
    of_key = dot * static_cast<double>(s.scale);
    key += p.row();
  }
  double max = -std::numeric_limits<double>::infinity();
  for (int64_t j = first; j < n_visible; ++j) max = std::max(max, score[static_cast<size_t>(j)]);
  std::vector<double> weight(score.size(), 0.0);
  double sum = 0;
  for (int64_t j = first; j < n_visible; ++j) {
    const double shift = s.subtract_max ? -max : static_cast<double>(s.score_shift);
    // exp in f32 is infinite from here on.
    const double x = score[static_cast<size_t>(j)] + shift;
    weight[static_cast<size_t>(j)] = x > 88.7228 ? HUGE_VAL : std::exp(x);
    sum += weight[static_cast<size_t>(j)];
  }
  for (double& w : weight) w /= sum;
  double* out = ref.out.data() + q_at;
  std::fill_n(out, s.head_dim, n_visible <= first ? std::nan("") : 0);
  const int64_t step = s.v_transposed ? s.n_kv_heads : 1;
  for (int64_t j = first; j < n_visible; ++j) {
    const float* value = p.v.data() + j * p.row() + (s.v_transposed ? g : g * s.head_dim);
    for (int64_t d = 0; d < s.head_dim; ++d)
      out[d] += weight[static_cast<size_t>(j)] * static_cast<double>(value[d * step]);
  }
  for (int64_t j = 0; j <= pos; ++j) {
    const auto at = static_cast<size_t>(t * p.key_block() + j * s.n_heads + h);
    ref.scores[at] = score[static_cast<size_t>(j)];
    ref.probs[at] = first <= j && j < n_visible ? weight[static_cast<size_t>(j)] : 0;
  }
}

}  // namespace

Reference reference(const Problem& p) {
  Reference ref;
  const auto n = static_cast<size_t>(p.shape.n_tokens * p.key_block());
  ref.out.resize(p.q.size());
  ref.scores.assign(n, kNan);
  ref.probs.assign(n, kNan);
  for (int64_t t = 0; t < p.shape.n_tokens; ++t) {
    for (int64_t h = 0; h < p.shape.n_heads; ++h) reference_head(p, t, h, ref);
  }
  return ref;
}

}  // namespace greta::attention_problem
