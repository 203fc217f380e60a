#include "db/clickhouse/address.h"

#include <algorithm>
#include <charconv>

#include "common/exit_status.h"

namespace greta::clickhouse {
namespace {

constexpr std::string_view kPlain = "clickhouse://", kTls = "clickhouses://";
constexpr std::string_view kEscaped = "%/@:?#";

void require(bool holds, const std::string& what) {
  if (!holds) throw UsageError(what + ": clickhouse://USER@HOST:PORT/DATABASE");
}

/// A name in which %2F and the like stand for what they encode.
std::string decoded(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned char c = static_cast<unsigned char>(text[i]);
    if (c == '%') {
      const std::string_view digits = text.substr(i + 1, 2);
      const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), c, 16);
      require(digits.size() == 2 && read.ec == std::errc() && read.ptr == digits.end(),
              "a % in an address is no %XX");
      i += 2;
    }
    require(c >= 0x20 && c != 0x7f, "an address has a control character");
    plain += static_cast<char>(c);
  }
  return plain;
}

std::string encoded(std::string_view text) {
  constexpr const char* kDigits = "0123456789ABCDEF";
  std::string all;
  for (const char c : text) {
    if (kEscaped.find(c) == std::string_view::npos) {
      all += c;
    } else {
      all.append({'%', kDigits[c >> 4], kDigits[c & 15]});
    }
  }
  return all;
}

/// The part of `text` before the first `mark`, which is removed with it; all of it without one.
std::string_view take_until(std::string_view& text, char mark) {
  const std::string_view part = text.substr(0, text.find(mark));
  text.remove_prefix(std::min(text.size(), part.size() + 1));
  return part;
}

std::string host_and_port(const Address& address) {
  const bool is_v6 = address.host.find(':') != std::string::npos;
  return (is_v6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

}  // namespace

bool is_address(std::string_view text) {
  return text.starts_with(kPlain) || text.starts_with(kTls);
}

Address parse_address(std::string_view text) {
  require(is_address(text), "no address of a warehouse");
  Address address;
  address.tls = text.starts_with(kTls);
  text.remove_prefix(address.tls ? kTls.size() : kPlain.size());
  std::string_view server = take_until(text, '/');
  if (server.find('@') != std::string_view::npos) {
    const std::string_view user = take_until(server, '@');
    if (user.find(':') != std::string_view::npos || server.find('@') != std::string_view::npos) {
      throw UsageError(
          "an address holds no password: $GRETA_FLEET_PASSWORD has it, or the file that"
          " $GRETA_FLEET_PASSWORD_FILE names, or it is asked for");
    }
    address.user = decoded(user);
  }
  if (address.user.empty()) address.user = "default";
  const bool is_v6 = server.starts_with('[');
  if (is_v6) {
    server.remove_prefix(1);
    require(server.find(']') != std::string_view::npos, "an IPv6 address stands in [ and ]");
    address.host = take_until(server, ']');
    require(server.empty() || server.starts_with(':'), "a port stands behind the host and :");
  } else {
    const size_t colon = server.find(':');
    address.host = server.substr(0, colon);
    server.remove_prefix(address.host.size());
  }
  const std::string_view allowed =
      is_v6 ? "0123456789abcdefABCDEF:."
            : "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
  require(!address.host.empty() && address.host.find_first_not_of(allowed) == std::string::npos,
          "the host of a ClickHouse server is a name or an address");
  address.port = address.tls ? 8443 : 8123;
  if (server.starts_with(':')) {
    server.remove_prefix(1);
    const auto read = std::from_chars(server.data(), server.data() + server.size(), address.port);
    require(read.ec == std::errc() && read.ptr == server.end() && address.port != 0,
            "the port of a ClickHouse server is a number from 1 to 65535");
  }
  require(!text.empty() && text.find_first_of("/?#") == std::string_view::npos,
          "an address ends with the name of a database, without parameters");
  address.database = decoded(text);
  return address;
}

std::string Address::text() const {
  return std::string(tls ? kTls : kPlain) + encoded(user) + "@" + host_and_port(*this) + "/" +
         encoded(database);
}

std::string Address::url() const {
  return (tls ? "https://" : "http://") + host_and_port(*this) + "/";
}

}  // namespace greta::clickhouse
