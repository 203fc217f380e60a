#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF.

namespace greta {

/// What a text starts with.
struct Utf8Head {
  enum class Kind {
    kCharacter,  ///< a whole character
    kPartial,    ///< bytes that more bytes may complete; also the empty text
    kInvalid,    ///< bytes that are the start of no character, whatever follows
  };
  Kind kind;
  size_t bytes;  ///< of it: the longest part that is a character or could have become one, else 1
};

Utf8Head utf8_head(std::string_view text);

/// Bytes at the start of text that are whole characters.
size_t utf8_valid_prefix(std::string_view text);

/// Makes whole characters of bytes that come in arbitrary pieces, as the tokens of a model do.
/// Bytes that are no character come out as U+FFFD, one for each part that utf8_head tells apart.
class Utf8Stream {
 public:
  /// Returns the characters that are complete by now; keeps the start of the one that is not.
  std::string push(std::string_view bytes);

  /// Ends the text: U+FFFD when a character was left incomplete. The stream starts anew.
  std::string finish();

 private:
  std::string pending_;  // at most 3 bytes between calls
};

}  // namespace greta
