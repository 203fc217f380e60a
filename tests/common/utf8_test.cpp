#include "common/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace greta::utf8 {
namespace {

using Kind = Head::Kind;
using namespace std::string_literals;

struct HeadCase {
  std::string text;
  Kind kind;
  size_t bytes;
};

TEST(Utf8, HeadTellsCharactersFromPartsAndNonsense) {
  const std::vector<HeadCase> cases{
      {"", Kind::kPartial, 0},
      {"\0"s, Kind::kCharacter, 1},
      {"\x7f", Kind::kCharacter, 1},
      {"é!", Kind::kCharacter, 2},
      {"\xe0\xa0\x80", Kind::kCharacter, 3},      // U+0800, the first of three bytes
      {"\xed\x9f\xbf", Kind::kCharacter, 3},      // U+D7FF, the last before the surrogates
      {"\xee\x80\x80", Kind::kCharacter, 3},      // U+E000
      {"\xf0\x90\x80\x80", Kind::kCharacter, 4},  // U+10000
      {"\xf4\x8f\xbf\xbf", Kind::kCharacter, 4},  // U+10FFFF
      {"\xc3", Kind::kPartial, 1},
      {"\xf0\x9f\x98", Kind::kPartial, 3},
      {"\x80", Kind::kInvalid, 1},
      {"\xc0\xaf", Kind::kInvalid, 1},          // overlong
      {"\xc1\xbf", Kind::kInvalid, 1},          // overlong
      {"\xe0\x9f\xbf", Kind::kInvalid, 1},      // overlong
      {"\xf0\x8f\xbf\xbf", Kind::kInvalid, 1},  // overlong
      {"\xed\xa0\x80", Kind::kInvalid, 1},      // surrogate
      {"\xf4\x90\x80\x80", Kind::kInvalid, 1},  // above U+10FFFF
      {"\xf5\x80\x80\x80", Kind::kInvalid, 1},
      {"\xff", Kind::kInvalid, 1},
      {"\xe4\xbd!", Kind::kInvalid, 2},
      {"\xf0\x9f\x98\xc3", Kind::kInvalid, 3},
  };
  for (const HeadCase& c : cases) {
    const Head found = head(c.text);
    EXPECT_EQ(found.kind, c.kind) << testing::PrintToString(c.text);
    EXPECT_EQ(found.bytes, c.bytes) << testing::PrintToString(c.text);
  }
}

TEST(Utf8, ValidPrefixEndsWhereCharactersDo) {
  EXPECT_EQ(valid_prefix(""), 0u);
  EXPECT_EQ(valid_prefix("plain ASCII of some length"), 26u);
  EXPECT_EQ(valid_prefix("12345678é\xff"), 10u);
  for (size_t before = 0; before < 20; ++before) {
    const std::string ascii(before, 'x');
    EXPECT_EQ(valid_prefix(ascii + "\x80 more"), before);
    EXPECT_EQ(valid_prefix(ascii + "\xe4\xbd"), before);
    EXPECT_EQ(valid_prefix(ascii + "你好"), before + 6);
  }
}

TEST(Utf8, HeadDecodes) {
  EXPECT_EQ(head("a").code, U'a');
  EXPECT_EQ(head("é").code, U'é');
  EXPECT_EQ(head("你").code, U'你');
  EXPECT_EQ(head("😀").code, U'😀');
}

TEST(Utf8, WhatIsValid) {
  for (const char* good : {"", "abc", "\xc3\xa9", "\xe2\x80\x94", "\xf0\x9f\x98\x80"}) {
    EXPECT_TRUE(is_valid(good)) << good;
  }
  for (const char* bad : {"\xc6", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80", "a\xff",
                          "\xe2\x80", "\xe0\x80\x80"}) {
    EXPECT_FALSE(is_valid(bad));
  }
}

TEST(Utf8, InvalidBytesAreReplacedOneByOne) {
  EXPECT_EQ(replace_invalid("a\xff"
                            "b"),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(replace_invalid("\xC0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD");                  // overlong
  EXPECT_EQ(replace_invalid("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // surrogate
  EXPECT_EQ(replace_invalid("\xE2\x82"), "\xEF\xBF\xBD\xEF\xBF\xBD");                  // cut short
  EXPECT_EQ(replace_invalid("é日😀"), "é日😀");
}

TEST(Utf8, ControlCharactersAreSpelledOut) {
  EXPECT_EQ(printable("a\n\t\x1b[31m\x7f"), "a\\n\\t\\x1b[31m\\x7f");
  EXPECT_EQ(printable("\xc2\x9b\xff"), "\\x9b\xEF\xBF\xBD");  // C1: some terminals act on it
}

TEST(Utf8, WhatTurnsOrHidesTextIsSpelledOut) {
  EXPECT_EQ(printable("a\u202eb\u2066c\u2069"), "a\\u202eb\\u2066c\\u2069");
  EXPECT_EQ(printable("\u061c\u200e\u200f\u2028\u2029"), "\\u061c\\u200e\\u200f\\u2028\\u2029");
  EXPECT_EQ(printable("x\u200b\ufeff\u00ad\u2060"), "x\\u200b\\ufeff\\xad\\u2060");
  EXPECT_EQ(printable("\U000e0041"), "\\U000e0041");  // tags: a whole sentence can hide in them
}

TEST(Utf8, ScriptsAndEmojiKeepTheirJoiners) {
  for (const char* text :
       {"👩‍💻", "❤️", "🏳️‍🌈", "می‌خواهم", "é 日本 ñ", "العربية"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Utf8, AJoinerCannotMakeTwoNamesLookAlike) {
  EXPECT_EQ(printable("attn\u200d_out"), "attn\\u200d_out");
  EXPECT_EQ(printable("a\ufe0f"), "a\\ufe0f");
  EXPECT_EQ(printable("é\u200d\u200d"), "é\u200d\\u200d");
  EXPECT_EQ(printable("\x1b\u200c"), "\\x1b\\u200c");
}

TEST(Utf8, AnEscapeIsKeptWhereItIsAskedFor) {
  EXPECT_EQ(printable("a\tb\n\x1b", "\n\t"), "a\tb\n\\x1b");
}

TEST(Utf8Stream, GivesWholeCharactersWhateverThePieces) {
  const std::string text = "a é 你 😀 👩‍💻\n";
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    Stream stream;
    std::string all;
    for (size_t at = 0; at < text.size(); at += piece) {
      const std::string characters = stream.push(std::string_view(text).substr(at, piece));
      EXPECT_EQ(valid_prefix(characters), characters.size());
      all += characters;
    }
    EXPECT_EQ(all + stream.finish(), text) << piece;
  }
}

TEST(Utf8Stream, HoldsBackOnlyWhatMayStillBecomeACharacter) {
  Stream stream;
  EXPECT_EQ(stream.push("ab\xf0\x9f"), "ab");
  EXPECT_EQ(stream.push("\x98"), "");
  EXPECT_EQ(stream.push("\x80"), "😀");
  EXPECT_EQ(stream.push(""), "");
}

TEST(Utf8Stream, ReplacesWhatIsNoCharacter) {
  Stream stream;
  EXPECT_EQ(stream.push("a\xff\xfe"), "a\ufffd\ufffd");
  EXPECT_EQ(stream.push("\xe4\xbd"), "");
  EXPECT_EQ(stream.push("x"), "\ufffdx");
  EXPECT_EQ(stream.push("\xf0\x9f"), "");
  EXPECT_EQ(stream.finish(), "\ufffd");
  EXPECT_EQ(stream.finish(), "");
  EXPECT_EQ(stream.push("\x98\x80"), "\ufffd\ufffd");
}

}  // namespace
}  // namespace greta::utf8
