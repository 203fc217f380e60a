#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace greta {

/// Markup of this program: only a text that the compiler knows converts to it, so that nothing from
/// data can become markup.
class Markup {
 public:
  consteval Markup(const char* text) : text_(text) {}
  std::string_view text() const { return text_; }

 private:
  std::string_view text_;
};

/// Appends HTML. Markup comes from literals; all else is a text or a number and is escaped, so that
/// it can stand between tags and inside quoted attributes. What is not shown (utf8::is_shown) is
/// spelled out as utf8::printable does.
class Html {
 public:
  Html& operator<<(Markup markup) {
    out_ += markup.text();
    return *this;
  }
  Html& operator<<(const Html& part) {
    out_ += part.out_;
    return *this;
  }
  /// `kept`: characters that are not shown and yet stay, such as "\n".
  Html& text(std::string_view data, std::string_view kept = "");
  Html& number(int64_t value);
  /// A coordinate: at most one decimal.
  Html& place(double value);
  /// `style`, `script` and the JSON of data blocks, which have escapes of their own.
  Html& verbatim(std::string_view content) {
    out_ += content;
    return *this;
  }

  const std::string& str() const { return out_; }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

/// JSON as it may stand in a script element: no `<` begins a tag or a comment, and what is not
/// shown is spelled out.
std::string json_for_script(std::string_view json);

/// "sha256-BASE64" of a Content-Security-Policy.
std::string source_hash(std::string_view content);

}  // namespace greta
