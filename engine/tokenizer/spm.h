#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace greta {

/// SentencePiece's merging by scores. Text starts as characters; the two neighbours that together
/// are the token with the highest score, the leftmost of equals, become one until no two are a
/// token. A character that is no token is spelled by byte tokens, else by the unknown token. "▁" in
/// tokens and in text is a space. O(n log n) in the bytes of the text.
class SpmTokenizer final : public Tokenizer {
 public:
  /// Throws GgufError as Tokenizer::make does.
  explicit SpmTokenizer(const Vocabulary& vocabulary);

 private:
  struct Workspace;

  static Piece piece_of(const std::string& text, TokenType type);
  void encode_text(std::string_view text, bool leads, std::vector<int32_t>& ids) const override;
  void encode_stretch(std::string_view text, Workspace& work, std::vector<int32_t>& ids) const;

  std::vector<float> scores_;            // by id
  std::array<int32_t, 256> byte_ids_{};  // what spells a byte of an unknown character
  size_t longest_bytes_ = 0;             // of a token that text may be
  // No such token has a space after another character, as usual: then no merge reaches over the
  // end of a word, and words are merged one by one.
  bool spaces_only_lead_ = true;
  bool add_space_prefix_;
};

}  // namespace greta
