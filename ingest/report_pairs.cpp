#include "ingest/report_pairs.h"

#include <algorithm>
#include <charconv>

#include "ingest/known_claim.h"
#include "ingest/text.h"

namespace greta {
namespace {

/// No hash has more digits; longer cells are compared as text.
constexpr size_t kMaxPrinted = 256;

enum class Base { kDecimal, kHex, kEither };

/// A hash as printed. Of a cut one the digits before and behind the gap are known.
struct PrintedHash {
  std::string head, tail;
  Base base = Base::kEither;
  bool is_cut = false;
  bool is_number = false;  // else head is the text
};

bool is_hex_digit(char c) { return text::is_digit(c) || (c >= 'a' && c <= 'f'); }

void erase_all(std::string& s, std::string_view part) {
  for (size_t at = s.find(part); at != s.npos; at = s.find(part, at)) s.erase(at, part.size());
}

/// Blanks, quotes and separators of thousands go; a point is one only between groups of three.
std::string without_separators(std::string s) {
  for (const char* blank : {"\xc2\xa0", "\xe2\x80\xaf", "\xe2\x80\x89"}) erase_all(s, blank);
  std::erase_if(
      s, [](char c) { return std::string_view(" \t,_'\"").find(c) != std::string_view::npos; });
  for (size_t at = s.find('.'); at != s.npos; at = s.find('.', at + 1)) {
    const size_t end = std::min(s.find('.', at + 1), s.size());
    if (at == 0 || end - at != 4) return s;
  }
  erase_all(s, ".");
  return s;
}

/// Base and digits of one part of a hash; false when it is no number.
bool read_part(std::string& part, Base& base) {
  const bool is_marked = part.starts_with("0x");
  if (is_marked) part.erase(0, 2);
  if (!std::all_of(part.begin(), part.end(), is_hex_digit)) return false;
  if (is_marked || !std::all_of(part.begin(), part.end(), text::is_digit)) base = Base::kHex;
  return true;
}

/// The 64 bits of a negative decimal number, as the unsigned one that they are too.
std::string unsigned_text(const std::string& number) {
  const auto value = text::number<int64_t>(number);
  return value ? std::to_string(static_cast<uint64_t>(*value)) : number;
}

PrintedHash read(std::string_view cell) {
  PrintedHash hash;
  std::string whole = text::to_lower(text::plain(cell));
  for (const std::string_view gap : {"...", "\xe2\x80\xa6"}) {
    const size_t at = whole.find(gap);
    if (at == whole.npos || hash.is_cut) continue;
    hash.is_cut = true;
    hash.tail = without_separators(whole.substr(at + gap.size()));
    whole.resize(at);
  }
  hash.head = without_separators(std::move(whole));
  if (hash.head.starts_with('-') && !hash.is_cut) {
    hash.head = unsigned_text(hash.head);
    hash.base = Base::kDecimal;
  }
  hash.is_number = (hash.is_cut || !hash.head.empty()) && read_part(hash.head, hash.base) &&
                   read_part(hash.tail, hash.base);
  return hash;
}

std::string_view without_zeros(std::string_view digits) {
  return digits.substr(std::min(digits.find_first_not_of('0'), digits.size()));
}

/// Digits of a decimal number in hexadecimal; "?" beyond 64 bits.
std::string in_hex(std::string_view decimal) {
  const auto value = text::number<uint64_t>(decimal);
  if (!value) return "?";
  char digits[16];
  const auto end = std::to_chars(digits, digits + sizeof digits, *value, 16).ptr;
  return {digits, end};
}

/// Digits without a mark are hexadecimal beside a hexadecimal hash only when they are as many as
/// those of a word are.
bool equals_hex(const PrintedHash& hex, const PrintedHash& other) {
  if (other.base == Base::kHex) return without_zeros(hex.head) == without_zeros(other.head);
  if (other.base == Base::kEither && other.head.size() % 8 == 0 &&
      without_zeros(hex.head) == without_zeros(other.head)) {
    return true;
  }
  return without_zeros(in_hex(other.head)) == without_zeros(hex.head);
}

bool equal_wholes(const PrintedHash& a, const PrintedHash& b) {
  if (a.base == Base::kHex) return equals_hex(a, b);
  if (b.base == Base::kHex) return equals_hex(b, a);
  return without_zeros(a.head) == without_zeros(b.head);
}

/// True if a digit that both show differs, or one shows more than the other has.
bool cut_ones_differ(const PrintedHash& a, const PrintedHash& b) {
  if (a.base != b.base) return false;  // digits of two bases tell nothing
  const std::string_view a_head = without_zeros(a.head), b_head = without_zeros(b.head);
  const size_t shown = std::min(a_head.size(), b_head.size());
  if (a_head.substr(0, shown) != b_head.substr(0, shown)) return true;
  if ((!a.is_cut && b_head.size() > shown) || (!b.is_cut && a_head.size() > shown)) return true;
  const std::string_view a_end = a.is_cut ? a.tail : a.head, b_end = b.is_cut ? b.tail : b.head;
  const size_t end = std::min(a_end.size(), b_end.size());
  return a_end.substr(a_end.size() - end) != b_end.substr(b_end.size() - end);
}

}  // namespace

bool is_absent_cell(std::string_view cell) {
  const std::string lower = text::to_lower(text::plain(cell));
  for (const std::string_view absent : {"", "-", "none", "null", "n/a", "tbd"}) {
    if (lower == absent) return true;
  }
  return false;
}

std::optional<bool> same_printed_hash(std::string_view a, std::string_view b) {
  if (is_absent_cell(a) || is_absent_cell(b)) return std::nullopt;
  const auto same_text = [&] {
    return text::to_lower(text::plain(a)) == text::to_lower(text::plain(b));
  };
  if (std::max(a.size(), b.size()) > kMaxPrinted) return same_text();
  const PrintedHash x = read(a), y = read(b);
  if (!x.is_number || !y.is_number) return same_text();
  if (!x.is_cut && !y.is_cut) return equal_wholes(x, y);
  return cut_ones_differ(x, y) ? std::optional(false) : std::nullopt;
}

namespace {

using Words = std::vector<std::string>;

/// Words of a column's name or of a short cell, in lower case: "Hash (prefillLast)" is hash,
/// prefill, last.
Words words_of(std::string_view text) {
  constexpr size_t kMaxNamed = 256;
  Words words;
  bool open = false, was_lower = false;
  for (const char c : text.substr(0, kMaxNamed)) {
    if (!text::is_letter(c) && !text::is_digit(c)) {
      open = was_lower = false;
      continue;
    }
    if (!open || (was_lower && text::is_upper(c))) words.emplace_back();
    words.back() += text::is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
    open = true;
    was_lower = text::is_lower(c);
  }
  return words;
}

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> all) {
  return std::find(all.begin(), all.end(), word) != all.end();
}

/// Which hash a column holds: of prefill, of decode, and of what ("hidden").
struct HashColumn {
  size_t column = 0;
  bool is_decode = false;
  Words of_what;
};

std::optional<HashColumn> hash_column(size_t column, const Words& words) {
  HashColumn found{column, false, {}};
  bool is_hash = false, is_prefill = false;
  for (const std::string& word : words) {
    if (is_one_of(word, {"hash", "fingerprint", "checksum", "digest", "crc32", "md5", "sha256"})) {
      is_hash = true;
    } else if (word.starts_with("prefill")) {
      is_prefill = true;
    } else if (word.starts_with("decode")) {
      found.is_decode = true;
    } else if (is_one_of(word, {"match", "mismatch", "equal", "matches"})) {
      return std::nullopt;
    } else if (word != "last") {
      found.of_what.push_back(word);
    }
  }
  if (!is_hash || is_prefill == found.is_decode) return std::nullopt;
  return found;
}

/// Columns of the two sides of one thing; what is left of each side when it is one column.
std::vector<std::pair<size_t, size_t>> hash_pairs(std::vector<HashColumn> columns) {
  std::vector<std::pair<size_t, size_t>> pairs;
  std::vector<HashColumn> prefills, decodes;
  for (HashColumn& column : columns) {
    (column.is_decode ? decodes : prefills).push_back(std::move(column));
  }
  std::erase_if(prefills, [&](const HashColumn& prefill) {
    const auto decode = std::find_if(decodes.begin(), decodes.end(), [&](const HashColumn& other) {
      return other.of_what == prefill.of_what;
    });
    if (decode == decodes.end()) return false;
    pairs.emplace_back(prefill.column, decode->column);
    decodes.erase(decode);
    return true;
  });
  if (prefills.size() == 1 && decodes.size() == 1) {
    pairs.emplace_back(prefills[0].column, decodes[0].column);
  }
  return pairs;
}

ReportColumns find_report_columns(const Table& table) {
  ReportColumns found;
  const std::pair<std::string_view, size_t*> known[] = {{"prompt", &found.prompt},
                                                        {"prompt_id", &found.prompt},
                                                        {"token_id", &found.token_id},
                                                        {"pos_id", &found.pos_id},
                                                        {"pos", &found.pos_id},
                                                        {"layer", &found.layer},
                                                        {"tensor", &found.tensor},
                                                        {"tensor_name", &found.tensor},
                                                        {"point", &found.tensor},
                                                        {"first_fail", &found.first_fail},
                                                        {"root_cause", &found.root_cause},
                                                        {"details", &found.details}};
  std::vector<HashColumn> hashes;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const Words words = words_of(text::plain(table.columns[i]));
    std::string name;
    for (const std::string& word : words) name += (name.empty() ? "" : "_") + word;
    for (const auto& [known_name, column] : known) {
      if (name == known_name && *column == ReportColumns::kNone) *column = i;
    }
    if (is_one_of(name, {"status", "result", "verdict", "match", "hash_match"})) {
      found.statuses.push_back(i);
    }
    if (is_one_of(name, {"mismatch", "hash_mismatch"})) found.mismatches.push_back(i);
    if (auto hash = hash_column(i, words)) hashes.push_back(*std::move(hash));
  }
  found.hashes = hash_pairs(std::move(hashes));
  return found;
}

bool has(size_t column) { return column != ReportColumns::kNone; }

bool is_placeholder(std::string_view cell) { return text::to_lower(cell) == "tbd"; }

// The cell's value, "" when absent.
std::string value_at(const TableRow& row, size_t column) {
  return is_absent_cell(row.cell(column)) ? std::string() : text::plain(row.cell(column));
}

// Details are the last column: a pipe that the writer did not escape belongs to them.
std::string details_at(const Table& table, const TableRow& row, size_t column) {
  if (column == ReportColumns::kNone) return {};
  std::string details(row.cell(column));
  if (column + 1 == table.columns.size()) {
    for (size_t i = column + 1; i < row.cells.size(); ++i) details += " | " + row.cells[i];
  }
  const std::string lower = text::to_lower(details);
  return lower == "none" || details == "-" || is_placeholder(details) ? std::string() : details;
}

// The text right of `'key':` in a printed dictionary, blanks skipped; "" without such a key.
std::string_view dictionary_value(std::string_view details, std::string_view key) {
  const size_t at = details.find(key);
  if (at == std::string_view::npos) return {};
  details.remove_prefix(at + key.size());
  const size_t start = details.find_first_not_of("'\" :=");
  return start == std::string_view::npos ? std::string_view() : details.substr(start);
}

/// What a cell that judges says, the worst last.
enum class Says { kNothing, kMatch, kDoubt, kFail, kMissing };

constexpr std::string_view kTick = "\u2705", kCheck = "\u2713";

bool is_match_word(std::string_view word) {
  return is_one_of(
      word, {"ok", "pass", "passed", "match", "matched", "matches", "matching", "equal", "equals",
             "same", "identical", "close", "true", "yes", "y", "1"});
}

/// A status: "FAIL", "EXPECTED_DRIFT", "no match", "false" fail; "OK", "no drift", "none" and
/// "true" match; any other words, or a question, say that nobody knows.
Says status_of(std::string_view cell) {
  const std::string plain = text::plain(cell);
  if (plain.empty() || is_placeholder(plain)) return Says::kNothing;
  if (is_absent_cell(cell)) return Says::kMatch;
  for (const std::string_view sign : {"\u2260", "!=", "\u274c", "\u2717", "\u2718"}) {
    if (cell.find(sign) != cell.npos) return Says::kFail;
  }
  const Words words = words_of(cell);
  if (is_failure_word(text::to_lower(plain))) return Says::kFail;
  if (words.size() == 1 && is_one_of(words[0], {"no", "false", "f", "n", "0"})) return Says::kFail;
  bool negated = false, fails = false;
  bool matches = plain == kTick || plain == kCheck;
  for (const std::string& word : words) {
    if (word.starts_with("missing") && !negated) return Says::kMissing;
    fails |= negated ? is_match_word(word) : is_failure_word(word);
    matches |= negated ? is_failure_word(word) : is_match_word(word);
    negated = is_one_of(word, {"no", "not", "non", "mis", "un", "0", "without"});
  }
  if (fails) return Says::kFail;
  return matches && cell.find('?') == cell.npos ? Says::kMatch : Says::kDoubt;
}

/// The cause that a FIRST_FAIL or ROOT_CAUSE cell names; "" also for "OK".
std::string cause_at(const TableRow& row, size_t column) {
  std::string cause = value_at(row, column);
  return is_one_of(text::to_lower(cause), {"ok", "pass", "passed", "match", kTick, kCheck})
             ? std::string()
             : cause;
}

/// A printed hash ends where the dictionary around it goes on.
std::string_view hash_in(std::string_view details, std::string_view key) {
  const std::string_view value = dictionary_value(details, key);
  return value.substr(0, value.find_first_of(",;}|)'\" \t"));
}

/// The first two hashes of the row that differ; "" when none do. `equal`: some are equal.
std::string differing_hashes(const TableRow& row, const ReportColumns& columns,
                             std::string_view details, bool& equal) {
  std::string differing;
  const auto compare = [&](std::string_view prefill, std::string_view decode) {
    const std::optional<bool> same = same_printed_hash(prefill, decode);
    equal |= same == true;
    if (same == false && differing.empty()) {
      differing = "prefill " + text::plain(prefill) + ", decode " + text::plain(decode);
    }
  };
  for (const auto& [prefill, decode] : columns.hashes) compare(row.cell(prefill), row.cell(decode));
  compare(hash_in(details, "prefill_hash"), hash_in(details, "decode_hash"));
  return differing;
}

bool details_say_mismatch(const std::string& details) {
  const std::string lower = text::to_lower(details);
  return dictionary_value(lower, "hash_mismatch").starts_with("true") ||
         dictionary_value(lower, "hash_match").starts_with("false");
}

/// A cell of a column that says whether something differs.
Says mismatch_of(std::string_view cell) {
  if (is_absent_cell(cell)) return Says::kNothing;
  const Words words = words_of(cell);
  return words.size() == 1 && is_one_of(words[0], {"no", "false", "0"}) ? Says::kMatch
                                                                        : Says::kFail;
}

/// What the row says in words: of several that judge the worst, and nothing where one is open.
Says said_by(const TableRow& row, const ReportColumns& columns, const ReportPair& pair) {
  if (pair.cause.find("TRACE_OFFSET") != pair.cause.npos ||
      pair.root_cause.find("TRACE_OFFSET") != pair.root_cause.npos) {
    return Says::kMissing;
  }
  Says worst = Says::kNothing;
  bool is_open = false;
  const auto take = [&](Says said) {
    worst = std::max(worst, said);
    is_open |= said == Says::kNothing;
  };
  if (!pair.cause.empty() || !pair.root_cause.empty() || details_say_mismatch(pair.details)) {
    take(Says::kFail);
  } else if (has(columns.first_fail)) {
    const bool is_pending = columns.first_fail >= row.cells.size() ||
                            is_placeholder(text::plain(row.cell(columns.first_fail)));
    take(is_pending ? Says::kNothing : Says::kMatch);
  }
  for (const size_t column : columns.statuses) {
    if (column < row.cells.size() && !row.cells[column].empty()) take(status_of(row.cells[column]));
  }
  for (const size_t column : columns.mismatches) {
    if (!is_absent_cell(row.cell(column))) take(mismatch_of(row.cell(column)));
  }
  return worst == Says::kMatch && is_open ? Says::kNothing : worst;
}

/// The columns that judge, each once.
std::optional<ReportColumns> judging_columns(const Table& table, bool failures_only) {
  ReportColumns columns = find_report_columns(table);
  const bool judges = has(columns.prompt) && has(columns.first_fail);
  if (!judges && columns.hashes.empty()) {
    if (!has(columns.tensor) || columns.statuses.empty()) return std::nullopt;
    columns.failures_only = true;
  }
  if (columns.failures_only != failures_only || !table.repeated_columns().empty())
    return std::nullopt;
  return columns;
}

}  // namespace

std::optional<ReportPair> report_pair(const Table& table, const TableRow& row,
                                      const ReportColumns& columns) {
  ReportPair pair;
  pair.line = row.line;
  pair.prompt = value_at(row, columns.prompt);
  pair.tensor = value_at(row, columns.tensor);
  pair.cause = cause_at(row, columns.first_fail);
  pair.root_cause = cause_at(row, columns.root_cause);
  pair.token_id = text::parse_int(value_at(row, columns.token_id));
  pair.pos_id = text::parse_int(value_at(row, columns.pos_id));
  pair.layer = text::parse_int(value_at(row, columns.layer));
  pair.details = details_at(table, row, columns.details);

  const Says said = said_by(row, columns, pair);
  bool equal_hashes = false;
  const std::string differing = differing_hashes(row, columns, pair.details, equal_hashes);
  if (said == Says::kMissing || (said == Says::kDoubt && differing.empty())) {
    pair.status = ReportPair::kMissing;
  } else if (said == Says::kFail || !differing.empty()) {
    pair.status = ReportPair::kDrift;
    pair.only_hashes_differ = said != Says::kFail;
    if (pair.details.empty()) pair.details = differing;
  } else if (!columns.failures_only && !pair.tensor.empty() &&
             (!pair.prompt.empty() || !has(columns.prompt)) &&
             (said == Says::kMatch || (equal_hashes && !has(columns.first_fail)))) {
    pair.status = ReportPair::kMatch;
  } else {
    return std::nullopt;
  }
  return pair;
}

std::optional<ReportColumns> report_columns(const Table& table) {
  return judging_columns(table, false);
}

std::optional<ReportColumns> status_columns(const Table& table) {
  return judging_columns(table, true);
}

std::optional<std::vector<ReportPair>> report_pairs(const Table& table) {
  const auto columns = report_columns(table);
  if (!columns) return std::nullopt;
  std::vector<ReportPair> pairs;
  for (const TableRow& row : table.rows) {
    if (auto pair = report_pair(table, row, *columns)) pairs.push_back(std::move(*pair));
  }
  return pairs;
}

}  // namespace greta
