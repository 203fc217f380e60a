#include "engine/tokenizer/pre_tokenizer.h"

#include <new>
#include <stdexcept>
#include <string>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace greta {
namespace {

// Classes, to stand between brackets. What Unicode 15.0 and 15.1 added is spelled out: PCRE2 before
// 10.43 knows Unicode 14, and the same text must give the same tokens everywhere. White space is
// Unicode's White_Space: PCRE2's \s also has U+180E.
const std::string kLetter =
    "\\p{L}\\x{1123f}\\x{11240}\\x{11f02}\\x{11f04}-\\x{11f10}\\x{11f12}-\\x{11f33}\\x{1342f}"
    "\\x{13441}-\\x{13446}\\x{1b132}\\x{1b155}\\x{1df25}-\\x{1df2a}\\x{1e030}-\\x{1e06d}"
    "\\x{1e4d0}-\\x{1e4eb}\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}";
const std::string kNumber = "\\p{N}\\x{11f50}-\\x{11f59}\\x{1d2c0}-\\x{1d2d3}\\x{1e4f0}-\\x{1e4f9}";
const std::string kBlank = "\\t\\x0b\\x0c\\x{85}\\p{Z}";  // white space within a line
const std::string kSpace = "\\r\\n" + kBlank;

// The published expression. Possessive where giving back cannot help, so that a run of a million
// spaces is one pass; \s*[\r\n]+ is spelled as lines of blanks for the same reason.
std::string expression() {
  return "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])"
         "|[^\\r\\n" +
         kLetter + kNumber + "]?[" + kLetter +
         "]++"
         "|[" +
         kNumber +
         "]{1,3}+"
         "| ?[^" +
         kSpace + kLetter + kNumber +
         "]++[\\r\\n]*+"
         "|(?:[" +
         kBlank +
         "]*+[\\r\\n]++)++"
         "|[" +
         kSpace + "]+(?![^" + kSpace +
         "])"
         "|[" +
         kSpace + "]++";
}

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
                          PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &offset, nullptr));
  if (!code) {
    throw std::runtime_error("pre-tokenizer: PCRE2 refuses the expression at " +
                             std::to_string(offset) + ": " + message_of(error));
  }
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // where there is no JIT, matching is slower
  return code;
}

}  // namespace

struct PreTokenizer::Pattern {
  Code code = compile(expression());
  std::unique_ptr<pcre2_match_context, Free> context{pcre2_match_context_create(nullptr)};
};

PreTokenizer::PreTokenizer(uint32_t match_limit) : pattern_(std::make_unique<Pattern>()) {
  if (!pattern_->context) throw std::bad_alloc();
  if (match_limit != 0) pcre2_set_match_limit(pattern_->context.get(), match_limit);
}

PreTokenizer::~PreTokenizer() = default;

void PreTokenizer::split(std::string_view text, std::vector<std::string_view>& words) const {
  const std::unique_ptr<pcre2_match_data, Free> match(pcre2_match_data_create(1, nullptr));
  if (!match) throw std::bad_alloc();
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  for (size_t at = 0; at < text.size();) {
    const int result = pcre2_match(pattern_->code.get(), subject, text.size(), at,
                                   PCRE2_NO_UTF_CHECK, match.get(), pattern_->context.get());
    const size_t end = result > 0 ? pcre2_get_ovector_pointer(match.get())[1] : at;
    if (end == at) {  // every character is in some alternative: this is a limit
      throw std::runtime_error("pre-tokenizer: byte " + std::to_string(at) + " of a text of " +
                               std::to_string(text.size()) + ": " + message_of(result));
    }
    words.push_back(text.substr(at, end - at));
    at = end;
  }
}

}  // namespace greta
