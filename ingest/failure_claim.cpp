#include "ingest/failure_claim.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <vector>

#include "ingest/content_name.h"
#include "ingest/failure_count.h"
#include "ingest/failure_lines.h"
#include "ingest/failure_members.h"
#include "ingest/failure_sentence.h"
#include "ingest/failure_words.h"
#include "ingest/html_table.h"
#include "ingest/json_document.h"
#include "ingest/program_error.h"
#include "ingest/telling_words.h"
#include "ingest/text.h"

namespace greta {
namespace {

constexpr size_t kPieceBytes = 1024;   // a longer line is looked at piece by piece
constexpr size_t kOverlapBytes = 256;  // of a piece and the next
constexpr size_t kMaxKeyBytes = 96, kMaxValueBytes = 192;
constexpr int kMaxLinePairs = 128;     // "key=value" of a piece
constexpr size_t kMaxValueWords = 12;  // a verdict is at the beginning of what is said
constexpr size_t kMaxKeyWords = 5;

// ---- Values

/// "PASS/FAIL", which is to be filled in.
bool is_template(SaidWords words) {
  if (words.size() == 3 && (words[1].text == "or" || words[1].text == "o")) {
    return said::is_fine(words[0].text) && said::is_failure_word(words[2].text);
  }
  return words.size() == 2 && said::is_fine(words[0].text) && !words[1].opens &&
         said::is_failure_word(words[1].text);
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

/// Of a number of values that are none.
bool counts_nan(SaidWords key) {
  return said::is_any_of(key.front().text, {"nan", "nans"}) ||
         said::is_any_of(key.back().text, {"nan", "nans"});
}

/// "has_nan", "nan_found".
bool asks_for_nan(SaidWords key) {
  return counts_nan(key) &&
         (said::is_any_of(key.front().text, {"has", "contains", "is", "any", "found"}) ||
          said::is_any_of(key.back().text, {"found", "detected", "seen"}));
}

/// "logits: nan", "max_diff: inf": a number that is none; not of a setting, nor where it says that
/// nothing is there.
bool is_nan(SaidWords key, SaidWords value) {
  if (value.empty() || (value.size() > 1 && !value[1].opens)) return false;
  const auto quantity = value.front().text == "inf" ? quantity_of(key, 1) : std::nullopt;
  const bool is_infinite = quantity && quantity->kind == Quantity::Kind::kDifference;
  if (value.front().text != "nan" && !is_infinite) return false;
  return std::none_of(key.begin(), key.end(), [](const SaidWord& word) {
    return said::is_failure_word(word.text) ||
           said::is_any_of(
               word.text,
               {"nan",    "nans",     "fill",     "pad",    "padding", "default", "mode",
                "type",   "kind",     "name",     "fault",  "check",   "checks",  "on",
                "skip",   "reason",   "cause",    "note",   "comment", "test",    "missing",
                "inject", "injected", "expected", "ignore", "event",   "first"});
  });
}

/// "parity check", of which "negative" is said.
bool is_of_a_check(SaidWords key) {
  return said::is_any_of(key.back().text, {"check", "parity", "comparison", "test"});
}

/// What "3/4" is of as much as "3 of 4 passed".
bool is_score(SaidWords key) {
  return said::is_any_of(key.back().text, {"score", "result", "results", "verdict", "outcome"}) &&
         !is_expected(key);
}

/// "all_close", "within_tolerance".
bool is_closeness(SaidWords key) {
  if (key.size() < 2) return false;
  const std::string& before = key[key.size() - 2].text;
  if (key.back().text == "close") return said::is_any_of(before, {"all", "is"});
  return before == "within" &&
         said::is_any_of(key.back().text, {"tolerance", "tol", "threshold", "limits", "bounds"});
}

/// How a process ended: "signal: 11", "term_signal = SIGSEGV".
bool is_signal(SaidWords key) { return key.back().text == "signal"; }

/// "no kernel image is available", "not enough memory": more than that nothing failed.
bool tells_what_is_not_there(SaidWords value) {
  constexpr size_t kTold = 4;  // words: fewer say "no", "not set", "none found"
  if (value.size() < kTold || !said::is_any_of(value[0].text, {"no", "not"})) return false;
  return std::none_of(value.begin() + 1, value.begin() + kTold, [](const SaidWord& word) {
    return word.opens || said::is_failure_word(word.text) ||
           said::is_any_of(word.text, {"found", "detected", "seen", "issue", "issues", "problem",
                                       "problems", "failure"});
  });
}

/// Of a key that is there where something failed: "failed", "n_errors", "first fail".
bool counts_as_failed(SaidWords key, SaidWords value) {
  const std::string& first = value.front().text;
  if (value.size() == 1 && said::is_yes(first)) return true;
  if (said::is_count(first)) return true;
  const bool is_text = (!said::is_nothing(first) && !text::is_digit(first.front())) ||
                       tells_what_is_not_there(value);
  const bool names_it = said::is_failed(key.back().text) || key.back().text.starts_with("error") ||
                        key.back().text.starts_with("exception");
  return is_text && names_it && !said::is_fine(first) &&
         !(value.size() == 2 && said::is_fine(value[1].text));
}

bool claims(SaidWords key, SaidWords value) {
  if (key.empty() || key.size() > kMaxKeyWords || value.empty() || is_template(value)) return false;
  if (is_exit_code(key)) return said::is_count(value.front().text) || says_failure(value.first(1));
  if (is_signal(key)) return said::is_count(value.front().text) || tells_of_crash(value);
  const bool says_no = value.size() == 1 && said::is_no(value.front().text);
  const bool is_negative =
      value.size() == 1 && said::is_any_of(value.front().text, {"negative", "red"});
  if (is_negative && (judges(key) || is_of_a_check(key))) return true;
  if (is_score(key) && is_part_of_all(value)) return true;
  if (judges(key)) return !is_expected(key) && (says_no || says_failure(value));
  const std::string& last = key.back().text;
  if (last == "state") return !is_expected(key) && says_failure(value);
  const bool is_number =
      !value.front().opens && said::is_count(value.front().text);  // not in a list
  if (is_number && counts_nan(key) && !is_measure(key)) return true;
  if (is_nan(key, value)) return true;
  if (asks_for_nan(key) && value.size() == 1 && said::is_yes(value.front().text)) return true;
  if (said::is_fine(last) || is_closeness(key)) {
    return says_no || (value.size() == 1 && said::is_zero(value.front().text)) ||
           says_failure(value) || is_short_share(value);
  }
  if (is_success_rate(key)) return is_low_rate(value);
  if (is_number && counts_what_failed(key)) return true;
  return said::is_failure_word(last) && !is_measure(key) && counts_as_failed(key, value);
}

/// "attn_out: FAIL", "attn_out: DRIFT at layer 3": nothing but that it failed, whatever did, or
/// that first of all.
bool is_failure_alone(SaidWords key, SaidWords value, std::string_view written) {
  if (key.empty() || value.empty() || is_measure(key)) return false;
  const std::string& first = value[0].text;
  const bool differs = first.starts_with("drift") || first.starts_with("mismatch") ||
                       first.starts_with("diverg") || first == "nonfinite" || first == "broken";
  if (!differs && (!said::is_failed(first) || first.starts_with("abort"))) return false;
  if (value.size() == 1) return true;
  written = written.substr(0, written.find_first_of(" \t,;", written.find_first_not_of(" \t*_")));
  return std::none_of(written.begin(), written.end(), text::is_lower) && !value[1].opens &&
         !said::is_fine(value[1].text) && !counts_no_failure(value.subspan(1)) &&
         says_failure(value);
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

/// What stands between a key and its value.
constexpr std::string_view kSeparators[] = {"->", "=>", ":",   "=",      "|",      "\t",
                                            ">",  "?",  " - ", "\u2192", "\u2013", "\u2014"};

/// Bytes of what separates a key from its value at the start of `rest`; 0: nothing does.
size_t separator_bytes(std::string_view rest) {
  const char first = rest.front();
  if (text::is_word(first)) return 0;
  for (const std::string_view separator : kSeparators) {
    if (first == separator.front() && rest.starts_with(separator)) return separator.size();
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

/// "pass rate > 0.95" says what is wanted.
bool compares(std::string_view line, size_t at) {
  if (line[at] == '=' && at > 0) return std::string_view("<>!").find(line[at - 1]) != line.npos;
  if (line[at] != '>') return false;
  const std::string_view rest = line.substr(at + 1);
  return rest.starts_with('=') || (at > 0 && line[at - 1] == ' ' && rest.starts_with(' '));
}

/// "torch.allclose(a, b) " without its arguments, which are no part of what is called.
std::string_view without_arguments(std::string_view before) {
  const std::string_view call = text::trim(before);
  if (!call.ends_with(')')) return before;
  size_t open = call.size(), depth = 0;
  do {
    --open;
    depth += call[open] == ')';
    depth -= call[open] == '(';
  } while (open > 0 && depth > 0);
  const bool is_call = open > 0 && depth == 0 && text::is_word(call[open - 1]);
  return is_call ? call.substr(0, open) : before;
}

bool has_failing_pair(std::string_view line) {
  int pairs = 0;
  for (size_t i = 0; i < line.size() && pairs < kMaxLinePairs; ++i) {
    const size_t bytes = separator_bytes(line.substr(i));
    if (bytes == 0 || compares(line, i)) continue;
    ++pairs;
    std::string_view before = without_arguments(line.substr(0, i));
    if (before.size() > kMaxKeyBytes) before.remove_prefix(before.size() - kMaxKeyBytes);
    before.remove_prefix(before.find_last_of("|\t") + 1);  // npos + 1 is 0
    std::string_view value = line.substr(i + bytes, kMaxValueBytes);
    value = value.substr(0, value.find_first_of("|\t", value.find_first_not_of(" |\t")));
    if (!said::has_telling_word(before) && !said::has_telling_word(value)) continue;
    const std::vector<SaidWord> words = said_words(before, kMaxKeyBytes);
    const bool is_cell = line[i] == '|' || line[i] == '\t';
    const SaidWords key = key_of(words, is_cell);
    const std::vector<SaidWord> said = said_words(value, kMaxValueWords);
    // "min=nan max=nan"
    const bool is_first_nan = line[i] == '=' && !key.empty() &&
                              is_nan(key, said_words(value.substr(0, value.find(' ')), 1));
    if (is_first_nan || claims(key, said) || (!is_cell && is_failure_alone(key, said, value)))
      return true;
    i += bytes - 1;
  }
  return false;
}

/// Whether any piece of the text says so, with no blanks around it.
template <class Says>
bool any_piece(std::string_view text, const Says& says) {
  for (size_t at = 0;; at += kPieceBytes - kOverlapBytes) {
    if (says(text::trim(text.substr(at, kPieceBytes)))) return true;
    if (text.size() - at <= kPieceBytes) return false;
  }
}

bool shown_line_claims_failure(std::string_view line) {
  return any_piece(line, [](std::string_view piece) {
    if (is_glog_error(piece) || is_system_error(piece)) return true;
    if (!said::has_telling_word(piece)) return false;
    std::string plain;
    if (!text::is_ascii(piece)) piece = plain = said::with_plain_letters(piece);
    const std::vector<SaidWord> words = said_words(piece, kPieceBytes);
    if (says_failure_in_a_sentence(piece, words) || has_failing_pair(piece)) return true;
    return piece.find("</") != piece.npos && has_failing_pair(with_bars_for_tags(piece));
  });
}

/// What is said to a model, and by it, is no word of the run.
bool holds_words_of_a_model(std::string_view key) {
  const std::vector<SaidWord> words = said_words(key, kMaxKeyWords + 1);
  constexpr std::string_view kModels[] = {"prompt", "prompts",    "text",    "generated", "piece",
                                          "pieces", "completion", "content", "token",     "tokens"};
  return !words.empty() &&
         std::find(std::begin(kModels), std::end(kModels), words.back().text) != std::end(kModels);
}

/// What a program printed.
bool holds_output(std::string_view key) {
  const std::vector<SaidWord> words = said_words(key, kMaxKeyWords + 1);
  return !words.empty() &&
         said::is_any_of(words.back().text, {"stdout", "stderr", "log", "logs", "console"});
}

bool any_line_claims_failure(std::string_view text) {
  FailureLines lines(true);
  for (std::string_view line; text::take_line(text, line);) {
    if (lines.claims(line)) return true;
  }
  return false;
}

bool text_tells_of_crash(std::string_view text) {
  return any_piece(text, [](std::string_view piece) {
    return said::has_telling_word(piece) && tells_of_crash(said_words(piece, kPieceBytes));
  });
}

}  // namespace

bool claims_failure(std::string_view key, std::string_view value) {
  return claims(said_words(key, kMaxKeyWords + 1), said_words(value, kMaxValueWords));
}

bool value_claims_failure(std::string_view key, std::string_view value) {
  return is_failure_alone(said_words(key, kMaxKeyWords + 1), said_words(value, kMaxValueWords),
                          value);
}

bool line_claims_failure(std::string_view line) {
  if (line.find('\b') != line.npos || line.find("\x1b[") != line.npos) {
    return shown_line_claims_failure(said::as_shown(line));
  }
  return shown_line_claims_failure(line);
}

std::string claim_of_name(const std::string& path, std::string_view text) {
  text = text::trim(text::without_mark(text));
  const std::string_view line = text::trim(text.substr(0, text.find('\n'))).substr(0, kPieceBytes);
  if (line.starts_with('{') || line.starts_with('[')) return {};
  const std::string stem = file_stem(path), extension = lower_extension(path);
  if (text.empty()) return extension.empty() && claims_failure("status", stem) ? stem : "";
  const bool is_alone = line.size() == text.size();
  for (const std::string& name : {stem, extension}) {
    // of a name that judges, unless there is nothing else: not of one that names a failure
    if (claims_failure(name, line) && (is_alone || !claims_failure(name, "x"))) {
      return name + ": " + std::string(line);
    }
  }
  return {};
}

void for_each_failure(std::string_view key, const nlohmann::json& value,
                      const std::function<void(const std::string& claim)>& on_claim,
                      std::span<const Quantity> outer) {
  if (value.is_object()) {
    const std::vector<Quantity> own = limits_of_object(value);
    if (!own.empty()) outer = own;
    if (const std::string claim = claim_of_object(key, value, outer); !claim.empty())
      on_claim(claim);
    const bool judged = claims_failure(key, "fail");
    for (const auto& [name, item] : value.items()) {
      const bool is_of_key = judged && item.is_string() && !claims_failure(name, "fail");
      for_each_failure(is_of_key ? key : std::string_view(name), item, on_claim, outer);
    }
    return;
  }
  if (value.is_array()) {
    for (const nlohmann::json& item : value) for_each_failure(key, item, on_claim, outer);
    return;
  }
  if (value.is_null()) return;
  const std::string said = value.is_string() ? value.get<std::string>() : json_text(value);
  const bool crashed =
      value.is_string() && !holds_words_of_a_model(key) && text_tells_of_crash(said);
  const bool printed = value.is_string() && holds_output(key) && any_line_claims_failure(said);
  if (crashed || printed || claims_failure(key, said) || value_claims_failure(key, said)) {
    on_claim(std::string(key.substr(0, kPieceBytes)) + ": " + said.substr(0, kPieceBytes));
  }
}

}  // namespace greta
