#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/forward/fault.h"
#include "engine/forward/route.h"
#include "engine/gguf/file.h"
#include "engine/run/trace_sink.h"

// The forward pass in float64, written to be read: what the engine is held against. It shares
// nothing with the engine but the file and the expansion of its weights.

namespace greta {

/// Values of one token at every trace point, by (point, layer).
class ReferenceRows {
 public:
  /// Throws std::out_of_range with the name of a row that there is not.
  const std::vector<double>& at(TracePoint point, int layer) const;
  void set(TracePoint point, int layer, std::vector<double> values);

 private:
  std::map<std::pair<TracePoint, int>, std::vector<double>> rows_;
};

/// Both sides of a probe, for the last token of its prompt.
struct ReferenceProbe {
  ReferenceRows prefill, decode;
};

/// A model in double, straight from a file's metadata and tensors.
class Reference {
 public:
  explicit Reference(const GgufFile& file);

  /// Logits of every position, [n_tokens][vocab], from one pass over all of them.
  std::vector<std::vector<double>> logits(std::span<const int32_t> tokens) const;

  /// What a probe (engine/probe/probe.h) sees, with its poisoned cache and its faults. Stops after
  /// `last_layer` and leaves out the head when that is not negative.
  ReferenceProbe probe(std::span<const int32_t> tokens, Mode mode, const FaultSet& faults,
                       int last_layer = -1) const;

  int n_layers() const { return static_cast<int>(layers_.size()); }
  int64_t vocab() const { return token_embd_.rows; }

 private:
  struct Weight {
    int64_t rows = 0, cols = 0;
    std::vector<float> values;  // row-major
  };
  struct Layer {
    Weight attn_norm, q, k, v, o, ffn_norm, gate, up, down;
    Weight q_bias, k_bias, v_bias, q_norm, k_norm;  // without values where there are none
    int64_t window = 0;                             // keys that a query sees; 0: all
  };
  using Row = std::vector<double>;
  using Rows = std::vector<Row>;  // one per token
  struct Cache;
  struct Pass;
  struct Attention;

  static Weight weight(const GgufFile& file, const std::string& name);
  static Row times(const Weight& w, const Row& x);
  static Row times_fp16(const Weight& w, const Row& x, int64_t step);
  static Row rms_norm(const Row& x, const Weight& weight, double eps);
  Row finish_heads(Row row, const Weight& bias, const Weight& norm) const;
  Row embedding(int32_t token) const;
  double angle(int64_t pos, int64_t plane, double theta) const;
  Row rotate(const Row& row, int64_t pos, double theta_factor, bool halves) const;
  void read_windows(const GgufFile& file, const std::string& prefix);
  void read_rope(const GgufFile& file, const std::string& prefix);
  Attention attend(const Pass& pass, int layer, int64_t pos, const Row& q,
                   const Cache& cache) const;
  void store_kv(const Pass& pass, int layer, const Rows& k, const Rows& v, Cache& cache) const;
  static void spoil_row_0(const Pass& pass, int layer, Cache& cache);
  Rows block(const Pass& pass, int layer, const Rows& x, Cache& cache, ReferenceRows& last) const;
  Row head(const Row& x, ReferenceRows& last) const;
  Rows stack(const Pass& pass, Cache& cache, ReferenceRows& last) const;

  int64_t n_heads_ = 0, n_kv_heads_ = 0, head_dim_ = 0, rope_dim_ = 0;
  double rms_eps_ = 0, rope_theta_ = 0;
  bool halves_ = false, yarn_ = false;  // pairs (i, i + d/2); RoPE scaled by YaRN
  double rope_factor_ = 1, rope_magnitude_ = 1, beta_fast_ = 32, beta_slow_ = 1;
  int64_t original_context_ = 0;
  Weight token_embd_, output_norm_, output_, rope_freqs_;
  std::vector<Layer> layers_;
};

/// ‖a − b‖ over the larger norm, as the view `pair` has it; NaN when a value is not finite.
double relative_l2(std::span<const double> a, std::span<const double> b);

std::vector<double> widen(std::span<const float> values);

}  // namespace greta
