// That AddressSanitizer sees how SQLite's memory is used (db/sanitised_memory.cpp).
#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>
#include <sanitizer/asan_interface.h>
#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace greta {
namespace {

TEST(SanitisedMemory, WhoReadsBeyondWhatSqliteHandsOutIsStopped) {
  for (const int bytes : {1, 7, 8, 33, 100, 1000, 5000, 300'000, 3'000'000}) {
    auto* text = static_cast<char*>(sqlite3_malloc(bytes));
    std::memset(text, 'x', static_cast<size_t>(bytes));
    EXPECT_EQ(__asan_region_is_poisoned(text, static_cast<size_t>(bytes)), nullptr);
    EXPECT_TRUE(__asan_address_is_poisoned(text + bytes)) << bytes;
    EXPECT_TRUE(__asan_address_is_poisoned(text - 1)) << bytes;
    if (bytes == 33) {  // a report takes its time
      EXPECT_DEATH(EXPECT_EQ(std::count(text, text + bytes + 1, 'x'), bytes), "use-after-poison");
    }
    sqlite3_free(text);
    EXPECT_TRUE(__asan_address_is_poisoned(text)) << bytes;
    EXPECT_TRUE(__asan_address_is_poisoned(text + bytes - 1)) << bytes;
  }
}

TEST(SanitisedMemory, WhoReadsATextOfAStatementThatIsGoneIsStopped) {
  SQLite::Database db(":memory:");
  const char* text = nullptr;
  {
    SQLite::Statement statement(db, "SELECT hex(zeroblob(500))");
    ASSERT_TRUE(statement.executeStep());
    text = statement.getColumn(0).getText();
    EXPECT_EQ(std::string(text).size(), 1000u);
  }
  EXPECT_DEATH(EXPECT_EQ(text[0], '0'), "use-after-poison");
}

TEST(SanitisedMemory, WhatIsResizedKeepsItsBytes) {
  auto* text = static_cast<char*>(sqlite3_malloc(3));
  std::memcpy(text, "abc", 3);
  for (const int bytes : {4, 60, 61, 4096, 1 << 20, 5, 3}) {
    text = static_cast<char*>(sqlite3_realloc(text, bytes));
    EXPECT_EQ(std::string(text, 3), "abc");
    EXPECT_EQ(__asan_region_is_poisoned(text, static_cast<size_t>(bytes)), nullptr);
    EXPECT_TRUE(__asan_address_is_poisoned(text + bytes)) << bytes;
  }
  sqlite3_free(text);
}

TEST(SanitisedMemory, IsOfManyThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      std::vector<char*> held(100, nullptr);
      for (int i = 0; i < 20'000; ++i) {
        char*& text = held[static_cast<size_t>(i * 37 % 100)];
        const bool is_kept = text == nullptr || *text == static_cast<char>(t);
        EXPECT_TRUE(is_kept);
        sqlite3_free(text);
        text = static_cast<char*>(sqlite3_malloc(1 + i * 101 % 700));
        *text = static_cast<char>(t);
      }
      for (char* text : held) sqlite3_free(text);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace greta
