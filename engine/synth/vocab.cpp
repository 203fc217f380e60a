#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/synth/synth.h"
#include "engine/tokenizer/bpe.h"

namespace greta {
namespace {

// By how often English has them: early merges are then the useful ones.
constexpr std::string_view kLetters = "etaoinshrdlcumwfgypbvkjxqz";
constexpr std::string_view kCapitals = "TAISWCBMPHDRLFEGNOUVJKYQXZ";
constexpr int kReservedTokens = 11;  // with five named ones: 16 control tokens

std::string character(uint32_t code_point) {  // below 0x800
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  return {static_cast<char>(0xc0 | code_point >> 6), static_cast<char>(0x80 | (code_point & 63))};
}

std::string byte_text(unsigned byte) {
  return to_byte_level(std::string(1, static_cast<char>(byte)));
}

// GPT-2's order of the byte tokens: those that stand for themselves, which UTF-8 sorts first.
std::vector<std::string> byte_texts() {
  std::vector<std::string> texts;
  for (unsigned byte = 0; byte < 256; ++byte) texts.push_back(byte_text(byte));
  std::sort(texts.begin(), texts.end());
  return texts;
}

struct Merge {
  std::string left, right;
};

// Pieces of words, breadth first: every piece, the space first, is followed by every letter. Each
// concatenation arises once. Ends at n_merges in all.
void grow_words(const std::string& space, size_t n_merges, std::vector<Merge>& merges) {
  std::vector<std::string> pieces{space};
  for (const std::string_view letters : {kLetters, kCapitals}) {
    for (const char letter : letters) pieces.emplace_back(1, letter);
  }
  for (size_t i = 0; merges.size() < n_merges; ++i) {
    const std::string left = pieces[i];
    for (const char letter : kLetters) {
      if (merges.size() == n_merges) return;
      merges.push_back({left, std::string(1, letter)});
      pieces.push_back(left + letter);
    }
  }
}

void add_digit_pairs(std::vector<Merge>& merges) {
  for (char tens = '0'; tens <= '9'; ++tens) {
    for (char ones = '0'; ones <= '9'; ++ones) {
      merges.push_back({std::string(1, tens), std::string(1, ones)});
    }
  }
}

// Runs of spaces and line ends, numbers and the letters U+00C0 to U+00FF, then words.
std::vector<Merge> bpe_merges(size_t n_merges) {
  std::vector<Merge> merges;
  for (const unsigned blank : {' ', '\n'}) {
    const std::string one = byte_text(blank);
    merges.push_back({one, one});
    merges.push_back({one + one, one + one});
  }
  for (unsigned trail = 0x80; trail < 0xc0; ++trail) {
    merges.push_back({byte_text(0xc3), byte_text(trail)});
  }
  add_digit_pairs(merges);
  grow_words(byte_text(' '), n_merges, merges);
  return merges;
}

void check_size(int64_t n_tokens) {
  if (n_tokens >= kMinSynthVocab) return;
  throw std::invalid_argument("a vocabulary of " + std::to_string(n_tokens) +
                              " tokens is too small; at least " + std::to_string(kMinSynthVocab));
}

void add(Vocabulary& vocab, std::string token, TokenType type) {
  vocab.tokens.push_back(std::move(token));
  vocab.types.push_back(type);
}

void add_scored(Vocabulary& vocab, std::string token, TokenType type, float score) {
  add(vocab, std::move(token), type);
  vocab.scores.push_back(score);
}

int32_t last_id(const Vocabulary& vocab) { return static_cast<int32_t>(vocab.tokens.size()) - 1; }

int32_t add_control(Vocabulary& vocab, std::string token) {
  add(vocab, std::move(token), TokenType::kControl);
  return last_id(vocab);
}

std::string byte_token(unsigned byte) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  return std::string("<0x") + kHex[byte >> 4] + kHex[byte & 15] + ">";
}

}  // namespace

Vocabulary make_bpe_vocab(int64_t n_tokens) {
  check_size(n_tokens);
  constexpr size_t kControls = 5 + kReservedTokens;
  Vocabulary vocab;
  vocab.source = "synthetic vocabulary";
  vocab.model = "gpt2";
  vocab.pre = "llama-bpe";
  vocab.add_bos = true;
  for (const std::string& text : byte_texts()) add(vocab, text, TokenType::kNormal);
  const size_t n_merges = static_cast<size_t>(n_tokens) - vocab.tokens.size() - kControls;
  for (const Merge& merge : bpe_merges(n_merges)) {
    vocab.merges.push_back(merge.left + " " + merge.right);
    add(vocab, merge.left + merge.right, TokenType::kNormal);
  }
  vocab.bos = add_control(vocab, "<|begin_of_text|>");
  vocab.eos = add_control(vocab, "<|end_of_text|>");
  for (int i = 0; i < kReservedTokens; ++i) {
    add_control(vocab, "<|reserved_special_token_" + std::to_string(i) + "|>");
  }
  add_control(vocab, "<|start_header_id|>");
  add_control(vocab, "<|end_header_id|>");
  vocab.eot = add_control(vocab, "<|eot_id|>");
  return vocab;
}

Vocabulary make_spm_vocab(int64_t n_tokens) {
  check_size(n_tokens);
  const std::string space = "▁";
  Vocabulary vocab;
  vocab.source = "synthetic vocabulary";
  vocab.model = "llama";
  vocab.add_space_prefix = true;
  vocab.add_bos = true;
  add_scored(vocab, "<unk>", TokenType::kUnknown, 0);
  add_scored(vocab, "<s>", TokenType::kControl, 0);
  add_scored(vocab, "</s>", TokenType::kControl, 0);
  vocab.unknown = 0;
  vocab.bos = 1;
  vocab.eos = 2;
  for (unsigned byte = 0; byte < 256; ++byte) {
    add_scored(vocab, byte_token(byte), TokenType::kByte, 0);
  }
  std::vector<std::string> characters{space};
  for (char c = '!'; c <= '~'; ++c) characters.emplace_back(1, c);
  for (uint32_t c = 0xc0; c < 0x100; ++c) characters.push_back(character(c));

  std::vector<Merge> merges{{space, space}};
  grow_words(space, static_cast<size_t>(n_tokens) - vocab.tokens.size() - characters.size(),
             merges);
  float score = 0;
  for (const Merge& merge : merges) {
    add_scored(vocab, merge.left + merge.right, TokenType::kNormal, score--);
  }
  for (std::string& character : characters) {
    add_scored(vocab, std::move(character), TokenType::kNormal, score--);
  }
  return vocab;
}

}  // namespace greta
