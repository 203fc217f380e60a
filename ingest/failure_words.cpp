#include "ingest/failure_words.h"

#include <algorithm>
#include <cstddef>

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
constexpr Stem kFalse[] = {{"false", kWhole}, {"no", kWhole},    {"n", kWhole},    {"off", kWhole},
                           {"f", kWhole},     {"falso", kWhole}, {"nein", kWhole}, {"non", kWhole},
                           {"nao", kWhole},   {"faux", kWhole},  {"not", kWhole}};
constexpr Stem kTrue[] = {{"true", kWhole}, {"yes", kWhole}, {"y", kWhole},
                          {"on", kWhole},   {"t", kWhole},   {"si", kWhole},
                          {"ja", kWhole},   {"oui", kWhole}, {"sim", kWhole}};

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

}  // namespace

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
bool supposes(std::string_view word) {
  return is_any_of(word, {"if", "when", "unless", "where", "that", "which", "whether", "who",
                          "should", "may", "could", "would"});
}
bool is_zero(std::string_view word) { return word.find_first_not_of("0.") == word.npos; }
bool is_count(std::string_view word) {
  return word.find_first_not_of("0123456789") == word.npos && !is_zero(word);
}
bool is_nothing(std::string_view word) {
  return is_zero(word) || is_any(word, kAbsent) || is_no(word) || is_negation(word);
}

std::vector<std::string_view> telling_words() {
  std::vector<std::string_view> words(
      {"exit",     "return",    "retcode",   "rc",        "salida",    "signal",    "fatal",
       "critical", "severe",    "emerg",     "sig",       "sanitizer", "assert",    "segmentation",
       "memory",   "dumped",    "floating",  "illegal",   "terminate", "traceback", "smashing",
       "free",     "corrupted", "killed",    "panicked",  "oom",       "timed",     "limit",
       "space",    "lost",      "hang",      "detected",  "make",      "succeed",   "agree",
       "cannot",   "could",     "can",       "unable",    "exceed",    "expected",  "nan",
       "close",    "state",     "different", "zero",      "overflow",  "pointer",   "tolerance",
       "tol",      "atol",      "rtol",      "threshold", "negative",  "score",     "nvrm",
       "hangup",   "interrupt", "alarm",     "fallen",    "reset"});
  for (const std::span<const Stem> stems :
       {std::span<const Stem>(kFailed), std::span<const Stem>(kWrong), std::span<const Stem>(kFine),
        std::span<const Stem>(kJudging)}) {
    for (const Stem& stem : stems) words.push_back(stem.text);
  }
  return words;
}

}  // namespace said

}  // namespace greta
