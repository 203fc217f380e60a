#include "engine/forward/model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "engine/gguf/parser.h"
#include "kernels/cpu/quantise.h"
#include "kernels/fingerprint/fingerprint.h"

namespace greta {
namespace {

[[noreturn]] void refuse(const GgufFile& file, const std::string& why) {
  throw GgufError(file.name() + ": " + why);
}

int64_t size_value(const GgufFile& file, std::string_view key, uint64_t value, uint64_t limit) {
  if (value == 0 || value > limit) {
    refuse(file, std::string(key) + " is " + std::to_string(value) + "; from 1 to " +
                     std::to_string(limit) + " is supported");
  }
  return static_cast<int64_t>(value);
}

int64_t size_of(const GgufFile& file, std::string_view key, uint64_t limit) {
  return size_value(file, key, file.unsigned_value(key), limit);
}

int64_t size_of(const GgufFile& file, std::string_view key, uint64_t limit, int64_t or_else) {
  return size_value(file, key, file.unsigned_value(key, static_cast<uint64_t>(or_else)), limit);
}

std::string shape_text(const GgufTensor& tensor) {
  std::string text = "[";
  for (int i = tensor.n_dims - 1; i >= 0; --i) {
    text += std::to_string(tensor.dims[static_cast<size_t>(i)]) + (i > 0 ? ", " : "]");
  }
  return text;
}

/// Takes the tensors of a file one by one, so that what is left over is unknown.
class TensorShelf {
 public:
  explicit TensorShelf(const GgufFile& file) : file_(file) {}

  const GgufTensor* find(const std::string& name) {
    const GgufTensor* tensor = file_.find_tensor(name);
    if (tensor != nullptr) taken_.insert(tensor->name);
    return tensor;
  }

  const GgufTensor& take(const std::string& name, int64_t rows, int64_t cols) {
    const GgufTensor* tensor = find(name);
    if (tensor == nullptr) refuse(file_, "tensor " + name + " is missing");
    const bool fits = tensor->dims[0] == cols && tensor->dims[1] == rows && tensor->dims[2] == 1 &&
                      tensor->dims[3] == 1;
    if (!fits) {
      refuse(file_, "tensor " + name + " is " + shape_text(*tensor) + "; the metadata says [" +
                        (rows == 1 ? "" : std::to_string(rows) + ", ") + std::to_string(cols) +
                        "]");
    }
    ++types_[std::string(weight_type_info(tensor->type).name)];
    return *tensor;
  }

  Matrix matrix(const std::string& name, int64_t rows, int64_t cols) {
    const GgufTensor& tensor = take(name, rows, cols);
    return {tensor.type, tensor.data.data(), rows, cols};
  }

  std::vector<float> vector(const std::string& name, int64_t n) {
    const GgufTensor& tensor = take(name, 1, n);
    std::vector<float> values(static_cast<size_t>(n));
    dequantise(tensor.type, tensor.data, values);
    return values;
  }

  void refuse_leftovers(const Architecture& architecture) const {
    for (const GgufTensor& tensor : file_.tensors()) {
      if (!taken_.contains(tensor.name)) {
        refuse(file_,
               "tensor " + gguf_quoted(tensor.name) + " is not part of what greta knows of " +
                   std::string(architecture.name) +
                   ": no experts, biases of q, k and v only, norms of q and k in qwen3 only");
      }
    }
  }

  std::string types() const {
    std::string text;
    for (const auto& [name, count] : types_) {
      text += (text.empty() ? "" : " ") + name + ":" + std::to_string(count);
    }
    return text;
  }

 private:
  const GgufFile& file_;
  std::set<std::string_view> taken_;
  std::map<std::string, int> types_;
};

}  // namespace

Model::Model(const GgufFile& file) : file_(&file) {
  read_config(file);
  read_heads(file);
  read_window(file);
  read_weights(file);
  read_rope(file);
}

void Model::read_config(const GgufFile& file) {
  ModelConfig& c = config_;
  const std::string_view name = file.string_value("general.architecture");
  const Architecture* const architecture = find_architecture(name);
  if (architecture == nullptr) {
    refuse(file, "general.architecture is " + gguf_quoted(name) + "; greta supports " +
                     architecture_names());
  }
  c.architecture = *architecture;
  unknown_keys_ = check_metadata(file, c.architecture);
  const auto key = [&](std::string_view rest) { return c.architecture.key(rest); };
  constexpr uint64_t kMaxDim = 1 << 20;
  name_ = file.string_value("general.name", file.name());
  c.n_layers = size_of(file, key("block_count"), kMaxModelLayers);
  c.dim = size_of(file, key("embedding_length"), kMaxDim);
  c.ffn_dim = size_of(file, key("feed_forward_length"), kMaxDim);
  c.context = size_of(file, key("context_length"), kMaxModelContext);
  const std::string eps = key("attention.layer_norm_rms_epsilon");
  c.rms_eps = static_cast<float>(file.real_value(eps));
  if (!(c.rms_eps > 0)) refuse(file, eps + " is not above 0");
}

void Model::read_heads(const GgufFile& file) {
  ModelConfig& c = config_;
  const auto key = [&](std::string_view rest) { return c.architecture.key(rest); };
  const std::string heads = key("attention.head_count"), length = key("attention.key_length");
  c.n_heads = size_of(file, heads, 1 << 14);
  c.n_kv_heads = size_of(file, key("attention.head_count_kv"), 1 << 14, c.n_heads);
  if (c.n_heads % c.n_kv_heads != 0) {
    refuse(file, heads + " " + std::to_string(c.n_heads) + " is not a multiple of head_count_kv " +
                     std::to_string(c.n_kv_heads));
  }
  if (file.find(length) == nullptr && c.dim % c.n_heads != 0) {
    refuse(file, key("embedding_length") + " " + std::to_string(c.dim) +
                     " is not a multiple of head_count " + std::to_string(c.n_heads) + ", and " +
                     length + " is not given");
  }
  c.head_dim = size_of(file, length, 1 << 12, c.dim / c.n_heads);
  const std::string of_values = key("attention.value_length");
  if (size_of(file, of_values, 1 << 12, c.head_dim) != c.head_dim) {
    refuse(file, of_values + " differs from key_length, which is not supported");
  }
  const std::string turned = key("rope.dimension_count");
  c.rope_dim = size_of(file, turned, 1 << 12, c.head_dim);
  if (c.rope_dim > c.head_dim || c.rope_dim % 2 != 0) {
    refuse(file, turned + " " + std::to_string(c.rope_dim) + " is odd or above the head's " +
                     std::to_string(c.head_dim) + " values");
  }
}

void Model::read_window(const GgufFile& file) {
  ModelConfig& c = config_;
  const std::string window = c.architecture.key("attention.sliding_window");
  const std::string pattern = c.architecture.key("attention.sliding_window_pattern");
  c.window = static_cast<int64_t>(
      std::min(file.unsigned_value(window, 0), static_cast<uint64_t>(kMaxModelContext)));
  const GgufArray* const layers = file.array_value(pattern);
  if (layers == nullptr) return;
  if (layers->element_type != static_cast<uint32_t>(GgufType::kBool) ||
      layers->count != static_cast<uint64_t>(c.n_layers)) {
    refuse(file, pattern + " is no list of " + std::to_string(c.n_layers) +
                     " bools, one for each layer, which is what is supported");
  }
  for (const std::byte layer : layers->data) c.windowed.push_back(layer != std::byte{0});
}

void Model::read_weights(const GgufFile& file) {
  ModelConfig& c = config_;
  TensorShelf shelf(file);
  const GgufTensor* embeddings = file.find_tensor("token_embd.weight");
  if (embeddings == nullptr) refuse(file, "tensor token_embd.weight is missing");
  c.vocab = size_value(file, "number of rows of token_embd.weight",
                       static_cast<uint64_t>(embeddings->dims[1]), kMaxTokenValues);
  const std::string vocab = c.architecture.key("vocab_size");
  if (size_of(file, vocab, kMaxTokenValues, c.vocab) != c.vocab) {
    refuse(file, vocab + " is " + std::to_string(file.unsigned_value(vocab)) +
                     ", token_embd.weight has " + std::to_string(c.vocab) + " rows");
  }
  const auto vector = [&](const std::string& name, int64_t n) {
    return vectors_.emplace_back(shelf.vector(name, n)).data();
  };
  const auto vector_if = [&](bool required, const std::string& name, int64_t n) -> const float* {
    return required || file.find_tensor(name) != nullptr ? vector(name, n) : nullptr;
  };
  weights_.token_embd = shelf.matrix("token_embd.weight", c.vocab, c.dim);
  for (int64_t i = 0; i < c.n_layers; ++i) {
    const std::string block = "blk." + std::to_string(i) + ".";
    LayerWeights& layer = weights_.layers.emplace_back();
    layer.attn_norm = vector(block + "attn_norm.weight", c.dim);
    layer.q = shelf.matrix(block + "attn_q.weight", c.q_dim(), c.dim);
    layer.k = shelf.matrix(block + "attn_k.weight", c.kv_dim(), c.dim);
    layer.v = shelf.matrix(block + "attn_v.weight", c.kv_dim(), c.dim);
    const bool has_bias = c.architecture.has_qkv_bias;
    layer.q_bias = vector_if(has_bias, block + "attn_q.bias", c.q_dim());
    layer.k_bias = vector_if(has_bias, block + "attn_k.bias", c.kv_dim());
    layer.v_bias = vector_if(has_bias, block + "attn_v.bias", c.kv_dim());
    if (c.architecture.has_qk_norm) {
      layer.q_norm = vector(block + "attn_q_norm.weight", c.head_dim);
      layer.k_norm = vector(block + "attn_k_norm.weight", c.head_dim);
    }
    layer.o = shelf.matrix(block + "attn_output.weight", c.dim, c.q_dim());
    layer.ffn_norm = vector(block + "ffn_norm.weight", c.dim);
    layer.gate = shelf.matrix(block + "ffn_gate.weight", c.ffn_dim, c.dim);
    layer.up = shelf.matrix(block + "ffn_up.weight", c.ffn_dim, c.dim);
    layer.down = shelf.matrix(block + "ffn_down.weight", c.dim, c.ffn_dim);
  }
  weights_.output_norm = vector("output_norm.weight", c.dim);
  c.tied = file.find_tensor("output.weight") == nullptr;
  weights_.output = c.tied ? weights_.token_embd : shelf.matrix("output.weight", c.vocab, c.dim);
  if (file.find_tensor("rope_freqs.weight") != nullptr) {
    rope_factors_ = shelf.vector("rope_freqs.weight", c.rope_dim / 2);
  }
  weight_types_ = shelf.types();
  shelf.refuse_leftovers(c.architecture);
}

void Model::read_rope(const GgufFile& file) {
  ModelConfig& c = config_;
  const std::string theta = c.architecture.key("rope.freq_base");
  c.rope_theta = file.real_value(theta, 10000);
  if (!(c.rope_theta > 0)) refuse(file, theta + " is not above 0");
  c.rope_scaling = read_rope_scaling(file, c.architecture, c.context);
  for (const float factor : rope_factors_) {
    if (!(std::isfinite(factor) && factor > 0)) {
      refuse(file, "rope_freqs.weight holds a value that is not above 0");
    }
  }
  inv_freq_ = inv_freq_with_theta(1);
}

RopeTurn Model::rope() const {
  return {.inv_freq = inv_freq_,
          .magnitude = config_.rope_scaling.magnitude(),
          .pairing = config_.architecture.pairing};
}

std::vector<double> Model::inv_freq_with_theta(double factor) const {
  return rope_frequencies(config_.rope_theta * factor, config_.rope_dim, config_.rope_scaling,
                          rope_factors_);
}

}  // namespace greta
