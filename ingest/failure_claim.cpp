#include "ingest/failure_claim.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <vector>

#include "ingest/failure_words.h"
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

// ---- Values

/// "PASS/FAIL", which is to be filled in.
bool is_template(SaidWords words) {
  if (words.size() == 3 && (words[1].text == "or" || words[1].text == "o")) {
    return said::is_fine(words[0].text) && said::is_failure_word(words[2].text);
  }
  return words.size() == 2 && said::is_fine(words[0].text) && !words[1].opens &&
         said::is_failure_word(words[1].text);
}

/// "failures: none", "fail=0": what follows a word that fails.
bool counts_none(SaidWords rest) {
  if (rest.empty() || !said::is_nothing(rest[0].text)) return false;
  return said::is_zero(rest[0].text) || rest.size() == 1 || rest[1].opens;
}

/// Whether one of the words fails and is not negated, or is fine and is.
bool says_failure(SaidWords words) {
  size_t negated = 0;
  bool was_expected = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const SaidWord& word = words[i];
    if (word.opens) negated = 0;
    const bool fails = said::is_failure_word(word.text) && !was_expected;
    was_expected = word.text == "expected";
    if (fails && negated == 0 && !counts_none(words.subspan(i + 1))) return true;
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

// ---- Keys

bool judges(SaidWords key) {
  return said::is_judging(key.front().text) || said::is_judging(key.back().text);
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
                     [](const SaidWord& word) { return said::is_measuring(word.text); });
}

/// Of a key that is there where something failed: "failed", "n_errors", "first fail".
bool counts_as_failed(SaidWords key, SaidWords value) {
  const std::string& first = value.front().text;
  if (value.size() == 1 && said::is_yes(first)) return true;
  if (said::is_count(first)) return true;
  const bool is_text = !said::is_nothing(first) && !text::is_digit(first.front());
  const bool names_it = said::is_failed(key.back().text) || key.back().text.starts_with("error") ||
                        key.back().text.starts_with("exception");
  return is_text && names_it && !said::is_fine(first);
}

bool claims(SaidWords key, SaidWords value) {
  if (key.empty() || key.size() > kMaxKeyWords || value.empty() || is_template(value)) return false;
  if (is_exit_code(key)) return said::is_count(value.front().text);
  const bool says_no = value.size() == 1 && said::is_no(value.front().text);
  if (judges(key)) return !is_expected(key) && (says_no || says_failure(value));
  const std::string& last = key.back().text;
  if (said::is_fine(last)) {
    return says_no || (value.size() == 1 && said::is_zero(value.front().text)) ||
           says_failure(value);
  }
  return said::is_failure_word(last) && !is_measure(key) && counts_as_failed(key, value);
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

/// "The final verdict is FAIL", "exited with code 1", "Segmentation fault (core dumped)".
bool says_so_in_a_sentence(SaidWords words) {
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i - 1].text == "segmentation" && words[i].text == "fault") return true;
  }
  for (size_t i = 1; i + 1 < words.size(); ++i) {
    const SaidWords rest =
        words.subspan(i + 1).first(std::min(kNegatedWords + 1, words.size() - i - 1));
    const bool is_judged =
        said::is_judging(words[i - 1].text) || (i > 1 && said::is_judging(words[i - 2].text));
    if (said::is_copula(words[i].text) && is_judged && says_failure(rest)) return true;
    const bool is_exit = words[i].text == "code" || words[i].text == "status";
    const std::string_view before =
        words[i - 1].text == "with" && i > 1 ? words[i - 2].text : words[i - 1].text;
    if (is_exit && (before.starts_with("exit") || before == "returned" || before == "return") &&
        said::is_count(words[i + 1].text)) {
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
  if (line.starts_with("[ ") && said::is_failed(words[0].text)) return true;
  const bool has_lower = std::any_of(line.begin(), line.end(), text::is_lower);
  if (has_lower || words.size() > kMaxKeyWords || names_a_failure(words)) return false;
  size_t end = words.size();
  while (end > 1 && text::is_digit(words[end - 1].text.front())) --end;
  const bool names_it = said::is_failed(words[end - 1].text) || said::is_fine(words[end - 1].text);
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
    if (!said::has_telling_word(before)) continue;
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

bool claims_failure(std::string_view key, std::string_view value) {
  return claims(said_words(key, kMaxKeyWords + 1), said_words(value, kMaxValueWords));
}

bool line_claims_failure(std::string_view line) {
  line = text::trim(line.substr(0, kMaxClaimLine));
  if (!said::has_telling_word(line)) return false;
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
