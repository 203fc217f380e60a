#include "ingest/failure_sentence.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <vector>

#include "ingest/text.h"

namespace greta {
namespace {

constexpr size_t kMaxShoutWords = 5;
constexpr size_t kMaxLevelTokens = 8;  // a time, a thread, a name and the level
constexpr size_t kMaxTokens = 32;

bool is_any_of(std::string_view word, std::initializer_list<std::string_view> all) {
  return std::find(all.begin(), all.end(), word) != all.end();
}

// ---- How a program ends that was not meant to

/// Words that follow each other; the last may go on ("errors").
using Phrase = std::array<std::string_view, 3>;
constexpr Phrase kCrashes[] = {{"segmentation", "fault"},
                               {"bus", "error"},
                               {"illegal", "instruction"},
                               {"illegal", "memory", "access"},
                               {"memory", "access", "fault"},
                               {"floating", "point", "exception"},
                               {"core", "dumped"},
                               {"out", "of", "memory"},
                               {"bad", "alloc"},
                               {"cannot", "allocate", "memory"},
                               {"no", "space", "left"},
                               {"terminate", "called"},
                               {"traceback", "most", "recent"},
                               {"stack", "smashing"},
                               {"double", "free"},
                               {"corrupted", "size"},
                               {"assertion", "error"},
                               {"address", "sanitizer"},
                               {"runtime", "error"},
                               {"unhandled", "exception"},
                               {"uncaught", "exception"},
                               {"panicked", "at"},
                               {"kernel", "panic"},
                               {"killed", "by", "signal"},
                               {"killed", "process"},
                               {"oom", "kill"},
                               {"timed", "out"},
                               {"to", "time", "limit"},
                               {"cuda", "error"},
                               {"hip", "error"},
                               {"nccl", "error"},
                               {"rccl", "error"},
                               {"device", "lost"},
                               {"gpu", "hang"},
                               {"nan", "detected"},
                               {"drift", "detected"},
                               {"mismatch", "detected"}};

/// Words of the phrase at the start of `words`; 0: it is not there.
size_t phrase_words(SaidWords words, const Phrase& phrase) {
  if (words[0].text[0] != phrase[0][0]) return 0;
  size_t n = 0;
  while (n < phrase.size() && !phrase[n].empty()) {
    if (n == words.size() || words[n].text != phrase[n]) return 0;
    ++n;
  }
  return n;
}

/// "sigsegv", as which a process ended.
bool is_deadly_signal(std::string_view word) {
  return is_any_of(word, {"sigsegv", "sigabrt", "sigbus", "sigfpe", "sigill", "sigkill", "sigxcpu",
                          "sigxfsz", "sigsys", "sigtrap"});
}

/// What follows denies it, "CUDA error: no error", "HIP error: hipSuccess", "runtime error = 0", or
/// makes it the name of a type, hipError_t.
bool is_denied(SaidWords rest) {
  const SaidWords first = rest.first(std::min<size_t>(2, rest.size()));
  return std::any_of(first.begin(), first.end(),
                     [](const SaidWord& word) { return said::is_fine(word.text); }) ||
         counts_no_failure(rest) || (!rest.empty() && rest[0].text == "t") ||
         (!rest.empty() && rest[0].text == "no" && rest.size() > 1 && rest[1].text == "error");
}

// ---- Levels of logs, and what shells and tests print

/// The words between blanks, without the marks around each; marks alone are none.
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

bool is_capital(std::string_view token) {
  return token.size() > 1 && std::all_of(token.begin(), token.end(), text::is_upper);
}

/// What follows a word that fails takes it back: "FAIL 0", "FAIL PASS", "ERROR rate".
bool is_taken_back(std::string_view token) {
  const std::string word = text::to_lower(token);
  return said::is_zero(word) || said::is_fine(word) ||
         is_any_of(word, {"none", "null", "count", "counts", "rate", "rates", "total", "bound",
                          "bounds"});
}

bool is_level_word(std::string_view word) {
  return is_any_of(word, {"error", "fatal", "critical", "panic", "severe", "emerg"});
}

/// At the level of what went wrong, behind a time and a name, or where the line begins: "12:30:01 x
/// ERROR could not", "[error] could not", "FAILED tests/a.py".
bool is_at_level(std::string_view line, SaidWords words) {
  const bool is_told = std::any_of(words.begin(), words.end(), [](const SaidWord& word) {
    return is_level_word(word.text) || word.text.starts_with("fail");
  });
  if (!is_told) return false;
  if (line.find('|') != line.npos || line.starts_with('#')) return false;
  const bool is_stamped = !line.empty() && (text::is_digit(line[0]) || line[0] == '[');
  const std::vector<std::string_view> tokens = tokens_of(line, is_stamped ? kMaxLevelTokens : 2);
  for (size_t i = 0; i + 1 < tokens.size() && (i == 0 || is_stamped); ++i) {
    const std::string level = text::to_lower(tokens[i]);
    const bool is_level =
        is_level_word(level) || (i == 0 && is_any_of(level, {"fail", "failed", "failure"}));
    const bool is_marked = is_capital(tokens[i]) ||
                           (tokens[i].data() > line.data() && *(tokens[i].data() - 1) == '[' &&
                            std::string_view(tokens[i].data() + tokens[i].size(), 1) == "]");
    const bool is_counted = i > 0 && text::is_digit(tokens[i - 1].back()) && tokens[i - 1] == "0";
    if (is_level && is_marked && !is_counted && !is_taken_back(tokens[i + 1])) return true;
  }
  return false;
}

/// "Final verdict FAIL": the words alone, in capitals.
bool is_judged_in_capitals(std::string_view line, SaidWords words) {
  const bool judges = std::any_of(words.begin(), words.end(),
                                  [](const SaidWord& word) { return said::is_judging(word.text); });
  if (!judges) return false;
  const std::vector<std::string_view> tokens = tokens_of(line, kMaxTokens);
  for (size_t i = 1; i < tokens.size(); ++i) {
    const bool is_apart = (tokens[i - 1].data()[tokens[i - 1].size()] == ' ');
    const bool is_expected = i > 1 && text::to_lower(tokens[i - 2]).starts_with("expect");
    const bool is_judged =
        is_apart && !is_expected && said::is_judging(text::to_lower(tokens[i - 1]));
    if (is_judged && is_capital(tokens[i]) && said::is_failed(text::to_lower(tokens[i])) &&
        (i + 1 == tokens.size() || !is_taken_back(tokens[i + 1]))) {
      return true;
    }
  }
  return false;
}

/// "run.sh: line 3: 1234 Killed   ./engine", "make: *** [Makefile:2: run] Error 1".
bool is_job_that_died(std::string_view line, SaidWords words) {
  if (line.starts_with("make") && line.find(": *** ") != line.npos) return true;
  for (size_t i = 3; i < words.size(); ++i) {
    if (said::is_failed(words[i].text) && said::is_count(words[i - 1].text) &&
        said::is_count(words[i - 2].text) && words[i - 3].text == "line") {
      return true;
    }
  }
  return false;
}

/// "3 failed, 97 passed", "3 tests failed", "found 2 mismatches".
bool counts_failures(SaidWords words) {
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const bool begins = i == 0 || words[i].opens || !text::is_digit(words[i - 1].text[0]);
    if (!begins || !said::is_count(words[i].text)) continue;
    const bool has_noun = i + 2 < words.size() && !words[i + 1].opens &&
                          is_any_of(words[i + 1].text, {"test", "tests", "pair", "pairs", "check",
                                                        "checks", "case", "cases", "of", "rows"});
    const size_t at = i + 1 + has_noun;
    const bool ends = at + 1 == words.size() || words[at + 1].opens ||
                      is_any_of(words[at + 1].text, {"in", "of", "out", "and"});
    if (ends && !words[at].opens &&
        is_any_of(words[at].text, {"failed", "failures", "failure", "errors", "mismatches",
                                   "mismatch", "failing", "crashed", "aborted"})) {
      return true;
    }
  }
  return false;
}

// ---- Sentences

/// "The final verdict is FAIL", "exited with code 1".
bool says_so(SaidWords words) {
  for (size_t i = 1; i + 1 < words.size(); ++i) {
    const SaidWords rest =
        words.subspan(i + 1).first(std::min(kNegatedWords + 1, words.size() - i - 1));
    const bool is_judged =
        said::is_judging(words[i - 1].text) || (i > 1 && said::is_judging(words[i - 2].text));
    if (said::is_copula(words[i].text) && is_judged && says_failure(rest)) return true;
    const bool is_exit = words[i].text == "code" || words[i].text == "status";
    const std::string_view before =
        words[i - 1].text == "with" && i > 1 ? words[i - 2].text : words[i - 1].text;
    if (words[i - 1].text == "exited" && words[i].text == "with" &&
        said::is_count(words[i + 1].text)) {
      return true;
    }
    if (is_exit && (before.starts_with("exit") || before == "returned" || before == "return") &&
        said::is_count(words[i + 1].text)) {
      return true;
    }
  }
  return false;
}

/// "The run did not pass", "hashes do not match"; not what is supposed.
bool denies_success(SaidWords words) {
  const bool denies = std::any_of(words.begin(), words.end(), [](const SaidWord& word) {
    return word.text == "not" || word.text == "t";
  });
  if (!denies) return false;
  bool is_supposed = false;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].opens) is_supposed = false;
    is_supposed |= is_any_of(words[i].text, {"if", "when", "unless", "where", "that", "which",
                                             "whether", "who", "should", "may", "could", "would"});
    const bool is_denied =
        i > 1 && (words[i - 1].text == "not" || words[i - 1].text == "t") &&
        is_any_of(words[i - 2].text, {"did", "does", "do", "didn", "doesn", "don"});
    if (is_denied && !is_supposed &&
        is_any_of(words[i].text, {"pass", "match", "succeed", "agree", "coincide"})) {
      return true;
    }
  }
  return false;
}

/// "attn_out   DRIFT": the last of columns that blanks make.
bool is_in_a_column(std::string_view line) {
  for (const std::string_view word : {"FAIL", "FAILED", "DRIFT", "MISMATCH"}) {
    if (!line.ends_with(word)) continue;
    const std::string_view before = line.substr(0, line.size() - word.size());
    return (before.ends_with("  ") || before.ends_with('\t')) &&
           std::any_of(before.begin(), before.end(), text::is_lower);
  }
  return false;
}

/// Words before which a failure is a name: "FIRST_FAIL".
bool names_a_failure(SaidWords words) {
  return std::any_of(words.begin(), words.end(), [](const SaidWord& word) {
    return is_any_of(word.text, {"first", "expected", "on"});
  });
}

/// "TEST FAILED", "NOT OK", "Killed", "[  FAILED  ] 3 tests", "not ok 4 - attn_out".
bool is_shout(std::string_view line, SaidWords words) {
  if (line.find('|') != line.npos || words.empty()) return false;
  if (words.size() > 1 && words[0].text == "not" && words[1].text == "ok") return true;
  if (line.starts_with("[ ") && said::is_failed(words[0].text)) return true;
  if (words.size() == 1 && text::is_letter(line[0])) return said::is_failed(words[0].text);
  const bool has_lower = std::any_of(line.begin(), line.end(), text::is_lower);
  if (has_lower || words.size() > kMaxShoutWords || names_a_failure(words)) return false;
  size_t end = words.size();
  while (end > 1 && text::is_digit(words[end - 1].text.front())) --end;
  const std::string& last = words[end - 1].text;
  const bool names_it =
      said::is_failed(last) || said::is_fine(last) || last == "broken" || last == "mismatch";
  // "TENSOR PASS FAIL" is the head of a table
  const bool is_head = end > 1 && said::is_failed(last) && said::is_fine(words[end - 2].text);
  return names_it && !is_head && says_failure(words);
}

}  // namespace

bool is_glog_error(std::string_view line) {
  constexpr std::string_view kShape = "Edddd dd:dd:dd";
  if (line.size() < kShape.size() || (line[0] != 'E' && line[0] != 'F')) return false;
  for (size_t i = 1; i < kShape.size(); ++i) {
    if (kShape[i] == 'd' ? !text::is_digit(line[i]) : line[i] != kShape[i]) return false;
  }
  return true;
}

bool tells_of_crash(SaidWords words) {
  bool asserts = false;
  size_t negated = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].opens) negated = 0;
    const SaidWords rest = words.subspan(i);
    for (const Phrase& phrase : kCrashes) {
      const size_t n = negated == 0 ? phrase_words(rest, phrase) : 0;
      if (n > 0 && !is_denied(rest.subspan(n))) return true;
    }
    if (negated == 0 && is_deadly_signal(words[i].text)) return true;
    asserts |= negated == 0 && words[i].text == "assertion";  // "Assertion `x == 0' failed."
    if (asserts && words[i].text == "failed") return true;
    const bool negates = said::is_negation(words[i].text) || said::is_zero(words[i].text) ||
                         is_any_of(words[i].text, {"avoid", "prevent"});
    negated = negates ? kNegatedWords : negated - (negated > 0);
  }
  return false;
}

bool says_failure_in_a_sentence(std::string_view line, SaidWords words) {
  return is_glog_error(line) || is_shout(line, words) || says_so(words) || denies_success(words) ||
         is_in_a_column(line) || is_judged_in_capitals(line, words) || counts_failures(words) ||
         is_at_level(line, words) || is_job_that_died(line, words) || tells_of_crash(words);
}

}  // namespace greta
