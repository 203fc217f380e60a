// A client against servers that lie, break off or never end.
#include "db/clickhouse/client.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "tests/db/clickhouse/fake_server.h"

namespace greta::clickhouse {
namespace {

constexpr const char* kSecret = "hunter2";

/// What becomes of `SELECT 7`, where the server knows its settings and then answers like that: the
/// number, or what was said.
std::string asked(FakeServer& server) {
  ClientOptions options;
  options.password = kSecret;
  options.retries.attempts = 1;
  options.patience_ms = 2'000;
  options.most_row_bytes = size_t{1} << 24;
  Client client(parse_address("clickhouse://ci@127.0.0.1:" + std::to_string(server.port()) + "/d"),
                options);
  try {
    return std::to_string(client.number("SELECT 7"));
  } catch (const Error& error) {
    return error.what();
  }
}

/// Answers what a client asks of settings itself.
FakeServer::Answer knowing_settings(FakeServer::Answer answer) {
  return [answer = std::move(answer)](const std::string& request, int socket) {
    RowWriter rows;
    if (request.find("SELECT name FROM") != std::string::npos) {
      rows.text("skip_unavailable_shards");
    } else if (request.find("SELECT name, value") != std::string::npos) {
      rows.text("skip_unavailable_shards").text("0");
    } else {
      return answer(request, socket);
    }
    FakeServer::say(socket, FakeServer::whole(rows.bytes()));
  };
}

std::string asked(const FakeServer::Answer& answer) {
  FakeServer server(knowing_settings(answer));
  return asked(server);
}

std::string asked(const std::string& answer) {
  return asked([&](const std::string&, int socket) { FakeServer::say(socket, answer); });
}

std::string bytes_of(uint64_t number) { return RowWriter().u64(number).bytes(); }

TEST(ClickHouseClient, BelievesAWholeAnswer) {
  EXPECT_EQ(asked(FakeServer::whole(bytes_of(7))), "7");
  EXPECT_EQ(asked("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n" + bytes_of(7) +
                  "\r\n0\r\n\r\n"),
            "7");
}

TEST(ClickHouseClient, AnAnswerThatDoesNotSayWhereItEndsIsNone) {
  for (const char* version : {"1.0", "1.1"}) {
    const std::string said =
        asked(std::string("HTTP/") + version + " 200 OK\r\n\r\n" + bytes_of(7));
    EXPECT_NE(said.find("where it ends"), std::string::npos) << said;
  }
}

TEST(ClickHouseClient, HalfAnAnswerIsNone) {
  const std::string half = "HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n" + bytes_of(7);
  EXPECT_NE(asked(half).find("in the middle of an answer"), std::string::npos) << asked(half);
  const std::string in_a_row = FakeServer::whole(bytes_of(7) + "x");
  EXPECT_NE(asked(in_a_row).find("within a row"), std::string::npos) << asked(in_a_row);
}

TEST(ClickHouseClient, AnExceptionInTheMiddleOfAGoodAnswerIsWhatTheServerSays) {
  const std::string first = bytes_of(7);
  for (const std::string& text :
       {std::string("Code: 241, e.displayText() = DB::Exception: Memory limit exceeded, e.what() ="
                    " DB::Exception\n"),
        std::string("Code: 241. DB::Exception: Memory limit exceeded. (MEMORY_LIMIT_EXCEEDED)"
                    " (version 24.8.1)\n")}) {
    for (const std::string& rows : {std::string(), first, first + first.substr(0, 3)}) {
      const std::string chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
      const auto chunk = [](const std::string& bytes) {
        char size[16];
        std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
        return size + bytes + "\r\n";
      };
      std::string pieces = chunked;
      if (!rows.empty()) pieces += chunk(rows);
      for (size_t at = 0; at < text.size(); at += 7) pieces += chunk(text.substr(at, 7));
      for (const std::string& answer :
           {pieces + "0\r\n\r\n", pieces, FakeServer::whole(rows + text),
            // whose text ends as a row would
            FakeServer::whole(rows + text.substr(0, text.size() / 8 * 8))}) {
        const std::string said = asked(answer);
        EXPECT_NE(said.find("Memory limit exceeded"), std::string::npos) << said;
        EXPECT_TRUE(said.starts_with("clickhouse://ci@127.0.0.1:")) << said;
        EXPECT_EQ(said.find('\n'), std::string::npos) << said;
      }
    }
  }
}

TEST(ClickHouseClient, ValuesThatReadAsAnExceptionAreValues) {
  const std::string text = "Code: 241, e.displayText() = DB::Exception: x, e.what() = y\n";
  std::vector<std::string> seen;
  FakeServer server(knowing_settings([&](const std::string&, int socket) {
    FakeServer::say(socket, FakeServer::whole(RowWriter().text(text).text("Code: 24").bytes()));
  }));
  Client client(parse_address("clickhouse://ci@127.0.0.1:" + std::to_string(server.port()) + "/d"),
                {});
  client.select("SELECT x", [&](RowReader& row) { seen.emplace_back(row.text()); });
  EXPECT_EQ(seen, (std::vector<std::string>{text, "Code: 24"}));
}

TEST(ClickHouseClient, RowsOfWhatNobodyAskedForAreAnErrorOfOneLine) {
  FakeServer server(knowing_settings([&](const std::string&, int socket) {
    FakeServer::say(socket, FakeServer::whole(bytes_of(8)));
  }));
  Client client(parse_address("clickhouse://ci@127.0.0.1:" + std::to_string(server.port()) + "/d"),
                {});
  const std::map<uint64_t, int> asked{{7, 1}};
  std::string said;
  try {
    client.select("SELECT 7", [&](RowReader& row) { asked.at(row.u64()); });
  } catch (const Error& error) {
    said = error.what();
  }
  EXPECT_NE(said.find("none of what was asked for"), std::string::npos) << said;
}

TEST(ClickHouseClient, GarbageIsAnErrorOfOneLine) {
  for (const std::string& garbage :
       {std::string("\x1b[2Jgarbage\n\0\xff", 14), std::string(), FakeServer::whole(""),
        FakeServer::whole("<html>\nlog in</html>", "200 OK"),
        FakeServer::whole("<html>\nlog in</html>", "502 Bad Gateway"),
        FakeServer::whole("Code: 99999999999999999999, e.displayText() = x", "500 No")}) {
    const std::string said = asked(garbage);
    EXPECT_NE(said, "");
    EXPECT_EQ(said.find_first_of("\n\x1b"), std::string::npos) << said;
    EXPECT_TRUE(said.starts_with("clickhouse://ci@127.0.0.1:")) << said;
  }
}

TEST(ClickHouseClient, ARedirectIsNotFollowed) {
  FakeServer other([](const std::string&, int socket) {
    FakeServer::say(socket, FakeServer::whole(bytes_of(8)));
  });
  const std::string said =
      asked("HTTP/1.1 307 Moved\r\nContent-Length: 0\r\nLocation: http://127.0.0.1:" +
            std::to_string(other.port()) + "/\r\n\r\n");
  EXPECT_NE(said.find("307"), std::string::npos) << said;
  EXPECT_EQ(other.requests(), 0);
}

TEST(ClickHouseClient, APasswordThatAServerRepeatsIsNotShown) {
  const std::string said = asked([](const std::string& request, int socket) {
    EXPECT_NE(request.find(kSecret), std::string::npos);
    FakeServer::say(socket, FakeServer::whole("you sent " + request.substr(0, 400), "500 No"));
  });
  EXPECT_NE(said.find("you sent"), std::string::npos) << said;
  EXPECT_EQ(said.find(kSecret), std::string::npos) << said;
}

TEST(ClickHouseClient, ADripOfBytesEnds) {
  const std::string said = asked([](const std::string&, int socket) {
    bool is_there = FakeServer::say(socket, "HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n");
    for (int i = 0; is_there && i < 1200; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(25));
      is_there = FakeServer::say(socket, "x");
    }
  });
  EXPECT_NE(said.find("too slow"), std::string::npos) << said;
}

TEST(ClickHouseClient, ARowWithoutEndEndsBeforeMemoryDoes) {
  // the row of a text that is longer than any
  FakeServer server([&](const std::string&, int socket) {
    const std::string piece(size_t{1} << 20, 'x');
    bool is_there =
        FakeServer::say(socket, "HTTP/1.1 200 OK\r\nContent-Length: 99000000000\r\n\r\n" +
                                    RowWriter().length(uint64_t{1} << 36).bytes());
    while (is_there) {
      is_there = FakeServer::say(socket, piece);
    }
  });
  const std::string said = asked(server);
  EXPECT_NE(said.find("no end"), std::string::npos) << said;
}

}  // namespace
}  // namespace greta::clickhouse
