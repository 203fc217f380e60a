#include "engine/synth/synth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/sha256.h"
#include "common/temporary_folder.h"
#include "engine/gguf/file.h"
#include "engine/tokenizer/tokenizer.h"
#include "kernels/cpu/quantise.h"

namespace greta {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kTypes = synth_type_names();

SynthShape small_shape() {
  SynthShape shape = synth_preset("tiny");
  shape.n_layers = 2;
  shape.vocab = 600;
  return shape;
}

std::string sha256(std::span<const std::byte> bytes) {
  return Sha256::hex_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::vector<float> values_of(const GgufTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.n_values()));
  dequantise(tensor.type, tensor.data, values);
  return values;
}

double deviation(const std::vector<float>& values) {
  double sum = 0, sum_sq = 0;
  for (const double value : values) {
    sum += value;
    sum_sq += value * value;
  }
  const auto n = static_cast<double>(values.size());
  return std::sqrt(sum_sq / n - sum / n * (sum / n));
}

class Synth : public testing::Test {
 protected:
  GgufFile make(const SynthShape& shape, std::string_view type, uint64_t seed = 1) {
    const fs::path path = folder_ / "model.gguf";
    synthesise(shape, synth_type(type), seed, path);
    return GgufFile::open(path);
  }
  TemporaryFolder folder_;
};

TEST_F(Synth, TheSameBytesOnEveryMachine) {
  const std::map<std::string_view, std::string_view> pinned{
      {"f32", "75e95ac943314301cc0af423547be0dec0684efb0dca860a1c9c51baaa95c9f8"},
      {"f16", "7c2cf38edcc9afa01d9b15e2c2a5b323c920703939e7e549db3ad5ae627f5d34"},
      {"bf16", "9550d36387e950d5cb03c9bfb888302c53826c8bf7729036f2dd1a46b6ab80a4"},
      {"q4_0", "5a670e1a15f5ec3721444f628271de2449265b571aacb579518409e0c558d750"},
      {"q4_1", "75ae5ca19e03ba9528c75967b7c45afa40a520ae94d7806f46b36bb41d2a5e23"},
      {"q5_0", "96894d94de420907c581f3703d6ae14874ad3837a3d8d9cdfbe5ee6139f4e2b0"},
      {"q5_1", "e47c3dc0c9e02a5633828a3f68f0af494b4314224d939a1ce226c66997e1b0e4"},
      {"iq4_nl", "9afea78f6c48060c00526739d6f9bce65c67af111b50611bc4818cf1e6ef2312"},
      {"q2_k", "8b48d31dbc29cd3a228b381639bdd8cfe168d8bc8343bb75d17ecd61218c39ea"},
      {"q3_k", "b4c8736ca0122ecde5c745af1011556dcd6b4198d289e4bb462da907b05fd154"},
      {"q8_0", "84195d3f53a8e32d297bf57899bd0abb1c21676f26d252979487eb925fe3c5bf"},
      {"q4_k", "d70b33adecc2a7205e6edce874d13a6a17a6d4c501c21a519c7daf502bd2ac1e"},
      {"q5_k", "c5ca0915b3e197b5b7ca49094c34d0b6bf6f7d8cc71d21af7138a05a091a622d"},
      {"q6_k", "35ca2085fd66b14fd807b4076fc14e9e23758a37a2a91f6e92c0765641435211"},
      {"q4_k_m", "a36ee3927bfc9bd502f9dd15e95a0342ed53c0dcc98c2cbe040464025863745b"},
      {"q5_k_m", "a4555c7eb41e0f76830d4085e7e678fb957ada1c4cf062661b7da16672c37889"}};
  for (const std::string_view type : kTypes) {
    EXPECT_EQ(sha256(make(small_shape(), type).bytes()), pinned.at(type)) << type;
  }
}

TEST_F(Synth, ThePresetTinyIsPinned) {
  EXPECT_EQ(sha256(make(synth_preset("tiny"), "q4_k_m").bytes()),
            "89bdfc2da714910e2fd7bef022ba6b70d155cc28f182a0b9308dd95d7725a4eb");
}

TEST_F(Synth, AnotherSeedGivesOtherWeights) {
  const GgufFile one = make(small_shape(), "f32", 1);
  const GgufFile two = make(small_shape(), "f32", 2);
  ASSERT_EQ(one.tensors().size(), two.tensors().size());
  for (const GgufTensor& tensor : one.tensors()) {
    const auto other = two.find_tensor(tensor.name)->data;
    EXPECT_FALSE(std::equal(tensor.data.begin(), tensor.data.end(), other.begin())) << tensor.name;
  }
}

TEST_F(Synth, OddShapesFallBackToTypesThatFit) {
  SynthShape shape = small_shape();
  shape.dim = 96;
  shape.n_heads = 3;
  shape.n_kv_heads = 1;
  shape.head_dim = 14;
  shape.ffn_dim = 257;
  shape.vocab = 513;
  for (const std::string_view type : kTypes) {
    const GgufFile file = make(shape, type);
    for (const GgufTensor& tensor : file.tensors()) {
      for (const float value : values_of(tensor)) ASSERT_TRUE(std::isfinite(value)) << tensor.name;
    }
  }
  const GgufFile mixed = make(shape, "q4_k_m");
  EXPECT_EQ(mixed.find_tensor("blk.0.attn_q.weight")->type, WeightType::kQ5_0);
  EXPECT_EQ(mixed.find_tensor("output.weight")->type, WeightType::kQ8_0);
  EXPECT_EQ(mixed.find_tensor("blk.0.attn_output.weight")->type, WeightType::kF16);
  EXPECT_EQ(mixed.find_tensor("blk.0.ffn_down.weight")->type, WeightType::kF16);
}

TEST_F(Synth, WeightsHaveTheScaleThatKeepsActivationsHealthy) {
  const GgufFile file = make(small_shape(), "f32");
  const auto of = [&](std::string_view name) {
    return deviation(values_of(*file.find_tensor(name)));
  };
  EXPECT_NEAR(of("token_embd.weight"), 1, 0.01);
  EXPECT_NEAR(of("blk.1.attn_q.weight") * 16, std::sqrt(1.5), 0.01);
  EXPECT_NEAR(of("blk.1.attn_v.weight") * 16, 1, 0.01);
  EXPECT_NEAR(of("blk.1.ffn_down.weight") * std::sqrt(768), 0.6, 0.01);
  EXPECT_NEAR(of("output.weight") * 16, 3, 0.03);
  const std::vector<float> norm = values_of(*file.find_tensor("blk.0.attn_norm.weight"));
  EXPECT_NEAR(deviation(norm), 0.1, 0.02);
  EXPECT_GT(*std::min_element(norm.begin(), norm.end()), 0.5f);
  EXPECT_LT(*std::max_element(norm.begin(), norm.end()), 1.5f);
}

TEST_F(Synth, ShapesThatNoModelHasAreRefused) {
  const auto refuse = [&](const std::function<void(SynthShape&)>& change) {
    SynthShape shape = small_shape();
    change(shape);
    EXPECT_THROW(make(shape, "f32"), std::invalid_argument);
  };
  refuse([](SynthShape& shape) { shape.n_layers = 0; });
  refuse([](SynthShape& shape) { shape.n_kv_heads = 3; });
  refuse([](SynthShape& shape) { shape.head_dim = 15; });
  refuse([](SynthShape& shape) { shape.dim = int64_t{1} << 40; });
  refuse([](SynthShape& shape) { shape.ffn_dim = -1; });
  refuse([](SynthShape& shape) { shape.vocab = kMinSynthVocab - 1; });
  refuse([](SynthShape& shape) { shape.rope_theta = 0; });
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST(SynthShape, PresetsAreKnownByName) {
  for (const std::string_view name : {"tiny", "small", "1b", "llama3-8b"}) {
    EXPECT_EQ(synth_preset(name).name, name);
  }
  EXPECT_GE(synth_preset("tiny").n_layers, 10);
  try {
    synth_preset("huge");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "unknown preset 'huge'; known: tiny, small, 1b, llama3-8b");
  }
}

TEST(SynthType, NamesAreListedWhenUnknown) {
  for (const std::string_view name : kTypes) EXPECT_EQ(synth_type(name).name, name);
  try {
    synth_type("iq4_xs");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("known: f32, f16, bf16, q4_0"), std::string::npos);
  }
}

TEST(SynthType, MixesRaiseTheTensorsThatMatter) {
  const SynthType mix = synth_type("q4_k_m");
  // The first and last eighth of 16 blocks, and every third between.
  std::vector<int64_t> raised;
  for (int64_t layer = 0; layer < 16; ++layer) {
    if (mix.of("blk.0.attn_v.weight", layer, 16, 256) == WeightType::kQ6_K) raised.push_back(layer);
  }
  EXPECT_EQ(raised, (std::vector<int64_t>{0, 1, 4, 7, 10, 13, 14, 15}));
  EXPECT_EQ(mix.of("blk.0.ffn_down.weight", 0, 16, 256), WeightType::kQ6_K);
  EXPECT_EQ(mix.of("blk.0.ffn_up.weight", 0, 16, 256), WeightType::kQ4_K);
  EXPECT_EQ(mix.of("token_embd.weight", 0, 16, 256), WeightType::kQ4_K);
  EXPECT_EQ(mix.of("output.weight", 0, 16, 256), WeightType::kQ6_K);
  EXPECT_EQ(synth_type("q5_k_m").of("blk.2.attn_q.weight", 2, 16, 256), WeightType::kQ5_K);
  EXPECT_EQ(synth_type("q5_k_m").of("blk.2.attn_q.weight", 2, 16, 96), WeightType::kQ5_1);
  EXPECT_EQ(synth_type("q3_k").of("blk.2.attn_q.weight", 2, 16, 96), WeightType::kQ4_0);
  EXPECT_EQ(synth_type("q4_k").of("output.weight", 0, 16, 256), WeightType::kQ4_K);
}

TEST(SynthVocab, AnyStringRoundTrips) {
  std::string all_bytes;
  for (int byte = 0; byte < 256; ++byte) all_bytes += static_cast<char>(byte);
  for (const int64_t n : {kMinSynthVocab, int64_t{1024}, int64_t{4096}}) {
    const auto bpe = Tokenizer::make(make_bpe_vocab(n));
    const auto spm = Tokenizer::make(make_spm_vocab(n));
    EXPECT_EQ(std::pair(int64_t{bpe->size()}, int64_t{spm->size()}), std::pair(n, n));
    for (const std::string& text :
         {std::string("Hello, the world 1234!\n\n  naïve 日本語 👩‍💻 <|eot_id|> <s>"),
          all_bytes}) {
      EXPECT_EQ(bpe->decode(bpe->encode(text, true, false)), text) << n;
      EXPECT_EQ(spm->decode(spm->encode(text, true, false)), " " + text) << n;
    }
    EXPECT_EQ(bpe->encode("<|eot_id|>", true, true),
              (std::vector<int32_t>{bpe->bos(), bpe->size() - 1}));
    EXPECT_LT(bpe->encode("the other thing", false, false).size(), 12u);
    EXPECT_LT(spm->encode("the other thing", false, false).size(), 12u);
  }
}

TEST(SynthVocab, TooSmallAVocabularyIsRefused) {
  EXPECT_THROW(make_bpe_vocab(kMinSynthVocab - 1), std::invalid_argument);
  EXPECT_THROW(make_spm_vocab(kMinSynthVocab - 1), std::invalid_argument);
  EXPECT_THROW(make_bpe_vocab(-1), std::invalid_argument);
}

}  // namespace

}  // namespace greta
