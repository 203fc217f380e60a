#include "engine/tokenizer/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace greta {
namespace {

using Words = std::vector<std::string>;
using namespace std::string_literals;

Words split(std::string_view text) {
  static const PreTokenizer pre_tokenizer;
  std::vector<std::string_view> words;
  pre_tokenizer.split(text, words);
  return {words.begin(), words.end()};
}

TEST(PreTokenizer, SplitsAsLlama3Does) {
  const std::vector<std::pair<std::string, Words>> cases{
      {"", {}},
      {"Hello world", {"Hello", " world"}},
      {"I'll we'VE it'S o'clock", {"I", "'ll", " we", "'VE", " it", "'S", " o", "'clock"}},
      {"'\u017f", {"'\u017f"}},  // case folds within ASCII only
      {"1234567 12", {"123", "456", "7", " ", "12"}},
      {"٣٤٥٦½Ⅷ", {"٣٤٥", "٦½Ⅷ"}},
      {"a.b !!\r\n\r\nc", {"a", ".b", " !!\r\n\r\n", "c"}},
      {"a  b   ", {"a", " ", " b", "   "}},
      {"a \n \n  b", {"a", " \n \n", " ", " b"}},
      {"\t\tx\t\t1", {"\t", "\tx", "\t", "\t", "1"}},
      {"x\u00a0\u00a0y", {"x", "\u00a0", "\u00a0y"}},
      {"x\u180e\u180ey", {"x", "\u180e\u180e", "y"}},  // no longer white space
      {"e\u0301a", {"e", "\u0301a"}},
      {"你好，世界。", {"你好", "，世界", "。"}},
      {" 😀👍🏽", {" 😀👍🏽"}},
      {"a\0b"s, {"a", "\0b"s}},
      {"\n", {"\n"}},
      {" ", {" "}},
  };
  for (const auto& [text, words] : cases) {
    EXPECT_EQ(split(text), words) << testing::PrintToString(text);
  }
}

TEST(PreTokenizer, KnowsTheLettersAndDigitsOfUnicode15) {
  // A letter takes the character before it along, other characters do not; digits stand alone.
  EXPECT_EQ(split("!\U00031350"), Words{"!\U00031350"});
  EXPECT_EQ(split("!\U0002ebf0"), Words{"!\U0002ebf0"});
  EXPECT_EQ(split("!\U0001e030"), Words{"!\U0001e030"});
  EXPECT_EQ(split("!\U00011f50"), (Words{"!", "\U00011f50"}));
  EXPECT_EQ(split("!\U0001d2c0"), (Words{"!", "\U0001d2c0"}));
  EXPECT_EQ(split("a\U0001e030"), Words{"a\U0001e030"});
  EXPECT_EQ(split("a\U000e0080"), (Words{"a", "\U000e0080"}));  // unassigned
}

TEST(PreTokenizer, WordsFollowEachOtherWithoutAGap) {
  std::string text;
  for (char32_t c = 0; c < 0x3000; c += 7) {
    text += c < 0x80    ? std::string(1, static_cast<char>(c))
            : c < 0x800 ? std::string{static_cast<char>(0xc0 | (c >> 6)),
                                      static_cast<char>(0x80 | (c & 0x3f))}
                        : std::string{static_cast<char>(0xe0 | (c >> 12)),
                                      static_cast<char>(0x80 | ((c >> 6) & 0x3f)),
                                      static_cast<char>(0x80 | (c & 0x3f))};
  }
  const Words words = split(text);
  EXPECT_GT(words.size(), 100u);
  std::string joined;
  for (const std::string& word : words) joined += word;
  EXPECT_EQ(joined, text);
}

TEST(PreTokenizer, LongRunsReachNoLimit) {
  const size_t n = 1'000'000;
  EXPECT_EQ(split(std::string(n, ' ') + "x"), (Words{std::string(n - 1, ' '), " x"}));
  EXPECT_EQ(split(std::string(n, ' ') + "\n1").front().size(), n + 1);
  EXPECT_EQ(split(std::string(n, '!')).size(), 1u);
  EXPECT_EQ(split(std::string(n, 'a')).size(), 1u);
  std::string lines;
  for (size_t i = 0; i < n / 4; ++i) lines += " \t\r\n";
  EXPECT_EQ(split(lines + "  "), (Words{lines, "  "}));
}

TEST(PreTokenizer, ReachedLimitIsAnErrorThatSaysWhere) {
  const PreTokenizer pre_tokenizer(1);
  std::vector<std::string_view> words;
  try {
    pre_tokenizer.split("some text", words);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("byte 0 of a text of 9"), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("limit"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace greta
