#include "engine/forward/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/engine/engine_fixture.h"
#include "tests/engine/gguf/bytes.h"

namespace greta {
namespace {

SynthShape shape_of(const char* architecture) {
  SynthShape shape = small_shape();
  shape.architecture = architecture;
  return shape;
}

/// A file with one text in place of another that is as long.
std::function<void(std::string&)> replaced(std::string_view from, std::string_view to) {
  return [=](std::string& bytes) {
    ASSERT_EQ(from.size(), to.size());
    size_t at = bytes.find(from);
    ASSERT_NE(at, std::string::npos);
    for (; at != std::string::npos; at = bytes.find(from, at)) bytes.replace(at, to.size(), to);
  };
}

/// What a model is refused with.
std::string refusal(const SynthShape& shape, const std::function<void(std::string&)>& patch = {}) {
  try {
    const TestModel model(shape, "f32", 1, patch);
    return "taken";
  } catch (const GgufError& error) {
    return error.what();
  }
}

TEST(Model, AnArchitectureThatGretaDoesNotKnowIsRefused) {
  EXPECT_EQ(refusal(shape_of("qwen2"), replaced("qwen2", "gemma")),
            "small: general.architecture is 'gemma'; greta supports llama, qwen2, qwen3");
}

TEST(Model, ATensorOfTheArchitectureThatIsMissingIsNamed) {
  EXPECT_EQ(refusal(shape_of("qwen2"), replaced("blk.1.attn_k.bias", "blk.1.attn_k.bial")),
            "small: tensor blk.1.attn_k.bias is missing");
  EXPECT_EQ(refusal(shape_of("qwen3"), replaced("blk.2.attn_q_norm", "blk.2.attn_q_mean")),
            "small: tensor blk.2.attn_q_norm.weight is missing");
}

TEST(Model, ATensorThatNobodyReadsIsRefused) {
  SynthShape factors = small_shape();
  factors.rope_freqs = true;
  const std::string long_factors =
      refusal(factors, replaced("rope_freqs.weight", "rope_longs.weight"));
  EXPECT_TRUE(long_factors.starts_with("small: tensor 'rope_longs.weight' is not part of"))
      << long_factors;
  const std::string norms = refusal(shape_of("qwen3"), replaced("qwen3", "llama"));
  EXPECT_TRUE(
      norms.starts_with("small: tensor 'blk.0.attn_q_norm.weight' is not part of what greta "
                        "knows of llama"))
      << norms;
}

TEST(Model, BiasesAreReadWhereAFileOfAnotherArchitectureBringsThem) {
  const TestModel model(shape_of("qwen2"), "f32", 1, replaced("qwen2", "llama"));
  EXPECT_EQ(model.config().architecture.name, "llama");
  for (const LayerWeights& layer : model.model().weights().layers) {
    EXPECT_NE(layer.q_bias, nullptr);
    EXPECT_NE(layer.k_bias, nullptr);
    EXPECT_NE(layer.v_bias, nullptr);
    EXPECT_EQ(layer.q_norm, nullptr);
  }
}

TEST(Model, AWindowGoesForEveryLayerOrForThoseOfTheList) {
  SynthShape shape = small_shape();
  EXPECT_EQ(TestModel(shape).config().window_of(0), 0);
  shape.window = 20;
  EXPECT_EQ(TestModel(shape).config().window_of(2), 20);
  shape.windowed = {false, true, true};
  const TestModel some(shape);
  EXPECT_EQ(some.config().window_of(0), 0);
  EXPECT_EQ(some.config().window_of(1), 20);
  shape.windowed = {true};
  EXPECT_EQ(refusal(shape),
            "small: llama.attention.sliding_window_pattern is no list of 3 bools, one for each "
            "layer, which is what is supported");
}

TEST(Model, KeysAreThoseOfItsArchitecture) {
  EXPECT_EQ(
      refusal(shape_of("qwen3"), replaced("qwen3.embedding_length", "qwen2.embedding_length")),
      "small: metadata key 'qwen3.embedding_length': is missing; the file does not describe "
      "the model completely");
}

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

/// Error with which the keys are refused; the unknown ones otherwise.
std::string verdict_on(const GgufBytes& bytes) {
  try {
    const GgufFile file = GgufFile::parse(bytes.span(), "m");
    std::string unknown = "unknown:";
    for (const std::string_view key : check_metadata(file, *find_architecture("llama")))
      unknown += " " + std::string(key);
    return unknown;
  } catch (const GgufError& error) {
    return error.what();
  }
}

RopeScaling scaling_of(const GgufBytes& bytes) {
  const GgufFile file = GgufFile::parse(bytes.span(), "m");
  return read_rope_scaling(file, *find_architecture("llama"), 2048);
}
double scale_of(const GgufBytes& bytes) { return scaling_of(bytes).factor; }

TEST(Metadata, AKeyThatChangesTheResultIsRefusedByName) {
  for (const auto& [bytes, key] :
       {std::pair(with("llama.attention.causal", false), "llama.attention.causal"),
        std::pair(with("llama.rope.scaling.alpha", 1.1f), "llama.rope.scaling.alpha"),
        std::pair(with("llama.rope.scaling.yarn_attn_factor", 1.1f),
                  "llama.rope.scaling.yarn_attn_factor"),
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
  EXPECT_THROW(scale_of(scaled("longrope", factor, 4)), GgufError);
  EXPECT_THROW(scale_of(scaled("linear", factor, -1)), GgufError);
}

TEST(Metadata, YarnHasTheDefaultsOfLlamaCpp) {
  const char* const type = "llama.rope.scaling.type";
  const RopeScaling plain = scaling_of(GgufBytes(0, 1).key(type, kString).string("yarn"));
  EXPECT_EQ(plain.type, RopeScaling::Type::kYarn);
  EXPECT_EQ(plain.factor, 1);
  EXPECT_EQ(plain.original_context, 2048);
  EXPECT_EQ(plain.beta_fast, 32);
  EXPECT_EQ(plain.beta_slow, 1);
  EXPECT_EQ(plain.magnitude(), 1);
  const RopeScaling full =
      scaling_of(GgufBytes(0, 6)
                     .key(type, kString)
                     .string("yarn")
                     .entry("llama.rope.scaling.factor", kFloat32, 4.0f)
                     .entry("llama.rope.scaling.original_context_length", kUint32, uint32_t{512})
                     .entry("llama.rope.scaling.attn_factor", kFloat32, 0.5f)
                     .entry("llama.rope.scaling.yarn_beta_fast", kFloat32, 16.0f)
                     .entry("llama.rope.scaling.yarn_beta_slow", kFloat32, 2.0f));
  EXPECT_EQ(full.original_context, 512);
  EXPECT_EQ(full.beta_fast, 16);
  EXPECT_EQ(full.beta_slow, 2);
  EXPECT_DOUBLE_EQ(full.magnitude(), 0.5 * (1 + 0.1 * std::log(4.0)));
  EXPECT_EQ(full.text(), "yarn, 4 times 512 positions, attention factor 0.5");
}

TEST(Metadata, AnAttentionFactorIsHonouredWithAnyScaling) {
  EXPECT_EQ(scaling_of(with("llama.rope.scaling.attn_factor", 0.5f)).magnitude(), 0.5);
  EXPECT_THROW(scaling_of(with("llama.rope.scaling.attn_factor", 0.0f)), GgufError);
}

TEST(RopeFrequencies, YarnKeepsFastPlanesAndStretchesSlowOnes) {
  RopeScaling yarn;
  yarn.type = RopeScaling::Type::kYarn;
  yarn.factor = 4;
  yarn.original_context = 4096;
  // 64 · ln(4096 / (32 · 2π)) / (2 · ln 10000) = 10.5, and of one turn 22.5: a ramp from 10 to 23.
  const std::vector<double> scaled = rope_frequencies(10000, 64, yarn, {});
  const std::vector<double> plain = rope_frequencies(10000, 64, {}, {});
  ASSERT_EQ(scaled.size(), 32u);
  for (size_t i = 0; i < scaled.size(); ++i) {
    const double stretched = std::min(1.0, std::max(0.0, (static_cast<double>(i) - 10) / 13));
    EXPECT_NEAR(scaled[i] / plain[i], 1 - stretched * 0.75, 1e-12) << i;
  }
}

TEST(RopeFrequencies, FactorsOfTheFileComeOnTop) {
  const std::vector<float> factors{1, 2, 4};
  RopeScaling linear;
  linear.type = RopeScaling::Type::kLinear;
  linear.factor = 8;
  const std::vector<double> plain = rope_frequencies(10000, 6, {}, {});
  const std::vector<double> scaled = rope_frequencies(10000, 6, linear, factors);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_DOUBLE_EQ(scaled[i], plain[i] / 8 / static_cast<double>(factors[i]));
  }
}

}  // namespace

}  // namespace greta
