#include "common/near_words.h"

#include <gtest/gtest.h>

namespace greta {
namespace {

using Words = std::vector<std::string>;

TEST(NearWords, AreThoseThatHoldItThenThoseOfFewChanges) {
  const Words words{"firstfail", "failure", "history", "fail"};
  EXPECT_EQ(near_words("FAIL", words), (Words{"fail", "failure", "firstfail"}));
  EXPECT_EQ(near_words("firstfial", words), Words{"firstfail"});
  EXPECT_EQ(near_words("hystori", words), Words{"history"});
  EXPECT_EQ(near_words("something else", words), Words());
}

TEST(NearWords, AreFiveAtMost) {
  EXPECT_EQ(near_words("a", {"a1", "a2", "a3", "a4", "a5", "a6"}).size(), 5u);
}

TEST(NearWords, UnknownNameListsTheNearestElseAllOfFew) {
  const UsageError near = unknown_name("mode", "kv_alined", {"kv_aligned", "as_designed"}, "`x`");
  EXPECT_STREQ(near.what(), "no mode 'kv_alined'; perhaps:");
  EXPECT_EQ(near.lines, Words{"  kv_aligned"});
  const UsageError few = unknown_name("mode", "q", {"kv_aligned", "as_designed"}, "`x`");
  EXPECT_STREQ(few.what(), "no mode 'q'; there are:");
  EXPECT_EQ(few.lines.size(), 2u);
  const UsageError many = unknown_name("mode", "q", Words(13, "abc_def"), "`x`");
  EXPECT_STREQ(many.what(), "no mode 'q'; `x` lists them");
  EXPECT_STREQ(unknown_name("mode", "q", {}, "`x`").what(), "no mode 'q': there is none");
}

}  // namespace
}  // namespace greta
