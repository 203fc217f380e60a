#pragma once
#include <string>

#include "db/clickhouse/address.h"

namespace greta::clickhouse {

/// A text of a server or of libcurl without control characters, so that it is one line.
std::string one_line(std::string text);

/// Puts *** in the place of a secret that a server repeats; "" is none.
void hide(const std::string& secret, std::string& text);

/// Throws what the answer of a server with an HTTP status that is not 200 means: Unavailable,
/// Refused, or Error where it is not ClickHouse's.
[[noreturn]] void refuse(const Address& address, long status, const std::string& body);

}  // namespace greta::clickhouse
