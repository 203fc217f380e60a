#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ingest/report_pairs.h"

namespace greta {
namespace {

struct HashCase {
  std::string a, b;
};

TEST(PrintedHash, OneValueIsEqualHoweverItIsPrinted) {
  const std::vector<HashCase> cases = {
      {"4144761570523161186", "4,144,761,570,523,161,186"},
      {"4144761570523161186", "4.144.761.570.523.161.186"},
      {"4144761570523161186", "4 144\u00a0761\u202f570_523'161 186"},
      {"4144761570523161186", "0x398526b041b92262"},
      {"4144761570523161186", "398526B041B92262"},
      {"0xDEADBEEF", "0x00000000deadbeef"},
      {"3735928559", "deadbeef"},
      {"0x00001234", "00001234"},
      {"**`123`**", "'123'"},
      {"000123", "123"},
      {"0", "0x0000000000000000"},
      {"-1", "18446744073709551615"},
      {"-1", "0xffffffffffffffff"},
      {"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
       "0xE3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855"},
      {"same words", "Same Words"}};
  for (const HashCase& c : cases) {
    SCOPED_TRACE(c.a + " and " + c.b);
    EXPECT_EQ(same_printed_hash(c.a, c.b), true);
    EXPECT_EQ(same_printed_hash(c.b, c.a), true);
  }
}

TEST(PrintedHash, OtherValuesDiffer) {
  const std::vector<HashCase> cases = {{"4144761570523161186", "4144761570523161187"},
                                       {"0xdeadbeef", "0xdeadbeee"},
                                       {"0x1234", "1234"},
                                       {"123", "1230"},
                                       {"12345678901234567890123", "0x1"},
                                       {"123", "what"},
                                       {"12...", "13..."},
                                       {"12\u2026", "130"},
                                       {"123...", "12"},
                                       {"12...9", "12...8"},
                                       {"0xab...", "0xac..."},
                                       {"-1", "-2"},
                                       {std::string(300, '1'), std::string(300, '1') + "2"}};
  for (const HashCase& c : cases) {
    SCOPED_TRACE(c.a + " and " + c.b);
    EXPECT_EQ(same_printed_hash(c.a, c.b), false);
    EXPECT_EQ(same_printed_hash(c.b, c.a), false);
  }
}

TEST(PrintedHash, WhatIsAbsentOrCutDecidesNothing) {
  const std::vector<HashCase> cases = {{"", "1"},
                                       {"-", "1"},
                                       {"None", "1"},
                                       {"n/a", "TBD"},
                                       {"123...", "123..."},
                                       {"123...", "123456"},
                                       {"12...", "1234..."},
                                       {"...", "17"},
                                       {"0xab...", "12"}};
  for (const HashCase& c : cases) {
    SCOPED_TRACE(c.a + " and " + c.b);
    EXPECT_EQ(same_printed_hash(c.a, c.b), std::nullopt);
    EXPECT_EQ(same_printed_hash(c.b, c.a), std::nullopt);
  }
}

}  // namespace
}  // namespace greta
