#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace greta {

/// Finds the tokens that a text may spell out, such as <|eot_id|>.
class SpecialTokens {
 public:
  struct Match {
    size_t begin, end;  ///< bytes of the text
    int32_t id;
  };

  SpecialTokens() = default;

  /// Empty texts are never found.
  explicit SpecialTokens(std::vector<std::pair<std::string, int32_t>> tokens);

  /// The first token at or after `from`; of several that begin there, the longest.
  std::optional<Match> find(std::string_view text, size_t from) const;

 private:
  std::optional<Match> longest_at(std::string_view text, size_t begin) const;

  std::vector<std::pair<std::string, int32_t>> tokens_;  // sorted by text
  std::array<bool, 256> starts_{};                       // first bytes
};

}  // namespace greta
