#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace greta::clickhouse {

/// A database of a ClickHouse server: clickhouse://USER@HOST:PORT/DATABASE over HTTP, or
/// clickhouses:// over TLS. An address has no password.
struct Address {
  bool tls = false;
  std::string user;      ///< "default" when none is given
  std::string host;      ///< name, IPv4 address, or IPv6 address without its brackets
  uint16_t port = 0;     ///< 8123, or 8443 over TLS, when none is given
  std::string database;  ///< never empty

  std::string text() const;
  std::string url() const;  ///< http://HOST:PORT/
};

/// True if a name of a database is meant as such an address.
bool is_address(std::string_view text);

/// Throws UsageError, which does not repeat what may be a password.
Address parse_address(std::string_view text);

}  // namespace greta::clickhouse
