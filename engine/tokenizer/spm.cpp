#include "engine/tokenizer/spm.h"

#include <algorithm>

#include "common/utf8.h"

namespace greta {
namespace {

constexpr std::string_view kEscapedSpace = "\xe2\x96\x81";  // U+2581, "▁"

std::string unescape_spaces(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  while (!text.empty()) {
    const size_t at = std::min(text.find(kEscapedSpace), text.size());
    plain += text.substr(0, at);
    text.remove_prefix(at);
    if (text.empty()) break;
    plain += ' ';
    text.remove_prefix(kEscapedSpace.size());
  }
  return plain;
}

// Bytes of the spaces that text starts with and of what follows them up to the next space.
size_t word_bytes(std::string_view text) {
  const size_t word = std::min(text.find_first_not_of(' '), text.size());
  return std::min(text.find(' ', word), text.size());
}

}  // namespace

// Part of the text: bytes [begin, begin + bytes). One that went into its left neighbour has none.
struct SpmPart {
  int32_t begin, bytes;
  int32_t id;  // kNoToken: a character that is no token
  int32_t previous, next;
};
// Still possible while the two parts have these bytes.
struct SpmCandidate {
  float score;
  int32_t left;
  int32_t bytes;
  int32_t id;  // of the whole

  bool operator<(const SpmCandidate& other) const {
    return score != other.score ? score < other.score : left > other.left;
  }
};

struct SpmTokenizer::Workspace : MergeQueue<SpmPart, SpmCandidate> {
  std::string_view text;

  // A character is a part, and so is each byte that belongs to none.
  void take_apart(std::string_view all) {
    text = all;
    clear();
    for (size_t at = 0; at < all.size();) {
      const utf8::Head head = utf8::head(all.substr(at));
      const size_t bytes = head.is_character() ? head.bytes : 1;
      const auto index = static_cast<int32_t>(parts.size());
      parts.push_back({static_cast<int32_t>(at), static_cast<int32_t>(bytes), kNoToken, index - 1,
                       at + bytes < all.size() ? index + 1 : kNoToken});
      at += bytes;
    }
  }

  std::string_view text_of(const SpmPart& part) const {
    return text.substr(part.begin, part.bytes);
  }
};

SpmTokenizer::SpmTokenizer(const Vocabulary& vocabulary)
    : Tokenizer(vocabulary, piece_of),
      scores_(vocabulary.scores),
      add_space_prefix_(vocabulary.add_space_prefix) {
  byte_ids_.fill(vocabulary.unknown);
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    if (const int32_t id = find({&text, 1}); id != kNoToken) byte_ids_[byte] = id;
  }
  for (int32_t id = 0; id < size(); ++id) {
    const std::string_view bytes = piece(id);
    if (vocabulary.types[id] == TokenType::kByte) byte_ids_[static_cast<uint8_t>(bytes[0])] = id;
    if (find(bytes) != id) continue;
    longest_bytes_ = std::max(longest_bytes_, bytes.size());
    spaces_only_lead_ = spaces_only_lead_ && word_bytes(bytes) == bytes.size();
  }
  if (std::ranges::find(byte_ids_, kNoToken) != byte_ids_.end()) {
    vocabulary.fail("there is neither a token for every byte nor an unknown token");
  }
}

// A token with a bare space is no text.
Tokenizer::Piece SpmTokenizer::piece_of(const std::string& text, TokenType) {
  return {unescape_spaces(text), text.find(' ') == std::string::npos};
}

void SpmTokenizer::encode_text(std::string_view text, bool leads, std::vector<int32_t>& ids) const {
  const std::string plain = (add_space_prefix_ && leads ? " " : "") + unescape_spaces(text);
  Workspace work;
  for (std::string_view rest = plain; !rest.empty();) {
    const size_t bytes = spaces_only_lead_ ? word_bytes(rest) : rest.size();
    encode_stretch(rest.substr(0, bytes), work, ids);
    rest.remove_prefix(bytes);
  }
}

void SpmTokenizer::encode_stretch(std::string_view text, Workspace& work,
                                  std::vector<int32_t>& ids) const {
  work.take_apart(text);
  for (auto& part : work.parts) part.id = find(work.text_of(part));
  work.run(
      [&](int32_t left, int32_t right) {
        SpmPart whole = work.parts[left];
        whole.bytes += work.parts[right].bytes;
        if (static_cast<size_t>(whole.bytes) > longest_bytes_) return;
        const int32_t id = find(work.text_of(whole));
        if (id != kNoToken) work.push({scores_[id], left, whole.bytes, id});
      },
      [](const SpmCandidate& best, const SpmPart& left, const SpmPart& right) {
        return left.bytes != 0 && left.bytes + right.bytes == best.bytes;
      },
      [](const SpmCandidate& best, SpmPart& left, SpmPart& right) {
        left.bytes = best.bytes;
        left.id = best.id;
        right.bytes = 0;
      });
  for (int32_t i = 0; i != kNoToken; i = work.parts[i].next) {
    const SpmPart& part = work.parts[i];
    if (part.id != kNoToken) {
      ids.push_back(part.id);
      continue;
    }
    for (const char byte : work.text_of(part)) {
      ids.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
    }
  }
}

}  // namespace greta
