#include "engine/tokenizer/bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/tokenizer/vocabularies.h"

namespace greta {
namespace {

TEST(Bpe, TheBestMergeComesFirstNotTheLeftmost) {
  const Vocabulary vocabulary = bpe_vocabulary({{"b", "c"}, {"a", "b"}, {"ab", "x"}});
  EXPECT_EQ(encode(vocabulary, "abcd"), (Ids{'a', 256, 'd'}));
  EXPECT_EQ(encode(vocabulary, "abxd"), (Ids{258, 'd'}));
}

TEST(Bpe, EqualMergesGoFromTheLeft) {
  const Vocabulary vocabulary = bpe_vocabulary({{"a", "a"}});
  EXPECT_EQ(encode(vocabulary, "aaaaa"), (Ids{256, 256, 'a'}));
}

TEST(Bpe, OfTwoMergesOfOnePairTheBetterCounts) {
  Vocabulary vocabulary = bpe_vocabulary({{"a", "b"}, {"b", "c"}, {"a", "b"}});
  EXPECT_EQ(encode(vocabulary, "abcx"), (Ids{256, 'c', 'x'}));
}

TEST(Bpe, AWordThatIsATokenNeedsNoMerges) {
  Vocabulary vocabulary = bpe_vocabulary({{"a", "b"}});
  const int32_t word = add_token(vocabulary, to_byte_level(" abc"), TokenType::kNormal);
  EXPECT_EQ(encode(vocabulary, " abc"), Ids{word});
  EXPECT_EQ(encode(vocabulary, " abcd"), (Ids{' ', 256, 'c', 'd'}));
  vocabulary.pre = "tekken";
  EXPECT_EQ(encode(vocabulary, " abc"), Ids{word});
  for (const char* pre : {"qwen2", "smollm", "deepseek-llm", "gpt-2", "default", ""}) {
    vocabulary.pre = pre;
    EXPECT_EQ(encode(vocabulary, " abc"), (Ids{' ', 256, 'c'})) << pre;  // only by merges
  }
}

TEST(Bpe, MergesStayWithinAWord) {
  const Vocabulary vocabulary = bpe_vocabulary({{"a", " "}, {"1", "2"}, {"3", "4"}});
  EXPECT_EQ(encode(vocabulary, "a b"), bytes_as_ids("a b"));
  EXPECT_EQ(encode(vocabulary, "01234"), (Ids{'0', 257, 258}));  // words 012 and 34
  EXPECT_EQ(encode(vocabulary, "1234"), (Ids{257, '3', '4'}));   // words 123 and 4
}

TEST(Bpe, TheVocabularySaysWhatAWordIs) {
  Vocabulary vocabulary = bpe_vocabulary({{"1", "2"}, {"3", "4"}, {"a", "B"}, {"!", "a"}});
  const auto by = [&vocabulary](const char* pre, std::string_view text) {
    vocabulary.pre = pre;
    return encode(vocabulary, text);
  };
  EXPECT_EQ(by("gpt-2", "1234aB!a"), (Ids{256, 257, 258, '!', 'a'}));
  EXPECT_EQ(by("qwen2", "1234aB!a"), (Ids{'1', '2', '3', '4', 258, 259}));
  EXPECT_EQ(by("smollm", "1234aB!a"), (Ids{'1', '2', '3', '4', 258, '!', 'a'}));
  EXPECT_EQ(by("tekken", "1234aB!a"), (Ids{'1', '2', '3', '4', 'a', 'B', 259}));
  EXPECT_EQ(by("deepseek-llm", "1234aB!a"), (Ids{256, 257, 258, '!', 'a'}));
  EXPECT_EQ(by("default", "1234aB!a"), (Ids{256, '3', '4', 258, '!', 'a'}));
  EXPECT_EQ(by("", "1234aB!a"), by("default", "1234aB!a"));
}

// Merges the best pair, looked for from the start each time.
Ids merge_slowly(const Vocabulary& vocabulary, const std::string& word) {
  std::vector<std::string> parts;
  for (const char byte : word) parts.push_back(to_byte_level(std::string(1, byte)));
  while (true) {
    const auto merges_end = vocabulary.merges.end();
    auto best = merges_end;
    size_t at = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto merge = std::find(vocabulary.merges.begin(), best, parts[i] + " " + parts[i + 1]);
      if (merge == best) continue;
      best = merge;
      at = i;
    }
    if (best == merges_end) break;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  Ids ids;
  for (const std::string& part : parts) {
    ids.push_back(static_cast<int32_t>(std::ranges::find(vocabulary.tokens, part) -
                                       vocabulary.tokens.begin()));
  }
  return ids;
}

std::string random_word(uint64_t seed, size_t n) {
  std::string word;
  for (size_t i = 0; i < n; ++i) word += "abc"[mix64(seed * 77 + i) % 3];
  return word;
}

TEST(Bpe, AgreesWithTheSlowDefinition) {
  int merged = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::vector<std::pair<std::string, std::string>> merges;
    std::vector<std::string> known{"a", "b", "c"};
    for (uint64_t i = 0; i < 12; ++i) {
      const std::string left = known[mix64(seed * 31 + i) % known.size()];
      const std::string right = known[mix64(seed * 37 + i + 500) % known.size()];
      merges.emplace_back(left, right);
      known.push_back(left + right);
    }
    const Vocabulary vocabulary = bpe_vocabulary(merges);
    const std::string word = random_word(seed, 40 + seed);
    const Ids ids = encode(vocabulary, word);
    EXPECT_EQ(ids, merge_slowly(vocabulary, word)) << seed;
    merged += ids.size() < word.size() ? 1 : 0;
  }
  EXPECT_GT(merged, 50);
}

TEST(Bpe, LongWordsAreMergedWhole) {
  const Vocabulary vocabulary = bpe_vocabulary({{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}});
  EXPECT_EQ(encode(vocabulary, std::string(100'003, 'a')).size(), 12'500u + 2);
}

TEST(Bpe, BytesThatAreNoUtf8AreTakenOneByOne) {
  const Vocabulary vocabulary = bpe_vocabulary({{"\xe4", "\xbd"}, {"\xff", "\xff"}});
  EXPECT_EQ(encode(vocabulary, "a\xff\xff\xe4\xbd"), (Ids{'a', 0xff, 0xff, 0xe4, 0xbd}));
  EXPECT_EQ(encode(vocabulary, "你"), (Ids{256, 0xa0}));
}

TEST(Bpe, BytesThatNoUtf8HasMayBeMissing) {
  Vocabulary vocabulary = bpe_vocabulary({{"\xbf", "\xbd"}});
  for (const int byte : {0xc0, 0xc1, 0xf5, 0xff}) {
    vocabulary.types[byte] = TokenType::kUserDefined;
  }
  // They are text then, of the character that spells the byte.
  EXPECT_EQ(encode(vocabulary, "À"), Ids{0xc0});
  const auto tokenizer = Tokenizer::make(vocabulary);
  EXPECT_EQ(tokenizer->encode("a\xff\xfe", false, true), (Ids{'a', 0xef, 256, 0xfe}));
  EXPECT_EQ(tokenizer->decode(Ids{'a', 0xef, 256}), "a\xef\xbf\xbd");
}

TEST(Bpe, EveryTextComesBack) {
  const auto tokenizer = Tokenizer::make(
      bpe_vocabulary({{" ", " "}, {"l", "l"}, {"\xe4", "\xbd"}, {"\xf0", "\x9f"}, {"1", "2"}}));
  for (const std::string& text : kTexts) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, false, true)), text);
  }
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::string text = random_bytes(seed, seed);
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, false, true)), text) << seed;
  }
}

TEST(ByteLevel, EveryByteHasACharacterAndComesBack) {
  std::vector<std::string> characters;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string one(1, static_cast<char>(byte));
    characters.push_back(to_byte_level(one));
    EXPECT_EQ(from_byte_level(characters.back()), one);
  }
  EXPECT_EQ(characters[' '], "Ġ");
  EXPECT_EQ(characters['\n'], "Ċ");
  EXPECT_EQ(characters['A'], "A");
  EXPECT_EQ(characters[0xad], "Ń");
  std::ranges::sort(characters);
  EXPECT_EQ(std::ranges::adjacent_find(characters), characters.end());
}

TEST(ByteLevel, OtherCharactersSpellNothing) {
  for (const char* text :
       {" ", "a b", "\n", "\u00ad", "\u0144", "你", "\xc3", "\xff", "\xc0\xa1"}) {
    EXPECT_EQ(from_byte_level(text), std::nullopt) << text;
  }
  EXPECT_EQ(from_byte_level(""), "");
}

}  // namespace

}  // namespace greta
