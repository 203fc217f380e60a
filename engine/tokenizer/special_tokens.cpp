#include "engine/tokenizer/special_tokens.h"

#include <algorithm>

namespace greta {

SpecialTokens::SpecialTokens(std::vector<std::pair<std::string, int32_t>> tokens)
    : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const auto& token) { return token.first.empty(); });
  std::sort(tokens_.begin(), tokens_.end());
  for (const auto& [text, id] : tokens_) starts_[static_cast<uint8_t>(text[0])] = true;
}

std::optional<SpecialTokens::Match> SpecialTokens::find(std::string_view text, size_t from) const {
  if (tokens_.empty()) return std::nullopt;
  for (size_t i = from; i < text.size(); ++i) {
    if (!starts_[static_cast<uint8_t>(text[i])]) continue;
    if (const auto match = longest_at(text, i)) return match;
  }
  return std::nullopt;
}

// Narrows the sorted tokens to those that agree with the text, a byte at a time.
std::optional<SpecialTokens::Match> SpecialTokens::longest_at(std::string_view text,
                                                              size_t begin) const {
  std::optional<Match> longest;
  auto low = tokens_.begin(), high = tokens_.end();
  for (size_t depth = 0; low != high && begin + depth < text.size(); ++depth) {
    // A token that ends here sorts before those that go on.
    const int byte = static_cast<uint8_t>(text[begin + depth]);
    const auto byte_at = [depth](const auto& token) {
      return depth < token.first.size() ? static_cast<int>(static_cast<uint8_t>(token.first[depth]))
                                        : -1;
    };
    low = std::partition_point(low, high, [&](const auto& t) { return byte_at(t) < byte; });
    high = std::partition_point(low, high, [&](const auto& t) { return byte_at(t) == byte; });
    if (low != high && low->first.size() == depth + 1) {
      longest = Match{begin, begin + depth + 1, low->second};
    }
  }
  return longest;
}

}  // namespace greta
