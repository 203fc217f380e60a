#include "engine/forward/metadata.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/engine/gguf/bytes.h"

namespace greta {
namespace {

constexpr uint32_t kUint32 = 4, kFloat32 = 6, kBool = 7, kString = 8;

GgufBytes with(const char* key, float value) {
  return GgufBytes(0, 1).key(key, kFloat32).put(value);
}
GgufBytes with(const char* key, bool value) {
  return GgufBytes(0, 1).key(key, kBool).put<uint8_t>(value);
}
GgufBytes with(const char* key, const char* value) {
  return GgufBytes(0, 1).key(key, kString).string(value);
}

/// What the keys are refused with; the unknown ones otherwise.
std::string verdict_on(const GgufBytes& bytes) {
  try {
    const GgufFile file = GgufFile::parse(bytes.span(), "m");
    std::string unknown = "unknown:";
    for (const std::string_view key : check_metadata(file)) unknown += " " + std::string(key);
    return unknown;
  } catch (const GgufError& error) {
    return error.what();
  }
}

double scale_of(const GgufBytes& bytes) {
  const GgufFile file = GgufFile::parse(bytes.span(), "m");
  return rope_scale(file);
}

TEST(Metadata, AKeyThatChangesTheResultIsRefusedByName) {
  for (const auto& [bytes, key] :
       {std::pair(with("llama.attention.causal", false), "llama.attention.causal"),
        std::pair(with("llama.rope.scaling.attn_factor", 1.1f), "llama.rope.scaling.attn_factor"),
        std::pair(with("llama.attention.clamp_kqv", 8.0f), "llama.attention.clamp_kqv"),
        std::pair(with("llama.logit_scale", 0.5f), "llama.logit_scale"),
        std::pair(with("llama.attention.scale", 0.1f), "llama.attention.scale"),
        std::pair(GgufBytes(0, 1).key("llama.expert_count", kUint32).put<uint32_t>(8),
                  "llama.expert_count")}) {
    EXPECT_TRUE(verdict_on(bytes).starts_with(std::string("m: ") + key + " is "))
        << verdict_on(bytes);
  }
}

TEST(Metadata, TheSameKeysSayingWhatIsComputedArePassed) {
  for (const GgufBytes& bytes :
       {with("llama.attention.causal", true), with("llama.rope.scaling.attn_factor", 1.0f),
        with("llama.logit_scale", 0.0f), with("tokenizer.chat_template", "{{x}}"),
        with("general.anything", "x"), with("llama.tensor_data_layout", "Meta AI original pth"),
        GgufBytes(0, 1).key("llama.expert_count", kUint32).put<uint32_t>(0)}) {
    EXPECT_EQ(verdict_on(bytes), "unknown:");
  }
}

TEST(Metadata, UnknownKeysAreNamed) {
  EXPECT_EQ(verdict_on(with("llama.attention.sideways", 1.0f)),
            "unknown: llama.attention.sideways");
  EXPECT_EQ(verdict_on(with("tokenizer.ggml.fold", true)), "unknown: tokenizer.ggml.fold");
}

TEST(Metadata, RopeScalingIsReadAsLlamaCppReadsIt) {
  const auto scaled = [](const char* type, const char* key, float factor) {
    GgufBytes bytes(0, type == nullptr ? 1 : 2);
    if (type != nullptr) bytes.key("llama.rope.scaling.type", kString).string(type);
    return bytes.key(key, kFloat32).put(factor);
  };
  const char* const factor = "llama.rope.scaling.factor";
  const char* const older = "llama.rope.scale_linear";
  EXPECT_EQ(scale_of(GgufBytes(0, 0)), 1);
  EXPECT_EQ(scale_of(scaled(nullptr, factor, 4)), 4);  // linear is meant
  EXPECT_EQ(scale_of(scaled(nullptr, older, 4)), 4);
  EXPECT_EQ(scale_of(scaled("linear", factor, 4)), 4);
  EXPECT_EQ(scale_of(scaled("linear", older, 4)), 4);
  EXPECT_EQ(scale_of(scaled("none", factor, 4)), 1);
  EXPECT_EQ(scale_of(scaled("none", older, 4)), 1);
  EXPECT_EQ(scale_of(scaled("linear", factor, 0)), 1);
  EXPECT_EQ(scale_of(GgufBytes(0, 2).entry(older, kFloat32, 2.0f).entry(factor, kFloat32, 4.0f)),
            4);
  EXPECT_THROW(scale_of(scaled("yarn", factor, 4)), GgufError);
  EXPECT_THROW(scale_of(scaled("linear", factor, -1)), GgufError);
}

}  // namespace
}  // namespace greta
