#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/vocabulary.h"
#include "kernels/matrix.h"

// Random models that behave: a GGUF file made from a seed, for probes, tests and benchmarks.

namespace greta {

/// Shape of a synthetic model; every field is free, so that tests can take odd sizes.
struct SynthShape {
  std::string name;
  std::string architecture = "llama";  ///< of engine/gguf/file.h
  int64_t n_layers = 12;
  int64_t dim = 256;
  int64_t n_heads = 8;
  int64_t n_kv_heads = 4;  ///< divides n_heads
  int64_t head_dim = 32;
  int64_t rope_dim = 0;  ///< even, at most head_dim; 0: head_dim
  int64_t ffn_dim = 768;
  int64_t vocab = 1024;  ///< at least kMinSynthVocab
  int64_t context = 2048;
  double rope_theta = 500000;
  std::string rope_scaling = {};  ///< "linear" or "yarn"; "": none
  double rope_factor = 4;         ///< of that
  double rope_attn_factor = 1;    ///< 1: the file does not say
  int64_t original_context = 0;   ///< of yarn; 0: the file does not say
  double score_deviation = 1.5;   ///< of attention scores before softmax
  int64_t window = 0;             ///< 0: none
  std::vector<bool> windowed =
      {};                      ///< [n_layers]: where; empty: everywhere, and the file does not say
  bool tied = false;           ///< no output.weight
  bool rope_freqs = false;     ///< with rope_freqs.weight
  bool sentencepiece = false;  ///< an SPM tokenizer instead of byte-level BPE

  bool operator==(const SynthShape&) const = default;
};

/// tiny (12 layers, 10 million weights), small (107 million), 1b, llama3-8b. Throws
/// std::invalid_argument that lists them.
SynthShape synth_preset(std::string_view name);
std::vector<std::string> synth_preset_names();
std::vector<std::string> synth_architecture_names();

/// Storage of a whole model: the name of a weight type (kernels/matrix.h) or q4_k_m, q5_k_m, which
/// mix types by tensor as the usual files do. Norms and rope_freqs are f32.
struct SynthType {
  std::string name;
  uint32_t file_type = 0;  ///< general.file_type

  /// Type of a matrix: its full name, and the length of its rows. A type whose blocks these do not
  /// fill falls back as the usual files do: q2_k and q3_k to q4_0, q4_k to q5_0, q5_k to q5_1, q6_k
  /// to q8_0, and these to f16. The table of a tied model counts as output.weight. `layer` is
  /// ignored outside the blocks.
  WeightType of(std::string_view tensor, int64_t layer, int64_t n_layers, int64_t cols) const;
};

/// Throws std::invalid_argument that lists the names.
SynthType synth_type(std::string_view name);
std::vector<std::string> synth_type_names();

/// Makes the file, on all processors: the same bytes for the same arguments, on every machine.
///
/// Weights are sums of uniform integers, close to normal; norms are about 1 with a deviation of
/// 0.1. Their scales keep a forward pass healthy at any depth: rms 1 behind every norm, residual
/// stream growing by about a tenth a layer, scores before softmax with the deviation that
/// the shape says, logits with one of 3. `progress` gets values written and values in all, from
/// this thread. Throws what GgufWriter throws, and std::invalid_argument for a shape that no model
/// has.
void synthesise(const SynthShape& shape, const SynthType& type, uint64_t seed,
                const std::filesystem::path& file,
                const std::function<void(int64_t done, int64_t total)>& progress = {});

// ---- Vocabularies of synthetic models. Any string has an encoding, which decodes to that string
// (but for the character ▁, which SentencePiece takes for a space).

/// Least number of tokens that the vocabularies below need.
inline constexpr int64_t kMinSynthVocab = 512;

/// Byte-level BPE as Llama 3 has it: the 256 bytes in GPT-2's spelling, merges of pieces of words,
/// numbers and UTF-8 letters, control tokens last. Throws std::invalid_argument below
/// kMinSynthVocab.
Vocabulary make_bpe_vocab(int64_t n_tokens);

/// SentencePiece as Llama 2 has it: <unk>, <s>, </s>, 256 byte tokens, then pieces with ▁ for the
/// space and falling scores, single characters last. Throws as make_bpe_vocab.
Vocabulary make_spm_vocab(int64_t n_tokens);

}  // namespace greta
