#include "ingest/failure_claim.h"

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "common/utf8.h"
#include "ingest/json_document.h"
#include "ingest/text.h"

namespace greta {
namespace {

constexpr size_t kMaxClaimLine = 1024;  // of a line, this is looked at
constexpr size_t kMaxKeyBytes = 96, kMaxValueBytes = 192;
constexpr int kMaxLinePairs = 16;      // "key=value" of a line
constexpr size_t kMaxValueWords = 12;  // a verdict is at the beginning of what is said
constexpr size_t kMaxKeyWords = 5;
constexpr size_t kNegatedWords = 3;  // "none of the tests failed"

struct SaidWord {
  std::string text;    // lower case, without accents
  bool opens = false;  // behind what ends a clause
};
using SaidWords = std::span<const SaidWord>;

/// A word, or words that begin so.
struct Stem {
  std::string_view text;
  bool is_whole = false;
};

bool is_any(std::string_view word, std::span<const Stem> stems) {
  return std::any_of(stems.begin(), stems.end(), [word](const Stem& stem) {
    return stem.is_whole ? word == stem.text : word.starts_with(stem.text);
  });
}

constexpr bool kWhole = true;

/// That something failed.
constexpr Stem kFailed[] = {{"fail"},
                            {"crash"},
                            {"abort"},
                            {"unsuccess"},
                            {"segfault"},
                            {"nok", kWhole},
                            {"ko", kWhole},
                            // Spanish, German, French, Italian, Portuguese
                            {"fallo"},
                            {"falla", kWhole},
                            {"fallas", kWhole},
                            {"fallid"},
                            {"fallad"},
                            {"fallaron", kWhole},
                            {"fracas"},
                            {"fehlgeschlagen", kWhole},
                            {"fehlschlag"},
                            {"gescheitert", kWhole},
                            {"echec"},
                            {"echou"},
                            {"fallit"},
                            {"falh"}};

/// That something is not as it should be.
constexpr Stem kWrong[] = {
    {"drift"},          {"mismatch"},         {"differ"},        {"diverg"},    {"nonfinite"},
    {"ambiguous"},      {"conflict"},         {"error"},         {"exception"}, {"incorrect"},
    {"wrong", kWhole},  {"broken", kWhole},   {"bad", kWhole},   {"reject"},    {"unequal", kWhole},
    {"errone"},         {"erro", kWhole},     {"erros", kWhole}, {"erreur"},    {"fehler"},
    {"falsch", kWhole}, {"ungleich", kWhole}, {"abweich"},       {"discrepan"}, {"difier"}};

constexpr Stem kFine[] = {{"ok", kWhole},
                          {"okay", kWhole},
                          {"pass"},
                          {"success"},
                          {"succe"},
                          {"match"},
                          {"equal", kWhole},
                          {"identical", kWhole},
                          {"correct"},
                          {"exito"},
                          {"coincid"},
                          {"pasa", kWhole},
                          {"paso", kWhole},
                          {"aprobad"},
                          {"bestanden", kWhole},
                          {"erfolg"},
                          {"reussi"},
                          {"superat"},
                          {"riuscit"},
                          {"passou", kWhole},
                          {"sucesso", kWhole}};

constexpr Stem kNegations[] = {
    {"no", kWhole},    {"not", kWhole},  {"never", kWhole}, {"without", kWhole}, {"zero", kWhole},
    {"none", kWhole},  {"isn", kWhole},  {"didn", kWhole},  {"doesn", kWhole},   {"wasn", kWhole},
    {"sin", kWhole},   {"ningun"},       {"cero", kWhole},  {"nunca", kWhole},   {"kein"},
    {"nicht", kWhole}, {"ohne", kWhole}, {"sans", kWhole},  {"aucun"},           {"pas", kWhole},
    {"sem", kWhole},   {"nenhum"},       {"nao", kWhole},   {"senza", kWhole},   {"nessun"},
    {"non", kWhole}};

/// Words that stand alone for no, and for yes.
constexpr Stem kFalse[] = {{"false", kWhole}, {"no", kWhole},   {"n", kWhole},   {"off", kWhole},
                           {"falso", kWhole}, {"nein", kWhole}, {"non", kWhole}, {"nao", kWhole},
                           {"faux", kWhole},  {"not", kWhole}};
constexpr Stem kTrue[] = {{"true", kWhole}, {"yes", kWhole}, {"y", kWhole},   {"on", kWhole},
                          {"si", kWhole},   {"ja", kWhole},  {"oui", kWhole}, {"sim", kWhole}};

/// What is judged by what follows.
constexpr Stem kJudging[] = {{"verdict", kWhole},
                             {"result"},
                             {"outcome", kWhole},
                             {"status", kWhole},
                             {"conclusion", kWhole},
                             {"validation", kWhole},
                             {"verification", kWhole},
                             {"veredict"},
                             {"veredito", kWhole},
                             {"verdetto", kWhole},
                             {"estado", kWhole},
                             {"urteil", kWhole},
                             {"ergebnis", kWhole},
                             {"statut", kWhole},
                             {"risultat"},
                             {"esito", kWhole},
                             {"stato", kWhole}};

/// In the name of a number, or of a setting, that is no count of what failed.
constexpr Stem kMeasuring[] = {
    {"max"},          {"min", kWhole}, {"rel", kWhole}, {"abs", kWhole}, {"mean", kWhole},
    {"norm", kWhole}, {"avg", kWhole}, {"l2", kWhole},  {"rms"},         {"allow"},
    {"expect"},       {"ignore"},      {"inject"},      {"on", kWhole},  {"if", kWhole},
    {"when", kWhole}, {"limit"},       {"thresh"},      {"toler"}};

/// What stands where nothing failed.
constexpr Stem kAbsent[] = {{"none", kWhole},    {"null", kWhole}, {"nil", kWhole}, {"na", kWhole},
                            {"nothing", kWhole}, {"tbd", kWhole},  {"nan", kWhole}};

/// Between a word that judges and what it says.
constexpr Stem kCopulas[] = {{"is", kWhole},  {"was", kWhole}, {"es", kWhole}, {"fue", kWhole},
                             {"ist", kWhole}, {"war", kWhole}, {"est", kWhole}};

// ---- Words

/// Letters of Latin-1 from U+00C0 without accents; ' ' is none.
constexpr std::string_view kLatin =
    "aaaaaaaceeeeiiiidnooooo ouuuuytsaaaaaaaceeeeiiiidnooooo ouuuuyty";

constexpr bool is_combining(char32_t code) { return code >= 0x300 && code <= 0x36f; }

/// The character as a letter or digit of ASCII; 0 for what is neither.
char plain_letter(char32_t code) {
  if (code < 0x80) {
    const char c = static_cast<char>(code);
    return text::is_letter(c) || text::is_digit(c) ? c : '\0';
  }
  if (code >= 0xc0 && code <= 0xff) return kLatin[code - 0xc0] == ' ' ? '\0' : kLatin[code - 0xc0];
  const bool is_wide = (code >= 0xff10 && code <= 0xff19) || (code >= 0xff21 && code <= 0xff3a) ||
                       (code >= 0xff41 && code <= 0xff5a);
  return is_wide ? static_cast<char>(code - 0xfee0) : '\0';
}

/// The mark as the word that it stands for.
std::string_view word_of_mark(char32_t code) {
  switch (code) {
    case 0x2717:
    case 0x2718:
    case 0x2716:
    case 0x274c:
    case 0x274e:
    case 0x26d4:
    case 0x1f534:
      return "fail";
    case 0x2705:
    case 0x2713:
    case 0x2714:
    case 0x1f7e2:
      return "ok";
    default:
      return {};
  }
}

bool ends_clause(char32_t code) {
  return code == 0x2013 || code == 0x2014 ||
         (code < 0x80 && std::string_view(".,;:!?()[]{}|=\t\"").find(static_cast<char>(code)) !=
                             std::string_view::npos);
}

class SaidWordReader {
 public:
  std::vector<SaidWord> read(std::string_view text, size_t max_words) {
    while (!text.empty() && words_.size() <= max_words) {
      if (static_cast<unsigned char>(text[0]) < 0x80) {
        take(static_cast<char32_t>(text[0]), text.substr(1));
        text.remove_prefix(1);
        continue;
      }
      const utf8::Head head = utf8::head(text);
      take(head.is_character() ? head.code : U' ', text.substr(head.bytes));
      text.remove_prefix(std::max<size_t>(head.bytes, 1));
    }
    if (words_.size() > max_words) words_.resize(max_words);
    return std::move(words_);
  }

 private:
  void take(char32_t code, std::string_view rest) {
    if (code >= 0x80 && (is_combining(code) || !utf8::is_shown(code))) return;
    if (const std::string_view mark = word_of_mark(code); !mark.empty()) {
      end();
      begin();
      words_.back().text = mark;
      return end();
    }
    const bool is_point = code == U'.' && in_word_ && text::is_digit(words_.back().text.back()) &&
                          !rest.empty() && text::is_digit(rest.front());
    const char c = is_point ? '.' : plain_letter(code);
    if (c == '\0') {
      end();
      opens_ |= ends_clause(code);
      return;
    }
    if (in_word_ && was_lower_ && text::is_upper(c)) end();
    if (!in_word_) begin();
    words_.back().text += text::is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
    was_lower_ = text::is_lower(c);
  }
  void begin() {
    words_.push_back({"", std::exchange(opens_, false)});
    in_word_ = true;
  }
  void end() { in_word_ = was_lower_ = false; }

  std::vector<SaidWord> words_;
  bool in_word_ = false, was_lower_ = false, opens_ = false;
};

std::vector<SaidWord> said_words(std::string_view text, size_t max_words) {
  return SaidWordReader().read(text, max_words);
}

bool is_zero(std::string_view word) { return word.find_first_not_of("0.") == word.npos; }
bool is_count(std::string_view word) {
  return word.find_first_not_of("0123456789") == word.npos && !is_zero(word);
}
bool is_nothing(std::string_view word) {
  return is_zero(word) || is_any(word, kAbsent) || is_any(word, kFalse) || is_any(word, kNegations);
}

// ---- Values

/// "PASS/FAIL", which is to be filled in.
bool is_template(SaidWords words) {
  if (words.size() == 3 && (words[1].text == "or" || words[1].text == "o")) {
    return is_any(words[0].text, kFine) && is_failure_word(words[2].text);
  }
  return words.size() == 2 && is_any(words[0].text, kFine) && !words[1].opens &&
         is_failure_word(words[1].text);
}

/// "failures: none", "fail=0": what follows a word that fails.
bool counts_none(SaidWords rest) {
  if (rest.empty() || !is_nothing(rest[0].text)) return false;
  return is_zero(rest[0].text) || rest.size() == 1 || rest[1].opens;
}

/// Whether one of the words fails and is not negated, or is fine and is.
bool says_failure(SaidWords words) {
  size_t negated = 0;
  bool was_expected = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const SaidWord& word = words[i];
    if (word.opens) negated = 0;
    const bool fails = is_failure_word(word.text) && !was_expected;
    was_expected = word.text == "expected";
    if (fails && negated == 0 && !counts_none(words.subspan(i + 1))) return true;
    if (is_any(word.text, kFine) && negated > 0) return true;
    if (is_any(word.text, kNegations) || is_zero(word.text)) {
      negated = kNegatedWords + 1;
    } else if (fails) {
      negated = 0;
    }
    if (negated > 0) --negated;
  }
  return false;
}

// ---- Keys

bool judges(SaidWords key) {
  return is_any(key.front().text, kJudging) || is_any(key.back().text, kJudging);
}

bool is_exit_code(SaidWords key) {
  const auto has = [key](std::initializer_list<std::string_view> any) {
    return std::any_of(key.begin(), key.end(), [&](const SaidWord& word) {
      return std::find(any.begin(), any.end(), word.text) != any.end();
    });
  };
  if (has({"exitcode", "returncode", "retcode", "exitstatus", "errorlevel"})) return true;
  if (key.size() == 1) return has({"exit", "rc"});
  return has({"exit", "return", "salida", "exited"}) && has({"code", "status", "codigo", "value"});
}

bool is_expected(SaidWords key) {
  return std::any_of(key.begin(), key.end(),
                     [](const SaidWord& word) { return word.text.starts_with("expect"); });
}

bool is_measure(SaidWords key) {
  return std::any_of(key.begin(), key.end(),
                     [](const SaidWord& word) { return is_any(word.text, kMeasuring); });
}

/// Of a key that is there where something failed: "failed", "n_errors", "first fail".
bool counts_as_failed(SaidWords key, SaidWords value) {
  const std::string& first = value.front().text;
  if (value.size() == 1 && is_any(first, kTrue)) return true;
  if (is_count(first)) return true;
  const bool is_text = !is_nothing(first) && !text::is_digit(first.front());
  const bool names_it = is_any(key.back().text, kFailed) || key.back().text.starts_with("error") ||
                        key.back().text.starts_with("exception");
  return is_text && names_it && !is_any(first, kFine);
}

bool claims(SaidWords key, SaidWords value) {
  if (key.empty() || key.size() > kMaxKeyWords || value.empty() || is_template(value)) return false;
  if (is_exit_code(key)) return is_count(value.front().text);
  const bool is_no = value.size() == 1 && is_any(value.front().text, kFalse);
  if (judges(key)) return !is_expected(key) && (is_no || says_failure(value));
  const std::string& last = key.back().text;
  if (is_any(last, kFine)) {
    return is_no || (value.size() == 1 && is_zero(value.front().text)) || says_failure(value);
  }
  return is_failure_word(last) && !is_measure(key) && counts_as_failed(key, value);
}

/// The words of a clause's end, as many as a key may have.
SaidWords key_before(SaidWords words) {
  size_t begin = words.size();
  while (begin > 0 && words.size() - begin < kMaxKeyWords) {
    --begin;
    if (words[begin].opens) break;
  }
  return words.subspan(begin);
}

// ---- Lines

/// 1 to 26, 0 of what is no letter.
size_t letter_number(char c) { return text::is_letter(c) ? static_cast<size_t>(c & 0x1f) : 0; }

/// The beginnings, of three letters, of words without which no line claims anything.
class TellingWords {
 public:
  TellingWords() {
    for (const std::span<const Stem> stems :
         {std::span<const Stem>(kFailed), std::span<const Stem>(kWrong),
          std::span<const Stem>(kFine), std::span<const Stem>(kJudging)}) {
      for (const Stem& stem : stems) add(stem.text);
    }
    for (const std::string_view word :
         {"exit", "return", "retcode", "rc", "salida", "segmentation"}) {
      add(word);
    }
  }
  /// True also of a line that is not all ASCII, which may spell them otherwise.
  bool may_be_in(std::string_view line) const {
    size_t before = 0;
    for (size_t i = 0; i + 1 < line.size(); ++i) {
      if (static_cast<unsigned char>(line[i]) >= 0x80) return true;
      const bool begins = before == 0 || (text::is_upper(line[i]) && text::is_lower(line[i - 1]));
      before = letter_number(line[i]);
      if (!begins || before == 0) continue;
      const size_t third = i + 2 < line.size() ? letter_number(line[i + 2]) : 0;
      if (begun_[(before << 10) | (letter_number(line[i + 1]) << 5) | third]) return true;
    }
    return !line.empty() && static_cast<unsigned char>(line.back()) >= 0x80;
  }

 private:
  void add(std::string_view word) {
    const size_t two = (letter_number(word[0]) << 10) | (letter_number(word[1]) << 5);
    for (size_t third = 0; third < 32; ++third) {
      if (word.size() == 2 || third == letter_number(word[2])) begun_.set(two | third);
    }
  }

  std::bitset<1 << 15> begun_;
};

/// Whether it may claim something at all: hardly any line does.
bool may_claim(std::string_view line) {
  static const TellingWords telling;
  return telling.may_be_in(line);
}

/// "The final verdict is FAIL", "exited with code 1", "Segmentation fault (core dumped)".
bool says_so_in_a_sentence(SaidWords words) {
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i - 1].text == "segmentation" && words[i].text == "fault") return true;
  }
  for (size_t i = 1; i + 1 < words.size(); ++i) {
    const SaidWords rest =
        words.subspan(i + 1).first(std::min(kNegatedWords + 1, words.size() - i - 1));
    const bool is_judged =
        is_any(words[i - 1].text, kJudging) || (i > 1 && is_any(words[i - 2].text, kJudging));
    if (is_any(words[i].text, kCopulas) && is_judged && says_failure(rest)) return true;
    const bool is_exit = words[i].text == "code" || words[i].text == "status";
    const std::string_view before =
        words[i - 1].text == "with" && i > 1 ? words[i - 2].text : words[i - 1].text;
    if (is_exit && (before.starts_with("exit") || before == "returned" || before == "return") &&
        is_count(words[i + 1].text)) {
      return true;
    }
  }
  return false;
}

/// Words before which a failure is a name: "FIRST_FAIL".
bool names_a_failure(SaidWords words) {
  return std::any_of(words.begin(), words.end(), [](const SaidWord& word) {
    return word.text == "first" || word.text == "expected" || word.text == "on";
  });
}

/// "TEST FAILED", "NOT OK", "[  FAILED  ] 3 tests", "not ok 4 - attn_out".
bool is_shout(std::string_view line, SaidWords words) {
  if (line.find('|') != line.npos || words.empty()) return false;
  if (words.size() > 1 && words[0].text == "not" && words[1].text == "ok") return true;
  if (line.starts_with("[ ") && is_any(words[0].text, kFailed)) return true;
  const bool has_lower = std::any_of(line.begin(), line.end(), text::is_lower);
  if (has_lower || words.size() > kMaxKeyWords || names_a_failure(words)) return false;
  size_t end = words.size();
  while (end > 1 && text::is_digit(words[end - 1].text.front())) --end;
  const bool names_it = is_any(words[end - 1].text, kFailed) || is_any(words[end - 1].text, kFine);
  return names_it && says_failure(words);
}

/// Bytes of what separates a key from its value at the start of `rest`; 0: nothing does.
size_t separator_bytes(std::string_view rest) {
  for (const std::string_view separator : {"->", "=>", "\u2192", ":", "=", "|", "\t"}) {
    if (rest.starts_with(separator)) return separator.size();
  }
  return 0;
}

/// The key before a separator: of a cell all of it, if that is one clause, else the clause's end.
SaidWords key_of(SaidWords words, bool is_cell) {
  if (!is_cell) return key_before(words);
  const bool is_clause = std::none_of(words.begin() + !words.empty(), words.end(),
                                      [](const SaidWord& word) { return word.opens; });
  return is_clause ? words : SaidWords();
}

bool has_failing_pair(std::string_view line) {
  int pairs = 0;
  for (size_t i = 0; i < line.size() && pairs < kMaxLinePairs; ++i) {
    const size_t bytes = separator_bytes(line.substr(i));
    if (bytes == 0) continue;
    ++pairs;
    std::string_view before = line.substr(0, i);
    if (before.size() > kMaxKeyBytes) before.remove_prefix(before.size() - kMaxKeyBytes);
    before.remove_prefix(before.find_last_of("|\t") + 1);  // npos + 1 is 0
    if (!may_claim(before)) continue;
    const std::vector<SaidWord> words = said_words(before, kMaxKeyBytes);
    const SaidWords key = key_of(words, line[i] == '|' || line[i] == '\t');
    std::string_view value = line.substr(i + bytes, kMaxValueBytes);
    value = value.substr(0, value.find_first_of("|\t", value.find_first_not_of(" |\t")));
    if (claims(key, said_words(value, kMaxValueWords))) return true;
    i += bytes - 1;
  }
  return false;
}

}  // namespace

bool is_failure_word(std::string_view word) {
  return is_any(word, kFailed) || is_any(word, kWrong);
}

bool claims_failure(std::string_view key, std::string_view value) {
  return claims(said_words(key, kMaxKeyWords + 1), said_words(value, kMaxValueWords));
}

bool line_claims_failure(std::string_view line) {
  line = text::trim(line.substr(0, kMaxClaimLine));
  if (!may_claim(line)) return false;
  const std::vector<SaidWord> words = said_words(line, kMaxClaimLine);
  return says_so_in_a_sentence(words) || is_shout(line, words) || has_failing_pair(line);
}

void for_each_failure(std::string_view key, const nlohmann::json& value,
                      const std::function<void(const std::string& claim)>& on_claim) {
  if (value.is_object()) {
    const bool judged = claims_failure(key, "fail");
    for (const auto& [name, item] : value.items()) {
      const bool is_of_key = judged && item.is_string() && !claims_failure(name, "fail");
      for_each_failure(is_of_key ? key : std::string_view(name), item, on_claim);
    }
    return;
  }
  if (value.is_array()) {
    for (const nlohmann::json& item : value) for_each_failure(key, item, on_claim);
    return;
  }
  if (value.is_null()) return;
  const std::string said = value.is_string() ? value.get<std::string>() : json_text(value);
  if (claims_failure(key, said)) {
    on_claim(std::string(key.substr(0, kMaxClaimLine)) + ": " + said.substr(0, kMaxClaimLine));
  }
}

}  // namespace greta
