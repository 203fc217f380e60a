#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace greta {

/// A trace point as a row names it.
struct TracePlace {
  std::string tensor;
  int64_t layer = -1;  ///< -1: of no layer
  bool operator==(const TracePlace&) const = default;
};

/// A pattern of names (PCRE2, over bytes). Immutable; matching takes bounded time.
class NamePattern {
 public:
  /// Throws std::invalid_argument, with the place of the fault, for what is no pattern or longer
  /// than 4096 bytes.
  explicit NamePattern(const std::string& pattern);
  ~NamePattern();
  NamePattern(NamePattern&&) noexcept;
  NamePattern& operator=(NamePattern&&) noexcept;

  /// Where the first group is, as a half-open range of `text`; begin == end where the pattern has
  /// no group or it is empty.
  struct Group {
    size_t begin = 0, end = 0;
  };
  /// The whole text fits; nothing when it does not, or takes too long to tell.
  std::optional<Group> matches(std::string_view text) const;
  /// Some part of the text fits.
  std::optional<Group> found_in(std::string_view text) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

/// Names that other tools write, made trace points: by the first rule that fits the whole name,
/// whose first group is the layer. A name that no rule knows keeps itself, with N for the number of
/// its layer.
class NameRules {
 public:
  void add(const std::string& pattern, std::string tensor);
  TracePlace place_of(std::string_view name) const;

 private:
  std::vector<std::pair<NamePattern, std::string>> rules_;
};

}  // namespace greta
