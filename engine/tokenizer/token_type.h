#pragma once

#include <cstdint>

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

}  // namespace greta
