#include "db/clickhouse/refusal.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "db/clickhouse/error.h"

namespace greta::clickhouse {
namespace {

/// ATTEMPT_TO_READ_AFTER_EOF (a shard ended in the middle), TOO_MANY_SIMULTANEOUS_QUERIES,
/// SOCKET_TIMEOUT, NETWORK_ERROR, NO_ZOOKEEPER, TABLE_IS_READ_ONLY (ZooKeeper is away),
/// TOO_MANY_PARTS, ALL_CONNECTION_TRIES_FAILED, UNKNOWN_STATUS_OF_INSERT, KEEPER_EXCEPTION.
constexpr std::array<int, 10> kPassing = {32, 202, 209, 210, 225, 242, 252, 279, 319, 999};

constexpr std::string_view kCode = "Code: ";

/// ALL_CONNECTION_TRIES_FAILED
constexpr int kNoConnection = 279;

/// "Code: 60, e.displayText() = DB::Exception: Table x doesn't exist., e.what() = ..." in short.
std::string told(const std::string& body) {
  std::string text = body.substr(0, 2000);
  if (const size_t end = text.find(", e.what() ="); end != std::string::npos) text.resize(end);
  // of its kinds of exceptions (DB::NetException) nobody knows more
  if (const size_t kind = text.find("DB::"); kind != std::string::npos) {
    const size_t end = text.find("Exception: ", kind);
    if (end < text.find(' ', kind)) text.erase(0, end + std::strlen("Exception: "));
  }
  return one_line(text.substr(0, 600));
}

int code_of(const std::string& body) {
  int code = 0;
  const size_t at = body.find(kCode);
  if (at != std::string::npos)
    std::from_chars(body.data() + at + kCode.size(), body.data() + body.size(), code);
  return code;
}

bool passes(int code) {
  return std::find(kPassing.begin(), kPassing.end(), code) != kPassing.end();
}

}  // namespace

bool is_exception(std::string_view bytes) {
  if (!bytes.starts_with(kCode)) return false;
  const size_t end = bytes.find_first_not_of("0123456789", kCode.size());
  if (end == std::string_view::npos || end == kCode.size()) return false;
  const std::string_view rest = bytes.substr(end);
  return rest.starts_with(", e.displayText() = ") || rest.starts_with(". DB::Exception: ");
}

bool may_become_exception(std::string_view bytes) {
  constexpr size_t kLongestMark = 64;
  return bytes.size() < kLongestMark && kCode.starts_with(bytes.substr(0, kCode.size()));
}

size_t find_exception(std::string_view bytes) {
  size_t at = bytes.find(kCode);
  while (at != std::string_view::npos && !is_exception(bytes.substr(at)))
    at = bytes.find(kCode, at + 1);
  return at;
}

std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

void hide(const std::string& secret, std::string& text) {
  constexpr std::string_view kHidden = "***";
  if (secret.empty()) return;
  for (size_t at = 0; (at = text.find(secret, at)) != std::string::npos; at += kHidden.size())
    text.replace(at, secret.size(), kHidden);
}

void refuse(const Address& address, long status, const std::string& body) {
  const int code = code_of(body);
  const std::string at = address.text() + ": ";
  if (code == 192 || code == 193 || code == 194 || code == 516 || status == 401 || status == 403) {
    throw Refused(at + "user " + address.user +
                      " or the password is wrong ($GRETA_FLEET_PASSWORD, or the file that"
                      " $GRETA_FLEET_PASSWORD_FILE names)",
                  code == 0 ? 516 : code);
  }
  if (body.empty()) throw Error(at + "HTTP status " + std::to_string(status));
  if (code == 0) throw Error(at + "no answer of ClickHouse: " + told(body));
  if (code == kNoConnection)
    throw Unavailable(at + "a server of its cluster is away: " + told(body));
  if (passes(code)) throw Unavailable(at + told(body));
  throw Refused(at + told(body), code);
}

}  // namespace greta::clickhouse
