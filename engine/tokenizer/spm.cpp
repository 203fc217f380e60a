#include "engine/tokenizer/spm.h"

#include <algorithm>
#include <utility>

#include "common/utf8.h"

namespace greta {
namespace {

constexpr std::string_view kEscapedSpace = "\xe2\x96\x81";  // U+2581, "▁"
constexpr int32_t kNone = -1;

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

// What merging one stretch of text needs; kept between stretches so that it allocates once.
struct SpmTokenizer::Workspace {
  // Part of the text, linked to its neighbours: bytes [begin, begin + bytes). One that went into
  // its left neighbour has no bytes.
  struct Part {
    int32_t begin, bytes;
    int32_t id;  // kNone: a character that is no token
    int32_t previous, next;
  };
  // A merge that was possible when it was offered: still is while the two parts have these bytes.
  struct Candidate {
    float score;
    int32_t left;
    int32_t bytes;
    int32_t id;  // of the whole

    // The highest score, then the leftmost, is on top of a heap.
    bool operator<(const Candidate& other) const {
      return score != other.score ? score < other.score : left > other.left;
    }
  };

  std::string_view text;
  std::vector<Part> parts;
  std::vector<Candidate> heap;

  // A character is a part, and so is each byte that belongs to none.
  void take_apart(std::string_view all) {
    text = all;
    parts.clear();
    heap.clear();
    for (size_t at = 0; at < all.size();) {
      const utf8::Head head = utf8::head(all.substr(at));
      const size_t bytes = head.is_character() ? head.bytes : 1;
      const auto index = static_cast<int32_t>(parts.size());
      parts.push_back({static_cast<int32_t>(at), static_cast<int32_t>(bytes), kNone, index - 1,
                       at + bytes < all.size() ? index + 1 : kNone});
      at += bytes;
    }
  }

  std::string_view text_of(const Part& part) const { return text.substr(part.begin, part.bytes); }

  bool still_possible(const Candidate& candidate) const {
    const Part& left = parts[candidate.left];
    return left.bytes != 0 && left.next != kNone &&
           left.bytes + parts[left.next].bytes == candidate.bytes;
  }

  Candidate pop() {
    std::pop_heap(heap.begin(), heap.end());
    const Candidate best = heap.back();
    heap.pop_back();
    return best;
  }

  void apply(const Candidate& candidate) {
    Part& left = parts[candidate.left];
    Part& right = parts[left.next];
    left.bytes = candidate.bytes;
    left.id = candidate.id;
    left.next = right.next;
    right.bytes = 0;
    if (left.next != kNone) parts[left.next].previous = candidate.left;
  }
};

SpmTokenizer::SpmTokenizer(const Vocabulary& vocabulary)
    : Tokenizer(vocabulary, pieces_of(vocabulary)),
      scores_(vocabulary.scores),
      add_space_prefix_(vocabulary.add_space_prefix) {
  byte_ids_.fill(vocabulary.unknown);
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    if (const int32_t id = find({&text, 1}); id != kNone) byte_ids_[byte] = id;
  }
  for (int32_t id = 0; id < size(); ++id) {
    const std::string_view bytes = piece(id);
    if (vocabulary.types[id] == TokenType::kByte) byte_ids_[static_cast<uint8_t>(bytes[0])] = id;
    if (find(bytes) != id) continue;
    longest_bytes_ = std::max(longest_bytes_, bytes.size());
    spaces_only_lead_ = spaces_only_lead_ && word_bytes(bytes) == bytes.size();
  }
  if (std::ranges::find(byte_ids_, kNone) != byte_ids_.end()) {
    vocabulary.fail("there is neither a token for every byte nor an unknown token");
  }
}

// Text never gives control or byte tokens by spelling them, nor tokens with a bare space.
std::vector<Tokenizer::Piece> SpmTokenizer::pieces_of(const Vocabulary& vocabulary) {
  std::vector<Piece> pieces;
  pieces.reserve(vocabulary.tokens.size());
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const std::string& text = vocabulary.tokens[i];
    switch (vocabulary.types[i]) {
      case TokenType::kControl:
      case TokenType::kUnknown:
        pieces.push_back({text, false});
        break;
      case TokenType::kByte:
        pieces.push_back({vocabulary.byte_text(i), false});
        break;
      default:
        pieces.push_back({unescape_spaces(text), text.find(' ') == std::string::npos});
    }
  }
  return pieces;
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
  for (size_t i = 0; i < work.parts.size(); ++i) offer_merge(work, static_cast<int32_t>(i));
  while (!work.heap.empty()) {
    const Workspace::Candidate best = work.pop();
    if (!work.still_possible(best)) continue;
    work.apply(best);
    offer_merge(work, work.parts[best.left].previous);
    offer_merge(work, best.left);
  }
  for (int32_t i = 0; i != kNone; i = work.parts[i].next) {
    const Workspace::Part& part = work.parts[i];
    if (part.id != kNone) {
      ids.push_back(part.id);
      continue;
    }
    for (const char byte : work.text_of(part)) {
      ids.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
    }
  }
}

// Queues the merge of a part with its right neighbour, if together they are a token.
void SpmTokenizer::offer_merge(Workspace& work, int32_t left) const {
  if (left == kNone || work.parts[left].next == kNone) return;
  Workspace::Part whole = work.parts[left];
  whole.bytes += work.parts[whole.next].bytes;
  if (static_cast<size_t>(whole.bytes) > longest_bytes_) return;
  const int32_t id = find(work.text_of(whole));
  if (id == kNone) return;
  work.heap.push_back({scores_[id], left, whole.bytes, id});
  std::push_heap(work.heap.begin(), work.heap.end());
}

}  // namespace greta
