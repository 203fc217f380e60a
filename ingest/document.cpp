#include "ingest/document.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "common/utc_time.h"
#include "common/utf8.h"
#include "ingest/known_claim.h"
#include "ingest/text.h"

namespace greta {
namespace {

using text::is_digit;
using text::is_lower;
using text::is_upper;
using text::is_word;
using text::plain;
using text::to_lower;
using text::trim;

struct Keyword {
  std::string_view key, name;
};

// The predecessor wrote its reports in English and Spanish.
constexpr Keyword kClaimKeys[] = {{"verdict", "verdict"},
                                  {"global verdict", "verdict"},
                                  {"final verdict", "verdict"},
                                  {"result", "verdict"},
                                  {"veredicto", "verdict"},
                                  {"veredicto final", "verdict"},
                                  {"veredicto global", "verdict"},
                                  {"resultado", "verdict"},
                                  {"status", "status"},
                                  {"estado", "status"},
                                  {"first_fail", "first_fail"},
                                  {"first fail", "first_fail"},
                                  {"root_cause", "root_cause"},
                                  {"root cause", "root_cause"},
                                  {"causa raíz", "root_cause"},
                                  {"causa raiz", "root_cause"},
                                  {"conclusion", "conclusion"},
                                  {"conclusión", "conclusion"}};

constexpr Keyword kCountKeys[] = {{"total pairs", "total_pairs"},
                                  {"total_pairs", "total_pairs"},
                                  {"present pairs", "present_pairs"},
                                  {"pass", "pass"},
                                  {"passed", "pass"},
                                  {"fail", "fail"},
                                  {"failed", "fail"},
                                  {"missing pairs", "missing"},
                                  {"missing", "missing"},
                                  {"missing_pairs", "missing"},
                                  {"pass_equiv", "pass_equiv"},
                                  {"fail_equiv", "fail_equiv"},
                                  {"expected_drift", "expected_drift"},
                                  {"inconclusive", "inconclusive"},
                                  {"incomplete", "incomplete"},
                                  {"skipped", "skipped"}};

constexpr size_t kMaxKey = 64;
constexpr size_t kMaxDocumentLines = 400'000;
constexpr size_t kMaxClaims = 10'000;
constexpr size_t kMaxFailureBytes = 256;
constexpr std::ptrdiff_t kMostClaimsOfLine = 8;  // that are looked back for

bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
// Lead byte of a Latin, Greek or Cyrillic letter in UTF-8; not of a dash or a tick.
bool is_letter_lead(char c) {
  return static_cast<unsigned char>(c) >= 0xc3 && static_cast<unsigned char>(c) <= 0xd4;
}

size_t count_digits(std::string_view s) {
  return static_cast<size_t>(std::find_if_not(s.begin(), s.end(), is_digit) - s.begin());
}

// The name of a key as people write it, "" if unknown: case and bilingual forms
// ("Status / Estado") do not matter.
template <size_t N>
std::string_view find_keyword(const Keyword (&keywords)[N], std::string_view key) {
  if (key.size() > kMaxKey) return {};
  const std::string lower = to_lower(key);
  std::string_view rest = lower;
  while (true) {
    const size_t slash = rest.find('/');
    const std::string_view part = trim(rest.substr(0, slash));
    for (const Keyword& keyword : keywords) {
      if (part == keyword.key) return keyword.name;
    }
    if (slash == std::string_view::npos) return {};
    rest.remove_prefix(slash + 1);
  }
}

struct KeyValue {
  std::string_view key, value;
};

// "Key: value" of a plain line; nullopt without a colon near its start.
std::optional<KeyValue> key_value(std::string_view line) {
  const size_t colon = line.substr(0, kMaxKey + 1).find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  return KeyValue{trim(line.substr(0, colon)), trim(line.substr(colon + 1))};
}

// A line's words: without the marks of headings, quotes and lists, and without emphasis.
std::string plain_line(std::string_view line) {
  line = trim(line);
  while (line.starts_with('#') || line.starts_with('>')) line.remove_prefix(1);
  line = trim(line);
  if (line.starts_with("- ") || line.starts_with("* ") || line.starts_with("+ ")) {
    line.remove_prefix(2);
  }
  const size_t digits = count_digits(line);
  if (digits > 0 && line.substr(digits).starts_with(". ")) line.remove_prefix(digits + 2);
  return plain(line);
}

// The first word when it is upper-case: "PASS" of "✅ PASS - all match", "" of "El fix B3".
std::string leading_token(std::string_view value) {
  size_t start = 0;
  while (start < value.size() && !is_word(value[start])) ++start;
  size_t end = start;
  while (end < value.size() && is_word(value[end])) ++end;
  const std::string_view word = value.substr(start, end - start);
  const bool letters_follow = end < value.size() && is_letter_lead(value[end]);
  if (word.empty() || letters_follow || !is_upper(word[0])) return {};
  if (std::any_of(word.begin(), word.end(), is_lower)) return {};
  if (word.size() == 1 && word.size() != value.size()) return {};
  // "B3.66" is a name, not a verdict.
  if (end + 1 < value.size() && value[end] == '.' && is_digit(value[end + 1])) return {};
  return std::string(word);
}

// True if a verdict is about what lies beyond rounding, in the words of greta's own reports.
bool passes_within_rounding(std::string_view value) {
  constexpr std::string_view kWords[] = {"PASS (rounding only", "PASS (sólo redondeo",
                                         // before format version 10
                                         "PASS within rounding", "PASS dentro del redondeo"};
  return std::any_of(std::begin(kWords), std::end(kWords), [&](std::string_view words) {
    return value.find(words) != std::string_view::npos;
  });
}

// As reports of greta say of a run that differs and passes.
bool differs_within_rounding(std::string_view value) {
  return value.find("all of them within rounding") != std::string_view::npos ||
         value.find("todos dentro del redondeo") != std::string_view::npos;
}

// YYYY-MM-DD, "" if there is none.
std::string find_date(std::string_view s) {
  constexpr std::string_view kShape = "dddd-dd-dd";
  for (size_t i = 0; i + kShape.size() <= s.size(); ++i) {
    if (i > 0 && is_word(s[i - 1])) continue;
    bool matches = i + kShape.size() == s.size() || !is_digit(s[i + kShape.size()]);
    for (size_t k = 0; matches && k < kShape.size(); ++k) {
      matches = kShape[k] == 'd' ? is_digit(s[i + k]) : s[i + k] == kShape[k];
    }
    if (!matches) continue;
    const std::string date(s.substr(i, kShape.size()));
    if (is_day(date)) return date;
  }
  return {};
}

// The first word of 7 to 40 hex digits. A long one of decimal digits alone is a tensor's hash.
std::string find_commit(std::string_view s) {
  for (size_t i = 0; i < s.size();) {
    size_t end = i;
    bool hex = true, decimal = true;
    for (; end < s.size() && is_word(s[end]); ++end) {
      hex = hex && is_hex(s[end]);
      decimal = decimal && is_digit(s[end]);
    }
    const size_t length = end - i;
    if (hex && length >= 7 && length <= 40 && !(decimal && length > 12 && length < 40)) {
      return std::string(s.substr(i, length));
    }
    i = end + 1;
  }
  return {};
}

bool is_commit_key(std::string_view key) {
  if (key.size() > kMaxKey) return false;
  const std::string lower = to_lower(key);
  return lower == "hash" || lower == "commit" || lower.starts_with("commit ") ||
         lower.starts_with("commit/") || lower == "git commit" || lower == "git_commit";
}

bool is_date_key(std::string_view key) {
  constexpr Keyword kDateKeys[] = {{"date", "date"}, {"fecha", "date"}};
  return !find_keyword(kDateKeys, key).empty();
}

bool is_separator(char c) { return c == '-' || c == '_'; }

// Reads "66-71-72A v2" at s[at], past the family of an experiment, as "_66_71_72A_v2"; "" if no
// number is there.
std::string experiment_number(std::string_view s, size_t at) {
  std::string name;
  while (at + 1 < s.size() && is_digit(s[at + 1]) && (name.empty() || is_separator(s[at]))) {
    const size_t digits = count_digits(s.substr(at + 1));
    name += "_" + std::string(s.substr(at + 1, digits));
    at += 1 + digits;
  }
  while (!name.empty() && at < s.size() && is_word(s[at]) && s[at] != '_') name += s[at++];
  while (at < s.size() && (s[at] == ' ' || is_separator(s[at]))) ++at;
  if (name.empty() || at == s.size() || (s[at] != 'v' && s[at] != 'V')) return name;
  const size_t digits = count_digits(s.substr(at + 1));
  const size_t end = at + 1 + digits;
  if (digits == 0 || (end < s.size() && is_word(s[end]))) return name;
  return name + "_v" + std::string(s.substr(at + 1, digits));
}

// "B3.66 v2" -> b3_66_v2, "B3.70-71-72" -> b3_70_71_72, "B3.10A" -> b3_10A.
std::string find_experiment(std::string_view title) {
  for (size_t i = 0; i < title.size(); ++i) {
    if ((title[i] != 'B' && title[i] != 'b') || (i > 0 && is_word(title[i - 1]))) continue;
    const size_t digits = count_digits(title.substr(i + 1));
    const size_t at = i + 1 + digits;
    if (digits == 0 || at >= title.size() || (title[at] != '.' && title[at] != '_')) continue;
    const std::string number = experiment_number(title, at);
    if (number.empty() || digits + number.size() > kMaxKey) continue;
    return "b" + std::string(title.substr(i + 1, digits)) + number;
  }
  return {};
}

// The integer that a count starts with: 6 of "6 (12.5%)"; 12.5 is no count.
std::optional<int64_t> leading_count(std::string_view s) {
  std::string digits;
  size_t i = 0;
  for (; i < s.size() && (is_digit(s[i]) || (s[i] == ',' && !digits.empty())); ++i) {
    if (s[i] != ',') digits += s[i];
  }
  if (i + 1 < s.size() && s[i] == '.' && is_digit(s[i + 1])) return std::nullopt;
  return text::parse_int(digits);
}

class DocumentReader {
 public:
  explicit DocumentReader(std::string_view text) {
    document_.valid_utf8 = utf8::is_valid(text);
    document_.is_binary = text.find('\0') != text.npos;
    document_.tables = read_pipe_tables(take_what_may_be(text));
  }

  Document read() {
    read_tables();
    text::FenceTracker fences;
    auto table = document_.tables.cbegin();
    for (size_t i = 0; i < lines_.size(); ++i) {
      const text::FenceTracker::Kind kind = fences.next(lines_[i]);
      read_json(i);
      if (trim(lines_[i]).empty()) continue;
      if (kind == text::FenceTracker::kInside) read_failure(i);
      if (kind != text::FenceTracker::kOutside) continue;
      while (table != document_.tables.cend() && i >= end_of(*table)) ++table;
      const bool in_table = table != document_.tables.cend() && i >= index(table->line);
      read_title(i, in_table);
      if (in_table) continue;
      if (text::is_rule(lines_[i])) continue;
      read_line(i);
      read_failure(i);
    }
    if (claims_not_kept_ > 0) {
      document_.limits.push_back(
          {0, std::to_string(claims_not_kept_) + " claims are more than a document may make"});
    }
    return std::move(document_);
  }

 private:
  // The text up to the first line too many or too long; sets lines_ to its lines.
  std::string_view take_what_may_be(std::string_view text) {
    lines_ = text::split_lines(text, kMaxDocumentLines);
    const auto long_line = std::find_if(lines_.begin(), lines_.end(), [](std::string_view line) {
      return line.size() > text::kMaxTextLine;
    });
    lines_.erase(long_line, lines_.end());
    const size_t read = lines_.empty() ? 0
                                       : static_cast<size_t>(lines_.back().data() - text.data()) +
                                             lines_.back().size();
    const size_t next = text.find('\n', read);
    const bool is_all = lines_.empty() ? text::without_mark(text).empty()
                                       : next == text.npos || next + 1 == text.size();
    if (is_all) return text;
    document_.limits.push_back({static_cast<int64_t>(lines_.size()) + 1,
                                "a document has at most " + std::to_string(kMaxDocumentLines) +
                                    " lines of 1 MiB; from this one on nothing is read"});
    return text.substr(0, read);
  }

  static size_t index(int64_t line) { return static_cast<size_t>(line - 1); }

  // One past the table's last line, at least its header and rule.
  static size_t end_of(const Table& table) {
    return std::max(index(table.line) + 2,
                    table.rows.empty() ? size_t{0} : index(table.rows.back().line) + 1);
  }

  void read_tables() {
    bool named = false;
    for (const Table& table : document_.tables) {
      const std::string first = to_lower(plain(table.columns[0]));
      if (first == "prompt" && !named) {
        named = true;
        read_prompt_names(table);
      }
      if (first == "metric" && table.columns.size() == 2 &&
          to_lower(plain(table.columns[1])) == "value") {
        for (const TableRow& row : table.rows) add_count(plain(row.cell(0)), plain(row.cell(1)));
      }
    }
  }

  void read_prompt_names(const Table& table) {
    std::set<std::string> seen;
    for (const TableRow& row : table.rows) {
      const std::string name = plain(row.cell(0));
      if (name.empty() || name == "-" || to_lower(name) == "tbd") continue;
      if (seen.insert(name).second) document_.prompt_names.push_back(name);
    }
  }

  void read_json(size_t i) {
    const std::string_view line = trim(lines_[i]);
    if (line.starts_with('{') && line.ends_with('}')) {
      document_.json_lines.push_back({static_cast<int64_t>(i) + 1, std::string(line)});
    }
  }

  void read_title(size_t i, bool in_table) {
    if (titled_ || text::is_rule(lines_[i])) return;
    titled_ = true;
    if (in_table) return;
    document_.title = plain_line(lines_[i]);
    document_.experiment = find_experiment(document_.title);
  }

  void read_line(size_t i) {
    const std::string line = plain_line(lines_[i]);
    if (const auto heading = text::heading(lines_, i)) {
      if (read_heading(i, *heading)) return;
    }
    // "Verdict: FAIL + ROOT_CAUSE: X" states two things.
    std::string_view rest = line;
    while (!rest.empty()) {
      const auto pair = key_value(rest);
      size_t end = rest.find(" + ");
      while (end != std::string_view::npos && !states_claim(rest.substr(end + 3))) {
        end = rest.find(" + ", end + 3);
      }
      if (pair) read_pair(i, {pair->key, trim(value_until(rest, *pair, end))});
      if (end == std::string_view::npos) break;
      rest.remove_prefix(end + 3);
    }
  }

  static std::string_view value_until(std::string_view rest, const KeyValue& pair, size_t end) {
    if (end == std::string_view::npos || pair.value.empty()) return pair.value;
    const size_t start = static_cast<size_t>(pair.value.data() - rest.data());
    return start < end ? rest.substr(start, end - start) : std::string_view();
  }

  static bool states_claim(std::string_view line) {
    const auto pair = key_value(line);
    return pair && !find_keyword(kClaimKeys, pair->key).empty();
  }

  void read_pair(size_t i, const KeyValue& pair) {
    if (document_.date.empty() && is_date_key(pair.key)) document_.date = find_date(pair.value);
    if (document_.commit.empty() && is_commit_key(pair.key)) {
      document_.commit = find_commit(pair.value);
    }
    add_count(pair.key, pair.value);
    add_claim(i, find_keyword(kClaimKeys, pair.key), pair.value);
  }

  // A heading that names what the line below it states; false if it does not.
  bool read_heading(size_t i, std::string_view heading) {
    const std::string_view kind = find_keyword(kClaimKeys, heading);
    const bool names_commit = is_commit_key(heading);
    if (kind.empty() && !names_commit) return false;
    size_t below = i + 1;
    while (below < lines_.size() && (trim(lines_[below]).empty() || text::is_rule(lines_[below]))) {
      ++below;
    }
    if (below == lines_.size() || text::heading(lines_, below)) return true;
    const std::string line = plain_line(lines_[below]);
    const char first = trim(lines_[below])[0];
    if (names_commit && document_.commit.empty()) document_.commit = find_commit(line);
    const bool is_text = first != '|' && first != '`' && first != '~' && !states_claim(line);
    if (is_text) add_claim(below, kind, line);
    return true;
  }

  // A claim of failure that is no verdict; those of tables are their rows'.
  void read_failure(size_t i) {
    // "Verdict: FAIL + ROOT_CAUSE: X" has made two
    const auto last = document_.claims.end() -
                      std::min<std::ptrdiff_t>(kMostClaimsOfLine, std::ssize(document_.claims));
    const bool is_said = std::any_of(last, document_.claims.end(), [i](const DocumentClaim& claim) {
      return index(claim.line) == i && claim.kind == "verdict" && claim.value.starts_with("FAIL");
    });
    if (is_said || !line_claims_failure(lines_[i]) || passes_within_rounding(lines_[i])) return;
    keep_claim(i, "failure", "FAIL", trim(lines_[i]).substr(0, kMaxFailureBytes));
  }

  void add_claim(size_t i, std::string_view kind, std::string_view value) {
    if (kind.empty() || value.empty()) return;
    std::string token = leading_token(value);
    if (token == "TBD") return;
    const bool within = token == "PASS" && passes_within_rounding(value);
    if (within) token = kPassWithinRounding;
    const bool fails = kind == "verdict" && !within && !differs_within_rounding(value) &&
                       claims_failure(kind, value);
    if (fails && !token.starts_with("FAIL")) token = "FAIL";
    keep_claim(i, kind, std::move(token), value);
  }

  void keep_claim(size_t i, std::string_view kind, std::string token, std::string_view value) {
    if (document_.claims.size() == kMaxClaims) {
      ++claims_not_kept_;
      return;
    }
    document_.claims.push_back(
        {static_cast<int64_t>(i) + 1, std::string(kind), std::move(token), std::string(value)});
  }

  void add_count(std::string_view key, std::string_view value) {
    const std::string_view name = find_keyword(kCountKeys, key);
    if (name.empty()) return;
    if (const auto count = leading_count(value)) document_.counts.emplace(name, *count);
  }

  std::vector<std::string_view> lines_;
  Document document_;
  bool titled_ = false;
  int64_t claims_not_kept_ = 0;
};

}  // namespace

Document read_document(std::string_view text) { return DocumentReader(text).read(); }

std::string experiment_of_title(std::string_view head) {
  text::FenceTracker fences;
  head = text::without_mark(head);
  for (std::string_view line; text::take_line(head, line);) {
    const bool outside = fences.next(line) == text::FenceTracker::kOutside;
    if (!outside || trim(line).empty() || text::is_rule(line)) continue;
    return line.find('|') == line.npos ? find_experiment(plain_line(line)) : "";
  }
  return {};
}

}  // namespace greta
