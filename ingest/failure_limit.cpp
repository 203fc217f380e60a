#include "ingest/failure_limit.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "ingest/failure_words.h"
#include "ingest/text.h"

namespace greta {
namespace {

using said::is_any_of;
using Scale = Quantity::Scale;

constexpr size_t kMaxQuantityBytes = 96, kMaxQuantityWords = 12;
constexpr size_t kMostNumbers = 64;  // of a line

/// Whether a word stands between a difference and what it is held against.
bool links(std::string_view word) {
  return is_any_of(word, {"with", "its", "to", "at", "than", "above", "below", "vs", "and",
                          "exceeds", "over", "beyond"});
}

bool is_limit_word(std::string_view word) {
  return word.starts_with("toler") || word.starts_with("thresh") ||
         is_any_of(word, {"tol", "atol", "rtol", "abstol", "reltol"});
}

/// In the name of a member it is one too; in running text much is.
bool is_limit_of_name(std::string_view word) {
  return is_limit_word(word) || word.starts_with("limit") || word.starts_with("allow") ||
         word == "bound";
}

/// A difference of no norm of its own.
bool is_plain_difference(std::string_view word) {
  return word.starts_with("diff") || word.starts_with("deviation") || word == "delta" ||
         word == "err" || word == "error";
}

bool is_difference(std::string_view word) {
  return is_plain_difference(word) || word.starts_with("discrepan") ||
         is_any_of(word, {"distance", "residual", "drift", "mse", "nmse", "rmse", "mae", "l2",
                          "linf", "kl", "ulp"});
}

/// Of a name: a number of things, where one is, or another thing that has errors.
bool is_no_magnitude(std::string_view word) {
  return is_any_of(word, {"count", "n",    "num",      "number", "rate",  "index",   "idx",
                          "layer", "step", "at",       "pos",    "token", "tokens",  "code",
                          "bytes", "id",   "line",     "ms",     "time",  "seconds", "row",
                          "col",   "min",  "expected", "in",     "after", "position"});
}

/// "max_allowed_diff" narrows nothing.
bool narrows(std::string_view word) {
  return !is_limit_of_name(word) && !is_plain_difference(word) &&
         !is_any_of(word, {"max", "maximum", "value", "the", "used", "default", "of", "is", "a"});
}

Scale scale_of(SaidWords name) {
  Scale scale = Scale::kAny;
  for (const SaidWord& word : name) {
    if (word.text.starts_with("rel") || word.text == "rtol") return Scale::kRelative;
    if (word.text.starts_with("ulp")) return Scale::kUlp;
    if (word.text.starts_with("abs") || word.text == "atol") scale = Scale::kAbsolute;
  }
  return scale;
}

bool has_quantity_word(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// Whether a limit is for that difference; `is_only_scale`: there is no plainer one.
bool is_limit_of(const Quantity& limit, const Quantity& difference, bool is_only_scale) {
  const bool has_all = std::all_of(
      limit.of_what.begin(), limit.of_what.end(),
      [&](const std::string& word) { return has_quantity_word(difference.of_what, word); });
  if (!has_all) return false;
  const bool is_plain = difference.scale == Scale::kAny || difference.scale == Scale::kAbsolute;
  switch (limit.scale) {
    case Scale::kAny:
      return is_plain || (difference.scale == Scale::kRelative && is_only_scale);
    case Scale::kAbsolute:
      return is_plain;
    default:
      return limit.scale == difference.scale;
  }
}

// ---- Lines

/// "<", ">" or 0: what stands before a number.
char comparator_before(std::string_view before) {
  before = text::trim(before);
  if (before.ends_with("\u2264")) return '<';
  if (before.ends_with("->") || before.ends_with("=>")) return '\0';
  if (before.ends_with('=')) before.remove_suffix(1);
  return before.ends_with('<') || before.ends_with('>') ? before.back() : '\0';
}

/// "must be", "tolerance": nothing but that a bound follows.
bool leads_to_bound(SaidWords words) {
  return std::all_of(words.begin(), words.end(), [](const SaidWord& word) {
    return is_limit_word(word.text) ||
           is_any_of(word.text, {"must", "be", "should", "is", "the", "allowed", "limit", "max",
                                 "which", "but", "expected", "want", "required"});
  });
}

/// Whether the words say what should be.
bool wants(SaidWords words) {
  return std::any_of(words.begin(), words.end(), [](const SaidWord& word) {
    return is_any_of(word.text, {"must", "should", "expected", "want", "required"});
  });
}

/// Of what stands before a number the part that names it: of a limit not what is held against it.
SaidWords own_name(SaidWords words) {
  words = words.last(std::min(words.size(), kMaxQuantityWords));
  for (size_t i = words.size(); i-- > 0;) {
    if (links(words[i].text)) return words.subspan(i + 1);
  }
  return words;
}

/// Of running text the name is what stands just before the number.
bool ends_in_name(SaidWords name) {
  size_t end = name.size();
  while (end > 0 && is_any_of(name[end - 1].text, {"is", "was", "of", "value", "norm", "max", "abs",
                                                   "rel", "reached", "the", "allowed"})) {
    --end;
  }
  if (end == 0) return false;
  const std::string& last = name[end - 1].text;
  if (!is_limit_word(last)) return is_difference(last);
  if (end == 1 || name[end - 1].opens) return true;
  return links(name[end - 2].text) ||
         is_any_of(name[end - 2].text, {"the", "a", "allowed", "max", "of", "abs", "absolute",
                                        "rel", "relative", "diff", "error"});
}

/// Numbers of a line with what stands before each.
class NumberReader {
 public:
  explicit NumberReader(std::string_view line) : line_(line) {}

  struct Number {
    std::string_view before;  ///< behind the last one
    double value = 0;         ///< of "5 %" 0.05
  };

  /// The next that is no part of a word, a date or a time, and has no unit.
  std::optional<Number> next() {
    while ((at_ = line_.find_first_of("0123456789", at_)) != line_.npos) {
      size_t begin = at_;
      const bool is_in_word = begin > 0 && text::is_word(line_[begin - 1]);
      if (begin > 0 && line_[begin - 1] == '.') --begin;
      Number number{line_.substr(begun_, begin - begun_)};
      const auto [end, error] =
          std::from_chars(line_.data() + begin, line_.data() + line_.size(), number.value);
      at_ = std::max(at_ + 1, static_cast<size_t>(end - line_.data()));
      if (is_in_word) {  // "l2"
        at_ = std::min(line_.find_first_not_of("0123456789", at_), line_.size());
        continue;
      }
      begun_ = at_;
      const bool goes_on = at_ < line_.size() &&
                           (text::is_word(line_[at_]) ||
                            (std::string_view(":/-.").find(line_[at_]) != std::string_view::npos &&
                             at_ + 1 < line_.size() && text::is_digit(line_[at_ + 1])));
      if (goes_on) {
        at_ = std::min(line_.find_first_of(" \t,;()=|", at_), line_.size());
        begun_ = at_;
        continue;
      }
      if (error != std::errc()) continue;
      const size_t behind = std::min(line_.find_first_not_of(' ', at_), line_.size());
      if (line_.substr(behind).starts_with('%')) number.value /= 100;
      return number;
    }
    at_ = line_.size();
    return std::nullopt;
  }

 private:
  std::string_view line_;
  size_t at_ = 0, begun_ = 0;
};

bool compares_with_bound(std::string_view line) {
  return line.find_first_of("<>") != line.npos || line.find("\u2264") != line.npos;
}

}  // namespace

bool may_name_limit(std::string_view name) {
  return text::holds_any(name, {"tol", "thresh", "limit", "allow", "bound"});
}

std::optional<Quantity> quantity_of(SaidWords name, double value) {
  if (std::isnan(value)) return std::nullopt;
  Quantity quantity{Quantity::Kind::kDifference, scale_of(name), std::abs(value), {}};
  const bool is_limit = std::any_of(
      name.begin(), name.end(), [](const SaidWord& word) { return is_limit_of_name(word.text); });
  bool differs = false;
  for (const SaidWord& word : name) {
    if (is_no_magnitude(word.text)) return std::nullopt;
    differs |= is_difference(word.text);
    if (!is_limit || narrows(word.text)) quantity.of_what.push_back(word.text);
  }
  if (is_limit) {
    quantity.kind = Quantity::Kind::kLimit;
    std::erase_if(quantity.of_what, [](const std::string& word) {
      return word.starts_with("rel") || word.starts_with("abs");
    });
    return quantity;
  }
  return differs ? std::optional(std::move(quantity)) : std::nullopt;
}

const Quantity* first_excess(std::span<const Quantity> quantities) {
  const auto any = [&](Quantity::Kind kind, Scale scale) {
    return std::any_of(quantities.begin(), quantities.end(), [&](const Quantity& quantity) {
      return quantity.kind == kind && quantity.scale == scale;
    });
  };
  const bool is_only_scale = !any(Quantity::Kind::kDifference, Scale::kAny) &&
                             !any(Quantity::Kind::kDifference, Scale::kAbsolute);
  const bool is_of_both = any(Quantity::Kind::kLimit, Scale::kAbsolute) &&
                          any(Quantity::Kind::kLimit, Scale::kRelative);
  for (const Quantity& difference : quantities) {
    if (difference.kind != Quantity::Kind::kDifference) continue;
    const Quantity* its_own = nullptr;
    for (const Quantity& limit : quantities) {
      if (limit.kind != Quantity::Kind::kLimit) continue;
      if (is_of_both && limit.scale != Scale::kAny) continue;
      if (!is_limit_of(limit, difference, is_only_scale)) continue;
      const bool is_closer = its_own == nullptr || limit.of_what.size() > its_own->of_what.size();
      const bool is_wider = its_own != nullptr && limit.of_what.size() == its_own->of_what.size() &&
                            limit.value > its_own->value;
      if (is_closer || is_wider) its_own = &limit;
    }
    if (its_own != nullptr && difference.value > its_own->value) return &difference;
  }
  return nullptr;
}

bool line_states_excess(std::string_view line, SaidWords words) {
  bool differs = false, limits = false;
  for (const SaidWord& word : words) {
    if (said::supposes(word.text)) return false;
    differs |= is_difference(word.text);
    limits |= is_limit_word(word.text);
  }
  if (!differs || (!limits && !compares_with_bound(line))) return false;
  NumberReader numbers(line);
  std::vector<Quantity> found;
  bool is_behind_difference = false;  // of the last number
  for (size_t n = 0; n < kMostNumbers; ++n) {
    const auto number = numbers.next();
    if (!number) break;
    const bool was_difference = std::exchange(is_behind_difference, false);
    std::string_view before = number->before;
    const char comparator = comparator_before(before);
    if (before.size() > kMaxQuantityBytes) before.remove_prefix(before.size() - kMaxQuantityBytes);
    const std::vector<SaidWord> name = said_words(before, kMaxQuantityBytes);
    if (comparator != '\0') {
      const bool is_told = comparator == '<' || !wants(name);
      if (was_difference && is_told && leads_to_bound(name) && found.back().value > number->value)
        return true;
      continue;
    }
    auto quantity = ends_in_name(name) ? quantity_of(own_name(name), number->value) : std::nullopt;
    if (!quantity) continue;
    is_behind_difference = quantity->kind == Quantity::Kind::kDifference;
    found.push_back(*std::move(quantity));
  }
  return first_excess(found) != nullptr;
}

}  // namespace greta
