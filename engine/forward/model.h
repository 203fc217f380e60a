#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf/file.h"
#include "kernels/matrix.h"
#include "kernels/rows.h"

// A model: its configuration and its weights.

namespace greta {

/// How a file stretches RoPE over more positions than the model was first trained on, read as
/// llama.cpp reads it, defaults included.
struct RopeScaling {
  enum class Type {
    kNone,
    kLinear,  ///< every frequency over `factor`
    kYarn     ///< slow planes only, fast ones stay (Peng et al. 2023)
  };
  Type type = Type::kNone;
  double factor = 1;
  double attn_factor = 1;  ///< of cosines and sines, whatever the type
  // YaRN: a plane that turns beta_fast times or more over the original context stays as it is,
  // one that turns beta_slow times or less is stretched, and in between goes a ramp.
  double beta_fast = 32, beta_slow = 1;
  int64_t original_context = 0;

  /// Factor on cosines and sines: YaRN's 1 + ln(factor)/10 and attn_factor.
  double magnitude() const;
  std::string text() const;  ///< "yarn, 4 times 32768 positions"; "" for none
};

/// context: of the model. Throws GgufError for another type, and for numbers that make no sense.
RopeScaling read_rope_scaling(const GgufFile& file, const Architecture& architecture,
                              int64_t context);

/// Angle per position of each plane: theta^(−2i/rope_dim), scaled, over factors where there are
/// any. [rope_dim / 2]
std::vector<double> rope_frequencies(double theta, int64_t rope_dim, const RopeScaling& scaling,
                                     std::span<const float> factors);

/// The largest model: more blocks or positions have no place in a database of traces.
inline constexpr int64_t kMaxModelLayers = 8190;
inline constexpr int64_t kMaxModelContext = (int64_t{1} << 21) - 2;

/// What a model is, all from the file's metadata and confirmed by the shapes of its weights.
struct ModelConfig {
  Architecture architecture;
  int64_t n_layers = 0;
  int64_t dim = 0;  ///< of the residual stream
  int64_t n_heads = 0;
  int64_t n_kv_heads = 0;  ///< divides n_heads
  int64_t head_dim = 0;    ///< even; need not be dim / n_heads
  int64_t rope_dim = 0;    ///< even, ≤ head_dim: values of a head that RoPE turns
  int64_t ffn_dim = 0;
  int64_t vocab = 0;
  int64_t context = 0;  ///< positions the model was trained for
  float rms_eps = 0;
  RopeScaling rope_scaling;
  double rope_theta = 10000;
  int64_t window = 0;          ///< positions that a token attends to, its own the last; 0: all
  std::vector<bool> windowed;  ///< [n_layers]: where that goes; empty: everywhere
  bool tied = false;           ///< the output matrix is the embedding table

  int64_t q_dim() const { return n_heads * head_dim; }
  int64_t kv_dim() const { return n_kv_heads * head_dim; }
  int64_t window_of(size_t layer) const { return windowed.empty() || windowed[layer] ? window : 0; }
};

/// Weights of one block. Matrices are [out, in]. What an architecture has not is nullptr.
struct LayerWeights {
  const float* attn_norm = nullptr;                  ///< [dim]
  Matrix q;                                          ///< [q_dim, dim]
  Matrix k, v;                                       ///< [kv_dim, dim]
  const float* q_bias = nullptr;                     ///< [q_dim]
  const float *k_bias = nullptr, *v_bias = nullptr;  ///< [kv_dim]
  const float *q_norm = nullptr, *k_norm = nullptr;  ///< [head_dim], of every head
  Matrix o;                                          ///< [dim, q_dim]
  const float* ffn_norm = nullptr;                   ///< [dim]
  Matrix gate, up;                                   ///< [ffn_dim, dim]
  Matrix down;                                       ///< [dim, ffn_dim]
};

/// All weights, in the memory of one backend.
struct ModelWeights {
  Matrix token_embd;  ///< [vocab, dim]
  std::vector<LayerWeights> layers;
  const float* output_norm = nullptr;  ///< [dim]
  Matrix output;                       ///< [vocab, dim]; token_embd when tied
};

/// A model as its file holds it: weights are borrowed from the mapping, never copied, but for norms
/// and biases. The file must outlive it.
class Model {
 public:
  /// Throws GgufError: another architecture, a missing or unknown tensor, a shape that the metadata
  /// contradicts, a feature that is not supported (each named, with the numbers that disagree).
  explicit Model(const GgufFile& file);

  /// Throws GgufError when the file lost a part of the weights (GgufFile::check_whole).
  void check_whole() const { file_->check_whole(); }

  const ModelConfig& config() const { return config_; }
  const ModelWeights& weights() const { return weights_; }  ///< host memory

  /// How RoPE turns this model's heads.
  RopeTurn rope() const;
  /// The frequencies of that for another theta, as a fault needs it: theta times `factor`.
  std::vector<double> inv_freq_with_theta(double factor) const;

  std::string name() const { return name_; }  ///< general.name, else the file's
  /// Keys of the architecture and of tokenizer.* that greta does not know, borrowed from the file.
  const std::vector<std::string_view>& unknown_keys() const { return unknown_keys_; }
  std::string weight_types() const { return weight_types_; }  ///< q4_k:73 q6_k:13 f32:25, by count

 private:
  void read_config(const GgufFile& file);
  void read_heads(const GgufFile& file);
  void read_window(const GgufFile& file);
  void read_weights(const GgufFile& file);
  void read_rope(const GgufFile& file);

  const GgufFile* file_;
  ModelConfig config_;
  ModelWeights weights_;
  std::vector<std::vector<float>> vectors_;  ///< norms and biases
  std::vector<float> rope_factors_;          ///< rope_freqs.weight; empty when the file has none
  std::vector<double> inv_freq_;
  std::string name_;
  std::vector<std::string_view> unknown_keys_;
  std::string weight_types_;
};

/// Looks at every key of the architecture (llama.*) and of tokenizer.*: those that ask for a
/// computation that greta does not do are refused by name (GgufError), so that none is passed over
/// in silence. Returns the keys that greta does not know, borrowed from the file: what they ask for
/// is not done.
std::vector<std::string_view> check_metadata(const GgufFile& file,
                                             const Architecture& architecture);

}  // namespace greta
