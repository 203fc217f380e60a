#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "db/clickhouse/address.h"
#include "db/clickhouse/error.h"
#include "db/clickhouse/retry.h"
#include "db/clickhouse/row_binary.h"

namespace greta::clickhouse {

/// A table that a statement reads and that travels with it.
struct ExternalTable {
  std::string name;
  std::string structure;  ///< "push UInt64, name String"
  std::string rows;       ///< RowBinary
};

/// How a client behaves; what is not set is sensible.
struct ClientOptions {
  std::string password;
  std::string ca_file;            ///< PEM; "" the system's
  Retries retries;                ///< of what may safely be asked again; inserts are their caller's
  int64_t patience_ms = 600'000;  ///< for one answer
  int64_t connect_ms = 10'000;
  size_t most_row_bytes = 1'000'000'000;  ///< SQLite has none that is longer
};

/// A connection to one server. Members throw Unavailable, Refused, Error or Stopped: an answer that
/// is not whole is none. No password is in any message.
class Client {
 public:
  Client(Address address, ClientOptions options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const Address& address() const { return address_; }
  const Retries& retries() const { return options_.retries; }

  /// Asks for the settings under which no row of an answer may be missing, and throws Error where
  /// the server's profile insists on others. Called by the first statement.
  void check_settings();

  /// Runs a statement that reads, as often as it takes; `row` is called for every row of its
  /// answer, which arrives whole or not at all, in RowBinary: the statement names no FORMAT. It
  /// reads all of a row before it changes anything, for one that is not there as a whole yet is
  /// read again.
  void select(const std::string& sql, const std::function<void(RowReader&)>& row,
              const std::vector<ExternalTable>& tables = {});

  /// The first column of the first row, a UInt64.
  uint64_t number(const std::string& sql, const std::vector<ExternalTable>& tables = {});

  /// Runs a statement that changes something and has no answer, once.
  void execute(const std::string& sql);

  /// The same of one that may be run twice ("CREATE ... IF NOT EXISTS"), as often as it takes.
  void ensure(const std::string& sql);

  /// Sends rows, once: `next` gives RowBinary of whole rows, up to 16 MiB, and "" after the last.
  /// After an error nobody knows which of them arrived.
  void insert(const std::string& table, const std::string& columns,
              const std::function<std::string_view()>& next);

 private:
  struct Curl;
  struct Request;
  std::string parameters(bool reads) const;
  void perform(Request& request);

  Address address_;
  ClientOptions options_;
  std::unique_ptr<Curl> curl_;
  std::map<std::string, std::string> settings_;  ///< that every statement asks for
  bool checked_ = false;
};

}  // namespace greta::clickhouse
