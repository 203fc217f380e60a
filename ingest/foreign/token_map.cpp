#include "ingest/foreign/token_map.h"

#include "db/trace_row.h"
#include "ingest/foreign/error.h"

namespace greta {
namespace {

/// Where the sequence that begins at `from` ends, exclusively.
size_t end_of_sequence(const std::vector<int64_t>& positions, size_t from, int64_t length) {
  for (size_t i = from; i < positions.size(); ++i) {
    if (i > from && positions[i] != positions[i - 1] + 1) break;
    if (positions[i] == length - 1) return i + 1;
  }
  throw ForeignError("positions and lengths of its sequences contradict each other");
}

}  // namespace

TokenMap map_tokens(const std::vector<int64_t>& positions, const std::vector<int64_t>& token_ids,
                    const std::vector<int64_t>& lengths, const std::string& first) {
  if (!token_ids.empty() && token_ids.size() != positions.size()) {
    throw ForeignError("it has " + std::to_string(token_ids.size()) + " token ids and " +
                       std::to_string(positions.size()) + " positions");
  }
  TokenMap map;
  const size_t sequences = lengths.empty() ? 1 : lengths.size();
  size_t from = 0;
  for (size_t s = 0; s < sequences; ++s) {
    const size_t end =
        lengths.empty() ? positions.size() : end_of_sequence(positions, from, lengths[s]);
    for (size_t i = from; i < end; ++i) {
      if (positions[i] < 0 || positions[i] > kMaxPosition) {
        throw ForeignError("position " + std::to_string(positions[i]) +
                           " is beyond what a row can have");
      }
      TokenMap::Token token{
          first + "seq" + std::to_string(s), end - from == 1 && positions[i] > 0, positions[i], {}};
      if (!token_ids.empty()) token.token_id = token_ids[i];
      map.tokens.push_back(std::move(token));
    }
    if (end > from) map.last.push_back(end - 1);
    from = end;
  }
  // What a captured graph pads its batch with is of no sequence.
  return map;
}

}  // namespace greta
