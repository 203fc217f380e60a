#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/tokenizer/pre_tokenizer.h"
#include "engine/tokenizer/tokenizer.h"

// The alphabet of byte-level BPE vocabularies: one printable character for each of the 256 bytes,
// so that a vocabulary is plain text. Source: the GPT-2 encoder. A byte that is a printable
// character of Latin-1 (0x21–0x7e, 0xa1–0xac, 0xae–0xff) stands for itself; the others, in order,
// are U+0100, U+0101, … (the space is U+0120, "Ġ").

namespace greta {

/// Spells bytes in the alphabet, as UTF-8.
std::string to_byte_level(std::string_view bytes);

/// The bytes that a text in the alphabet spells; nothing when it has a character outside.
std::optional<std::string> from_byte_level(std::string_view text);

/// Byte-level byte-pair encoding. A word of the pre-tokenizer starts as bytes, and the pair of
/// neighbours with the best merge, the leftmost of equals, becomes one token until no pair has a
/// merge. O(n log n) in the bytes of a word. With some pre-tokenizers a word that is a token is
/// that token, whatever the merges say. Bytes that are no UTF-8 are words of one byte; those that
/// no UTF-8 has (C0, C1, F5 to FF) may be missing from the vocabulary, and are U+FFFD then.
class BpeTokenizer final : public Tokenizer {
 public:
  /// ids: vocabulary.index(). Throws GgufError as Tokenizer::make does.
  BpeTokenizer(const Vocabulary& vocabulary,
               const std::unordered_map<std::string_view, int32_t>& ids);

 private:
  struct Merge {
    int32_t rank;  // the lowest is the best
    int32_t id;    // of the whole
  };
  struct Candidate;
  struct Workspace;

  static Piece piece_of(const std::string& text, TokenType type);
  void read_merges(const Vocabulary& vocabulary,
                   const std::unordered_map<std::string_view, int32_t>& ids);

  void encode_text(std::string_view text, bool leads, std::vector<int32_t>& ids) const override;
  void encode_stray_byte(uint8_t byte, Workspace& work, std::vector<int32_t>& ids) const;
  void encode_word(std::string_view word, Workspace& work, std::vector<int32_t>& ids) const;

  PreTokenizer pre_tokenizer_;
  bool whole_words_;  // PreTokenizerKind's
  std::array<int32_t, 256> byte_ids_{};
  std::unordered_map<uint64_t, Merge> merges_;  // by left id << 32 | right id
};

}  // namespace greta
