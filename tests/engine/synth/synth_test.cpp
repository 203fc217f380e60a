#include "engine/synth/synth.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <unordered_set>
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

TEST_F(Synth, NoTwoTensorsHaveTheSameValues) {
  const GgufFile file = make(small_shape(), "f16");
  std::map<std::string, std::string_view> seen;
  for (const GgufTensor& tensor : file.tensors()) {
    EXPECT_TRUE(seen.emplace(sha256(tensor.data), tensor.name).second) << tensor.name;
  }
}

TEST_F(Synth, HasEveryTensorInItsShape) {
  SynthShape shape = small_shape();
  shape.rope_freqs = true;
  const GgufFile file = make(shape, "q8_0");
  std::map<std::string, std::array<int64_t, 2>> expected{{"token_embd.weight", {256, 600}},
                                                         {"output.weight", {256, 600}},
                                                         {"output_norm.weight", {256, 1}},
                                                         {"rope_freqs.weight", {16, 1}}};
  for (const std::string block : {"blk.0.", "blk.1."}) {
    expected[block + "attn_norm.weight"] = {256, 1};
    expected[block + "attn_q.weight"] = {256, 256};
    expected[block + "attn_k.weight"] = {256, 128};
    expected[block + "attn_v.weight"] = {256, 128};
    expected[block + "attn_output.weight"] = {256, 256};
    expected[block + "ffn_norm.weight"] = {256, 1};
    expected[block + "ffn_gate.weight"] = {256, 768};
    expected[block + "ffn_up.weight"] = {256, 768};
    expected[block + "ffn_down.weight"] = {768, 256};
  }
  EXPECT_EQ(file.tensors().size(), expected.size());
  for (const auto& [name, dims] : expected) {
    const GgufTensor* tensor = file.find_tensor(name);
    ASSERT_NE(tensor, nullptr) << name;
    EXPECT_EQ(tensor->dims, (std::array<int64_t, 4>{dims[0], dims[1], 1, 1})) << name;
    EXPECT_EQ(tensor->n_dims, dims[1] == 1 ? 1 : 2) << name;
    EXPECT_EQ(tensor->type, dims[1] == 1 ? WeightType::kF32 : WeightType::kQ8_0) << name;
  }
}

TEST_F(Synth, MetadataDescribesTheShape) {
  SynthShape shape = small_shape();
  const GgufFile file = make(shape, "f16");
  EXPECT_EQ(file.string_value("general.architecture"), "llama");
  EXPECT_EQ(file.unsigned_value("general.file_type"), 1u);
  EXPECT_EQ(file.unsigned_value("llama.block_count"), 2u);
  EXPECT_EQ(file.unsigned_value("llama.context_length"), 2048u);
  EXPECT_EQ(file.unsigned_value("llama.embedding_length"), 256u);
  EXPECT_EQ(file.unsigned_value("llama.feed_forward_length"), 768u);
  EXPECT_EQ(file.unsigned_value("llama.attention.head_count"), 8u);
  EXPECT_EQ(file.unsigned_value("llama.attention.head_count_kv"), 4u);
  EXPECT_EQ(file.unsigned_value("llama.rope.dimension_count"), 32u);
  EXPECT_EQ(file.unsigned_value("llama.vocab_size"), 600u);
  EXPECT_EQ(file.real_value("llama.rope.freq_base"), 500000);
  EXPECT_EQ(file.real_value("llama.attention.layer_norm_rms_epsilon"), double{1e-5f});
  EXPECT_EQ(file.find("llama.attention.key_length"), nullptr);
}

TEST_F(Synth, ArchitecturesHaveTheirTensors) {
  SynthShape shape = small_shape();
  shape.architecture = "qwen2";
  const GgufFile qwen2 = make(shape, "q8_0");
  EXPECT_EQ(qwen2.string_value("general.architecture"), "qwen2");
  EXPECT_EQ(qwen2.unsigned_value("qwen2.block_count"), 2u);
  EXPECT_EQ(qwen2.find("llama.block_count"), nullptr);
  for (const auto& [name, n] : {std::pair("blk.1.attn_q.bias", 256),
                                {"blk.1.attn_k.bias", 128},
                                {"blk.1.attn_v.bias", 128}}) {
    const GgufTensor* bias = qwen2.find_tensor(name);
    ASSERT_NE(bias, nullptr) << name;
    EXPECT_EQ(bias->type, WeightType::kF32);
    EXPECT_EQ(bias->n_values(), n);
  }
  EXPECT_EQ(qwen2.find_tensor("blk.1.attn_q_norm.weight"), nullptr);

  shape.architecture = "qwen3";
  const GgufFile qwen3 = make(shape, "q8_0");
  EXPECT_EQ(qwen3.find_tensor("blk.1.attn_q.bias"), nullptr);
  for (const char* name : {"blk.0.attn_q_norm.weight", "blk.1.attn_k_norm.weight"}) {
    const GgufTensor* norm = qwen3.find_tensor(name);
    ASSERT_NE(norm, nullptr) << name;
    EXPECT_EQ(norm->n_values(), 32);
  }
  shape.architecture = "gpt5";
  EXPECT_THROW(make(shape, "q8_0"), std::invalid_argument);
}

TEST_F(Synth, MetadataSaysRopeScalingAndWindow) {
  SynthShape shape = small_shape();
  shape.architecture = "qwen3";
  shape.rope_scaling = "yarn";
  shape.rope_factor = 8;
  shape.original_context = 256;
  shape.rope_attn_factor = 0.5;
  shape.window = 33;
  shape.windowed = {false, true};
  const GgufFile file = make(shape, "f32");
  EXPECT_EQ(file.string_value("qwen3.rope.scaling.type"), "yarn");
  EXPECT_EQ(file.real_value("qwen3.rope.scaling.factor"), 8);
  EXPECT_EQ(file.unsigned_value("qwen3.rope.scaling.original_context_length"), 256u);
  EXPECT_EQ(file.real_value("qwen3.rope.scaling.attn_factor"), 0.5);
  EXPECT_EQ(file.unsigned_value("qwen3.attention.sliding_window"), 33u);
  const GgufArray* layers = file.array_value("qwen3.attention.sliding_window_pattern");
  ASSERT_NE(layers, nullptr);
  EXPECT_EQ(layers->count, 2u);
  EXPECT_EQ(layers->data[0], std::byte{0});
  EXPECT_EQ(layers->data[1], std::byte{1});
  shape.rope_scaling = "cubic";
  EXPECT_THROW(make(shape, "f32"), std::invalid_argument);
}

TEST_F(Synth, HeadsNeedNotFillTheModel) {
  SynthShape shape = small_shape();
  shape.head_dim = 48;
  const GgufFile file = make(shape, "f32");
  EXPECT_EQ(file.unsigned_value("llama.attention.key_length"), 48u);
  EXPECT_EQ(file.unsigned_value("llama.attention.value_length"), 48u);
  EXPECT_EQ(file.find_tensor("blk.0.attn_q.weight")->dims[1], 8 * 48);
  EXPECT_EQ(file.find_tensor("blk.0.attn_output.weight")->dims[0], 8 * 48);
}

TEST_F(Synth, ATiedModelHasNoOutputMatrix) {
  SynthShape shape = small_shape();
  shape.tied = true;
  const GgufFile file = make(shape, "q4_k_m");
  EXPECT_EQ(file.find_tensor("output.weight"), nullptr);
  EXPECT_EQ(file.find_tensor("token_embd.weight")->type, WeightType::kQ6_K);
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

TEST_F(Synth, RopeFreqsSlowDownTheSlowPlanesOnly) {
  SynthShape shape = small_shape();
  shape.rope_freqs = true;
  for (const int64_t head_dim : {2, 6, 32}) {
    shape.head_dim = head_dim;
    const GgufFile file = make(shape, "f32");
    const std::vector<float> factors = values_of(*file.find_tensor("rope_freqs.weight"));
    ASSERT_EQ(static_cast<int64_t>(factors.size()), head_dim / 2);
    EXPECT_TRUE(std::is_sorted(factors.begin(), factors.end()));
    EXPECT_EQ(factors.front(), 1);
    EXPECT_EQ(factors.back(), head_dim == 2 ? 1 : 8);
  }
}

TEST_F(Synth, ProgressEndsAtTheTotal) {
  std::vector<std::pair<int64_t, int64_t>> calls;
  synthesise(small_shape(), synth_type("f16"), 1, folder_ / "model.gguf",
             [&](int64_t done, int64_t total) { calls.emplace_back(done, total); });
  const GgufFile file = GgufFile::open(folder_ / "model.gguf");
  int64_t n_values = 0;
  for (const GgufTensor& tensor : file.tensors()) n_values += tensor.n_values();
  ASSERT_FALSE(calls.empty());
  EXPECT_EQ(calls.back(), std::make_pair(n_values, n_values));
  EXPECT_TRUE(std::is_sorted(calls.begin(), calls.end()));
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

constexpr int64_t kSizes[] = {kMinSynthVocab, 777, 1024, 4096, 32000};

std::unordered_set<std::string> set_of(const std::vector<std::string>& tokens) {
  return {tokens.begin(), tokens.end()};
}

TEST(SynthVocab, BpeHasAsManyDistinctTokensAsAsked) {
  for (const int64_t n : kSizes) {
    const Vocabulary vocab = make_bpe_vocab(n);
    EXPECT_EQ(static_cast<int64_t>(vocab.tokens.size()), n);
    EXPECT_EQ(vocab.types.size(), vocab.tokens.size());
    EXPECT_EQ(set_of(vocab.tokens).size(), vocab.tokens.size());
    EXPECT_EQ(set_of(vocab.merges).size(), vocab.merges.size());
    EXPECT_TRUE(vocab.scores.empty());
  }
}

TEST(SynthVocab, BpeStartsWithEveryByteInTheUsualOrder) {
  const Vocabulary vocab = make_bpe_vocab(1024);
  EXPECT_EQ(vocab.tokens[0], "!");
  EXPECT_EQ(vocab.tokens[93], "~");
  EXPECT_EQ(vocab.tokens[94], "¡");
  EXPECT_EQ(vocab.tokens[187], "ÿ");
  EXPECT_EQ(vocab.tokens[188], "Ā");  // byte 0
  EXPECT_EQ(vocab.tokens[198], "Ċ");  // line end
  EXPECT_EQ(vocab.tokens[220], "Ġ");  // space
  EXPECT_EQ(vocab.tokens[255], "Ń");  // byte 0xad
}

TEST(SynthVocab, BpeMergesJoinTokensThatComeBeforeTheirResult) {
  const Vocabulary vocab = make_bpe_vocab(4096);
  ASSERT_EQ(vocab.merges.size(), 4096u - 256 - 16);
  std::unordered_set<std::string> known(vocab.tokens.begin(), vocab.tokens.begin() + 256);
  for (size_t i = 0; i < vocab.merges.size(); ++i) {
    const size_t space = vocab.merges[i].find(' ');
    const std::string left = vocab.merges[i].substr(0, space);
    const std::string right = vocab.merges[i].substr(space + 1);
    ASSERT_TRUE(known.contains(left) && known.contains(right)) << vocab.merges[i];
    ASSERT_EQ(vocab.tokens[256 + i], left + right);
    known.insert(left + right);
  }
  for (const std::string token : {"ĠĠ", "ĊĊ", "42", "Ã¼", "Ġt", "the"}) {
    EXPECT_TRUE(known.contains(token)) << token;
  }
}

TEST(SynthVocab, BpeEndsWithControlTokens) {
  const Vocabulary vocab = make_bpe_vocab(1024);
  EXPECT_EQ(vocab.model, "gpt2");
  EXPECT_EQ(vocab.pre, "llama-bpe");
  const auto token = [&](int32_t id) { return vocab.tokens.at(static_cast<size_t>(id)); };
  EXPECT_EQ(token(vocab.bos), "<|begin_of_text|>");
  EXPECT_EQ(token(vocab.eos), "<|end_of_text|>");
  EXPECT_EQ(token(vocab.eot), "<|eot_id|>");
  constexpr TokenType kControl = TokenType::kControl;
  EXPECT_EQ(std::count(vocab.types.begin(), vocab.types.end(), kControl), 16);
  EXPECT_TRUE(std::all_of(vocab.types.end() - 16, vocab.types.end(),
                          [](TokenType type) { return type == kControl; }));
  for (const std::string name : {"<|start_header_id|>", "<|end_header_id|>"}) {
    EXPECT_EQ(std::count(vocab.tokens.end() - 16, vocab.tokens.end(), name), 1) << name;
  }
}

TEST(SynthVocab, SpmHasAsManyDistinctTokensAsAsked) {
  for (const int64_t n : kSizes) {
    const Vocabulary vocab = make_spm_vocab(n);
    EXPECT_EQ(static_cast<int64_t>(vocab.tokens.size()), n);
    EXPECT_EQ(vocab.types.size(), vocab.tokens.size());
    EXPECT_EQ(vocab.scores.size(), vocab.tokens.size());
    EXPECT_EQ(set_of(vocab.tokens).size(), vocab.tokens.size());
  }
}

TEST(SynthVocab, SpmFallsBackToEveryByte) {
  const Vocabulary vocab = make_spm_vocab(1024);
  EXPECT_EQ(vocab.model, "llama");
  EXPECT_EQ(vocab.tokens[0], "<unk>");
  EXPECT_EQ(vocab.tokens[1], "<s>");
  EXPECT_EQ(vocab.tokens[2], "</s>");
  EXPECT_EQ(vocab.tokens[3], "<0x00>");
  EXPECT_EQ(vocab.tokens[3 + 0xaf], "<0xAF>");
  for (size_t id = 3; id < 259; ++id) {
    EXPECT_EQ(vocab.types[id], TokenType::kByte);
  }
}

TEST(SynthVocab, SpmPiecesFallInScoreAndAreBuiltFromPieces) {
  const Vocabulary vocab = make_spm_vocab(2048);
  const std::unordered_set<std::string> known = set_of(vocab.tokens);
  std::set<float> scores;
  for (size_t id = 259; id < vocab.tokens.size(); ++id) {
    EXPECT_EQ(vocab.types[id], TokenType::kNormal);
    EXPECT_TRUE(scores.insert(vocab.scores[id]).second);
    EXPECT_LE(vocab.scores[id], vocab.scores[id - 1]);
  }
  for (const std::string token : {"▁", "▁▁", "▁t", "th", "a", "Z", "~", "0", "ü"}) {
    EXPECT_TRUE(known.contains(token)) << token;
  }
}

TEST(SynthVocab, AnyStringRoundTrips) {
  std::string all_bytes;
  for (int byte = 0; byte < 256; ++byte) all_bytes += static_cast<char>(byte);
  for (const int64_t n : {kMinSynthVocab, int64_t{1024}, int64_t{4096}}) {
    const auto bpe = Tokenizer::make(make_bpe_vocab(n));
    const auto spm = Tokenizer::make(make_spm_vocab(n));
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
