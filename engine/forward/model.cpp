#include "engine/forward/model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "engine/forward/metadata.h"
#include "engine/gguf/parser.h"
#include "kernels/cpu/quants.h"
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

  void refuse_leftovers() const {
    for (const GgufTensor& tensor : file_.tensors()) {
      if (!taken_.contains(tensor.name)) {
        refuse(file_, "tensor " + gguf_quoted(tensor.name) +
                          " is not part of the Llama architecture; greta supports plain Llama "
                          "blocks: no biases, no experts, no query or key norms");
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
  read_weights(file);
  read_rope(file);
}

void Model::read_config(const GgufFile& file) {
  const std::string_view architecture = file.string_value("general.architecture");
  if (architecture != "llama") {
    refuse(file,
           "general.architecture is " + gguf_quoted(architecture) + "; greta supports 'llama'");
  }
  unknown_keys_ = check_metadata(file);
  constexpr uint64_t kMaxDim = 1 << 20;
  ModelConfig& c = config_;
  name_ = file.string_value("general.name", file.name());
  c.n_layers = size_of(file, "llama.block_count", kMaxModelLayers);
  c.dim = size_of(file, "llama.embedding_length", kMaxDim);
  c.n_heads = size_of(file, "llama.attention.head_count", 1 << 14);
  c.n_kv_heads = size_of(file, "llama.attention.head_count_kv", 1 << 14, c.n_heads);
  c.ffn_dim = size_of(file, "llama.feed_forward_length", kMaxDim);
  c.context = size_of(file, "llama.context_length", kMaxModelContext);
  c.rms_eps = static_cast<float>(file.real_value("llama.attention.layer_norm_rms_epsilon"));
  if (!(c.rms_eps > 0)) refuse(file, "llama.attention.layer_norm_rms_epsilon is not above 0");
  if (c.n_heads % c.n_kv_heads != 0) {
    refuse(file, "llama.attention.head_count " + std::to_string(c.n_heads) +
                     " is not a multiple of head_count_kv " + std::to_string(c.n_kv_heads));
  }
  if (file.find("llama.attention.key_length") == nullptr && c.dim % c.n_heads != 0) {
    refuse(file, "llama.embedding_length " + std::to_string(c.dim) +
                     " is not a multiple of head_count " + std::to_string(c.n_heads) +
                     ", and llama.attention.key_length is not given");
  }
  c.head_dim = size_of(file, "llama.attention.key_length", 1 << 12, c.dim / c.n_heads);
  if (size_of(file, "llama.attention.value_length", 1 << 12, c.head_dim) != c.head_dim) {
    refuse(file, "llama.attention.value_length differs from key_length, which is not supported");
  }
  c.rope_dim = size_of(file, "llama.rope.dimension_count", 1 << 12, c.head_dim);
  if (c.rope_dim > c.head_dim || c.rope_dim % 2 != 0) {
    refuse(file, "llama.rope.dimension_count " + std::to_string(c.rope_dim) +
                     " is odd or above the head's " + std::to_string(c.head_dim) + " values");
  }
}

void Model::read_weights(const GgufFile& file) {
  ModelConfig& c = config_;
  TensorShelf shelf(file);
  const GgufTensor* embeddings = file.find_tensor("token_embd.weight");
  if (embeddings == nullptr) refuse(file, "tensor token_embd.weight is missing");
  c.vocab = size_value(file, "number of rows of token_embd.weight",
                       static_cast<uint64_t>(embeddings->dims[1]), kMaxTokenValues);
  if (size_of(file, "llama.vocab_size", kMaxTokenValues, c.vocab) != c.vocab) {
    refuse(file, "llama.vocab_size is " + std::to_string(file.unsigned_value("llama.vocab_size")) +
                     ", token_embd.weight has " + std::to_string(c.vocab) + " rows");
  }
  norms_.reserve(static_cast<size_t>(2 * c.n_layers + 1));
  const auto norm = [&](const std::string& name) {
    return norms_.emplace_back(shelf.vector(name, c.dim)).data();
  };
  weights_.token_embd = shelf.matrix("token_embd.weight", c.vocab, c.dim);
  for (int64_t i = 0; i < c.n_layers; ++i) {
    const std::string block = "blk." + std::to_string(i) + ".";
    LayerWeights& layer = weights_.layers.emplace_back();
    layer.attn_norm = norm(block + "attn_norm.weight");
    layer.q = shelf.matrix(block + "attn_q.weight", c.q_dim(), c.dim);
    layer.k = shelf.matrix(block + "attn_k.weight", c.kv_dim(), c.dim);
    layer.v = shelf.matrix(block + "attn_v.weight", c.kv_dim(), c.dim);
    layer.o = shelf.matrix(block + "attn_output.weight", c.dim, c.q_dim());
    layer.ffn_norm = norm(block + "ffn_norm.weight");
    layer.gate = shelf.matrix(block + "ffn_gate.weight", c.ffn_dim, c.dim);
    layer.up = shelf.matrix(block + "ffn_up.weight", c.ffn_dim, c.dim);
    layer.down = shelf.matrix(block + "ffn_down.weight", c.dim, c.ffn_dim);
  }
  weights_.output_norm = norm("output_norm.weight");
  c.tied = file.find_tensor("output.weight") == nullptr;
  weights_.output = c.tied ? weights_.token_embd : shelf.matrix("output.weight", c.vocab, c.dim);
  if (file.find_tensor("rope_freqs.weight") != nullptr) {
    rope_factors_ = shelf.vector("rope_freqs.weight", c.rope_dim / 2);
  }
  weight_types_ = shelf.types();
  shelf.refuse_leftovers();
}

void Model::read_rope(const GgufFile& file) {
  rope_theta_ = file.real_value("llama.rope.freq_base", 10000);
  if (!(rope_theta_ > 0)) refuse(file, "llama.rope.freq_base is not above 0");
  rope_scale_ = rope_scale(file);
  for (const float factor : rope_factors_) {
    if (!(std::isfinite(factor) && factor > 0)) {
      refuse(file, "rope_freqs.weight holds a value that is not above 0");
    }
  }
  inv_freq_ = inv_freq_with_theta(1);
}

std::vector<double> Model::inv_freq_with_theta(double factor) const {
  std::vector<double> angles(static_cast<size_t>(config_.rope_dim / 2));
  for (size_t i = 0; i < angles.size(); ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(config_.rope_dim);
    angles[i] = std::pow(rope_theta_ * factor, exponent) / rope_scale_;
    if (!rope_factors_.empty()) angles[i] /= static_cast<double>(rope_factors_[i]);
  }
  return angles;
}

}  // namespace greta
