#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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

}  // namespace greta
