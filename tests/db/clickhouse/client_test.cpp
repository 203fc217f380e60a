// A client against servers that lie, or break off.
#include "db/clickhouse/client.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <thread>
#include <utility>

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
  EXPECT_NE(asked(half).find("8 bytes "), std::string::npos) << asked(half);
  const std::string in_a_row = FakeServer::whole(bytes_of(7) + "x");
  EXPECT_NE(asked(in_a_row).find("within a row"), std::string::npos) << asked(in_a_row);
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

}  // namespace
}  // namespace greta::clickhouse
