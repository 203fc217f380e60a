#include "engine/tokenizer/spm.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/tokenizer/vocabularies.h"

namespace greta {
namespace {

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
