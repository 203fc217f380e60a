#include "engine/forward/metadata.h"

#include <algorithm>
#include <set>
#include <string>

#include "engine/gguf/parser.h"

namespace greta {
namespace {

[[noreturn]] void refuse(const GgufFile& file, std::string_view key, const std::string& why) {
  throw GgufError(file.name() + ": " + std::string(key) + " " + why);
}

/// Keys that are honoured, and those that say nothing about the computation.
const std::set<std::string_view> kKnown = {
    "llama.attention.head_count",
    "llama.attention.head_count_kv",
    "llama.attention.key_length",
    "llama.attention.layer_norm_epsilon",  // of a LayerNorm, which these models do not have
    "llama.attention.layer_norm_rms_epsilon",
    "llama.attention.value_length",
    "llama.block_count",
    "llama.context_length",
    "llama.embedding_length",
    "llama.feed_forward_length",
    "llama.rope.dimension_count",
    "llama.rope.freq_base",
    "llama.rope.scale_linear",
    "llama.rope.scaling.factor",
    "llama.rope.scaling.finetuned",
    "llama.rope.scaling.original_context_length",  // of types that are refused
    "llama.rope.scaling.type",
    "llama.tensor_data_layout",
    "llama.vocab_size",
    "tokenizer.chat_template",
    "tokenizer.ggml.add_bos_token",
    "tokenizer.ggml.add_eos_token",
    "tokenizer.ggml.add_sep_token",  // of encoders
    "tokenizer.ggml.add_space_prefix",
    "tokenizer.ggml.bos_token_id",
    "tokenizer.ggml.cls_token_id",
    "tokenizer.ggml.eom_token_id",
    "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.mask_token_id",
    "tokenizer.ggml.merges",
    "tokenizer.ggml.model",
    "tokenizer.ggml.padding_token_id",
    "tokenizer.ggml.pre",
    "tokenizer.ggml.remove_extra_whitespaces",  // of unigram vocabularies, which are refused
    "tokenizer.ggml.scores",
    "tokenizer.ggml.seperator_token_id",  // spelled so
    "tokenizer.ggml.token_type",
    "tokenizer.ggml.token_type_count",
    "tokenizer.ggml.tokens",
    "tokenizer.ggml.unknown_token_id",
    "tokenizer.huggingface.json",
};

/// Keys with the only value that greta computes.
struct Neutral {
  std::string_view key;
  double value, or_value;
};
constexpr Neutral kNeutral[] = {
    {"llama.attention.clamp_kqv", 0, 0},
    {"llama.attention.max_alibi_bias", 0, 0},
    {"llama.attention.scale", 0, 0},
    {"llama.attn_logit_softcapping", 0, 0},
    {"llama.embedding_scale", 1, 0},
    {"llama.expert_count", 0, 0},
    {"llama.expert_used_count", 0, 0},
    {"llama.final_logit_softcapping", 0, 0},
    {"llama.logit_scale", 1, 0},
    {"llama.residual_scale", 1, 0},
    {"llama.rope.scaling.attn_factor", 1, 1},
};

bool has_prefix(std::string_view key, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [key](std::string_view prefix) { return key.starts_with(prefix); });
}

double number_of(const GgufFile& file, std::string_view key) {
  const GgufValue* value = file.find(key);
  if (const auto* number = std::get_if<uint64_t>(value)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<int64_t>(value)) return static_cast<double>(*number);
  return file.real_value(key);
}

}  // namespace

std::vector<std::string_view> check_metadata(const GgufFile& file) {
  for (const Neutral& neutral : kNeutral) {
    if (file.find(neutral.key) == nullptr) continue;
    const double value = number_of(file, neutral.key);
    if (value != neutral.value && value != neutral.or_value) {
      refuse(file, neutral.key,
             "is " + std::to_string(value) + "; what it asks for is not supported");
    }
  }
  for (const std::string_view key : {"llama.attention.causal", "llama.use_parallel_residual"}) {
    const bool computed = key == "llama.attention.causal";
    if (file.bool_value(key, computed) != computed) {
      refuse(file, key, computed ? "is false; attention is causal here" : "is true; not supported");
    }
  }
  std::vector<std::string_view> unknown;
  for (const auto& [key, value] : file.metadata()) {
    if (!has_prefix(key, {"llama.", "tokenizer."}) || kKnown.contains(key)) continue;
    // templates of chats and marks of infilling, which text completion does not use
    if (has_prefix(key, {"tokenizer.chat_template.", "tokenizer.ggml.fim_"})) continue;
    // read with a scaling type that is refused
    if (has_prefix(key, {"llama.rope.scaling.yarn_"})) continue;
    const bool is_checked =
        key == "llama.attention.causal" || key == "llama.use_parallel_residual" ||
        std::any_of(std::begin(kNeutral), std::end(kNeutral),
                    [key = key](const Neutral& neutral) { return neutral.key == key; });
    if (!is_checked) unknown.push_back(key);
  }
  return unknown;
}

double rope_scale(const GgufFile& file) {
  constexpr std::string_view kFactor = "llama.rope.scaling.factor",
                             kOlder = "llama.rope.scale_linear";
  const std::string_view type = file.string_value("llama.rope.scaling.type", "linear");
  if (type == "none") return 1;
  if (type != "linear") {
    refuse(file, "llama.rope.scaling.type",
           "is " + gguf_quoted(type) + "; none, linear and rope_freqs.weight are supported");
  }
  const double factor = file.real_value(file.find(kFactor) != nullptr ? kFactor : kOlder, 1);
  if (factor == 0) return 1;  // llama.cpp's word for none
  if (!(factor > 0)) refuse(file, kFactor, "of linear RoPE scaling is not above 0");
  return factor;
}

}  // namespace greta
