// Prints the token ids of the texts of a file, one line of ids a text, for comparison with a peer.
//
//   greta_tokens MODEL TEXTS [--special]
//
// TEXTS: texts separated by a line "__ggml_vocab_test__". --special: control tokens spelled in a
// text are taken as such, and what the vocabulary adds to a text is added. Ends with 1 when a text
// does not come back as it was from its ids; the time of encoding goes to stderr.

#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace {

using Clock = std::chrono::steady_clock;

std::vector<std::string_view> split(std::string_view all) {
  constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";
  std::vector<std::string_view> texts;
  while (true) {
    const size_t end = all.find(kSeparator);
    texts.push_back(all.substr(0, end));
    if (end == std::string_view::npos) return texts;
    all.remove_prefix(end + kSeparator.size());
  }
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string without_spaces(std::string text) {
  std::erase(text, ' ');
  for (size_t at; (at = text.find("\u2581")) != std::string::npos;) text.erase(at, 3);
  return text;
}

// SentencePiece puts spaces before text and reads "▁" as one: but for these, text comes back.
bool comes_back(const greta::Tokenizer& tokenizer, std::string_view text,
                const std::vector<int32_t>& ids) {
  const std::string decoded = tokenizer.decode(ids, true);
  return decoded == text || without_spaces(decoded) == without_spaces(std::string(text));
}

int run(const std::string& model, const std::string& file, bool special) {
  const auto start = Clock::now();
  const auto tokenizer = greta::Tokenizer::load(greta::GgufFile::open(model));
  std::fprintf(stderr, "loaded in %.3f s\n", seconds_since(start));
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + file);
  const std::string all{std::istreambuf_iterator<char>(in), {}};
  int lost = 0;
  double seconds = 0;
  for (const std::string_view text : split(all)) {
    const auto begin = Clock::now();
    const std::vector<int32_t> ids = tokenizer->encode(text, special, special);
    seconds += seconds_since(begin);
    for (size_t i = 0; i < ids.size(); ++i) std::printf(i == 0 ? "%d" : " %d", ids[i]);
    std::printf("\n");
    lost += comes_back(*tokenizer, text, tokenizer->encode(text, false, special)) ? 0 : 1;
  }
  std::fprintf(stderr, "%zu bytes in %.4f s, %.1f MB/s\n", all.size(), seconds,
               static_cast<double>(all.size()) / 1e6 / seconds);
  if (lost > 0) std::fprintf(stderr, "%d texts did not come back\n", lost);
  return lost == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const bool special = argc == 4 && std::string_view(argv[3]) == "--special";
  if (argc != 3 && !special) {
    std::fprintf(stderr, "usage: greta_tokens MODEL TEXTS [--special]\n");
    return 2;
  }
  try {
    return run(argv[1], argv[2], special);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "greta_tokens: %s\n", error.what());
    return 2;
  }
}
