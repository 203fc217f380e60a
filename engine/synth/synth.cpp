#include "engine/synth/synth.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <thread>
#include <utility>

#include "engine/gguf/file.h"
#include "engine/gguf/writer.h"
#include "kernels/cpu/quantise.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/fingerprint/fingerprint.h"

namespace greta {
namespace {

// ---- Values.

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;

// Counter-based, so that any thread makes any part: value i of a tensor is a hash of i.
uint64_t stream_key(uint64_t seed, std::string_view tensor) {
  uint64_t key = mix64(seed + kGolden);
  for (const char c : tensor) key = mix64(key ^ static_cast<unsigned char>(c));
  return key;
}

// Four 16-bit uniform integers less their mean: nearly normal, with deviation kBellDeviation.
constexpr double kBellDeviation = 37837.2;  // √((2^32 − 1) / 3)
int32_t bell(uint64_t key, uint64_t i) {
  const uint64_t bits = mix64(key + (i + 1) * kGolden);
  const uint64_t sum =
      (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
  return static_cast<int32_t>(sum) - 2 * 0xffff;
}

// One tensor of the model. A value is (centre + bell)·unit: one rounding, the same everywhere.
struct SynthTensor {
  std::string name;
  WeightType type;
  std::vector<int64_t> dims;  // contiguous one first
  int32_t centre = 0;
  float unit = 0;
  bool is_ramp = false;  // rope_freqs: not random

  int64_t n_values() const {
    int64_t n = 1;
    for (const int64_t dim : dims) n *= dim;
    return n;
  }
};

// Frequency divisors as Llama 3.1 has them: 1 for the fast half of the planes, up to 8 for the
// slowest. Multiples of 1/16, so that they are exact.
float ramp(int64_t i, int64_t n) {
  const int64_t slow = n - n / 2;
  const int64_t sixteenths =
      16 + std::max<int64_t>(0, i - n / 2) * 112 / std::max<int64_t>(1, slow - 1);
  return static_cast<float>(sixteenths) / 16;
}

void fill(const SynthTensor& tensor, uint64_t seed, int64_t first, std::span<float> out) {
  const uint64_t key = stream_key(seed, tensor.name);
  for (size_t i = 0; i < out.size(); ++i) {
    const auto at = static_cast<uint64_t>(first) + i;
    out[i] = tensor.is_ramp ? ramp(static_cast<int64_t>(at), tensor.n_values())
                            : static_cast<float>(tensor.centre + bell(key, at)) * tensor.unit;
  }
}

// ---- The model.

int64_t rope_dim_of(const SynthShape& shape) {
  return shape.rope_dim == 0 ? shape.head_dim : shape.rope_dim;
}

class Plan {
 public:
  Plan(const SynthShape& shape, const SynthType& type) : shape_(shape), type_(type) {}

  std::vector<SynthTensor> tensors() {
    const SynthShape& s = shape_;
    // A tied table is the output too: its deviation then follows from the logits'.
    const double output = 3 / root(s.dim);
    const std::string_view table = "token_embd.weight";
    matrix(table, s.tied ? "output.weight" : table, 0, s.dim, s.vocab, s.tied ? output : 1);
    if (s.rope_freqs) {
      tensors_.push_back({"rope_freqs.weight", WeightType::kF32, {rope_dim_of(s) / 2}, 0, 0, true});
    }
    for (int64_t layer = 0; layer < s.n_layers; ++layer) block(layer);
    norm("output_norm.weight", s.dim);
    if (!s.tied) matrix("output.weight", "output.weight", 0, s.dim, s.vocab, output);
    return std::move(tensors_);
  }

 private:
  static double root(int64_t n) { return std::sqrt(static_cast<double>(n)); }

  void block(int64_t layer) {
    const SynthShape& s = shape_;
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    const auto add = [&](std::string_view name, int64_t cols, int64_t rows, double deviation) {
      const std::string full = prefix + std::string(name) + ".weight";
      matrix(full, full, layer, cols, rows, deviation);
    };
    const int64_t q_dim = s.n_heads * s.head_dim, kv_dim = s.n_kv_heads * s.head_dim;
    // Inputs have rms 1, so a deviation of 1/√cols gives outputs of rms 1. Scores are
    // Σ q·k / √head_dim: q and k of rms √1.5 give them a deviation of 1.5, and a larger q more.
    // silu(gate)·up has rms 0.6, and both branches add a few tenths to the residual stream.
    const double sharper = s.score_deviation / 1.5;
    norm(prefix + "attn_norm.weight", s.dim);
    add("attn_q", s.dim, q_dim, sharper * std::sqrt(1.5) / root(s.dim));
    add("attn_k", s.dim, kv_dim, std::sqrt(1.5) / root(s.dim));
    add("attn_v", s.dim, kv_dim, 1 / root(s.dim));
    if (architecture_.has_qkv_bias) {
      bias(prefix + "attn_q.bias", q_dim, sharper);
      bias(prefix + "attn_k.bias", kv_dim);
      bias(prefix + "attn_v.bias", kv_dim);
    }
    if (architecture_.has_qk_norm) {
      norm(prefix + "attn_q_norm.weight", s.head_dim, sharper * std::sqrt(1.5));
      norm(prefix + "attn_k_norm.weight", s.head_dim, std::sqrt(1.5));
    }
    add("attn_output", q_dim, s.dim, 0.6 / root(q_dim));
    norm(prefix + "ffn_norm.weight", s.dim);
    add("ffn_gate", s.dim, s.ffn_dim, 1 / root(s.dim));
    add("ffn_up", s.dim, s.ffn_dim, 1 / root(s.dim));
    add("ffn_down", s.ffn_dim, s.dim, 0.6 / root(s.ffn_dim));
  }

  // role: the name that chooses its type.
  void matrix(std::string_view name, std::string_view role, int64_t layer, int64_t cols,
              int64_t rows, double deviation) {
    const WeightType type = type_.of(role, layer, shape_.n_layers, cols);
    const auto unit = static_cast<float>(deviation / kBellDeviation);
    tensors_.push_back({std::string(name), type, {cols, rows}, 0, unit, false});
  }

  void norm(std::string name, int64_t n, double mean = 1) {
    constexpr double kUnit = 0.1 / kBellDeviation;
    vector(std::move(name), n, static_cast<int32_t>(mean / kUnit), kUnit);
  }
  void bias(std::string name, int64_t n, double times = 1) {
    vector(std::move(name), n, 0, times * 0.2 / kBellDeviation);
  }

  void vector(std::string name, int64_t n, int32_t centre, double unit) {
    tensors_.push_back(
        {std::move(name), WeightType::kF32, {n}, centre, static_cast<float>(unit), false});
  }

  const SynthShape& shape_;
  const Architecture& architecture_ = *find_architecture(shape_.architecture);
  const SynthType& type_;
  std::vector<SynthTensor> tensors_;
};

void check_shape(const SynthShape& shape) {
  constexpr int64_t kMaxLayers = 4096, kMaxSize = int64_t{1} << 22;
  const auto check = [](std::string_view name, int64_t value, int64_t limit) {
    if (value >= 1 && value <= limit) return;
    throw std::invalid_argument("a model cannot have " + std::string(name) + " " +
                                std::to_string(value) + "; 1 to " + std::to_string(limit));
  };
  check("n_layers", shape.n_layers, kMaxLayers);
  check("dim", shape.dim, kMaxSize);
  check("n_heads", shape.n_heads, 65536);
  check("n_kv_heads", shape.n_kv_heads, shape.n_heads);
  check("head_dim", shape.head_dim, 65536);
  check("n_heads · head_dim", shape.n_heads * shape.head_dim, kMaxSize);
  check("ffn_dim", shape.ffn_dim, kMaxSize);
  check("vocab", shape.vocab, kMaxSize);
  check("context", shape.context, INT32_MAX);
  const int64_t rope_dim = rope_dim_of(shape);
  if (shape.n_heads % shape.n_kv_heads != 0 || rope_dim % 2 != 0 || rope_dim < 2 ||
      rope_dim > shape.head_dim) {
    throw std::invalid_argument("n_kv_heads must divide n_heads and head_dim must be even");
  }
  for (const auto& [name, value] : {std::pair("rope_theta", shape.rope_theta),
                                    {"rope_factor", shape.rope_factor},
                                    {"rope_attn_factor", shape.rope_attn_factor},
                                    {"score_deviation", shape.score_deviation}}) {
    if (!(value > 0) || !std::isfinite(value)) {
      throw std::invalid_argument(std::string(name) + " must be positive and finite");
    }
  }
  if (find_architecture(shape.architecture) == nullptr) {
    throw std::invalid_argument("unknown architecture '" + shape.architecture +
                                "'; known: " + architecture_names());
  }
  if (!shape.rope_scaling.empty() && shape.rope_scaling != "linear" &&
      shape.rope_scaling != "yarn") {
    throw std::invalid_argument("unknown RoPE scaling '" + shape.rope_scaling +
                                "'; known: linear, yarn");
  }
  check("original_context", std::max<int64_t>(shape.original_context, 1), INT32_MAX);
  check("window", std::max<int64_t>(shape.window, 1), INT32_MAX);
}

void add_model(GgufWriter& writer, const SynthShape& shape, const SynthType& type) {
  const Architecture& architecture = *find_architecture(shape.architecture);
  const auto add_size = [&](std::string_view rest, int64_t value) {
    writer.add_uint32(architecture.key(rest), static_cast<uint32_t>(value));
  };
  const auto add_real = [&](std::string_view rest, double value) {
    writer.add_float32(architecture.key(rest), static_cast<float>(value));
  };
  writer.add_string("general.architecture", architecture.name);
  writer.add_string("general.type", "model");
  writer.add_string("general.name", "greta synth " + shape.name + " " + type.name);
  writer.add_uint32("general.file_type", type.file_type);
  writer.add_uint32("general.quantization_version", 2);
  add_size("block_count", shape.n_layers);
  add_size("context_length", shape.context);
  add_size("embedding_length", shape.dim);
  add_size("feed_forward_length", shape.ffn_dim);
  add_size("attention.head_count", shape.n_heads);
  add_size("attention.head_count_kv", shape.n_kv_heads);
  if (shape.n_heads * shape.head_dim != shape.dim) {
    add_size("attention.key_length", shape.head_dim);
    add_size("attention.value_length", shape.head_dim);
  }
  add_real("attention.layer_norm_rms_epsilon", 1e-5);
  if (shape.window > 0) add_size("attention.sliding_window", shape.window);
  if (!shape.windowed.empty()) {
    writer.add_bools(architecture.key("attention.sliding_window_pattern"), shape.windowed);
  }
  add_size("rope.dimension_count", rope_dim_of(shape));
  add_real("rope.freq_base", shape.rope_theta);
  if (!shape.rope_scaling.empty()) {
    writer.add_string(architecture.key("rope.scaling.type"), shape.rope_scaling);
    add_real("rope.scaling.factor", shape.rope_factor);
  }
  if (shape.original_context > 0) {
    add_size("rope.scaling.original_context_length", shape.original_context);
  }
  if (shape.rope_attn_factor != 1) add_real("rope.scaling.attn_factor", shape.rope_attn_factor);
  add_size("vocab_size", shape.vocab);
}

void add_vocab(GgufWriter& writer, const Vocabulary& vocab) {
  writer.add_string("tokenizer.ggml.model", vocab.model);
  if (!vocab.pre.empty()) writer.add_string("tokenizer.ggml.pre", vocab.pre);
  writer.add_strings("tokenizer.ggml.tokens", vocab.tokens);
  std::vector<int32_t> types;
  for (const TokenType type : vocab.types) types.push_back(static_cast<int32_t>(type));
  writer.add_int32s("tokenizer.ggml.token_type", types);
  if (!vocab.merges.empty()) writer.add_strings("tokenizer.ggml.merges", vocab.merges);
  if (!vocab.scores.empty()) writer.add_floats("tokenizer.ggml.scores", vocab.scores);
  const std::pair<std::string_view, int32_t> ids[] = {
      {"bos", vocab.bos}, {"eos", vocab.eos}, {"eot", vocab.eot}, {"unknown", vocab.unknown}};
  for (const auto& [name, id] : ids) {
    if (id < 0) continue;
    writer.add_uint32("tokenizer.ggml." + std::string(name) + "_token_id",
                      static_cast<uint32_t>(id));
  }
  writer.add_bool("tokenizer.ggml.add_bos_token", vocab.add_bos);
}

// ---- The file.

// Makes and stores values on all processors, a few pieces at a time so that memory stays small.
class TensorMaker {
 public:
  TensorMaker(GgufWriter& writer, uint64_t seed)
      : writer_(writer), seed_(seed), pool_(n_threads()) {
    pieces_.resize(static_cast<size_t>(pool_.size()) * 4);
    for (Piece& piece : pieces_) piece.values.resize(kPieceValues);
  }

  void make(const SynthTensor& tensor, const std::function<void(int64_t)>& written) {
    const int64_t total = tensor.n_values();
    for (int64_t done = 0; done < total;) {
      const int64_t left = total - done;
      const int64_t n_pieces = std::min<int64_t>(static_cast<int64_t>(pieces_.size()),
                                                 (left + kPieceValues - 1) / kPieceValues);
      pool_.run(n_pieces, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t first = done + i * kPieceValues;
          fill_piece(tensor, first, std::min(kPieceValues, total - first),
                     pieces_[static_cast<size_t>(i)]);
        }
      });
      for (int64_t i = 0; i < n_pieces; ++i) {
        writer_.write(pieces_[static_cast<size_t>(i)].stored);
      }
      const int64_t step = std::min(left, n_pieces * kPieceValues);
      done += step;
      written(step);
    }
  }

 private:
  static constexpr int64_t kPieceValues = 1 << 16;  // whole blocks of every type

  struct Piece {
    std::vector<float> values;
    std::vector<std::byte> stored;
  };

  static int n_threads() {
    return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 64);
  }

  void fill_piece(const SynthTensor& tensor, int64_t first, int64_t n, Piece& piece) const {
    const std::span<float> values(piece.values.data(), static_cast<size_t>(n));
    const WeightTypeInfo& info = weight_type_info(tensor.type);
    fill(tensor, seed_, first, values);
    piece.stored.resize(values.size() / info.block_values * info.block_bytes);
    quantise(tensor.type, values, piece.stored);
  }

  GgufWriter& writer_;
  uint64_t seed_;
  ThreadPool pool_;
  std::vector<Piece> pieces_;
};

}  // namespace

void synthesise(const SynthShape& shape, const SynthType& type, uint64_t seed,
                const std::filesystem::path& file,
                const std::function<void(int64_t done, int64_t total)>& progress) {
  check_shape(shape);
  const Vocabulary vocab =
      shape.sentencepiece ? make_spm_vocab(shape.vocab) : make_bpe_vocab(shape.vocab);
  const std::vector<SynthTensor> tensors = Plan(shape, type).tensors();

  GgufWriter writer(file);
  add_model(writer, shape, type);
  add_vocab(writer, vocab);
  int64_t total = 0, done = 0;
  for (const SynthTensor& tensor : tensors) {
    writer.declare(tensor.name, tensor.type, tensor.dims);
    total += tensor.n_values();
  }
  TensorMaker maker(writer, seed);
  for (const SynthTensor& tensor : tensors) {
    maker.make(tensor, [&](int64_t step) {
      done += step;
      if (progress) progress(done, total);
    });
  }
  writer.finish();
}

}  // namespace greta
