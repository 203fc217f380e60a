#include "engine/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/tokenizer/spm.h"
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

TEST(Spm, TheHighestScoreComesFirstThenTheLeftmost) {
  const Vocabulary vocabulary = spm_vocabulary(
      {{"a", -1}, {"b", -1}, {"c", -1}, {"ab", -3}, {"bc", -2}, {"aa", -5}, {"bca", -9}});
  EXPECT_EQ(encode(vocabulary, "abc"), (Ids{kFirstPiece, kFirstPiece + 4}));
  EXPECT_EQ(encode(vocabulary, "aaa"), (Ids{kFirstPiece + 5, kFirstPiece}));
  EXPECT_EQ(encode(vocabulary, "bcaab"), (Ids{kFirstPiece + 6, kFirstPiece + 3}));
}

Ids merge_slowly(const std::map<std::string, std::pair<float, int32_t>>& pieces,
                 const std::string& text) {
  std::vector<std::string> parts;
  for (const char byte : text) parts.emplace_back(1, byte);
  while (true) {
    size_t at = parts.size();
    float best = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto whole = pieces.find(parts[i] + parts[i + 1]);
      if (whole == pieces.end()) continue;
      if (at == parts.size() || whole->second.first > best) {
        at = i;
        best = whole->second.first;
      }
    }
    if (at == parts.size()) break;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  Ids ids;
  for (const std::string& part : parts) ids.push_back(pieces.at(part).second);
  return ids;
}

// Seeds that are odd have pieces with spaces inside, so that words cannot be merged one by one.
TEST(Spm, AgreesWithTheSlowDefinition) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const std::string letters = "ab ";
    std::map<std::string, std::pair<float, int32_t>> pieces;
    std::vector<std::pair<std::string, float>> listed;
    const auto add = [&](const std::string& plain, float score) {
      const auto id = static_cast<int32_t>(kFirstPiece + listed.size());
      if (!pieces.try_emplace(plain, score, id).second) return;
      std::string text;
      for (const char c : plain) text += c == ' ' ? "▁"s : std::string(1, c);
      listed.emplace_back(text, score);
    };
    for (const char c : letters) add(std::string(1, c), -20);
    for (uint64_t i = 0; i < 25; ++i) {
      std::string plain = mix64(seed + i * 13) % 2 == 0 ? " " : "";
      for (uint64_t j = 0; j < 1 + i % 4; ++j) {
        plain += letters[mix64(seed * 91 + i * 7 + j) % (seed % 2 == 0 ? 2 : 3)];
      }
      add(plain, -static_cast<float>(mix64(seed * 5 + i) % 8));
    }
    const auto tokenizer = Tokenizer::make(spm_vocabulary(listed));
    std::string text;
    for (uint64_t i = 0; i < 80; ++i) text += letters[mix64(seed * 1009 + i) % 3];
    const Ids ids = tokenizer->encode(text, false, false);
    EXPECT_EQ(ids, merge_slowly(pieces, text)) << seed;
    EXPECT_LT(ids.size(), text.size());
    EXPECT_EQ(tokenizer->decode(ids), text);
  }
}

TEST(Spm, SpaceGoesBeforeTextAndAfterSpecialTokens) {
  Vocabulary vocabulary = spm_vocabulary({{"▁", -1}, {"a", -1}, {"▁a", -0.5f}});
  EXPECT_EQ(encode(vocabulary, "a a"), (Ids{kFirstPiece + 1, kFirstPiece + 2}));
  vocabulary.add_space_prefix = true;
  const auto tokenizer = Tokenizer::make(vocabulary);
  const int32_t spaced = kFirstPiece + 2;
  EXPECT_EQ(tokenizer->encode("a</s>a", false, true), (Ids{spaced, 2, spaced}));
  EXPECT_EQ(tokenizer->encode(" a", false, true), (Ids{kFirstPiece, spaced}));
  EXPECT_EQ(tokenizer->encode("", false, true), Ids{});
  EXPECT_EQ(tokenizer->decode(Ids{spaced, 2, spaced}), " a a");
  EXPECT_EQ(tokenizer->decode(Ids{spaced, 2, spaced}, true), " a</s> a");
}

TEST(Spm, EscapedSpaceInTextIsASpace) {
  const auto tokenizer = Tokenizer::make(spm_vocabulary({{"▁", -1}, {"▁▁", -1}, {"a", -1}}));
  EXPECT_EQ(tokenizer->encode("▁ a▁", false, false),
            (Ids{kFirstPiece + 1, kFirstPiece + 2, kFirstPiece}));
}

TEST(Spm, CharactersThatAreNoTokenAreSpelledInBytes) {
  const Vocabulary vocabulary = spm_vocabulary({{"a", -1}, {"你", -1}});
  EXPECT_EQ(encode(vocabulary, "a好"),
            (Ids{kFirstPiece, kFirstByte + 0xe5, kFirstByte + 0xa5, kFirstByte + 0xbd}));
  EXPECT_EQ(encode(vocabulary, "你"), Ids{kFirstPiece + 1});
  EXPECT_EQ(encode(vocabulary, "\xe4\xbd"), bytes_as_ids("\xe4\xbd", kFirstByte));
  EXPECT_EQ(encode(vocabulary, "\n"), bytes_as_ids("\n", kFirstByte));
}

TEST(Spm, WithoutByteTokensTheUnknownTokenStands) {
  Vocabulary vocabulary;
  vocabulary.model = "llama";
  vocabulary.unknown = add_token(vocabulary, "<unk>", TokenType::kUnknown);
  add_token(vocabulary, "a", TokenType::kNormal, -1);
  EXPECT_EQ(encode(vocabulary, "aé"), (Ids{1, 0, 0}));
  vocabulary.unknown = -1;
  EXPECT_THROW(Tokenizer::make(vocabulary), GgufError);
}

TEST(Spm, EveryTextComesBack) {
  const auto tokenizer = Tokenizer::make(
      spm_vocabulary({{"▁", -9}, {"l", -9}, {"ll", -2}, {"▁▁", -1}, {"é", -3}, {"你", -3}}));
  for (const std::string& text : kTexts) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, false, true), true), text);
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, false, false)), text);
  }
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::string text = random_bytes(seed, seed);
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, false, false)), text) << seed;
  }
}

}  // namespace

}  // namespace greta
