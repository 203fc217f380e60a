#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace greta {

/// Splits text into the words that byte-level BPE merges within, as Llama 3 does: contractions,
/// letters with one character before them, up to three digits, punctuation, line ends, spaces. The
/// words follow each other without a gap. Safe for several threads.
///
/// Which characters are letters and digits is fixed at Unicode 15.1 for a PCRE2 that knows an older
/// version. Source: the regular expression published with Llama 3; `(?i:…)` there is taken as
/// ASCII.
class PreTokenizer {
 public:
  /// match_limit bounds the work for one word, in PCRE2's count; 0: PCRE2's own limit.
  explicit PreTokenizer(uint32_t match_limit = 0);
  ~PreTokenizer();

  /// Appends the words of text, borrowed from it. text must be valid UTF-8. Throws
  /// std::runtime_error with the byte and PCRE2's message when a limit is reached.
  void split(std::string_view text, std::vector<std::string_view>& words) const;

 private:
  struct Pattern;
  std::unique_ptr<Pattern> pattern_;
};

}  // namespace greta
