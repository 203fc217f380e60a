#pragma once

#include <optional>
#include <string>
#include <string_view>

// The alphabet of byte-level BPE vocabularies: one printable character for each of the 256 bytes,
// so that a vocabulary is plain text. Source: the GPT-2 encoder. A byte that is a printable
// character of Latin-1 (0x21–0x7e, 0xa1–0xac, 0xae–0xff) stands for itself; the others, in order,
// are U+0100, U+0101, … (the space is U+0120, "Ġ").

namespace greta {

/// Spells bytes in the alphabet, as UTF-8.
std::string to_byte_level(std::string_view bytes);

/// The bytes that a text in the alphabet spells; nothing when it has a character outside.
std::optional<std::string> from_byte_level(std::string_view text);

}  // namespace greta
