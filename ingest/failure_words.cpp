#include "ingest/failure_words.h"

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <unordered_map>
#include <utility>

#include "common/utf8.h"
#include "ingest/text.h"

namespace greta {
namespace {

/// A word, or words that begin so.
struct Stem {
  std::string_view text;
  bool is_whole = false;
};

bool is_any(std::string_view word, std::span<const Stem> stems) {
  return std::any_of(stems.begin(), stems.end(), [word](const Stem& stem) {
    if (word.empty() || word[0] != stem.text[0]) return false;
    return stem.is_whole ? word == stem.text : word.starts_with(stem.text);
  });
}

constexpr bool kWhole = true;

/// That something failed.
constexpr Stem kFailed[] = {{"fail"},
                            {"crash"},
                            {"abort"},
                            {"unsuccess"},
                            {"killed", kWhole},
                            {"panic"},
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
    {"drift"},          {"mismatch"},         {"differ"},          {"diverg"},
    {"nonfinite"},      {"ambiguous"},        {"conflict"},        {"error"},
    {"exception"},      {"incorrect"},        {"wrong", kWhole},   {"broken", kWhole},
    {"bad", kWhole},    {"reject"},           {"unequal", kWhole}, {"errone"},
    {"erro", kWhole},   {"erros", kWhole},    {"erreur"},          {"fehler"},
    {"falsch", kWhole}, {"ungleich", kWhole}, {"abweich"},         {"discrepan"},
    {"difier"},         {"cancel"},           {"timeout"},         {"interrupted", kWhole},
    {"regression"}};

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
                          {"allclose", kWhole},
                          {"isclose", kWhole},
                          {"exact", kWhole},
                          {"same", kWhole},
                          {"valid", kWhole},
                          {"consistent", kWhole},
                          {"agree", kWhole},
                          {"agrees", kWhole},
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
    {"when", kWhole}, {"limit"},       {"thresh"},      {"toler"},       {"timeout"}};

/// What stands where nothing failed.
constexpr Stem kAbsent[] = {{"none", kWhole},    {"null", kWhole}, {"nil", kWhole}, {"na", kWhole},
                            {"nothing", kWhole}, {"tbd", kWhole},  {"nan", kWhole}};

/// Between a word that judges and what it says.
constexpr Stem kCopulas[] = {{"is", kWhole},  {"was", kWhole}, {"es", kWhole}, {"fue", kWhole},
                             {"ist", kWhole}, {"war", kWhole}, {"est", kWhole}};

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
    case 0x2715:
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

/// Letters that stand alone are one word from so many on: "F A I L".
constexpr size_t kSpacedLetters = 4;

std::vector<SaidWord> with_letters_joined(std::vector<SaidWord> words) {
  std::vector<SaidWord> joined;
  for (size_t i = 0; i < words.size();) {
    size_t end = i;
    while (end < words.size() && words[end].text.size() == 1 &&
           text::is_letter(words[end].text[0]) && (end == i || !words[end].opens)) {
      ++end;
    }
    joined.push_back(std::move(words[i]));
    if (end - i < kSpacedLetters) {
      ++i;
      continue;
    }
    for (++i; i < end; ++i) joined.back().text += words[i].text;
  }
  return joined;
}

/// 1 to 26, 0 of what is no letter.
size_t letter_number(char c) { return text::is_letter(c) ? static_cast<size_t>(c & 0x1f) : 0; }

/// Words without which no line claims anything, found by their first three letters.
class TellingWords {
 public:
  TellingWords() {
    for (const std::span<const Stem> stems :
         {std::span<const Stem>(kFailed), std::span<const Stem>(kWrong),
          std::span<const Stem>(kFine), std::span<const Stem>(kJudging)}) {
      for (const Stem& stem : stems) add(stem.text);
    }
    for (const std::string_view word :
         {"exit",      "return",       "retcode",   "rc",      "salida",    "signal",
          "fatal",     "critical",     "severe",    "emerg",   "sig",       "sanitizer",
          "assertion", "segmentation", "memory",    "dumped",  "floating",  "illegal",
          "terminate", "traceback",    "smashing",  "free",    "corrupted", "killed",
          "panicked",  "oom",          "timed",     "limit",   "space",     "lost",
          "hang",      "detected",     "make",      "succeed", "agree",     "cannot",
          "could",     "can",          "unable",    "exceed",  "expected",  "nan",
          "close",     "state",        "different", "zero",    "overflow",  "pointer",
          "tolerance"}) {
      add(word);
    }
  }
  /// True also of a line that may spell them otherwise, with accents or marks.
  bool may_be_in(std::string_view line) const {
    size_t letters = 0, spaced = 0;  // of the word so far; words of one letter, as "F A I L"
    for (size_t i = 0; i < line.size(); ++i) {
      if (static_cast<unsigned char>(line[i]) >= 0x80) {
        const utf8::Head head = utf8::head(line.substr(i));
        const bool is_accent = head.is_character() && plain_letter(head.code) != '\0';
        if (is_accent ? letters < kBegun : may_be_part(head)) return true;
        letters = is_accent ? letters + 1 : 0;
        i += std::max<size_t>(head.bytes, 1) - 1;
        continue;
      }
      if (!text::is_letter(line[i])) {
        letters = 0;
        continue;
      }
      const bool is_camel = text::is_upper(line[i]) && letters > 0 && text::is_lower(line[i - 1]);
      letters = is_camel ? 1 : letters + 1;
      if (letters > 1) continue;
      const std::string_view rest = line.substr(i);
      const bool is_apart =
          (i == 0 || !text::is_word(line[i - 1])) && (rest.size() == 1 || !text::is_word(rest[1]));
      spaced = is_apart ? spaced + 1 : 0;
      if (spaced == kSpacedLetters || is_begun_by(rest)) return true;
    }
    return false;
  }

 private:
  static constexpr size_t kBegun = 3;

  /// What is no letter of its own, and changes what is read: a mark that fails, what is not shown.
  static bool may_be_part(const utf8::Head& head) {
    return head.is_character() && (is_combining(head.code) || !utf8::is_shown(head.code) ||
                                   word_of_mark(head.code) == "fail");
  }

  static size_t key_of(std::string_view word) {
    size_t key = 0;
    for (size_t i = 0; i < kBegun; ++i) {
      key = (key << 5) | (i < word.size() ? letter_number(word[i]) : 0);
    }
    return key;
  }

  bool is_begun_by(std::string_view rest) const {
    const size_t key = key_of(rest);
    for (const size_t begun : {key, key & ~size_t{31}}) {
      if (!begun_[begun]) continue;
      const auto [first, last] = words_.equal_range(begun);
      for (auto it = first; it != last; ++it) {
        if (begins_with(rest, it->second)) return true;
      }
    }
    return false;
  }

  /// As far as the letters are ASCII: behind that it may be spelled otherwise.
  static bool begins_with(std::string_view text, std::string_view word) {
    for (size_t i = 0; i < word.size(); ++i) {
      if (i == text.size()) return false;
      if (static_cast<unsigned char>(text[i]) >= 0x80) return true;
      if (letter_number(text[i]) != letter_number(word[i])) return false;
    }
    return true;
  }

  void add(std::string_view word) {
    const size_t key = key_of(word);
    begun_.set(key);
    words_.emplace(key, word);
  }

  std::bitset<1 << 15> begun_;
  std::unordered_multimap<size_t, std::string_view> words_;
};

}  // namespace

std::vector<SaidWord> said_words(std::string_view text, size_t max_words) {
  return with_letters_joined(SaidWordReader().read(text, max_words));
}

bool counts_no_failure(SaidWords rest) {
  if (rest.empty() || !said::is_nothing(rest[0].text)) return false;
  return said::is_zero(rest[0].text) || rest.size() == 1 || rest[1].opens;
}

bool says_failure(SaidWords words) {
  size_t negated = 0;
  bool was_expected = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const SaidWord& word = words[i];
    if (word.opens) negated = 0;
    const bool fails = said::is_failure_word(word.text) && !was_expected;
    was_expected = word.text == "expected";
    if (fails && negated == 0 && !counts_no_failure(words.subspan(i + 1))) return true;
    if (said::is_fine(word.text) && negated > 0) return true;
    if (said::is_negation(word.text) || said::is_zero(word.text)) {
      negated = kNegatedWords + 1;
    } else if (fails) {
      negated = 0;
    }
    if (negated > 0) --negated;
  }
  return false;
}

namespace said {

bool is_any_of(std::string_view word, std::initializer_list<std::string_view> all) {
  return std::find(all.begin(), all.end(), word) != all.end();
}

std::vector<std::string_view> tokens_of(std::string_view line, size_t max_tokens) {
  const auto is_mark = [](char c) {
    return !text::is_word(c) && static_cast<unsigned char>(c) < 0x80;
  };
  std::vector<std::string_view> tokens;
  while (tokens.size() < max_tokens && !(line = text::trim(line)).empty()) {
    std::string_view token = line.substr(0, line.find_first_of(" \t"));
    line.remove_prefix(token.size());
    while (!token.empty() && is_mark(token.front())) token.remove_prefix(1);
    while (!token.empty() && is_mark(token.back())) token.remove_suffix(1);
    if (!token.empty()) tokens.push_back(token);
  }
  return tokens;
}

bool is_failed(std::string_view word) { return is_any(word, kFailed); }
bool is_failure_word(std::string_view word) {
  return is_any(word, kFailed) || is_any(word, kWrong);
}
bool is_fine(std::string_view word) { return is_any(word, kFine); }
bool is_negation(std::string_view word) { return is_any(word, kNegations); }
bool is_no(std::string_view word) { return is_any(word, kFalse); }
bool is_yes(std::string_view word) { return is_any(word, kTrue); }
bool is_judging(std::string_view word) { return is_any(word, kJudging); }
bool is_measuring(std::string_view word) { return is_any(word, kMeasuring); }
bool is_copula(std::string_view word) { return is_any(word, kCopulas); }
bool is_zero(std::string_view word) { return word.find_first_not_of("0.") == word.npos; }
bool is_count(std::string_view word) {
  return word.find_first_not_of("0123456789") == word.npos && !is_zero(word);
}
bool is_nothing(std::string_view word) {
  return is_zero(word) || is_any(word, kAbsent) || is_no(word) || is_negation(word);
}

bool has_telling_word(std::string_view line) {
  static const TellingWords telling;
  return telling.may_be_in(line);
}

}  // namespace said

}  // namespace greta
