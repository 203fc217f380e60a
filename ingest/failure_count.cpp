#include "ingest/failure_count.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "ingest/text.h"

namespace greta {
namespace {

using said::is_any_of;

constexpr size_t kBesideBytes = 64;  // that are read before and behind a share
constexpr size_t kBesideWords = 6;
constexpr size_t kMostDigits = 15;  // a double holds such a number

/// "3 tests failed": whether a thing that is counted follows.
bool is_counted_noun(SaidWords rest) {
  return rest.size() > 1 && !rest[0].opens &&
         is_any_of(rest[0].text, {"test", "tests", "pair", "pairs", "check", "checks", "case",
                                  "cases", "of", "rows", "values", "elements", "tensors", "tokens",
                                  "prompts", "hashes", "layers"});
}

bool is_rate_word(std::string_view word) {
  return is_any_of(word, {"rate", "ratio", "percentage", "percent", "pct", "fraction", "share"});
}

/// Of a key, whether it says what is wanted, not what there is.
bool is_wanted(SaidWords key) {
  return std::any_of(key.begin(), key.end(), [](const SaidWord& word) {
    return said::is_measuring(word.text) ||
           is_any_of(word.text, {"required", "target", "goal", "least", "wanted"});
  });
}

/// Whether a value is its first word, and perhaps a remark.
bool is_alone(SaidWords value) { return value.size() == 1 || value[1].opens; }

// ---- Shares

std::optional<double> number_of(std::string_view word) {
  if (word.size() > kMostDigits) return std::nullopt;
  return text::number<double>(word);
}

/// "47/48" or "97 %" in a line, less than all; it ends behind it, and behind "(97.9%)".
struct ShortShare {
  size_t begin = 0, end = 0;
};

/// Reads such a line from one end to the other, once.
class ShareReader {
 public:
  explicit ShareReader(std::string_view line) : line_(line) {}

  /// The next one that is less than all.
  std::optional<ShortShare> next() {
    while ((at_ = line_.find_first_of(kDigits, at_)) != line_.npos) {
      const size_t begin = at_;
      const bool is_apart =
          begin == 0 || (!text::is_word(line_[begin - 1]) &&
                         std::string_view("./").find(line_[begin - 1]) == std::string_view::npos);
      const std::optional<double> part = take_number();
      if (!part || !is_apart) continue;
      const size_t behind = at_;
      skip_blanks();
      if (const std::optional<double> all = take_all(); all && *part < *all) {
        skip_remark();
        return ShortShare{begin, at_};
      }
      at_ = std::max(behind, begin + 1);
    }
    at_ = line_.size();
    return std::nullopt;
  }

 private:
  static constexpr std::string_view kDigits = "0123456789";

  std::optional<double> take_number() {
    const size_t begin = at_;
    at_ = std::min(line_.find_first_not_of("0123456789.", at_), line_.size());
    return number_of(line_.substr(begin, at_ - begin));
  }
  void skip_blanks() { at_ = std::min(line_.find_first_not_of(" \t", at_), line_.size()); }

  /// Of how many it is a part: 100 of "%".
  std::optional<double> take_all() {
    const std::string_view rest = line_.substr(at_);
    if (rest.starts_with('%')) {
      ++at_;
      return 100;
    }
    for (const std::string_view of : {"/", "of ", "out of ", "de ", "von ", "sur ", "di "}) {
      if (!rest.starts_with(of)) continue;
      at_ += of.size();
      skip_blanks();
      const std::optional<double> all = take_number();
      const bool goes_on = at_ < line_.size() && (text::is_word(line_[at_]) || line_[at_] == '/');
      return goes_on ? std::nullopt : all;
    }
    return std::nullopt;
  }

  /// "(97.9%)", which says the same.
  void skip_remark() {
    const size_t open = line_.find_first_not_of(" \t", at_);
    if (open == line_.npos || line_[open] != '(') return;
    const size_t close = line_.substr(0, open + kBesideBytes).find(')', open);
    if (close != line_.npos) at_ = close + 1;
  }

  std::string_view line_;
  size_t at_ = 0;
};

/// "... passed", "of the tests passed", behind a share.
bool succeeds(std::string_view behind) {
  const std::vector<SaidWord> words = said_words(behind.substr(0, kBesideBytes), kBesideWords);
  size_t i = 0;
  while (i < words.size() && !words[i].opens &&
         (is_any_of(words[i].text, {"of", "the", "all", "are", "were", "have"}) ||
          is_counted_noun(SaidWords(words).subspan(i)))) {
    ++i;
  }
  return i < words.size() && !words[i].opens && said::is_fine(words[i].text);
}

/// "passed: ", "PASS ", before a share; "pass 2/3" says which pass it is.
bool is_of_success(std::string_view before) {
  before = before.substr(before.size() - std::min(before.size(), kBesideBytes));
  const std::vector<SaidWord> words = said_words(before, kBesideBytes);
  if (words.empty() || !said::is_fine(words.back().text) || is_wanted(words)) return false;
  before = text::trim(before);
  const char last = before.back();
  return std::string_view(":=|").find(last) != std::string_view::npos || text::is_upper(last) ||
         words.back().text.ends_with("ed");
}

/// "step 3/10 ok", of what is done one after the other.
bool is_of_progress(std::string_view before) {
  before = before.substr(before.size() - std::min(before.size(), kBesideBytes));
  const std::vector<SaidWord> words = said_words(before, kBesideBytes);
  return !words.empty() &&
         is_any_of(words.back().text,
                   {"step",  "layer", "test",   "iteration", "iter",  "epoch",   "shard",   "chunk",
                    "batch", "part",  "prompt", "group",     "block", "attempt", "try",     "stage",
                    "phase", "round", "pass",   "case",      "check", "token",   "position"});
}

/// "pass rate of 97 %"; "pass rate > 0.95" says what is wanted.
bool states_low_rate(std::string_view line, SaidWords words) {
  if (line.find_first_of("<>") != line.npos) return false;
  for (size_t i = 1; i + 1 < words.size(); ++i) {
    if (!is_rate_word(words[i].text) || !said::is_fine(words[i - 1].text)) continue;
    if (is_wanted(words.first(i))) continue;
    const bool is_linked = said::is_copula(words[i + 1].text) || words[i + 1].text == "of";
    const size_t at = i + 1 + is_linked;
    if (at < words.size() && !words[at].opens && is_low_rate(words.subspan(at, 1))) return true;
  }
  return false;
}

}  // namespace

bool counts_failures(SaidWords words) {
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const bool begins = i == 0 || words[i].opens || !text::is_digit(words[i - 1].text[0]);
    if (!begins || !said::is_count(words[i].text)) continue;
    const size_t at = i + 1 + is_counted_noun(words.subspan(i + 1));
    const bool ends = at + 1 == words.size() || words[at + 1].opens ||
                      is_any_of(words[at + 1].text, {"in", "of", "out", "and", "from"});
    if (ends && !words[at].opens &&
        is_any_of(words[at].text, {"failed", "failures", "failure", "errors", "mismatches",
                                   "mismatch", "failing", "crashed", "aborted", "nans"})) {
      return true;
    }
  }
  return false;
}

bool counts_too_few(std::string_view line, SaidWords words) {
  const bool succeeds_somewhere = std::any_of(
      words.begin(), words.end(), [](const SaidWord& word) { return said::is_fine(word.text); });
  if (!succeeds_somewhere) return false;
  if (states_low_rate(line, words)) return true;
  ShareReader shares(line);
  while (const std::optional<ShortShare> share = shares.next()) {
    const std::string_view before = line.substr(0, share->begin);
    const bool is_told = succeeds(line.substr(share->end)) && !is_of_progress(before);
    if (is_told || is_of_success(before)) return true;
  }
  return false;
}

bool is_success_rate(SaidWords key) {
  return key.size() > 1 && !is_wanted(key) &&
         std::any_of(key.begin(), key.end(),
                     [](const SaidWord& word) { return is_rate_word(word.text); }) &&
         std::any_of(key.begin(), key.end(),
                     [](const SaidWord& word) { return said::is_fine(word.text); });
}

bool is_low_rate(SaidWords value) {
  const std::optional<double> rate = number_of(value.front().text);
  const bool is_low = rate && *rate >= 0 && *rate < 100 && *rate != 1;
  return is_alone(value) ? is_low : is_short_share(value);
}

bool is_short_share(SaidWords value) {
  if (!is_alone(value)) return is_part_of_all(value);
  const std::optional<double> part = number_of(value.front().text);
  return part && *part > 0 && *part < 1;
}

bool is_part_of_all(SaidWords value) {
  const std::optional<double> part = number_of(value.front().text);
  if (!part || *part < 0) return false;
  size_t at = 1;
  while (at < value.size() && is_any_of(value[at].text, {"out", "of", "de", "von"})) ++at;
  if (at >= value.size() || value[at].opens || (at + 1 < value.size() && !value[at + 1].opens))
    return false;
  const std::optional<double> all = number_of(value[at].text);
  return all && *part < *all;
}

bool counts_what_failed(SaidWords key) {
  if (key.size() < 2 || is_wanted(key)) return false;
  const std::string& first = key.front().text;
  const bool is_participle =
      first.ends_with("ed") || first.ends_with("ing") ||
      is_any_of(first, {"wrong", "bad", "incorrect", "unequal", "different"});
  return is_participle && (said::is_failure_word(first) || first == "different") &&
         !first.starts_with("reject");
}

}  // namespace greta
