#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ingest/foreign/rows.h"
#include "ingest/foreign/tensor.h"

namespace greta {

/// Which tokens the rows of a forward pass belong to.
struct TokenMap {
  struct Token {
    std::string prompt;  ///< seq0, seq1, ...: the sequence's place in its batch
    bool is_decode = false;
    int64_t pos_id = 0;
    std::optional<int64_t> token_id;
  };
  std::vector<Token> tokens;  ///< of the pass, in the order of its rows
  std::vector<size_t> last;   ///< of each sequence, the index of its last token
};

/// Takes the tokens of a batch apart: each sequence ends with its last position, length - 1; one of
/// a single token that is not its first is decoded. Without lengths all are one sequence. `first`
/// comes before the names of sequences. Throws ForeignError when the three contradict each other.
TokenMap map_tokens(const std::vector<int64_t>& positions, const std::vector<int64_t>& token_ids,
                    const std::vector<int64_t>& lengths, const std::string& first);

/// What is known of a tensor beside its values.
struct TensorFacts {
  TracePlace place;
  std::string prompt;  ///< of a row that covers all of it
  int64_t step = kUnknownStep;
  int64_t line = 0;                  ///< which of its file it is, from 1
  std::string more;                  ///< a JSON object of what its file says of it; "" nothing
  const TokenMap* tokens = nullptr;  ///< of the pass that computed it
  uint64_t n_tokens = 0;             ///< rows of such a pass, those that pad it included
};

/// Makes rows of a tensor, by greta's fingerprint: a row for each token where its first dimension
/// (behind one of 1) counts the tokens of a pass, or its sequences; else one that covers all of it.
/// Values are read piece by piece. `storage` is what holds it. Throws ForeignError when it cannot
/// be taken.
void add_tensor(const Tensor& tensor, Bytes& storage, const TensorFacts& facts, ForeignRows& rows);

/// The values of a small tensor of integers. Throws ForeignError for others.
std::vector<int64_t> integers_of(const Tensor& tensor, Bytes& storage);

}  // namespace greta
