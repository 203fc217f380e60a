// Of the pass in float64: the model in its file, and each operation on one row.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernels/blocks.h"
#include "kernels/cpu/quantise.h"
#include "tests/engine/forward/reference_f64.h"

namespace greta {
namespace {

double round_to_fp16(double x) {
  return static_cast<double>(f16_to_f32(f32_to_f16(static_cast<float>(x))));
}

}  // namespace

Reference::Weight Reference::weight(const GgufFile& file, const std::string& name) {
  const GgufTensor* tensor = file.find_tensor(name);
  if (tensor == nullptr) throw std::runtime_error("no tensor " + name);
  Weight w{tensor->dims[1], tensor->dims[0], {}};
  w.values.resize(static_cast<size_t>(tensor->n_values()));
  dequantise(tensor->type, tensor->data, w.values);
  return w;
}

Reference::Reference(const GgufFile& file) {
  const auto number = [&](const std::string& key, int64_t or_else) {
    return static_cast<int64_t>(file.unsigned_value(key, static_cast<uint64_t>(or_else)));
  };
  const std::string prefix = std::string(file.string_value("general.architecture")) + ".";
  const int64_t dim = number(prefix + "embedding_length", 0);
  n_heads_ = number(prefix + "attention.head_count", 0);
  n_kv_heads_ = number(prefix + "attention.head_count_kv", n_heads_);
  head_dim_ = number(prefix + "attention.key_length", dim / n_heads_);
  rms_eps_ = file.real_value(prefix + "attention.layer_norm_rms_epsilon");
  token_embd_ = weight(file, "token_embd.weight");
  for (int64_t i = 0; i < number(prefix + "block_count", 0); ++i) {
    const std::string block = "blk." + std::to_string(i) + ".";
    const auto part = [&](const char* name) { return weight(file, block + name + ".weight"); };
    const auto part_if = [&](const char* name) {
      return file.find_tensor(block + name) == nullptr ? Weight{} : weight(file, block + name);
    };
    layers_.push_back({part("attn_norm"), part("attn_q"), part("attn_k"), part("attn_v"),
                       part("attn_output"), part("ffn_norm"), part("ffn_gate"), part("ffn_up"),
                       part("ffn_down"), part_if("attn_q.bias"), part_if("attn_k.bias"),
                       part_if("attn_v.bias"), part_if("attn_q_norm.weight"),
                       part_if("attn_k_norm.weight")});
  }
  read_windows(file, prefix);
  read_rope(file, prefix);
  output_norm_ = weight(file, "output_norm.weight");
  const bool tied = file.find_tensor("output.weight") == nullptr;
  output_ = tied ? token_embd_ : weight(file, "output.weight");
  if (file.find_tensor("rope_freqs.weight") != nullptr) {
    rope_freqs_ = weight(file, "rope_freqs.weight");
  }
}

void Reference::read_windows(const GgufFile& file, const std::string& prefix) {
  const auto window =
      static_cast<int64_t>(file.unsigned_value(prefix + "attention.sliding_window", 0));
  const GgufArray* const where = file.array_value(prefix + "attention.sliding_window_pattern");
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (where == nullptr || where->data[i] != std::byte{0}) layers_[i].window = window;
  }
}

void Reference::read_rope(const GgufFile& file, const std::string& prefix) {
  const std::string rope = prefix + "rope.";
  halves_ = prefix != "llama.";
  rope_dim_ = static_cast<int64_t>(
      file.unsigned_value(rope + "dimension_count", static_cast<uint64_t>(head_dim_)));
  rope_theta_ = file.real_value(rope + "freq_base", 10000);
  const std::string_view type = file.string_value(rope + "scaling.type", "linear");
  yarn_ = type == "yarn";
  if (type != "none") rope_factor_ = file.real_value(rope + "scaling.factor", 1);
  rope_magnitude_ = file.real_value(rope + "scaling.attn_factor", 1);
  if (yarn_) rope_magnitude_ *= 1 + 0.1 * std::log(rope_factor_);
  beta_fast_ = file.real_value(rope + "scaling.yarn_beta_fast", beta_fast_);
  beta_slow_ = file.real_value(rope + "scaling.yarn_beta_slow", beta_slow_);
  original_context_ = static_cast<int64_t>(file.unsigned_value(
      rope + "scaling.original_context_length", file.unsigned_value(prefix + "context_length")));
}

Reference::Row Reference::times(const Weight& w, const Row& x) {
  Row out(static_cast<size_t>(w.rows));
  const double* in = x.data();  // what is not optimised calls a function for each x[i]
  const size_t cols = x.size();
  for (size_t r = 0; r < out.size(); ++r) {
    const float* row = w.values.data() + r * cols;
    double total = 0;
    for (size_t i = 0; i < cols; ++i) total += static_cast<double>(row[i]) * in[i];
    out[r] = total;
  }
  return out;
}

Reference::Row Reference::times_fp16(const Weight& w, const Row& x, int64_t step) {
  Row out(static_cast<size_t>(w.rows));
  for (size_t r = 0; r < out.size(); ++r) {
    const float* row = w.values.data() + r * x.size();
    double total = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      total += static_cast<double>(row[i]) * x[i];
      const bool block_ends = (i + 1) % static_cast<size_t>(step) == 0 || i + 1 == x.size();
      if (block_ends) total = round_to_fp16(total);
    }
    out[r] = total;
  }
  return out;
}

Reference::Row Reference::rms_norm(const Row& x, const Weight& weight, double eps) {
  double sum_sq = 0;
  for (const double value : x) sum_sq += value * value;
  const double rms = std::sqrt(sum_sq / static_cast<double>(x.size()) + eps);
  Row out(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    out[i] = x[i] / rms * static_cast<double>(weight.values[i]);
  }
  return out;
}

Reference::Row Reference::finish_heads(Row row, const Weight& bias, const Weight& norm) const {
  for (size_t i = 0; i < bias.values.size(); ++i) row[i] += static_cast<double>(bias.values[i]);
  if (norm.values.empty()) return row;
  for (auto head = row.begin(); head != row.end(); head += head_dim_) {
    const Row normed = rms_norm(Row(head, head + head_dim_), norm, rms_eps_);
    std::copy(normed.begin(), normed.end(), head);
  }
  return row;
}

Reference::Row Reference::embedding(int32_t token) const {
  const float* row = token_embd_.values.data() + token * token_embd_.cols;
  return Row(row, row + token_embd_.cols);
}

/// By which RoPE turns a plane. YaRN leaves a plane that turns more than beta_fast times over the
/// original context as it is, slows one that turns less than beta_slow times down by the factor,
/// and mixes both in between.
double Reference::angle(int64_t pos, int64_t plane, double theta) const {
  const auto dim = static_cast<double>(rope_dim_), i = static_cast<double>(plane);
  double plain = static_cast<double>(pos) * std::pow(theta, -2.0 * i / dim);
  if (!rope_freqs_.values.empty()) {
    plain /= static_cast<double>(rope_freqs_.values[static_cast<size_t>(plane)]);
  }
  if (!yarn_) return plain / rope_factor_;
  const auto plane_turning = [&](double times) {
    return dim * std::log(static_cast<double>(original_context_) / (times * 2 * M_PI)) /
           (2 * std::log(theta));
  };
  const double fast = std::max(0.0, std::floor(plane_turning(beta_fast_)));
  const double slow = std::min(dim - 1, std::ceil(plane_turning(beta_slow_)));
  const double keep = 1 - std::min(1.0, std::max(0.0, (i - fast) / std::max(0.001, slow - fast)));
  return keep * plain + (1 - keep) * plain / rope_factor_;
}

Reference::Row Reference::rotate(const Row& row, int64_t pos, double theta_factor,
                                 bool halves) const {
  Row out = row;
  const int64_t planes = rope_dim_ / 2;
  for (int64_t head = 0; head < static_cast<int64_t>(row.size()) / head_dim_; ++head) {
    for (int64_t i = 0; i < planes; ++i) {
      const double turn = angle(pos, i, rope_theta_ * theta_factor);
      const auto a = static_cast<size_t>(head * head_dim_ + (halves ? i : 2 * i));
      const size_t b = a + static_cast<size_t>(halves ? planes : 1);
      out[a] = rope_magnitude_ * (row[a] * std::cos(turn) - row[b] * std::sin(turn));
      out[b] = rope_magnitude_ * (row[a] * std::sin(turn) + row[b] * std::cos(turn));
    }
  }
  return out;
}

}  // namespace greta
