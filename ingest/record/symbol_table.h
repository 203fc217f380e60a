#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace greta::record {

/// Numbers texts in order of first sight. Consecutive lines mostly repeat, so the last is
/// remembered.
class SymbolTable {
 public:
  /// Nothing when the text was not seen yet.
  std::optional<int64_t> find(std::string_view text) {
    if (last_ >= 0 && text == last_text_) return last_;
    const auto it = symbols_.find(text);
    if (it == symbols_.end()) return std::nullopt;
    return remember(it);
  }
  /// Of a text that find() does not know.
  int64_t add(std::string_view text) {
    bytes_ += text.size();
    return remember(symbols_.emplace(std::string(text), next_++).first);
  }
  size_t size() const { return symbols_.size(); }
  int64_t next() const { return next_; }   ///< number of the next text that is new
  size_t bytes() const { return bytes_; }  ///< of the texts
  /// Forgets the texts, not the numbers given.
  void clear() {
    symbols_.clear();
    last_ = -1;
    bytes_ = 0;
  }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  using Symbols = std::unordered_map<std::string, int64_t, Hash, std::equal_to<>>;

  int64_t remember(Symbols::const_iterator it) {
    last_text_ = it->first;
    return last_ = it->second;
  }

  Symbols symbols_;
  int64_t next_ = 0;
  size_t bytes_ = 0;
  std::string_view last_text_;  // into a key of symbols_
  int64_t last_ = -1;
};

}  // namespace greta::record
