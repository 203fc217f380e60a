#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace greta::clickhouse {

/// Where a database of a ClickHouse server is: clickhouse://USER@HOST:PORT/DATABASE, over HTTP, or
/// clickhouses:// over TLS. A password has no place in it.
struct Address {
  bool tls = false;
  std::string user;      ///< "default" when none is given
  std::string host;      ///< name, IPv4 address, or IPv6 address without its brackets
  uint16_t port = 0;     ///< 8123, or 8443 over TLS, when none is given
  std::string database;  ///< never empty

  /// As it was written, to be shown.
  std::string text() const;
  /// http://HOST:PORT/
  std::string url() const;
};

/// Whether a name of a database is meant as such an address.
bool is_address(std::string_view text);

/// Throws UsageError, which does not repeat what may be a password.
Address parse_address(std::string_view text);

}  // namespace greta::clickhouse
