#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/gguf/file.h"
#include "engine/tokenizer/vocabulary.h"

namespace greta {

/// Finds the tokens that a text may spell out, such as <|eot_id|>.
class SpecialTokens {
 public:
  struct Match {
    size_t begin, end;  ///< bytes of the text
    int32_t id;
  };

  SpecialTokens() = default;

  /// Empty texts are never found.
  explicit SpecialTokens(std::vector<std::pair<std::string, int32_t>> tokens);

  /// The first token at or after `from`; of several that begin there, the longest.
  std::optional<Match> find(std::string_view text, size_t from) const;

 private:
  std::optional<Match> longest_at(std::string_view text, size_t begin) const;

  std::vector<std::pair<std::string, int32_t>> tokens_;  // sorted by text
  std::array<bool, 256> starts_{};                       // first bytes
};

/// Text to token ids and back, by the vocabulary of a GGUF file (tokenizer.ggml.*): model "gpt2"
/// (byte-level BPE) with one of pre_tokenizer_kinds(), or model "llama" (SentencePiece with scores
/// and byte fallback). The ids are those of llama.cpp. Templates of chats are not applied: a text
/// is what the model gets. Copies what it needs; safe for several threads.
class Tokenizer {
 public:
  /// Throws GgufError: no vocabulary, an unsupported model or pre-tokenizer (named, with the
  /// supported ones), arrays of different lengths, two tokens of one text, special tokens that are
  /// out of range, merges of tokens that do not exist, bytes that nothing can spell.
  static std::unique_ptr<Tokenizer> load(const GgufFile& file);
  static std::unique_ptr<Tokenizer> make(Vocabulary vocabulary);

  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// Ids of a text. add_special: BOS and EOS as the vocabulary asks. parse_special: control tokens
  /// spelled in the text (<|eot_id|>) are taken as such; otherwise no text gives them. User-defined
  /// tokens always are; the one that begins first is taken, and of several there the longest.
  /// Bytes that are no UTF-8 are taken one by one. Throws std::length_error for 2^31 bytes or more.
  std::vector<int32_t> encode(std::string_view text, bool add_special, bool parse_special) const;

  /// Bytes of the tokens, one after the other; a single token may be part of a character
  /// (utf8::Stream puts them together). special: spell control and unknown tokens, else they
  /// vanish. Gives back what encode took; with SentencePiece, the space put before text stays and
  /// "▁" is a space, and where a byte that is no UTF-8 has no token, it is U+FFFD. Throws
  /// std::out_of_range for an id that is none.
  std::string decode(std::span<const int32_t> ids, bool special = false) const;

  /// Bytes of one token, control tokens spelled. Throws std::out_of_range for an id that is none.
  std::string_view piece(int32_t id) const;

  int32_t size() const { return static_cast<int32_t>(pieces_.size()); }
  int32_t bos() const { return bos_; }     ///< -1 when there is none
  int32_t eos() const { return eos_; }     ///< -1 when there is none
  bool ends_generation(int32_t id) const;  ///< eos, eot, eom and tokens known to end a turn

 protected:
  /// Bytes that a token stands for. in_text: encode may give it for these bytes.
  struct Piece {
    std::string bytes;
    bool in_text = false;
  };

  /// piece_of: of a token that is neither a byte nor vanishes, which no text gives.
  Tokenizer(const Vocabulary& vocabulary, Piece (*piece_of)(const std::string& text, TokenType));

  /// The token that text may be for these bytes, or -1.
  int32_t find(std::string_view bytes) const;

 private:
  /// Appends the ids of text with no special token in it. leads: nothing or a special token is
  /// before it. text is not empty.
  virtual void encode_text(std::string_view text, bool leads, std::vector<int32_t>& ids) const = 0;

  std::vector<std::string> pieces_;                         // by id
  std::vector<TokenType> types_;                            // by id
  std::unordered_map<std::string_view, int32_t> by_bytes_;  // borrows from pieces_
  SpecialTokens user_defined_, special_;  // special_: these too, and control and unknown tokens
  int32_t bos_, eos_;
  bool add_bos_, add_eos_;
  std::vector<bool> ends_generation_;  // by id
};

// ---- Merging, as both kinds of vocabularies do it.

inline constexpr int32_t kNoToken = -1;  ///< and no part

/// Parts of a text, linked to their neighbours by their numbers, and the merges of two neighbours
/// that were possible when they were offered. Kept between texts, so that it allocates once.
///
/// Part: previous, next (kNoToken: none). Candidate: left, the number of the left part, and an
/// operator< by which the best, then the leftmost, is the greatest.
template <class Part, class Candidate>
struct MergeQueue {
  std::vector<Part> parts;
  std::vector<Candidate> heap;

  void clear() {
    parts.clear();
    heap.clear();
  }
  void push(const Candidate& candidate) {
    heap.push_back(candidate);
    std::push_heap(heap.begin(), heap.end());
  }
  /// Merges until nothing is possible. offer(left, right) pushes what that pair can become.
  /// still_possible(candidate, left, right), merge(candidate, left, right): left becomes the whole,
  /// right what no candidate is possible with.
  template <class Offer, class StillPossible, class Merge>
  void run(Offer offer, StillPossible still_possible, Merge merge) {
    const auto offer_from = [&](int32_t left) {
      if (left != kNoToken && parts[left].next != kNoToken) offer(left, parts[left].next);
    };
    for (size_t i = 0; i < parts.size(); ++i) offer_from(static_cast<int32_t>(i));
    while (!heap.empty()) {
      std::pop_heap(heap.begin(), heap.end());
      const Candidate best = heap.back();
      heap.pop_back();
      Part& left = parts[best.left];
      if (left.next == kNoToken || !still_possible(best, left, parts[left.next])) continue;
      Part& right = parts[left.next];
      merge(best, left, right);
      left.next = right.next;
      if (left.next != kNoToken) parts[left.next].previous = best.left;
      offer_from(left.previous);
      offer_from(best.left);
    }
  }
};

}  // namespace greta
