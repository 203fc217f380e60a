#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "db/clickhouse/address.h"
#include "db/clickhouse/http.h"
#include "db/clickhouse/row_binary.h"

// Statements and inserts of a ClickHouse server.

namespace greta::clickhouse {

/// A statement that the server refuses; `code` is ClickHouse's.
struct Refused : Error {
  Refused(const std::string& what, int code_) : Error(what), code(code_) {}
  int code;
};

/// Refused::code of a wrong user or password.
inline constexpr int kWrongPassword = 516;

/// Throws what an answer with an HTTP status that is not 200 means: Unavailable, Refused, or Error
/// where it is not ClickHouse's.
[[noreturn]] void refuse(const Address& address, long status, std::string body);

/// Tries of a request that may be repeated.
struct Retries {
  int attempts = 5;                                 ///< 5 wait 3 s in all, 8 wait 25 s
  std::function<void(const Unavailable&)> waiting;  ///< called before each pause
};

/// Calls `once` until it throws no Unavailable; the last one goes to the caller. Pauses 0.2 s, then
/// each time twice as long. Throws Stopped while it waits.
void until_available(const Retries& retries, const std::function<void()>& once);

/// A table that a statement reads and that travels with it.
struct ExternalTable {
  std::string name;
  std::string structure;  ///< "push UInt64, name String"
  std::string rows;       ///< RowBinary
};

struct ClientOptions {
  std::string password;
  std::string ca_file;            ///< PEM; "" the system's
  Retries retries;                ///< of reads; inserts are their caller's
  int64_t patience_ms = 600'000;  ///< for one answer
};

/// A connection to one server. Members throw Unavailable, Refused, Error or Stopped.
class Client {
 public:
  Client(Address address, ClientOptions options);

  const Address& address() const { return address_; }
  const Retries& retries() const { return options_.retries; }

  /// Asks for the settings under which no row of an answer may be missing, and throws Error where
  /// the server's profile insists on others. Called by the first statement.
  void check_settings();

  /// Runs a statement without FORMAT that reads, again where the server is away. When the answer is
  /// there as a whole, `row` is called for each row and reads all of it.
  void select(const std::string& sql, const std::function<void(RowReader&)>& row,
              const std::vector<ExternalTable>& tables = {});

  /// The first column of the only row, a UInt64.
  uint64_t number(const std::string& sql);

  /// Runs a statement that has no answer, once.
  void execute(const std::string& sql);

  /// Sends whole rows in RowBinary, once. After an error it is unknown which of them arrived.
  void insert(const std::string& table, const std::string& columns, std::string_view rows);

 private:
  void read(const std::string& sql, const std::function<void(RowReader&)>& row,
            const std::vector<ExternalTable>& tables);
  void perform(const std::string& parameters, HttpRequest request, HttpBody& answer);
  void ask(const std::string& sql, const std::vector<ExternalTable>& tables, HttpBody& answer);

  Address address_;
  ClientOptions options_;
  HttpConnection connection_;
  std::map<std::string, std::string> settings_;  ///< that every statement asks for
  bool checked_ = false;
};

}  // namespace greta::clickhouse
