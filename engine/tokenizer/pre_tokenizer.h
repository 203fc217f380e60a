#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace greta {

/// How a byte-level vocabulary wants text handled, by its name in tokenizer.ggml.pre.
struct PreTokenizerKind {
  std::string_view name;
  bool whole_words;  ///< a word that is a token is that token, whatever the merges say
  bool adds_bos;     ///< BOS goes before a text when the file does not say
  std::vector<std::string> (*stages)();  ///< regular expressions, in PCRE2's spelling
};

/// Those that are known.
std::span<const PreTokenizerKind> pre_tokenizer_kinds();

/// The kind of that name, that of `default` for no name, nullptr when it is not known. A file that
/// names none is older than the key.
const PreTokenizerKind* find_pre_tokenizer(std::string_view name);

/// Splits text into the words that byte-level BPE merges within. The words follow each other
/// without a gap. Safe for several threads.
///
/// Stages follow each other: each takes the words of the one before, and what its expression
/// matches there, and what lies between, are words from then on. Sources: the expressions published
/// with the models, as llama.cpp reads them where it does otherwise, since its token ids are what a
/// run is compared with; `(?i:…)` there is taken as ASCII. Which characters are letters, digits and
/// punctuation is fixed at Unicode 15.1 for a PCRE2 that knows an older version.
class PreTokenizer {
 public:
  /// match_limit bounds the work for one word, in PCRE2's count; 0: PCRE2's own limit.
  explicit PreTokenizer(const PreTokenizerKind& kind, uint32_t match_limit = 0);
  ~PreTokenizer();

  /// Appends the words of text, borrowed from it. text must be valid UTF-8. Throws
  /// std::runtime_error with the byte and PCRE2's message when a limit is reached.
  void split(std::string_view text, std::vector<std::string_view>& words) const;

 private:
  struct Patterns;
  std::unique_ptr<Patterns> patterns_;
};

}  // namespace greta
