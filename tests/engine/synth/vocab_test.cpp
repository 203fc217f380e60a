#include "engine/synth/vocab.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace greta {
namespace {

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
