#pragma once
#include <cstddef>
#include <string>
#include <string_view>

/// UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. Nothing here
/// depends on the locale.
namespace greta::utf8 {

/// U+FFFD, which stands for what is no character.
inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// What some writers put before a text.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// What a text starts with.
struct Head {
  enum class Kind {
    kCharacter,  ///< a whole character
    kPartial,    ///< bytes that more bytes may complete; also the empty text
    kInvalid,    ///< bytes that are the start of no character, whatever follows
  };
  Kind kind;
  size_t bytes;  ///< of it: the longest part that is a character or could have become one, else 1
  char32_t code = 0;  ///< of a character

  bool is_character() const { return kind == Kind::kCharacter; }
};

Head head(std::string_view text);

/// Bytes at the start of `text` that are whole characters.
size_t valid_prefix(std::string_view text);

inline bool is_valid(std::string_view text) { return valid_prefix(text) == text.size(); }

/// Whether a reader sees the character as itself. Not so: control characters (C0, DEL, C1), on
/// which terminals act; line and paragraph separators; and what Unicode calls default ignorable or,
/// of the format characters, invisible: it turns the direction of text, hides, or makes two names
/// look alike.
bool is_shown(char32_t code);

/// Whether a reader sees anything of the text: a character that is shown and no blank.
bool shows_something(std::string_view text);

/// Valid UTF-8: every byte that is not part of a character becomes U+FFFD.
std::string replace_invalid(std::string_view bytes);

/// The one rule for what may reach a terminal: replace_invalid with every character that is not
/// shown spelled out (\n, \x1b, \u202e, \U000e0041), but those in `kept` (ASCII). Joiners and
/// variation selectors stay right behind a character beyond ASCII, for Persian, Indic scripts and
/// emoji are written with them; behind anything else they can only hide.
std::string printable(std::string_view bytes, std::string_view kept = "");

/// Makes whole characters of bytes that come in arbitrary pieces, as the tokens of a model do.
/// Bytes that are no character come out as U+FFFD, one for each part that head() tells apart.
class Stream {
 public:
  /// Returns the characters that are complete by now; keeps the start of the one that is not.
  std::string push(std::string_view bytes);

  /// Ends the text: U+FFFD when a character was left incomplete. The stream starts anew.
  std::string finish();

 private:
  std::string pending_;  // at most 3 bytes between calls
};

}  // namespace greta::utf8
