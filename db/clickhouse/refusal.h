#pragma once
#include <string>
#include <string_view>

#include "db/clickhouse/address.h"

namespace greta::clickhouse {

/// A text of a server or of libcurl without control characters, so that it is one line.
std::string one_line(std::string text);

/// Puts *** in the place of a secret that a server repeats; "" is none.
void hide(const std::string& secret, std::string& text);

/// Whether bytes begin as the text of an exception does, with which a server ends an answer that it
/// has called good and cannot complete.
bool is_exception(std::string_view bytes);
/// Whether they are too few to tell.
bool may_become_exception(std::string_view bytes);

/// Where in bytes such a text begins; npos without one.
size_t find_exception(std::string_view bytes);

/// Throws what the answer of a server with an HTTP status that is not 200, or such a text, means:
/// Unavailable, Refused, or Error where it is not ClickHouse's.
[[noreturn]] void refuse(const Address& address, long status, const std::string& body);

}  // namespace greta::clickhouse
