#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/tokenizer.h"
#include "kernels/fingerprint/fingerprint.h"

// Small vocabularies and texts for tests of tokenizers.

namespace greta {

using Ids = std::vector<int32_t>;
using namespace std::string_literals;

inline const std::vector<std::string> kTexts{
    "",
    "Hello world",
    "We'll see it'S 1234567 o'clock",
    "  spaces   \t\n\r\n\u00a0\u3000\u2003 end  ",
    "naïve e\u0301a\u0308 ﬁ ǅ",
    "Привет Ελλάδα שלום مرحبا नमस्ते สวัสดี 你好 日本語 한국어",
    "👩‍💻 👨‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇮🇹 1️⃣",
    "\U0001d518\U00010330\U00031350\U0010ffff\ue000\ufffd",
    "\0\x01\x1f\x7f\u0085\u200b\ufeff"s,
    "<|eot_id|> <s> <0x41> </s>",
};

// Bytes of all kinds, mostly no UTF-8.
inline std::string random_bytes(uint64_t seed, size_t n) {
  std::string bytes;
  for (size_t i = 0; i < n; ++i) bytes += static_cast<char>(mix64(seed * 1000003 + i) >> 11);
  return bytes;
}

// Ids 0–255 are the bytes; then what the merges make, in their order; then what a test adds.
inline Vocabulary bpe_vocabulary(const std::vector<std::pair<std::string, std::string>>& merges) {
  Vocabulary vocabulary;
  vocabulary.model = "gpt2";
  vocabulary.pre = "llama-bpe";
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary.tokens.push_back(to_byte_level(std::string(1, static_cast<char>(byte))));
  }
  for (const auto& [left, right] : merges) {
    const std::string whole = to_byte_level(left + right);
    if (std::ranges::find(vocabulary.tokens, whole) == vocabulary.tokens.end()) {
      vocabulary.tokens.push_back(whole);
    }
    vocabulary.merges.push_back(to_byte_level(left) + " " + to_byte_level(right));
  }
  vocabulary.types.resize(vocabulary.tokens.size(), TokenType::kNormal);
  return vocabulary;
}

inline int32_t add_token(Vocabulary& vocabulary, const std::string& text, TokenType type,
                         float score = 0) {
  vocabulary.tokens.push_back(text);
  vocabulary.types.push_back(type);
  if (vocabulary.model == "llama") vocabulary.scores.push_back(score);
  return static_cast<int32_t>(vocabulary.tokens.size() - 1);
}

inline constexpr int32_t kFirstByte = 3;  // of spm_vocabulary: byte b is id 3 + b
inline constexpr int32_t kFirstPiece = 259;

// 0 <unk>, 1 <s>, 2 </s>, then the bytes, then the pieces.
inline Vocabulary spm_vocabulary(const std::vector<std::pair<std::string, float>>& pieces) {
  Vocabulary vocabulary;
  vocabulary.model = "llama";
  vocabulary.unknown = add_token(vocabulary, "<unk>", TokenType::kUnknown);
  vocabulary.bos = add_token(vocabulary, "<s>", TokenType::kControl);
  vocabulary.eos = add_token(vocabulary, "</s>", TokenType::kControl);
  for (int byte = 0; byte < 256; ++byte) {
    constexpr std::string_view kHex = "0123456789ABCDEF";
    add_token(vocabulary, "<0x"s + kHex[byte / 16] + kHex[byte % 16] + ">", TokenType::kByte);
  }
  for (const auto& [text, score] : pieces) add_token(vocabulary, text, TokenType::kNormal, score);
  return vocabulary;
}

inline Ids encode(const Vocabulary& vocabulary, std::string_view text) {
  return Tokenizer::make(vocabulary)->encode(text, false, false);
}

inline Ids bytes_as_ids(std::string_view text, int32_t first = 0) {
  Ids ids;
  for (const char byte : text) ids.push_back(first + static_cast<uint8_t>(byte));
  return ids;
}

}  // namespace greta
