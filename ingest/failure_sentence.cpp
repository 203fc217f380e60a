#include "ingest/failure_sentence.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "ingest/failure_comparison.h"
#include "ingest/failure_count.h"
#include "ingest/failure_limit.h"
#include "ingest/program_error.h"
#include "ingest/text.h"

namespace greta {
namespace {

constexpr size_t kMaxShoutWords = 5;
constexpr size_t kMaxSentenceWords = 8;
constexpr size_t kMaxLevelTokens = 8;  // a time, a thread, a name and the level
constexpr size_t kMaxTokens = 32;

using said::is_any_of;
using said::tokens_of;

// ---- Levels of logs, and what shells and tests print

bool is_capital(std::string_view token) {
  return token.size() > 1 && std::all_of(token.begin(), token.end(), text::is_upper);
}

/// What follows a word that fails takes it back: "FAIL 0", "FAIL PASS", "ERROR rate".
bool is_taken_back(std::string_view token) {
  const std::string word = text::to_lower(token);
  return said::is_zero(word) || said::is_fine(word) ||
         is_any_of(word, {"none", "null", "count", "counts", "rate", "rates", "total", "bound",
                          "bounds", "summary"});
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
  const bool is_stamped = !line.empty() && (text::is_digit(line[0]) || line[0] == '[');
  const bool is_in_table =
      line.find('|') != line.npos && !(is_stamped && line.find(':') < line.find('|'));
  if (is_in_table || line.starts_with('#')) return false;
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

/// "17 greta FAILED 1:0", "47 PASS, FAIL 1", "x=1 MISMATCH at layer 3": a word in capitals among
/// others, and behind it how many or where.
bool fails_amid_others(std::string_view line, SaidWords words) {
  const bool is_told = std::any_of(words.begin(), words.end(), [](const SaidWord& word) {
    return said::is_failure_word(word.text);
  });
  if (!is_told || line.find('|') != line.npos) return false;
  const std::vector<std::string_view> tokens = tokens_of(line, kMaxTokens);
  for (size_t i = 1; i + 1 < tokens.size(); ++i) {
    const std::string word = text::to_lower(tokens[i]), next = text::to_lower(tokens[i + 1]);
    if (!is_capital(tokens[i]) || text::to_lower(tokens[i - 1]).starts_with("expect")) continue;
    const bool is_counted =
        said::is_failed(word) && text::is_digit(next[0]) && !said::is_zero(next);
    const bool is_placed =
        said::is_failure_word(word) && i + 2 < tokens.size() && is_any_of(next, {"at", "in"});
    if (is_counted || is_placed) return true;
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
    is_supposed |= said::supposes(words[i].text);
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

/// "hashes differ", "assert_close failed", "a.bin b.bin differ: byte 12": the verb that ends a
/// short clause.
bool ends_in_failure(std::string_view line, SaidWords words) {
  if (line.find('|') != line.npos) return false;
  for (size_t i = 0; i < std::min(words.size(), kMaxSentenceWords); ++i) {
    const std::string& word = words[i].text;
    const SaidWords rest = words.subspan(i + 1);
    const bool is_verb = is_any_of(word, {"failed", "fails", "differ", "differs", "differed",
                                          "diverge", "diverges", "diverged"});
    const bool ends = is_verb || is_any_of(word, {"different", "mismatched", "mismatch", "disagree",
                                                  "crashed", "exceeded"});
    if (ends && i > 0 && !words[i].opens &&
        (rest.empty() || (is_verb && rest[0].opens && !counts_no_failure(rest)))) {
      return true;
    }
    if (said::supposes(word) || said::is_nothing(word) || said::is_fine(word) ||
        is_any_of(word, {"first", "expected", "on", "what", "why", "how", "until", "once",
                         "previous", "earlier", "old"})) {
      return false;
    }
  }
  return false;
}

/// "First divergence at layer 3", "mismatch found in row 7" where a clause begins, "tokens diverge
/// after step 12".
bool tells_where_it_differs(SaidWords words) {
  bool begins = true;
  for (size_t i = 0; i + 2 < words.size(); ++i) {
    begins |= words[i].opens;
    const std::string& word = words[i].text;
    if (said::supposes(word) || said::is_nothing(word)) return false;
    const bool is_verb = is_any_of(word, {"diverge", "diverges", "diverged", "differ", "differs"});
    const bool differs = word.starts_with("diverg") || word.starts_with("mismatch") ||
                         word.starts_with("differ") || word.starts_with("drift");
    const bool is_told = differs && (begins || is_verb);
    begins = begins && is_any_of(word, {"first", "the", "a"});
    if (!is_told) continue;
    const size_t at = i + 1 + is_any_of(words[i + 1].text, {"found", "begins", "starts", "seen"});
    if (at + 1 >= words.size() || !is_any_of(words[at].text, {"at", "in", "after", "from"})) {
      continue;
    }
    const SaidWords place = words.subspan(at + 1).first(std::min<size_t>(3, words.size() - at - 1));
    if (std::any_of(place.begin(), place.end(),
                    [](const SaidWord& of) { return text::is_digit(of.text.back()); })) {
      return true;
    }
  }
  return false;
}

/// "max diff 0.5 exceeds the tolerance".
bool exceeds_a_limit(SaidWords words) {
  for (size_t i = 1; i + 1 < words.size(); ++i) {
    if (words[i].opens) continue;
    if (!is_any_of(words[i].text, {"exceeds", "exceeded", "exceed", "above", "outside", "beyond"}))
      continue;
    const SaidWords behind = words.subspan(i + 1).first(std::min<size_t>(3, words.size() - i - 1));
    const bool is_limit = std::any_of(behind.begin(), behind.end(), [](const SaidWord& word) {
      return is_any_of(word.text, {"tolerance", "tolerances", "threshold", "atol", "rtol"});
    });
    const SaidWords before = words.first(i);
    const bool holds = std::none_of(before.begin(), before.end(), [](const SaidWord& word) {
      return said::supposes(word.text) || said::is_nothing(word.text) || word.text == "must";
    });
    const bool is_number = std::any_of(before.begin(), before.end(), [](const SaidWord& word) {
      return text::is_digit(word.text.front());
    });
    if (is_limit && holds && is_number) return true;
  }
  return false;
}

/// "expected 5, got 7": two numbers that are not one.
bool got_another(SaidWords words) {
  for (size_t i = 0; i + 3 < words.size(); ++i) {
    if (words[i].text != "expected" || !text::is_digit(words[i + 1].text.front())) continue;
    for (size_t k = i + 2; k + 1 < std::min(words.size(), i + 6); ++k) {
      if (is_any_of(words[k].text, {"got", "actual", "actually", "received", "found", "was"}) &&
          text::is_digit(words[k + 1].text.front())) {
        return words[k + 1].text != words[i + 1].text;
      }
    }
  }
  return false;
}

/// Where such a word stands, the last of a line or before a gap; npos: nowhere.
size_t column_of(std::string_view line, std::string_view word) {
  for (size_t at = line.find(word); at != line.npos; at = line.find(word, at + 1)) {
    const std::string_view rest = line.substr(at + word.size());
    if (rest.empty()) return at;
    const bool is_apart = at > 1 && line.substr(0, at).ends_with("  ");
    if (rest.starts_with('\t') || (is_apart && rest.starts_with("  "))) return at;
    const bool is_in_cell = at > 0 && (line[at - 1] == ',' || line[at - 1] == ';');
    if (is_in_cell && rest.front() == line[at - 1] && line.find(' ') == line.npos) return at;
  }
  return line.npos;
}

/// "attn_out   DRIFT", "attn_out   FAIL   0.5", "attn_out,FAIL", "attn_out FAIL", "attn_out ....
/// FAIL", "a.py::test FAILED [ 50%]": behind a name, in a column or the last of the line.
bool is_in_a_column(std::string_view line) {
  if (line.ends_with("%]")) line = text::trim(line.substr(0, line.rfind('[')));
  for (const std::string_view word : {"FAIL", "FAILED", "DRIFT", "MISMATCH"}) {
    const size_t at = column_of(line, word);
    if (at == line.npos) continue;
    const std::string_view before = line.substr(0, at);
    const std::string_view name = text::trim(before);
    if (std::none_of(name.begin(), name.end(), text::is_lower)) continue;
    const bool is_apart = name.size() < before.size();
    const bool is_word =
        is_apart && name.find_first_of(" \t") == name.npos && text::is_word(name.back());
    const bool is_cell = !is_apart && (name.ends_with(',') || name.ends_with(';')) &&
                         line.find(' ') == line.npos &&
                         !name.substr(0, name.size() - 1).ends_with("PASS");
    if (before.ends_with("  ") || before.ends_with('\t') || is_word || is_cell) return true;
  }
  return false;
}

/// "1/3 Test #1: attn_out ....***Failed  0.01 sec", "test attn_out ... FAILED", "loading... error".
bool fails_behind_dots(std::string_view line) {
  const size_t dots = line.rfind("..");
  if (dots == line.npos) return false;
  const std::vector<SaidWord> words = said_words(line.substr(dots), kMaxShoutWords);
  if (words.empty()) return false;
  const SaidWords rest = SaidWords(words).subspan(1);
  const bool ends = rest.empty() || rest[0].opens || text::is_digit(rest[0].text.front());
  return ends && said::is_failure_word(words[0].text) && !counts_no_failure(rest);
}

/// "1 - attn_out (Failed)", "attn_out [FAIL]".
bool fails_in_brackets(std::string_view line) {
  if (!line.ends_with(')') && !line.ends_with(']')) return false;
  const size_t open = line.find_last_of("([");
  if (open == line.npos || open == 0 || !text::is_upper(line[open + 1])) return false;
  const std::vector<SaidWord> words = said_words(line.substr(open), 2);
  return words.size() == 1 &&
         (said::is_failed(words[0].text) ||
          is_any_of(words[0].text, {"timeout", "exception", "drift", "mismatch", "sigsegv"}));
}

/// A cross before what failed or behind it.
bool is_crossed(std::string_view line, SaidWords words) {
  const auto is_mark = [](char c, const SaidWord& word) {
    return static_cast<unsigned char>(c) >= 0x80 && word.text == "fail";
  };
  return words.size() > 1 && words.size() <= kMaxShoutWords &&
         (is_mark(line.front(), words.front()) || is_mark(line.back(), words.back())) &&
         std::none_of(words.begin(), words.end(),
                      [](const SaidWord& word) { return said::is_fine(word.text); });
}

/// A test that JUnit's XML says has failed: "<failure message=...>".
bool is_failed_case(std::string_view line) {
  for (const std::string_view tag : {"<failure", "<error message", "<error type"}) {
    const size_t at = line.find(tag);
    if (at == line.npos || at + tag.size() >= line.size()) continue;
    const std::string_view rest = line.substr(at + tag.size());
    const bool ends = std::string_view(" />=").find(rest[0]) != rest.npos;
    if (ends && !counts_no_failure(said_words(rest, kMaxShoutWords))) return true;
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

bool says_failure_in_a_sentence(std::string_view line, SaidWords words) {
  return is_shout(line, words) || says_so(words) || denies_success(words) || is_in_a_column(line) ||
         fails_behind_dots(line) || fails_in_brackets(line) || is_crossed(line, words) ||
         is_failed_case(line) || ends_in_failure(line, words) || tells_where_it_differs(words) ||
         exceeds_a_limit(words) || got_another(words) || is_judged_in_capitals(line, words) ||
         counts_failures(words) || counts_too_few(line, words) || fails_amid_others(line, words) ||
         is_at_level(line, words) || line_states_excess(line, words) ||
         line_compares_in_vain(line, words) || tells_of_nan(words) ||
         is_job_that_died(line, words) || tells_of_crash(words) || is_death_by_signal(line) ||
         tells_of_what_could_not_be(line, words);
}

}  // namespace greta
