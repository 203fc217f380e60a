#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/gguf/file.h"

namespace greta {

/// Kind of a token; the numbers are GGUF's (tokenizer.ggml.token_type).
enum class TokenType : int32_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,      ///< stands for what the vocabulary cannot spell
  kControl = 3,      ///< never text: taken from a text only when asked for, not shown when decoded
  kUserDefined = 4,  ///< text that is always one token
  kUnused = 5,
  kByte = 6,  ///< a byte, spelled <0xXX>
};

/// The vocabulary of a model as its file has it (tokenizer.ggml.*), before a tokenizer is made of
/// it.
struct Vocabulary {
  std::string source = "vocabulary";  ///< the file, for messages
  std::string model;                  ///< gpt2 (byte-level BPE) or llama (SentencePiece)
  std::string pre;                    ///< pre-tokenizer of gpt2; empty: the file names none
  std::vector<std::string> tokens;    ///< the text of each id
  std::vector<TokenType> types;       ///< of each id
  std::vector<float> scores;          ///< of each id; llama only
  std::vector<std::string> merges;    ///< "left right", best first; gpt2 only
  int32_t bos = -1, eos = -1, eot = -1, eom = -1, unknown = -1;  ///< -1: there is none
  bool add_bos = false, add_eos = false;
  bool add_space_prefix = false;  ///< llama: a space goes before text

  /// Reads the vocabulary of a file; what the file does not say is as llama.cpp takes it: BOS, EOS
  /// and unknown 1, 2 and 0 for llama, 11, 11 and none for gpt2, where the vocabulary has such ids;
  /// BOS is added for llama, and for gpt2 as the pre-tokenizer says; EOS is not; a space is put
  /// before llama text. Throws GgufError: no vocabulary, a special token that is out of range.
  static Vocabulary read(const GgufFile& file);

  /// The ids of all texts, borrowed from tokens; empty texts have none. Throws GgufError when
  /// arrays differ in length, a type, score or special id is none, or two tokens have the same
  /// text.
  std::unordered_map<std::string_view, int32_t> index() const;

  /// The byte that a byte token is. Throws GgufError when its text is not of the form <0xXX>.
  std::string byte_text(size_t id) const;

  [[noreturn]] void fail(const std::string& what) const;  ///< GgufError that names the source
};

}  // namespace greta
