#include "engine/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <stdexcept>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace greta {
namespace {

// Classes, to stand between brackets. What Unicode 15.0 and 15.1 added is spelled out: PCRE2 before
// 10.43 knows Unicode 14, and the same text must give the same tokens everywhere. White space is
// Unicode's White_Space: PCRE2's \s also has U+180E.
const std::string kNewLetter =
    "\\x{1123f}\\x{11240}\\x{11f02}\\x{11f04}-\\x{11f10}\\x{11f12}-\\x{11f33}\\x{1342f}"
    "\\x{13441}-\\x{13446}\\x{1b132}\\x{1b155}\\x{1df25}-\\x{1df2a}\\x{1e030}-\\x{1e06d}"
    "\\x{1e4d0}-\\x{1e4eb}\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}";
const std::string kLetter = "\\p{L}" + kNewLetter;
const std::string kNumber = "\\p{N}\\x{11f50}-\\x{11f59}\\x{1d2c0}-\\x{1d2d3}\\x{1e4f0}-\\x{1e4f9}";
const std::string kPunctuation = "\\p{P}\\x{11b00}-\\x{11b09}\\x{11f43}-\\x{11f4f}";
const std::string kBlank = "\\t\\x0b\\x0c\\x{85}\\p{Z}";  // white space within a line
const std::string kSpace = "\\r\\n" + kBlank;

std::string any_of(const std::string& members) { return "[" + members + "]"; }
std::string none_of(const std::string& members) { return "[^" + members + "]"; }

// Expressions are possessive where giving back cannot help, so that a run of a million spaces is
// one pass; \s*[\r\n]+ is spelled as lines of blanks for the same reason.
const std::string kLineEnds = "(?:" + any_of(kBlank) + "*+[\\r\\n]++)++";

// Spaces but for the last one, which goes with the word behind them; all where nothing follows.
const std::string kSpaces =
    any_of(kSpace) + "+(?!" + none_of(kSpace) + ")|" + any_of(kSpace) + "++";

// Neither space nor letter nor number, with a space before.
const std::string kSigns = " ?" + none_of(kSpace + kLetter + kNumber) + "++";

// What may stand before the letters of a word.
const std::string kBeforeLetters = none_of("\\r\\n" + kLetter + kNumber) + "?";

// With digits a word of at most so many.
std::string like_llama3(int digits) {
  return "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])|" + kBeforeLetters + any_of(kLetter) + "++|" +
         any_of(kNumber) + "{1," + std::to_string(digits) + "}+|" + kSigns + "[\\r\\n]*+|" +
         kLineEnds + "|" + kSpaces;
}

std::vector<std::string> llama3_stages() { return {like_llama3(3)}; }
std::vector<std::string> qwen2_stages() { return {like_llama3(1)}; }

std::vector<std::string> gpt2_stages() {
  return {"'(?:[stmd]|re|ve|ll)| ?" + any_of(kLetter) + "++| ?" + any_of(kNumber) + "++|" + kSigns +
          "|" + kSpaces};
}

std::vector<std::string> smollm_stages() { return {any_of(kNumber), gpt2_stages().front()}; }

std::vector<std::string> default_stages() {
  return {any_of(kPunctuation + "$+<=>\\^~|") + "++", gpt2_stages().front(), any_of(kNumber) + "++",
          "[0-9]{3}"};
}

// Some letters but those: PCRE2 cannot subtract from a class.
std::string letters_but(const std::string& ascii) {
  return "(?:[^\\P{L}" + ascii + "]++|" + any_of(kNewLetter) + "++)";
}

// Words that change from capitals to small letters no more than once; letters beyond ASCII are of
// either case here. The expression published takes all the capitals that it can, and gives back to
// the small letters what may be either. So a word is: capitals up to a first a-z, and the small
// letters from there; where no a-z follows, what there is up to the last letter of either case;
// where there is none, capitals.
std::vector<std::string> tekken_stages() {
  const std::string capitals = letters_but("a-z"), small = letters_but("A-Z");
  const std::string either = letters_but("A-Za-z");
  return {kBeforeLetters + capitals + "*+[a-z]" + small + "*+|" + kBeforeLetters + "(?:[A-Z]*+" +
          either + "++)++|" + kBeforeLetters + "[A-Z]++|" + any_of(kNumber) + "|" + kSigns +
          "[\\r\\n/]*+|" + kLineEnds + "|" + kSpaces};
}

// The classes are lists of characters, not of Unicode's. Letters are Latin, Greek, Cyrillic and the
// like; the second class has signs and letters (":" to "~"); the third all from U+0800 to the first
// ideographs, and Hangul, without white space.
std::vector<std::string> deepseek_llm_stages() {
  const std::string letters =
      "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}"
      "\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}"
      "\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}"
      "\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}"
      "\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}"
      "\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}"
      "\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}"
      "\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}"
      "\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}"
      "\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}"
      "\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}"
      "\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}"
      "\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}"
      "\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}"
      "\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}"
      "\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}"
      "\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}"
      "\\x{1e900}-\\x{1e943}";
  const std::string signs =
      "!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3001}\\x{3002}";
  const std::string ideographs =
      "\\x{800}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}"
      "\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{9fa5}\\x{ac00}-\\x{d7ff}";
  const std::string space = any_of(kSpace);
  return {"[\\r\\n]",
          space + "?" + any_of(letters) + "++",
          space + "?" + any_of(signs) + "++",
          "(?<!" + space + ")" + space + "++\\z",
          any_of(ideographs) + "++",
          any_of(kNumber) + "++"};
}

constexpr PreTokenizerKind kKinds[] = {
    {"llama-bpe", true, true, llama3_stages},  {"llama3", true, true, llama3_stages},
    {"llama-v3", true, true, llama3_stages},   {"qwen2", false, false, qwen2_stages},
    {"smollm", false, false, smollm_stages},   {"deepseek-llm", false, false, deepseek_llm_stages},
    {"tekken", true, true, tekken_stages},     {"gpt-2", false, false, gpt2_stages},
    {"default", false, false, default_stages},
};

std::string message_of(int error) {
  PCRE2_UCHAR text[256];
  if (pcre2_get_error_message(error, text, sizeof text) < 0) return std::to_string(error);
  return reinterpret_cast<const char*>(text);
}

struct Free {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

using Code = std::unique_ptr<pcre2_code, Free>;

Code compile(const std::string& text) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                          PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr));
  if (!code) {
    throw std::runtime_error("pre-tokenizer: PCRE2 refuses the expression at " +
                             std::to_string(offset) + ": " + message_of(error));
  }
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // where there is no JIT, matching is slower
  return code;
}

// Appends the words of `text`, which is part of the whole.
void split_part(const pcre2_code* code, pcre2_match_context* context, pcre2_match_data* match,
                std::string_view text, std::string_view whole,
                std::vector<std::string_view>& words) {
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  for (size_t at = 0; at < text.size();) {
    const int result =
        pcre2_match(code, subject, text.size(), at, PCRE2_NO_UTF_CHECK, match, context);
    if (result < 0 && result != PCRE2_ERROR_NOMATCH) {
      throw std::runtime_error("pre-tokenizer: byte " +
                               std::to_string(text.data() - whole.data() + at) + " of a text of " +
                               std::to_string(whole.size()) + ": " + message_of(result));
    }
    const PCRE2_SIZE* found = pcre2_get_ovector_pointer(match);
    const size_t begin = result < 0 ? text.size() : found[0];
    const size_t end = result < 0 ? text.size() : found[1];
    if (begin > at) words.push_back(text.substr(at, begin - at));
    if (end > begin) words.push_back(text.substr(begin, end - begin));
    at = end;  // no expression matches nothing
  }
}

}  // namespace

std::span<const PreTokenizerKind> pre_tokenizer_kinds() { return kKinds; }

const PreTokenizerKind* find_pre_tokenizer(std::string_view name) {
  const std::string_view wanted = name.empty() ? "default" : name;
  const auto* const kind = std::ranges::find(kKinds, wanted, &PreTokenizerKind::name);
  return kind == std::end(kKinds) ? nullptr : kind;
}

struct PreTokenizer::Patterns {
  std::vector<Code> codes;  // one for each stage
  std::unique_ptr<pcre2_match_context, Free> context{pcre2_match_context_create(nullptr)};
};

PreTokenizer::PreTokenizer(const PreTokenizerKind& kind, uint32_t match_limit)
    : patterns_(std::make_unique<Patterns>()) {
  for (const std::string& stage : kind.stages()) patterns_->codes.push_back(compile(stage));
  if (!patterns_->context) throw std::bad_alloc();
  if (match_limit != 0) pcre2_set_match_limit(patterns_->context.get(), match_limit);
}

PreTokenizer::~PreTokenizer() = default;

void PreTokenizer::split(std::string_view text, std::vector<std::string_view>& words) const {
  const std::unique_ptr<pcre2_match_data, Free> match(pcre2_match_data_create(1, nullptr));
  if (!match) throw std::bad_alloc();
  std::vector<std::string_view> before{text}, after;
  for (const Code& code : patterns_->codes) {
    after.clear();
    for (const std::string_view word : before) {
      split_part(code.get(), patterns_->context.get(), match.get(), word, text, after);
    }
    before.swap(after);
  }
  words.insert(words.end(), before.begin(), before.end());
}

}  // namespace greta
