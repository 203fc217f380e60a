#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace greta::record {

/// Numbers texts in order of first sight. Consecutive lines mostly repeat, so the last is
/// remembered.
class SymbolTable {
 public:
  /// The symbol, and whether it is new.
  std::pair<int64_t, bool> find_or_add(std::string_view text) {
    if (last_ >= 0 && text == last_text_) return {last_, false};
    auto it = symbols_.find(text);
    bool is_new = it == symbols_.end();
    if (is_new) {
      it = symbols_.emplace(std::string(text), next_++).first;
      bytes_ += text.size();
    }
    last_text_ = it->first;
    last_ = it->second;
    return {last_, is_new};
  }
  bool has(std::string_view text) const {
    return (last_ >= 0 && text == last_text_) || symbols_.contains(text);
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
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> symbols_;
  int64_t next_ = 0;
  size_t bytes_ = 0;
  std::string_view last_text_;  // into a key of symbols_
  int64_t last_ = -1;
};

}  // namespace greta::record
