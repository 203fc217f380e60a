#include "engine/tokenizer/bpe.h"

#include <utility>

#include "common/utf8.h"
#include "engine/gguf/parser.h"

namespace greta {
namespace {

constexpr int kFirstSubstitute = 0x100;
constexpr int kSubstitutes = 68;  // bytes that are not printable
constexpr int kCharacters = kFirstSubstitute + kSubstitutes;

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
}

struct Alphabet {
  std::array<uint16_t, 256> character{};    // of a byte
  std::array<int16_t, kCharacters> byte{};  // of a character; -1 when there is none
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  alphabet.byte.fill(-1);
  int substitute = kFirstSubstitute;
  for (int byte = 0; byte < 256; ++byte) {
    const int character = stands_for_itself(byte) ? byte : substitute++;
    alphabet.character[byte] = static_cast<uint16_t>(character);
    alphabet.byte[character] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();
static_assert(kAlphabet.character[0xad] == kCharacters - 1);

uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
}

const PreTokenizerKind& kind_of(const Vocabulary& vocabulary) {
  if (const PreTokenizerKind* kind = find_pre_tokenizer(vocabulary.pre)) return *kind;
  std::string supported;
  for (const auto& kind : pre_tokenizer_kinds()) supported += " " + std::string(kind.name);
  vocabulary.fail("tokenizer.ggml.pre is " + gguf_quoted(vocabulary.pre) +
                  "; supported:" + supported);
}

bool is_of_utf8(int byte) { return byte != 0xc0 && byte != 0xc1 && byte < 0xf5; }

}  // namespace

std::string to_byte_level(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    const int character = kAlphabet.character[static_cast<uint8_t>(byte)];
    if (character < 0x80) {
      text += static_cast<char>(character);
    } else {
      text += static_cast<char>(0xc0 | (character >> 6));
      text += static_cast<char>(0x80 | (character & 0x3f));
    }
  }
  return text;
}

std::optional<std::string> from_byte_level(std::string_view text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    int character = static_cast<uint8_t>(text[i]);
    if (character >= 0x80) {  // the alphabet has one and two byte forms only
      const int next = i + 1 < text.size() ? static_cast<uint8_t>(text[i + 1]) : 0;
      if ((character & 0xe0) != 0xc0 || (next & 0xc0) != 0x80) return std::nullopt;
      character = (character & 0x1f) << 6 | (next & 0x3f);
      if (character < 0x80) return std::nullopt;  // overlong
      ++i;
    }
    if (character >= kCharacters || kAlphabet.byte[character] < 0) return std::nullopt;
    bytes += static_cast<char>(kAlphabet.byte[character]);
  }
  return bytes;
}

// Part of a word. One that went into its left neighbour has no id.
struct BpePart {
  int32_t id;
  int32_t previous, next;
};
// Still possible if both parts are as they were.
struct BpeTokenizer::Candidate {
  Merge merge;
  int32_t left;
  int32_t left_id, right_id;

  bool operator<(const Candidate& other) const {
    return merge.rank != other.merge.rank ? merge.rank > other.merge.rank : left > other.left;
  }
};
struct BpeTokenizer::Workspace : MergeQueue<BpePart, Candidate> {};

BpeTokenizer::BpeTokenizer(const Vocabulary& vocabulary,
                           const std::unordered_map<std::string_view, int32_t>& ids)
    : Tokenizer(vocabulary, piece_of),
      pre_tokenizer_(kind_of(vocabulary)),
      whole_words_(kind_of(vocabulary).whole_words) {
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    byte_ids_[byte] = find({&text, 1});
    if (byte_ids_[byte] == kNoToken && is_of_utf8(byte)) {
      vocabulary.fail("no token is the byte " + std::to_string(byte));
    }
  }
  read_merges(vocabulary, ids);
}

// A token with a character outside the alphabet is no text.
Tokenizer::Piece BpeTokenizer::piece_of(const std::string& text, TokenType type) {
  auto bytes = type == TokenType::kUserDefined ? std::nullopt : from_byte_level(text);
  return bytes ? Piece{std::move(*bytes), true} : Piece{text, false};
}

void BpeTokenizer::read_merges(const Vocabulary& vocabulary,
                               const std::unordered_map<std::string_view, int32_t>& ids) {
  merges_.reserve(vocabulary.merges.size());
  std::string whole;
  for (size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
    const std::string_view merge = vocabulary.merges[rank];
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos) {
      vocabulary.fail("merge " + std::to_string(rank) + " is not two texts with a space between");
    }
    const auto id_of = [&](std::string_view text) {
      const auto found = ids.find(text);
      if (found != ids.end()) return found->second;
      vocabulary.fail("merge " + std::to_string(rank) + ", " + gguf_quoted(merge) + ", needs " +
                      gguf_quoted(text) + ", which is no token");
    };
    const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
    const int32_t left_id = id_of(left), right_id = id_of(right);
    whole.assign(left).append(right);
    // Of two merges of one pair the better counts.
    merges_.try_emplace(pair_key(left_id, right_id),
                        Merge{static_cast<int32_t>(rank), id_of(whole)});
  }
}

void BpeTokenizer::encode_text(std::string_view text, bool /*leads*/,
                               std::vector<int32_t>& ids) const {
  Workspace work;
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t valid = utf8::valid_prefix(text);
    words.clear();
    pre_tokenizer_.split(text.substr(0, valid), words);
    for (const std::string_view word : words) encode_word(word, work, ids);
    text.remove_prefix(valid);
    if (text.empty()) break;
    for (const char byte : text.substr(0, utf8::head(text).bytes)) {
      encode_stray_byte(static_cast<uint8_t>(byte), work, ids);
    }
    text.remove_prefix(utf8::head(text).bytes);
  }
}

void BpeTokenizer::encode_stray_byte(uint8_t byte, Workspace& work,
                                     std::vector<int32_t>& ids) const {
  if (byte_ids_[byte] != kNoToken) {
    ids.push_back(byte_ids_[byte]);
  } else {
    encode_word(utf8::kReplacement, work, ids);
  }
}

void BpeTokenizer::encode_word(std::string_view word, Workspace& work,
                               std::vector<int32_t>& ids) const {
  if (const int32_t whole = whole_words_ ? find(word) : kNoToken; whole != kNoToken) {
    ids.push_back(whole);
    return;
  }
  const auto count = static_cast<int32_t>(word.size());
  work.clear();
  for (int32_t i = 0; i < count; ++i) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(word[i])];
    work.parts.push_back({id, i - 1, i + 1 < count ? i + 1 : kNoToken});
  }
  work.run(
      [&](int32_t left, int32_t right) {
        const int32_t left_id = work.parts[left].id, right_id = work.parts[right].id;
        const auto merge = merges_.find(pair_key(left_id, right_id));
        if (merge != merges_.end()) work.push({merge->second, left, left_id, right_id});
      },
      [](const Candidate& best, const BpePart& left, const BpePart& right) {
        return left.id == best.left_id && right.id == best.right_id;
      },
      [](const Candidate& best, BpePart& left, BpePart& right) {
        left.id = best.merge.id;
        right.id = kNoToken;
      });
  for (int32_t i = 0; i != kNoToken; i = work.parts[i].next) ids.push_back(work.parts[i].id);
}

}  // namespace greta
