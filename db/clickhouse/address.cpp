#include "db/clickhouse/address.h"

#include <charconv>

#include "common/exit_status.h"

namespace greta::clickhouse {
namespace {

constexpr std::string_view kPlain = "clickhouse://", kTls = "clickhouses://";
constexpr const char* kForm = "clickhouse://USER@HOST:PORT/DATABASE";

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/// %2F and the like become what they stand for.
std::string decoded(std::string_view text, const char* part) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
    if (low < 0) throw UsageError(std::string("the ") + part + " has a % that is no %XX");
    plain += static_cast<char>(high * 16 + low);
    i += 2;
  }
  for (const char c : plain) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      throw UsageError(std::string("the ") + part + " has a control character");
  }
  return plain;
}

std::string encoded(std::string_view text) {
  constexpr const char* kDigits = "0123456789ABCDEF";
  std::string all;
  for (const char c : text) {
    if (c == '%' || c == '/' || c == '@' || c == ':' || c == '?' || c == '#') {
      const auto byte = static_cast<unsigned char>(c);
      all.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
    } else {
      all += c;
    }
  }
  return all;
}

uint16_t port_of(std::string_view text) {
  unsigned port = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), port);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || port == 0 || port > 65535)
    throw UsageError("the port of a ClickHouse server is a number from 1 to 65535");
  return static_cast<uint16_t>(port);
}

void check_host(std::string_view host, bool is_v6) {
  if (host.empty()) throw UsageError(std::string("the address names no host: ") + kForm);
  const std::string_view allowed =
      is_v6 ? "0123456789abcdefABCDEF:."
            : "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
  if (host.find_first_not_of(allowed) != std::string_view::npos)
    throw UsageError("the host of a ClickHouse server is a name or an address");
}

}  // namespace

bool is_address(std::string_view text) {
  return text.starts_with(kPlain) || text.starts_with(kTls);
}

Address parse_address(std::string_view text) {
  Address address;
  address.tls = text.starts_with(kTls);
  if (!is_address(text)) throw UsageError(std::string("no address of a warehouse: ") + kForm);
  text.remove_prefix(address.tls ? kTls.size() : kPlain.size());
  if (text.find_first_of("?#") != std::string_view::npos)
    throw UsageError(std::string("an address has no parameters: ") + kForm);
  const size_t slash = text.find('/');
  std::string_view server = text.substr(0, slash);
  const std::string_view database =
      slash == std::string_view::npos ? std::string_view() : text.substr(slash + 1);
  const size_t at = server.rfind('@');
  if (at != std::string_view::npos) {
    const std::string_view user = server.substr(0, at);
    if (user.find(':') != std::string_view::npos) {
      throw UsageError(
          "an address holds no password: $GRETA_FLEET_PASSWORD has it, or the file that"
          " $GRETA_FLEET_PASSWORD_FILE names, or it is asked for");
    }
    address.user = decoded(user, "user");
    server.remove_prefix(at + 1);
  }
  if (address.user.empty()) address.user = "default";
  const bool is_v6 = server.starts_with('[');
  size_t end = is_v6 ? server.find(']') : server.find(':');
  if (is_v6 && end == std::string_view::npos)
    throw UsageError("an IPv6 address stands in [ and ], before the port");
  address.host = server.substr(is_v6 ? 1 : 0, end == std::string_view::npos ? end : end - is_v6);
  check_host(address.host, is_v6);
  std::string_view rest =
      end == std::string_view::npos ? std::string_view() : server.substr(end + is_v6);
  if (!rest.empty() && rest.front() != ':')
    throw UsageError(std::string("after the host comes :PORT: ") + kForm);
  address.port =
      rest.empty() ? static_cast<uint16_t>(address.tls ? 8443 : 8123) : port_of(rest.substr(1));
  address.database = decoded(database, "database");
  if (address.database.empty() || address.database.find('/') != std::string::npos)
    throw UsageError(std::string("an address ends with the name of a database: ") + kForm);
  return address;
}

std::string Address::text() const {
  const bool is_v6 = host.find(':') != std::string::npos;
  return std::string(tls ? kTls : kPlain) + encoded(user) + "@" +
         (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port) + "/" + encoded(database);
}

std::string Address::url() const {
  const bool is_v6 = host.find(':') != std::string::npos;
  return std::string(tls ? "https://" : "http://") + (is_v6 ? "[" + host + "]" : host) + ":" +
         std::to_string(port) + "/";
}

}  // namespace greta::clickhouse
