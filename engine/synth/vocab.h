#pragma once

#include <cstdint>

#include "engine/tokenizer/vocabulary.h"

// Vocabularies of synthetic models. Any string has an encoding, which decodes to that string (but
// for the character ▁, which SentencePiece takes for a space).

namespace greta {

/// Least number of tokens that the vocabularies below need.
inline constexpr int64_t kMinSynthVocab = 512;

/// Byte-level BPE as Llama 3 has it: the 256 bytes in GPT-2's spelling, merges of pieces of words,
/// numbers and UTF-8 letters, control tokens last. Throws std::invalid_argument below
/// kMinSynthVocab.
Vocabulary make_bpe_vocab(int64_t n_tokens);

/// SentencePiece as Llama 2 has it: <unk>, <s>, </s>, 256 byte tokens, then pieces with ▁ for the
/// space and falling scores, single characters last. Throws as make_bpe_vocab.
Vocabulary make_spm_vocab(int64_t n_tokens);

}  // namespace greta
