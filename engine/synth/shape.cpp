#include <array>
#include <stdexcept>

#include "engine/gguf/file.h"
#include "engine/synth/synth.h"

namespace greta {
namespace {

/// The sizes that follow the number of layers in SynthShape, but for rope_dim.
SynthShape preset(const char* name, int64_t n_layers, int64_t dim, int64_t n_heads,
                  int64_t n_kv_heads, int64_t head_dim, int64_t ffn_dim, int64_t vocab,
                  int64_t context) {
  return {.name = name,
          .n_layers = n_layers,
          .dim = dim,
          .n_heads = n_heads,
          .n_kv_heads = n_kv_heads,
          .head_dim = head_dim,
          .ffn_dim = ffn_dim,
          .vocab = vocab,
          .context = context};
}

const std::vector<SynthShape>& presets() {
  static const std::vector<SynthShape> all{
      {.name = "tiny"},
      preset("small", 16, 768, 12, 4, 64, 2048, 4096, 4096),
      preset("1b", 16, 2048, 32, 8, 64, 8192, 32000, 8192),
      preset("llama3-8b", 32, 4096, 32, 8, 128, 14336, 128256, 8192)};
  return all;
}

// A mix has `base` everywhere but in its output and in some blocks' attn_v and ffn_down.
struct TypeName {
  std::string_view name;
  WeightType base;
  bool is_mix;
  uint32_t file_type;  // as llama.cpp numbers them
};
constexpr std::array<TypeName, 16> kTypeNames{{{"f32", WeightType::kF32, false, 0},
                                               {"f16", WeightType::kF16, false, 1},
                                               {"bf16", WeightType::kBF16, false, 32},
                                               {"q4_0", WeightType::kQ4_0, false, 2},
                                               {"q4_1", WeightType::kQ4_1, false, 3},
                                               {"q5_0", WeightType::kQ5_0, false, 8},
                                               {"q5_1", WeightType::kQ5_1, false, 9},
                                               {"q8_0", WeightType::kQ8_0, false, 7},
                                               {"iq4_nl", WeightType::kIQ4_NL, false, 25},
                                               {"q2_k", WeightType::kQ2_K, false, 10},
                                               {"q3_k", WeightType::kQ3_K, false, 11},
                                               {"q4_k", WeightType::kQ4_K, false, 14},
                                               {"q5_k", WeightType::kQ5_K, false, 16},
                                               {"q6_k", WeightType::kQ6_K, false, 18},
                                               {"q4_k_m", WeightType::kQ4_K, true, 15},
                                               {"q5_k_m", WeightType::kQ5_K, true, 17}}};

template <class Named>
std::vector<std::string> names_of(const Named& all) {
  std::vector<std::string> names;
  for (const auto& one : all) names.emplace_back(one.name);
  return names;
}

/// Throws std::invalid_argument that lists the names.
template <class Named>
const auto& find_named(const char* what, const Named& all, std::string_view name) {
  std::string known;
  for (const auto& one : all) {
    if (one.name == name) return one;
    known.append(known.empty() ? "" : ", ").append(one.name);
  }
  throw std::invalid_argument("unknown " + std::string(what) + " '" + std::string(name) +
                              "'; known: " + known);
}

const TypeName& find_type(std::string_view name) {
  return find_named("weight type", kTypeNames, name);
}

// The first and last eighth of the blocks and every third between, as llama.cpp's mixes have it.
bool has_more_bits(int64_t layer, int64_t n_layers) {
  const int64_t eighth = n_layers / 8;
  return layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2;
}

WeightType fallback(WeightType type) {
  switch (type) {
    case WeightType::kQ2_K:
    case WeightType::kQ3_K:
      return WeightType::kQ4_0;
    case WeightType::kQ4_K:
      return WeightType::kQ5_0;
    case WeightType::kQ5_K:
      return WeightType::kQ5_1;
    case WeightType::kQ6_K:
      return WeightType::kQ8_0;
    default:
      return WeightType::kF16;
  }
}

}  // namespace

std::vector<std::string> synth_preset_names() { return names_of(presets()); }

std::vector<std::string> synth_architecture_names() { return names_of(architectures()); }

std::vector<std::string> synth_type_names() { return names_of(kTypeNames); }

SynthShape synth_preset(std::string_view name) { return find_named("preset", presets(), name); }

SynthType synth_type(std::string_view name) {
  const TypeName& type = find_type(name);
  return {std::string(type.name), type.file_type};
}

WeightType SynthType::of(std::string_view tensor, int64_t layer, int64_t n_layers,
                         int64_t cols) const {
  const TypeName& known = find_type(name);
  const bool is_raised =
      tensor == "output.weight" ||
      ((tensor.ends_with(".attn_v.weight") || tensor.ends_with(".ffn_down.weight")) &&
       has_more_bits(layer, n_layers));
  WeightType type = known.is_mix && is_raised ? WeightType::kQ6_K : known.base;
  while (static_cast<size_t>(cols) % weight_type_info(type).block_values != 0) {
    type = fallback(type);
  }
  return type;
}

}  // namespace greta
