#include "cli/output/text_width.h"

#include <locale.h>
#include <wchar.h>

#include <algorithm>

#include "common/utf8.h"

namespace greta {
namespace {

/// wcwidth in a UTF-8 locale, whatever the environment says.
int character_width(char32_t code) {
  if (code < 0x300) return 1;
  static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (locale == nullptr) return 1;
  locale_t old = uselocale(locale);
  int width = wcwidth(static_cast<wchar_t>(code));
  uselocale(old);
  return width < 0 ? 1 : width;
}

}  // namespace

size_t display_width(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    utf8::Head head = utf8::head(text);
    width += static_cast<size_t>(character_width(head.code));
    text.remove_prefix(head.bytes);
  }
  return width;
}

std::string cut_to_width(std::string_view text, size_t width) {
  std::string result;
  size_t used = 0;
  while (!text.empty()) {
    utf8::Head head = utf8::head(text);
    size_t columns = static_cast<size_t>(character_width(head.code));
    if (used + columns + 1 > width) break;
    result.append(text.substr(0, head.bytes));
    used += columns;
    text.remove_prefix(head.bytes);
  }
  return result + "…";
}

std::string shortened_to_width(std::string_view text, size_t width) {
  if (display_width(text) <= width) return std::string(text);
  const size_t beginning = width / 2;
  const std::string head = cut_to_width(text, beginning + 1);  // with the ellipsis
  size_t room = width - std::min(width, display_width(head));
  for (std::string_view tail = text; !tail.empty(); tail.remove_prefix(utf8::head(tail).bytes)) {
    if (display_width(tail) <= room) return head + std::string(tail);
  }
  return head;
}

}  // namespace greta
