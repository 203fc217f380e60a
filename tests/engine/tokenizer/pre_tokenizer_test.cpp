#include "engine/tokenizer/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace greta {
namespace {

using Words = std::vector<std::string>;
using namespace std::string_literals;

using Cases = std::vector<std::pair<std::string, Words>>;

Words split(std::string_view name, std::string_view text) {
  static std::map<std::string_view, PreTokenizer> made;
  const PreTokenizerKind* kind = find_pre_tokenizer(name);
  if (kind == nullptr) return {"no pre-tokenizer " + std::string(name)};
  std::vector<std::string_view> words;
  made.try_emplace(kind->name, *kind).first->second.split(text, words);
  return {words.begin(), words.end()};
}

void expect_splits(std::string_view name, const Cases& cases) {
  for (const auto& [text, words] : cases) {
    EXPECT_EQ(split(name, text), words) << name << ": " << testing::PrintToString(text);
  }
}

TEST(PreTokenizer, IsFoundByItsName) {
  for (const PreTokenizerKind& kind : pre_tokenizer_kinds()) {
    EXPECT_EQ(find_pre_tokenizer(kind.name), &kind);
    EXPECT_EQ(split(kind.name, ""), Words{});
    EXPECT_EQ(split(kind.name, "Hello world"), (Words{"Hello", " world"})) << kind.name;
  }
  EXPECT_EQ(find_pre_tokenizer("")->name, "default");
  EXPECT_EQ(find_pre_tokenizer("qwen"), nullptr);
  EXPECT_EQ(find_pre_tokenizer("GPT-2"), nullptr);
}

TEST(PreTokenizer, SplitsAsLlama3Does) {
  expect_splits(
      "llama-bpe",
      {
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
      });
}

TEST(PreTokenizer, Qwen2TakesDigitsOneByOne) {
  expect_splits("qwen2", {
                             {"1234 12", {"1", "2", "3", "4", " ", "1", "2"}},
                             {"٣٤½", {"٣", "٤", "½"}},
                             {"I'LL it's", {"I", "'LL", " it", "'s"}},
                             {"a.b !!\r\n\r\nc", {"a", ".b", " !!\r\n\r\n", "c"}},
                             {"a \n \n  b", {"a", " \n \n", " ", " b"}},
                             {"你好，世界。", {"你好", "，世界", "。"}},
                             {"e\u0301a", {"e", "\u0301a"}},
                         });
}

TEST(PreTokenizer, Gpt2PutsTheSpaceBeforeAWordOfEachClass) {
  expect_splits("gpt-2", {
                             {"I'll we'VE it's", {"I", "'ll", " we", "'", "VE", " it", "'s"}},
                             {"12345 678", {"12345", " 678"}},
                             {"a.b !!\r\n\r\nc", {"a", ".", "b", " !!", "\r\n\r", "\n", "c"}},
                             {"a  b   ", {"a", " ", " b", "   "}},
                             {"a \n \n  b", {"a", " \n \n ", " b"}},
                             {"\t\tx\t1", {"\t", "\t", "x", "\t", "1"}},
                             {"x\u00a0y", {"x", "\u00a0", "y"}},
                             {"e\u0301a", {"e", "\u0301", "a"}},
                             {"你好，世界。", {"你好", "，", "世界", "。"}},
                             {" 😀👍🏽", {" 😀👍🏽"}},
                         });
}

// A digit ends what is before it as the end of the text does.
TEST(PreTokenizer, SmollmTakesDigitsOneByOneBeforeAllElse) {
  expect_splits("smollm", {
                              {"a123 45", {"a", "1", "2", "3", " ", "4", "5"}},
                              {"a   1   b", {"a", "   ", "1", "  ", " b"}},
                              {"I'll 'VE", {"I", "'ll", " '", "VE"}},
                              {"x½y", {"x", "½", "y"}},
                              {"$ 5.00", {"$", " ", "5", ".", "0", "0"}},
                          });
}

TEST(PreTokenizer, DefaultTakesPunctuationFirstAndDigitsByThrees) {
  expect_splits("default", {
                               {"it's (a|b)", {"it", "'", "s", " ", "(", "a", "|", "b", ")"}},
                               {"a  (b", {"a", "  ", "(", "b"}},
                               {"x   y  .", {"x", "  ", " y", "  ", "."}},
                               {"12345", {"123", "45"}},
                               {"a   12", {"a", "  ", " ", "12"}},
                               {"٣1234½", {"٣", "123", "4½"}},
                               {"a`b €5", {"a", "`", "b", " €", "5"}},
                               {"«=»~~", {"«=»~~"}},
                               {"e\u0301 \u0301", {"e", "\u0301", " \u0301"}},
                               {"你好，世界", {"你好", "，", "世界"}},
                               {"a\U00011b00b", {"a", "\U00011b00", "b"}},  // since Unicode 15
                               {"a\U00011b00'b", {"a", "\U00011b00'", "b"}},
                               {"\r\n\r\n", {"\r\n\r\n"}},
                           });
}

TEST(PreTokenizer, TekkenEndsAWordWhereCapitalsFollowSmallLetters) {
  expect_splits("tekken", {
                              {"HelloWorld HTMLParser", {"Hello", "World", " HTMLParser"}},
                              {"getHTTPResponse", {"get", "HTTPResponse"}},
                              {"ABC", {"ABC"}},
                              {"I'll it'S", {"I", "'ll", " it", "'S"}},
                              {"1234", {"1", "2", "3", "4"}},
                              {"a //\n/b", {"a", " //\n/", "b"}},
                              {"a!\r\n\r\nb", {"a", "!\r\n\r\n", "b"}},
                              {"a \n \n  b", {"a", " \n \n", " ", " b"}},
                              // Letters beyond ASCII are capital and small.
                              {"ÉCOLE", {"É", "COLE"}},
                              {"écoleÉA", {"écoleÉ", "A"}},
                              {"ABÉCDÉE", {"ABÉCDÉ", "E"}},
                              {"ABÉCDÉEa", {"ABÉCDÉEa"}},
                              {"你好ABC", {"你好", "ABC"}},
                              {"!Ábc", {"!Ábc"}},
                              {"A\U00031350B", {"A\U00031350", "B"}},
                              {"e\u0301a", {"e", "\u0301a"}},
                          });
}

TEST(PreTokenizer, DeepseekSplitsByListsOfCharactersOneAfterTheOther) {
  expect_splits("deepseek-llm",
                {
                    {"it's (a|b)", {"it", "'", "s", " (", "a", "|", "b", ")"}},
                    {"a\n\n b\r\n", {"a", "\n", "\n", " b", "\r", "\n"}},
                    {"a   b", {"a", "  ", " b"}},
                    {"12345 678", {"12345", " ", "678"}},
                    {"x 1  .", {"x", " ", "1", " ", " ."}},
                    {"😀  !", {"😀", " ", " !"}},
                    {"a 😀 👍 ", {"a", " 😀 👍", " "}},
                    // The second list has a-z, but no é: it splits what the first took.
                    {"naïve Éa", {"na", "ï", "ve", " É", "a"}},
                    {" ＡｂÉ", {" Ａｂ", "É"}},
                    // The third has what is from U+0800 on.
                    {"éḀ Ḁ", {"é", "Ḁ", " ", "Ḁ"}},
                    {"你好，世界。x", {"你好", "，", "世界", "。", "x"}},
                    {" 。!", {" ", "。", "!"}},
                    {"नमस्ते१२", {"नमस्ते", "१२"}},
                    {"x\u3000y\u3000\u3000", {"x", "\u3000y", "\u3000\u3000"}},
                    {"μ\u0301", {"μ", "\u0301"}},
                    {"한국어 կտ", {"한국어", " կտ"}},
                });
}

TEST(PreTokenizer, KnowsTheLettersAndDigitsOfUnicode15) {
  // A letter takes the character before it along, other characters do not; digits stand alone.
  EXPECT_EQ(split("llama-bpe", "!\U00031350"), Words{"!\U00031350"});
  EXPECT_EQ(split("llama-bpe", "!\U0002ebf0"), Words{"!\U0002ebf0"});
  EXPECT_EQ(split("llama-bpe", "!\U0001e030"), Words{"!\U0001e030"});
  EXPECT_EQ(split("llama-bpe", "!\U00011f50"), (Words{"!", "\U00011f50"}));
  EXPECT_EQ(split("llama-bpe", "!\U0001d2c0"), (Words{"!", "\U0001d2c0"}));
  EXPECT_EQ(split("llama-bpe", "a\U0001e030"), Words{"a\U0001e030"});
  EXPECT_EQ(split("llama-bpe", "a\U000e0080"), (Words{"a", "\U000e0080"}));  // unassigned
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
  for (const PreTokenizerKind& kind : pre_tokenizer_kinds()) {
    const Words words = split(kind.name, text);
    EXPECT_GT(words.size(), 100u) << kind.name;
    std::string joined;
    for (const std::string& word : words) joined += word;
    EXPECT_EQ(joined, text) << kind.name;
  }
}

TEST(PreTokenizer, LongRunsReachNoLimit) {
  const size_t n = 1'000'000;
  std::string lines, letters;
  for (size_t i = 0; i < n / 4; ++i) lines += " \t\r\n";
  for (size_t i = 0; i < n / 4; ++i) letters += "AÉ";
  for (const std::string_view name : {"llama-bpe", "qwen2", "tekken"}) {
    EXPECT_EQ(split(name, std::string(n, ' ') + "\n1").front().size(), n + 1) << name;
    EXPECT_EQ(split(name, lines + "  "), (Words{lines, "  "})) << name;
  }
  for (const PreTokenizerKind& kind : pre_tokenizer_kinds()) {
    const std::string_view name = kind.name;
    EXPECT_EQ(split(name, std::string(n, ' ') + "x"), (Words{std::string(n - 1, ' '), " x"}))
        << name;
    EXPECT_EQ(split(name, std::string(n, ' ') + "\u0301").front().size(),
              name == "deepseek-llm" ? n + 2 : n - 1);
    EXPECT_EQ(split(name, std::string(n, '!')).size(), 1u) << name;
    EXPECT_EQ(split(name, std::string(n, 'a')).size(), 1u) << name;
    EXPECT_EQ(split(name, std::string(n, 'A')).size(), 1u) << name;
    EXPECT_EQ(split(name, letters).size(), name == "deepseek-llm" ? n / 2 : 1u) << name;
  }
}

TEST(PreTokenizer, ReachedLimitIsAnErrorThatSaysWhere) {
  const PreTokenizer pre_tokenizer(*find_pre_tokenizer("gpt-2"), 1);
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
