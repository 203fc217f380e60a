#include "engine/tokenizer/byte_level.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace greta {
namespace {

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
