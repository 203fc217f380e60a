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

/// Keys of an architecture that are honoured, and those that say nothing about the computation.
const std::set<std::string_view> kKnown = {
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_epsilon",  // of a LayerNorm, which these models do not have
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.value_length",
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.attn_factor",
    "rope.scaling.factor",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "tensor_data_layout",
    "vocab_size",
};
const std::set<std::string_view> kKnownOfTokenizers = {
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

/// Keys of an architecture with the only value that greta computes.
struct Neutral {
  std::string_view key;
  double value, or_value;
};
constexpr Neutral kNeutral[] = {
    {"attention.clamp_kqv", 0, 0},
    {"attention.max_alibi_bias", 0, 0},
    {"attention.scale", 0, 0},
    {"attn_logit_softcapping", 0, 0},
    {"embedding_scale", 1, 0},
    {"expert_count", 0, 0},
    {"expert_used_count", 0, 0},
    {"final_logit_softcapping", 0, 0},
    {"logit_scale", 1, 0},
    {"residual_scale", 1, 0},
    {"rope.scaling.alpha", 0, 0},
    {"rope.scaling.yarn_attn_factor", 1, 1},
    {"rope.scaling.yarn_ext_factor", 1, -1},
    {"rope.scaling.yarn_log_multiplier", 0, 0},
};

/// The same of keys that are true or false.
struct NeutralFlag {
  std::string_view key;
  bool value;
  std::string_view why;
};
constexpr NeutralFlag kNeutralFlags[] = {
    {"attention.causal", true, "is false; attention is causal here"},
    {"use_parallel_residual", false, "is true; not supported"},
};

double number_of(const GgufFile& file, std::string_view key) {
  const GgufValue* value = file.find(key);
  if (const auto* number = std::get_if<uint64_t>(value)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<int64_t>(value)) return static_cast<double>(*number);
  return file.real_value(key);
}

bool is_checked(std::string_view rest) {
  const auto is_it = [rest](const auto& neutral) { return neutral.key == rest; };
  return std::ranges::any_of(kNeutral, is_it) || std::ranges::any_of(kNeutralFlags, is_it);
}

bool is_known_of_tokenizers(std::string_view key) {
  // templates of chats and marks of infilling, which text completion does not use
  return kKnownOfTokenizers.contains(key) || key.starts_with("tokenizer.chat_template.") ||
         key.starts_with("tokenizer.ggml.fim_");
}

}  // namespace

std::vector<std::string_view> check_metadata(const GgufFile& file,
                                             const Architecture& architecture) {
  for (const Neutral& neutral : kNeutral) {
    const std::string key = architecture.key(neutral.key);
    if (file.find(key) == nullptr) continue;
    const double value = number_of(file, key);
    if (value != neutral.value && value != neutral.or_value) {
      refuse(file, key, "is " + std::to_string(value) + "; what it asks for is not supported");
    }
  }
  for (const NeutralFlag& flag : kNeutralFlags) {
    const std::string key = architecture.key(flag.key);
    if (file.bool_value(key, flag.value) != flag.value) refuse(file, key, std::string(flag.why));
  }
  const std::string own = architecture.key("");
  std::vector<std::string_view> unknown;
  for (const auto& [key, value] : file.metadata()) {
    if (key.starts_with(own)) {
      const std::string_view rest = key.substr(own.size());
      if (!kKnown.contains(rest) && !is_checked(rest)) unknown.push_back(key);
    } else if (key.starts_with("tokenizer.") && !is_known_of_tokenizers(key)) {
      unknown.push_back(key);
    }
  }
  return unknown;
}

}  // namespace greta
