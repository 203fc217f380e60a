#include "db/clickhouse/quote.h"

namespace greta::clickhouse {
namespace {

std::string quoted(std::string_view text, char mark) {
  constexpr const char* kDigits = "0123456789ABCDEF";
  std::string all(1, mark);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\\' || c == mark) {
      all += '\\';
      all += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      all.append({'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]});
    } else {
      all += c;
    }
  }
  return all + mark;
}

}  // namespace

std::string quote_text(std::string_view text) { return quoted(text, '\''); }

std::string quote_name(std::string_view name) { return quoted(name, '`'); }

}  // namespace greta::clickhouse
