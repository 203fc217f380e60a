// Any bytes are a text: every pre-tokenizer splits its characters into words that follow each other
// without a gap, and splits them the same again.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/utf8.h"
#include "engine/tokenizer/pre_tokenizer.h"

namespace {

void require(bool holds, std::string_view name, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%.*s: does not hold: %s\n", static_cast<int>(name.size()), name.data(),
               what);
  std::abort();
}

void check(std::string_view name, const greta::PreTokenizer& pre_tokenizer, std::string_view text) {
  std::vector<std::string_view> words, again;
  pre_tokenizer.split(text, words);
  const char* end = text.data();
  for (const std::string_view word : words) {
    require(!word.empty(), name, "a word has characters");
    require(word.data() == end, name, "there is no gap");
    require(greta::utf8::is_valid(word), name, "no character is divided");
    end += word.size();
  }
  require(end == text.data() + text.size(), name, "words are all of the text");
  pre_tokenizer.split(text, again);
  require(words == again, name, "the same text has the same words");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto pre_tokenizers = [] {
    std::vector<std::unique_ptr<greta::PreTokenizer>> made;
    for (const auto& kind : greta::pre_tokenizer_kinds()) {
      made.push_back(std::make_unique<greta::PreTokenizer>(kind));
    }
    return made;
  }();
  const std::string text =
      greta::utf8::replace_invalid({reinterpret_cast<const char*>(data), size});
  for (size_t i = 0; i < pre_tokenizers.size(); ++i) {
    check(greta::pre_tokenizer_kinds()[i].name, *pre_tokenizers[i], text);
  }
  return 0;
}
