#include <gtest/gtest.h>

#include <bit>
#include <set>

#include "common/exit_status.h"
#include "db/clickhouse/address.h"
#include "db/clickhouse/client.h"
#include "db/clickhouse/quote.h"
#include "db/clickhouse/row_hash.h"

namespace greta::clickhouse {
namespace {

std::string refusal_of(const std::string& text) {
  try {
    parse_address(text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(ClickHouseAddress, HasUserHostPortAndDatabase) {
  const Address address = parse_address("clickhouse://ci@db.example:8124/traces");
  EXPECT_FALSE(address.tls);
  EXPECT_EQ(address.user, "ci");
  EXPECT_EQ(address.host, "db.example");
  EXPECT_EQ(address.port, 8124);
  EXPECT_EQ(address.database, "traces");
  EXPECT_EQ(address.text(), "clickhouse://ci@db.example:8124/traces");
  EXPECT_EQ(address.url(), "http://db.example:8124/");
}

TEST(ClickHouseAddress, UserAndPortHaveDefaults) {
  EXPECT_EQ(parse_address("clickhouse://h/d").text(), "clickhouse://default@h:8123/d");
  EXPECT_EQ(parse_address("clickhouses://h/d").text(), "clickhouses://default@h:8443/d");
  EXPECT_EQ(parse_address("clickhouses://h/d").url(), "https://h:8443/");
}

TEST(ClickHouseAddress, AnIPv6AddressStandsInBrackets) {
  const Address address = parse_address("clickhouse://[::1]:9/d");
  EXPECT_EQ(address.host, "::1");
  EXPECT_EQ(address.url(), "http://[::1]:9/");
  EXPECT_EQ(parse_address(address.text()).host, "::1");
}

TEST(ClickHouseAddress, NamesMayHaveAnyCharacterThatIsWrittenAsPercent) {
  const Address address = parse_address("clickhouse://a%40b@h/x%25y");
  EXPECT_EQ(address.user, "a@b");
  EXPECT_EQ(address.database, "x%y");
  EXPECT_EQ(parse_address(address.text()).user, "a@b");
}

TEST(ClickHouseAddress, APasswordIsRefusedAndNotRepeated) {
  const std::string said = refusal_of("clickhouse://ci:hunter2@h/d");
  EXPECT_NE(said.find("holds no password"), std::string::npos);
  EXPECT_EQ(said.find("hunter2"), std::string::npos);
}

TEST(ClickHouseAddress, WhatIsNoneIsRefused) {
  for (const char* text :
       {"clickhouse://", "clickhouse://h", "clickhouse://h/", "clickhouse:///d",
        "clickhouse://h:/d", "clickhouse://h:0/d", "clickhouse://h:65536/d", "clickhouse://h:8x/d",
        "clickhouse://h/d/e", "clickhouse://h/d?x=1", "clickhouse://h h/d", "clickhouse://[::1/d",
        "clickhouse://[::1]x/d", "clickhouse://h/%zz", "clickhouse://h/%0a", "clickhouse://[ab]c/d",
        "http://h/d", ""}) {
    EXPECT_NE(refusal_of(text), "") << text;
  }
  EXPECT_TRUE(is_address("clickhouses://x"));
  EXPECT_FALSE(is_address("greta.db"));
}

TEST(Quote, ATextEndsWhereItEnds) {
  EXPECT_EQ(quote_text("plain"), "'plain'");
  EXPECT_EQ(quote_text("'; DROP TABLE run --"), "'\\'; DROP TABLE run --'");
  EXPECT_EQ(quote_text("a\\"), "'a\\\\'");
  EXPECT_EQ(quote_text(std::string("\0\n\x7f", 3)), "'\\x00\\x0A\\x7F'");
  EXPECT_EQ(quote_text("ü\xff"), "'ü\xff'");
  EXPECT_EQ(quote_name("a`b"), "`a\\`b`");
}

TEST(RowBinary, WhatIsWrittenIsRead) {
  RowWriter writer;
  writer.u8(7).i64(-5).f64(0.1).text("it's").null(true).null(false).text("9").length(300);
  RowReader reader(writer.bytes());
  EXPECT_EQ(reader.u8(), 7);
  EXPECT_EQ(reader.i64(), -5);
  EXPECT_EQ(reader.f64(), 0.1);
  EXPECT_EQ(reader.text(), "it's");
  EXPECT_EQ(reader.text_or_null(), std::nullopt);
  EXPECT_EQ(reader.text_or_null(), "9");
  EXPECT_EQ(reader.length(), 300u);
  EXPECT_TRUE(reader.at_end());
  EXPECT_THROW(reader.u8(), NoMoreBytes);
}

TEST(RowBinary, ARowThatIsCutIsNone) {
  RowWriter writer;
  writer.text(std::string(1000, 'x')).f64(1);
  for (size_t n = 0; n < writer.size(); ++n) {
    RowReader reader(std::string_view(writer.bytes()).substr(0, n));
    EXPECT_THROW(
        {
          reader.text();
          reader.f64();
        },
        NoMoreBytes)
        << n;
  }
  RowReader endless(std::string_view("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"));
  EXPECT_THROW(endless.text(), NoMoreBytes);
}

TEST(RowHash, IsWhatClickHouseWorksOut) {
  // cityHash64 and sipHash64 of ClickHouse 18.16
  const auto bits = [](double value) { return std::bit_cast<uint64_t>(value); };
  EXPECT_EQ(RowHash().number(5).value(), 15228578409069794350u);
  EXPECT_EQ(RowHash().number(static_cast<uint64_t>(-5)).value(), 13263830642547698461u);
  EXPECT_EQ(RowHash().number(bits(1.5)).value(), 7287324520655339053u);
  EXPECT_EQ(RowHash().number(1).number(2).value(), 463667963421364848u);
  EXPECT_EQ(RowHash().number(1).number(2).number(bits(1.5)).number(bits(-2.5)).value(),
            133014733463346133u);                                           // (1, [1.5, -2.5])
  EXPECT_EQ(RowHash().number(1).number(0).value(), 10275428604011817656u);  // (1, [])
  EXPECT_NE(RowHash().number(bits(0.0)).value(), RowHash().number(bits(-0.0)).value());
  EXPECT_EQ(sip_hash64(""), 2202906307356721367u);
  EXPECT_EQ(sip_hash64("abc"), 4596069200710135518u);
}

TEST(RowHash, ATextOfAnyLengthIsTakenWhole) {
  std::set<uint64_t> seen;
  std::string text;
  for (int i = 0; i < 40; ++i, text += '\0') seen.insert(sip_hash64(text));
  EXPECT_EQ(seen.size(), 40u);
}

TEST(Refusal, OfWhatMayPassIsUnavailable) {
  const Address at = parse_address("clickhouse://h/d");
  const auto body = [](int code) {
    return "Code: " + std::to_string(code) +
           ", e.displayText() = DB::Exception: x\ny, e.what() = z";
  };
  for (const int code : {209, 210, 242, 279, 999})
    EXPECT_THROW(refuse(at, 500, body(code)), Unavailable) << code;
  for (const int code : {60, 241, 516}) EXPECT_THROW(refuse(at, 500, body(code)), Refused) << code;
  try {
    refuse(at, 500, body(210));
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "clickhouse://default@h:8123/d: x y");
  }
  try {
    refuse(
        at, 500,
        "Code: 279, e.displayText() = DB::NetException: All connection tries failed. Log: \n\n"
        "Code: 210, e.displayText() = DB::NetException: Connection refused (h2:9000), e.what() =");
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "clickhouse://default@h:8123/d: a server of its cluster is away: All connection"
                 " tries failed. Log:   Code: 210, e.displayText() = DB::NetException: Connection"
                 " refused (h2:9000)");
  }
}

TEST(Retry, OnlyWhatIsUnavailableIsTriedAgainAndNotForEver) {
  int times = 0, told = 0;
  const Retries retries{2, [&](const Unavailable&) { ++told; }};
  const auto fail = [&] {
    ++times;
    throw Unavailable("away");
  };
  EXPECT_THROW(until_available(retries, fail), Unavailable);
  EXPECT_EQ(times, 2);
  EXPECT_EQ(told, 1);
  times = 0;
  until_available(retries, [&] {
    if (++times == 1) throw Unavailable("away");
  });
  EXPECT_EQ(times, 2);
  times = 0;
  const auto refuse_it = [&] {
    ++times;
    throw Refused("no", 60);
  };
  EXPECT_THROW(until_available(retries, refuse_it), Refused);
  EXPECT_EQ(times, 1);
}

}  // namespace
}  // namespace greta::clickhouse
