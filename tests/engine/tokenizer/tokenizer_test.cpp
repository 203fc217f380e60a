#include "engine/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/engine/tokenizer/vocabularies.h"

namespace greta {
namespace {

TEST(Tokenizer, ControlTokensComeFromTextOnlyWhenAskedFor) {
  Vocabulary bpe = bpe_vocabulary({{"<", "|"}});
  const int32_t eot = add_token(bpe, "<|eot_id|>", TokenType::kControl);
  const int32_t word = add_token(bpe, "word", TokenType::kControl);
  const auto tokenizer = Tokenizer::make(bpe);
  EXPECT_EQ(tokenizer->encode("a<|eot_id|>b", false, true), (Ids{'a', eot, 'b'}));
  EXPECT_EQ(tokenizer->encode("word", false, true), Ids{word});
  EXPECT_EQ(tokenizer->encode("word", false, false), bytes_as_ids("word"));
  const Ids plain = tokenizer->encode("a<|eot_id|>b", false, false);
  EXPECT_EQ(std::ranges::find(plain, eot), plain.end());
  EXPECT_EQ(tokenizer->decode(plain), "a<|eot_id|>b");

  // Pieces whose merges would reach </s> and <0x41>.
  const Vocabulary spm = spm_vocabulary({{"<", -1},
                                         {"/", -1},
                                         {"s", -1},
                                         {">", -1},
                                         {"</", -1},
                                         {"</s", -1},
                                         {"<0x41", -1},
                                         {"<0", -1},
                                         {"0", -1}});
  const Ids spelled = encode(spm, "</s><0x41>");
  EXPECT_EQ(std::ranges::find(spelled, 2), spelled.end());
  EXPECT_EQ(std::ranges::find(spelled, kFirstByte + 0x41), spelled.end());
  EXPECT_EQ(Tokenizer::make(spm)->decode(spelled), "</s><0x41>");
}

TEST(Tokenizer, OfSpecialTokensTheFirstThenTheLongestIsTaken) {
  Vocabulary vocabulary = bpe_vocabulary({});
  const int32_t ab = add_token(vocabulary, "<ab", TokenType::kControl);
  const int32_t abc = add_token(vocabulary, "<abc>", TokenType::kControl);
  const int32_t bc = add_token(vocabulary, "abc>!", TokenType::kControl);
  const auto tokenizer = Tokenizer::make(vocabulary);
  EXPECT_EQ(tokenizer->encode("<abc>!", false, true), (Ids{abc, '!'}));
  EXPECT_EQ(tokenizer->encode("<abc", false, true), (Ids{ab, 'c'}));
  EXPECT_EQ(tokenizer->encode("<abd<<ab", false, true), (Ids{ab, 'd', '<', ab}));
  EXPECT_EQ(tokenizer->encode("[abc>!", false, true), (Ids{'[', bc}));
  EXPECT_EQ(tokenizer->encode("<a", false, true), bytes_as_ids("<a"));
}

TEST(Tokenizer, UserDefinedTokensAreAlwaysOneToken) {
  Vocabulary vocabulary = bpe_vocabulary({});
  const int32_t tag = add_token(vocabulary, "<tool> ", TokenType::kUserDefined);
  const auto tokenizer = Tokenizer::make(vocabulary);
  EXPECT_EQ(tokenizer->encode("a<tool> b", false, false), (Ids{'a', tag, 'b'}));
  EXPECT_EQ(tokenizer->decode(Ids{'a', tag, 'b'}), "a<tool> b");
  EXPECT_FALSE(tokenizer->is_control(tag));
}

TEST(Tokenizer, BosAndEosAreAddedAsTheVocabularyAsks) {
  Vocabulary vocabulary = bpe_vocabulary({});
  vocabulary.bos = add_token(vocabulary, "<|begin_of_text|>", TokenType::kControl);
  vocabulary.eos = add_token(vocabulary, "<|end|>", TokenType::kControl);
  for (const bool bos : {false, true}) {
    for (const bool eos : {false, true}) {
      vocabulary.add_bos = bos;
      vocabulary.add_eos = eos;
      const auto tokenizer = Tokenizer::make(vocabulary);
      Ids expected{'x'};
      if (bos) expected.insert(expected.begin(), vocabulary.bos);
      if (eos) expected.push_back(vocabulary.eos);
      EXPECT_EQ(tokenizer->encode("x", true, false), expected);
      EXPECT_EQ(tokenizer->encode("x", false, false), Ids{'x'});
      EXPECT_EQ(tokenizer->encode("", true, true).size(), expected.size() - 1);
      EXPECT_EQ(tokenizer->decode(expected), "x");
      EXPECT_EQ(tokenizer->bos(), vocabulary.bos);
      EXPECT_EQ(tokenizer->eos(), vocabulary.eos);
    }
  }
}

TEST(Tokenizer, TokensThatEndATurnEndGeneration) {
  Vocabulary vocabulary = bpe_vocabulary({});
  vocabulary.eos = add_token(vocabulary, "<eos>", TokenType::kControl);
  vocabulary.eot = add_token(vocabulary, "<turn>", TokenType::kControl);
  const int32_t other = add_token(vocabulary, "<other>", TokenType::kControl);
  const int32_t chat = add_token(vocabulary, "<|im_end|>", TokenType::kNormal);
  const auto tokenizer = Tokenizer::make(vocabulary);
  EXPECT_TRUE(tokenizer->ends_generation(vocabulary.eos));
  EXPECT_TRUE(tokenizer->ends_generation(vocabulary.eot));
  EXPECT_TRUE(tokenizer->ends_generation(chat));
  EXPECT_FALSE(tokenizer->ends_generation(other));
  for (const int32_t none : Ids{-1, -2, tokenizer->size(), 'a'}) {
    EXPECT_FALSE(tokenizer->ends_generation(none));
  }
  // Listed as text by mistake: a control token all the same.
  EXPECT_EQ(tokenizer->encode("<|im_end|>", false, true), Ids{chat});
  EXPECT_EQ(tokenizer->decode(Ids{chat}), "");
}

TEST(Tokenizer, TokensOfInfillingAreControlTokens) {
  Vocabulary vocabulary = bpe_vocabulary({});
  const int32_t prefix = add_token(vocabulary, "<|fim_prefix|>", TokenType::kUserDefined);
  const int32_t pad = add_token(vocabulary, "<|fim_pad|>", TokenType::kUserDefined);
  const auto tokenizer = Tokenizer::make(vocabulary);
  EXPECT_EQ(tokenizer->encode("<|fim_prefix|>", false, true), Ids{prefix});
  EXPECT_EQ(tokenizer->encode("<|fim_prefix|>", false, false), bytes_as_ids("<|fim_prefix|>"));
  EXPECT_FALSE(tokenizer->ends_generation(prefix));
  EXPECT_TRUE(tokenizer->ends_generation(pad));
}

TEST(Tokenizer, SingleTokensDecodeToTheirBytes) {
  const auto tokenizer = Tokenizer::make(bpe_vocabulary({{"\xf0", "\x9f"}}));
  EXPECT_EQ(tokenizer->decode(Ids{256}), "\xf0\x9f");
  EXPECT_EQ(tokenizer->decode(Ids{0}), "\0"s);
  EXPECT_EQ(tokenizer->piece(0x98), "\x98");
  EXPECT_EQ(tokenizer->decode(Ids{}), "");
  EXPECT_EQ(tokenizer->size(), 257);
}

TEST(Tokenizer, SeveralThreadsMayUseOne) {
  for (const Vocabulary& vocabulary :
       {bpe_vocabulary({{"a", "a"}, {"aa", "a"}}), spm_vocabulary({{"a", -2}, {"aa", -1}})}) {
    const auto tokenizer = Tokenizer::make(vocabulary);
    const std::string text = random_bytes(1, 500) + std::string(501, 'a');
    const Ids expected = tokenizer->encode(text, false, true);
    std::vector<Ids> results(4);
    std::vector<std::thread> threads;
    for (Ids& result : results) {
      threads.emplace_back([&] {
        for (int i = 0; i < 20; ++i) result = tokenizer->encode(text, false, true);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Ids& result : results) EXPECT_EQ(result, expected);
  }
}

TEST(Tokenizer, IdsThatAreNoneAreRefused) {
  const auto tokenizer = Tokenizer::make(bpe_vocabulary({}));
  for (const int32_t id : {-1, 256, INT32_MAX, INT32_MIN}) {
    EXPECT_THROW(tokenizer->decode(Ids{id}), std::out_of_range);
    EXPECT_THROW(tokenizer->piece(id), std::out_of_range);
  }
}

}  // namespace
}  // namespace greta
