#include <array>
#include <stdexcept>

#include "engine/gguf/file.h"
#include "engine/synth/synth.h"

namespace greta {
namespace {

SynthShape preset_tiny() { return {.name = "tiny"}; }

SynthShape preset_small() {
  return {.name = "small",
          .n_layers = 16,
          .dim = 768,
          .n_heads = 12,
          .n_kv_heads = 4,
          .head_dim = 64,
          .ffn_dim = 2048,
          .vocab = 4096,
          .context = 4096};
}

SynthShape preset_1b() {
  return {.name = "1b",
          .n_layers = 16,
          .dim = 2048,
          .n_heads = 32,
          .n_kv_heads = 8,
          .head_dim = 64,
          .ffn_dim = 8192,
          .vocab = 32000,
          .context = 8192};
}

SynthShape preset_llama3_8b() {
  return {.name = "llama3-8b",
          .n_layers = 32,
          .dim = 4096,
          .n_heads = 32,
          .n_kv_heads = 8,
          .head_dim = 128,
          .ffn_dim = 14336,
          .vocab = 128256,
          .context = 8192};
}

constexpr std::array kPresets{preset_tiny, preset_small, preset_1b, preset_llama3_8b};

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

const TypeName& find_type(std::string_view name) {
  std::string names;
  for (const TypeName& type : kTypeNames) {
    if (type.name == name) return type;
    names += (names.empty() ? "" : ", ") + std::string(type.name);
  }
  throw std::invalid_argument("unknown weight type '" + std::string(name) + "'; known: " + names);
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

std::vector<std::string> synth_preset_names() {
  std::vector<std::string> names;
  for (const auto preset : kPresets) names.push_back(preset().name);
  return names;
}

std::vector<std::string> synth_architecture_names() {
  std::vector<std::string> names;
  for (const Architecture& architecture : architectures()) names.emplace_back(architecture.name);
  return names;
}

std::vector<std::string> synth_type_names() {
  std::vector<std::string> names;
  for (const TypeName& type : kTypeNames) names.emplace_back(type.name);
  return names;
}

SynthShape synth_preset(std::string_view name) {
  std::string names;
  for (const auto preset : kPresets) {
    SynthShape shape = preset();
    if (shape.name == name) return shape;
    names += (names.empty() ? "" : ", ") + shape.name;
  }
  throw std::invalid_argument("unknown preset '" + std::string(name) + "'; known: " + names);
}

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
