#include "engine/forward/model.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>

#include "tests/engine/engine_fixture.h"

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

}  // namespace
}  // namespace greta
