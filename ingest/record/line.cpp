#include "ingest/record/line.h"

#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "common/json_document.h"
#include "ingest/text.h"
#include "kernels/fingerprint/fingerprint.h"

namespace greta::record {
namespace {

namespace od = simdjson::ondemand;

/// Open-addressed table from key text to Key, built once.
class KeyTable {
 public:
  KeyTable() {
    slots_.fill(kNoKey);
    for (size_t i = 0; i < kKeyCount; ++i) {
      size_t at = slot(kKeyNames[i]);
      while (slots_[at] != kNoKey) at = (at + 1) % slots_.size();
      slots_[at] = static_cast<Key>(i);
    }
  }
  Key find(std::string_view key) const {
    if (key.empty()) return kNoKey;
    for (size_t at = slot(key); slots_[at] != kNoKey; at = (at + 1) % slots_.size()) {
      if (kKeyNames[slots_[at]] == key) return slots_[at];
    }
    return kNoKey;
  }

 private:
  static size_t slot(std::string_view key) {
    auto at = [&](size_t i) { return static_cast<unsigned char>(key[i]); };
    return (key.size() * 73 + at(0) * 31 + at(key.size() - 1) * 7 + at(key.size() / 2) * 131) % 512;
  }
  std::array<Key, 512> slots_;
};

/// 1 to 18 digits and nothing else.
std::optional<int64_t> short_unsigned(std::string_view t) {
  if (t.empty() || t.size() > 18) return std::nullopt;
  int64_t value = 0;
  for (char c : t) {
    unsigned digit = static_cast<unsigned char>(c) - unsigned{'0'};
    if (digit > 9) return std::nullopt;
    value = value * 10 + digit;
  }
  return value;
}

/// Up to eight decimal digits at p, all at once: adds them to `mantissa` and returns how many there
/// were. Eight bytes from p must be readable.
int take_eight_digits(const char* p, uint64_t& mantissa) {
  static constexpr uint64_t kPowers[] = {1,       10,        100,        1000,       10'000,
                                         100'000, 1'000'000, 10'000'000, 100'000'000};
  uint64_t chunk;
  std::memcpy(&chunk, p, sizeof chunk);
  chunk ^= 0x3030303030303030u;  // digits become 0..9, the first one in the lowest byte
  uint64_t others = ((chunk + 0x7676767676767676u) | chunk) & 0x8080808080808080u;
  int n = others == 0 ? 8 : std::countr_zero(others) / 8;
  if (n == 0) return 0;
  chunk <<= 8 * (8 - n);  // leading zeros
  chunk = chunk * 10 + (chunk >> 8);
  uint64_t value = ((chunk & 0x000000FF000000FFu) * 0x000F424000000064u +
                    ((chunk >> 16) & 0x000000FF000000FFu) * 0x0000271000000001u) >>
                   32;
  mantissa = mantissa * kPowers[n] + (value & 0xFFFFFFFFu);
  return n;
}

/// Where a value lay: nothing but people reads it, so a line may say it twice.
bool is_address(Key key) {
  const std::string_view name = kKeyNames[key];
  return name.ends_with("ptr") || name.find("offset") != std::string_view::npos;
}

/// True if a line has more words and marks than a line of as many values as a row can have: the
/// parser notes where each of them is.
bool has_too_many_words(std::string_view line) {
  constexpr size_t kMaxWords = 4 * kMaxTokenValues + (size_t{1} << 20);
  size_t words = 0;
  bool in_word = false;
  for (const char c : line) {
    const bool is_mark = c == ',' || c == ':' || c == '[' || c == ']' || c == '{' || c == '}';
    const bool is_part = !is_mark && static_cast<unsigned char>(c) > ' ';
    words += is_mark || (is_part && (!in_word || c == '"'));
    in_word = is_part;
  }
  return words > kMaxWords;
}

/// A key as written between its quotes; start is past the opening one.
std::string_view raw_key(const char* start) {
  const char* end = start;
  while (*end != '"') end += *end == '\\' ? 2 : 1;  // the first pass found the closing quote
  return {start, static_cast<size_t>(end - start)};
}

simdjson::simdjson_result<std::string_view> raw_nested(od::value& value, char opening) {
  if (opening == '[') {
    od::array array;
    if (auto error = value.get_array().get(array)) return error;
    return array.raw_json();
  }
  od::object object;
  if (auto error = value.get_object().get(object)) return error;
  return object.raw_json();
}

/// Reads an array of numbers, with its brackets; returns why it is none.
template <class T>
std::string read_numbers(std::string_view array, std::string_view name, std::vector<T>& out,
                         bool& nonfinite) {
  out.clear();
  const char* p = array.data() + 1;  // past the bracket
  const char* end = array.data() + array.size() - 1;
  auto skip_blanks = [&] {
    while (p < end && static_cast<unsigned char>(*p) <= ' ') ++p;
  };
  skip_blanks();
  while (p < end) {
    if (out.size() == kMaxTokenValues) return "more values than a row can have";
    double value;
    if (const char* after = parse_decimal(p, value); after && after <= end) {
      p = after;
    } else {
      const char* stop = std::find(p, end, ',');
      std::string_view word = trimmed({p, static_cast<size_t>(stop - p)});
      const bool is_null = word == "null";  // as JSON prints NaN
      if (!is_null && !is_nonfinite_literal(word))
        return "a value of " + std::string(name) + " is not a number";
      const bool is_nan =
          is_null || word.ends_with('n') || word.ends_with('N') || word.ends_with(')');
      value = std::copysign(is_nan ? std::nan("") : INFINITY, word.front() == '-' ? -1.0 : 1.0);
      p = stop;
    }
    out.push_back(static_cast<T>(value));
    nonfinite |= !std::isfinite(out.back());
    skip_blanks();
    if (p == end) break;
    if (*p++ != ',') return "a value of " + std::string(name) + " is not a number";
    skip_blanks();
    if (p == end) return "an array that ends with a comma";
  }
  return "";
}

}  // namespace

struct Fields::Parser {
  od::parser simdjson;
};

Fields::Fields() : parser_(std::make_unique<Parser>()) {}
Fields::~Fields() = default;

std::string numbers(std::string_view array, std::string_view name, std::vector<double>& out) {
  bool nonfinite = false;
  if (!array.starts_with('[') || !array.ends_with(']')) return std::string(name) + " is no array";
  return read_numbers(array, name, out, nonfinite);
}

std::optional<int64_t> integer(std::string_view t) {
  if (auto value = short_unsigned(t)) return value;  // nearly all are
  t = unquoted(t);
  if (t.starts_with("0x") || t.starts_with("0X")) {  // pointers of some writers
    uint64_t value = 0;
    auto [end, error] = std::from_chars(t.data() + 2, t.data() + t.size(), value, 16);
    if (error != std::errc() || end != t.data() + t.size()) return std::nullopt;
    return static_cast<int64_t>(value);
  }
  return text::number<int64_t>(t);
}

std::optional<int64_t> count(std::string_view t) {
  std::optional<int64_t> value = integer(t);
  if (const auto written = value ? std::nullopt : text::number<double>(unquoted(t));
      written && *written >= 0 && *written < 0x1p63 && *written == std::floor(*written)) {
    value = static_cast<int64_t>(*written);
  }
  return value && *value >= 0 ? value : std::nullopt;
}

std::optional<double> real(std::string_view t) {
  double value;
  if (!t.empty() && parse_decimal(t.data(), value) == t.data() + t.size()) return value;
  return text::number<double>(t);
}

// Samples are millions of short decimals: a mantissa below 2^53 and a power
// of ten up to 22 are exact doubles, so one multiplication or division rounds correctly (Clinger
// 1990); from_chars takes the rest.
const char* parse_decimal(const char* p, double& value) {
  static constexpr double kPowers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                       1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                       1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  const char* start = p;
  bool negative = *p == '-';
  p += negative;
  uint64_t mantissa = 0;
  auto take_digits = [&p, &mantissa] {
    const char* first = p;
    int n;
    do {
      p += n = take_eight_digits(p, mantissa);
    } while (n == 8);
    return static_cast<int>(p - first);
  };
  int digits = 1, exponent = 0;
  if (*p == '0' && p[1] == '.') {  // most of them
    ++p;
  } else {
    digits = take_digits();
  }
  if (digits == 0) return nullptr;
  if (*p == '.') {
    ++p;
    exponent = -take_digits();
    if (exponent == 0) return nullptr;
    digits -= exponent;
  }
  if (*p == 'e' || *p == 'E') {
    int sign = 1, written = 0;
    if (*++p == '-' || *p == '+') sign = *p++ == '-' ? -1 : 1;
    const char* first = p;
    for (; *p >= '0' && *p <= '9'; ++p) written = std::min(written * 10 + (*p - '0'), 99'999);
    if (p == first) return nullptr;
    exponent += sign * written;
  }
  if (digits <= 15 && exponent >= -22 && exponent <= 22) {
    value = static_cast<double>(mantissa);
    value = exponent < 0 ? value / kPowers[-exponent] : value * kPowers[exponent];
    if (negative) value = -value;
    return p;
  }
  auto [stop, error] = std::from_chars(start, p, value);
  if (stop != p) return nullptr;
  if (error == std::errc::result_out_of_range) {  // as strtod has it
    value = exponent + digits > 0 ? HUGE_VAL : 0.0;
    if (negative) value = -value;
  }
  return p;
}

// nlohmann-json takes a NUL for the end of the text, and a byte order mark for nothing.
bool is_json(std::string_view t) {
  return t.find('\0') == std::string_view::npos && !t.starts_with("\xEF\xBB\xBF") &&
         nlohmann::json::accept(t);
}

bool is_valid_scalar(std::string_view t) {
  if (is_quoted(t) && t.find_first_of("\\\"", 1) == t.size() - 1) return true;
  bool is_plain_integer = t.size() < 20 && t.front() >= '1' && t.front() <= '9' &&
                          t.find_first_not_of("0123456789") == std::string_view::npos;
  return is_plain_integer || is_json(t);
}

std::string unescaped(std::string_view t) {
  const nlohmann::json text = nlohmann::json::parse(t, nullptr, false);
  return text.is_string() ? text.get<std::string>() : std::string(unquoted(t));
}

void Fields::clear() {
  for (Key key : order) {  // all that the line before had
    if (key != kNoKey) token[key] = {};
  }
  present.reset();
  taken.reset();
  extra.clear();
  values.clear();
  values_key = kNoKey;
  values_nonfinite = false;
  sketch.clear();
  contradicted.clear();
  seen_.reset();
}

void Fields::move_rest_to_extra() {
  if ((present & ~taken).none()) return;
  for (size_t k = 0; k < kKeyCount; ++k) {
    if (!present[k] || taken[k] || is_absent(token[k])) continue;
    extra.push_back({kKeyNames[k], token[k], token[k].front() == '{' || token[k].front() == '['});
  }
  taken = present;
}

std::string Fields::take_apart(std::string_view line, size_t readable_bytes) {
  static const KeyTable table;
  clear();
  od::document doc;
  od::object object;
  if (line.size() > kMaxPlainLineBytes && has_too_many_words(line))
    return "more values than a row can have";
  size_t values_bytes = 0;
  auto error = parser_->simdjson.iterate(line.data(), line.size(), readable_bytes).get(doc);
  if (!error) error = doc.get_object().get(object);
  if (error) return simdjson::error_message(error);
  size_t at = 0;
  for (auto item : object) {
    if ((error = item.error())) return simdjson::error_message(error);
    // References: a copy is read back before its halves have left the store buffer, and stalls.
    od::field&& field = std::move(item).value_unsafe();
    const char* written = field.first.raw();
    Key expected = at < order.size() ? order[at] : kNoKey;
    std::string_view text = expected == kNoKey ? std::string_view() : kKeyNames[expected];
    Key key = expected;
    if (expected == kNoKey || std::memcmp(written, text.data(), text.size()) != 0 ||
        written[text.size()] != '"') {
      text = raw_key(written);
      key = table.find(text.find('\\') == text.npos ? text
                                                    : unescaped('"' + std::string(text) + '"'));
    }
    if (at == order.size()) order.push_back(key);
    order[at++] = key;
    if (key != kNoKey && seen_[key] && !is_address(key))
      return std::string(kKeyNames[key]) + " is written twice";
    if (key != kNoKey) seen_[key] = true;
    od::value& value = field.second;
    std::string_view word = value.raw_json_token();
    bool is_nested = !word.empty() && (word.front() == '[' || word.front() == '{');
    if (word.starts_with('[') && (key == kSample || key == kData || key == kLogits)) {
      if (values_key != kNoKey) return "two arrays of values";
      std::string_view raw;
      if ((error = raw_nested(value, '[').get(raw))) return simdjson::error_message(error);
      values.reserve(expected_values);
      values_bytes = raw.size();
      std::string why = read_numbers(trimmed(raw), text, values, values_nonfinite);
      if (!why.empty()) return why;
      values_key = key;
      expected_values = values.size();
      continue;
    }
    if (word.starts_with('[') && key == kSketch) {
      std::string_view raw;
      bool nonfinite = false;
      if ((error = raw_nested(value, '[').get(raw))) return simdjson::error_message(error);
      if (std::string why = read_numbers(trimmed(raw), text, sketch, nonfinite); !why.empty())
        return why;
      extra.push_back({text, trimmed(raw), true});
      continue;
    }
    if (is_nested) {
      std::string_view raw;
      error = raw_nested(value, word.front()).get(raw);
      if (error) return simdjson::error_message(error);
      word = trimmed(raw);
    } else if (!word.empty() && static_cast<unsigned char>(word.back()) <= ' ') {
      word = trimmed(word);
    }
    if (key == kNoKey) {
      if (word.starts_with('[') && !values_name.empty() && text == values_name) {
        values_bytes += word.size();
      }
      extra.push_back({text, word, is_nested});
    } else if (token[key].empty()) {
      token[key] = word;
      present[key] = true;
    } else if (token[key] != word) {
      contradicted.push_back(key);
      extra.push_back({text, word, is_nested});
    }
  }
  const char* rest;
  if (!doc.current_location().get(rest)) return "text after the JSON object";
  if (line.size() - values_bytes > kMaxPlainLineBytes) {
    return "more than " + std::to_string(kMaxPlainLineBytes >> 20) + " MiB beside its values";
  }
  return "";
}

namespace {

using Json = nlohmann::json;

constexpr int kMaxHintDepth = 8;

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }
bool is_upper(char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; }

bool is_hint(std::string_view word) {
  for (const std::string_view hint :
       {"nan", "nans", "inf", "infs", "infinite", "nonfinite", "notfinite", "isnan", "hasnan",
        "isinf", "hasinf", "nnan", "ninf", "numnan", "numinf", "nancount", "infcount"}) {
    if (word == hint) return true;
  }
  return false;
}

/// Words of "nan_count", "hasNan" and "non-finite", also two of them joined.
bool is_hinting_name(std::string_view name) {
  std::string word, before;
  const auto ends = [&] {
    const bool hints = is_hint(word) || is_hint(before + word);
    before = std::exchange(word, "");
    return hints;
  };
  for (size_t i = 0; i < name.size(); ++i) {
    const bool is_letter = std::isalpha(static_cast<unsigned char>(name[i])) != 0;
    const bool begins_word = is_upper(name[i]) && i > 0 && !is_upper(name[i - 1]);
    if ((!is_letter || begins_word) && !word.empty() && ends()) return true;
    if (is_letter) word += lower(name[i]);
  }
  // NaN: its capitals begin no words
  std::string whole(name);
  std::transform(whole.begin(), whole.end(), whole.begin(), lower);
  return ends() || is_hint(whole);
}

bool says_none(std::string_view raw) {
  raw = unquoted(raw);
  if (raw == "false" || raw == "none" || raw == "no" || raw == "[]" || raw == "{}") return true;
  return count(raw) == 0;
}

bool hints(const Json& value, int depth) {
  if (!value.is_structured() || depth == 0) return false;
  for (const auto& [name, member] : value.items()) {
    const bool is_named = value.is_object() && is_hinting_name(name);
    if (is_named && !says_none(json_text(member))) {
      return true;
    }
    if (hints(member, depth - 1)) return true;
  }
  return false;
}

/// True if it is worth a closer look: hardly any object is.
bool mentions(std::string_view raw) {
  for (size_t i = 0; i + 3 <= raw.size(); ++i) {
    const char a = lower(raw[i]), b = lower(raw[i + 1]), c = lower(raw[i + 2]);
    if ((a == 'n' && b == 'a' && c == 'n') || (a == 'i' && b == 'n' && c == 'f')) return true;
    if (a == 'f' && b == 'i' && c == 'n') return true;
  }
  return false;
}

bool object_hints(std::string_view raw) {
  return mentions(raw) && hints(Json::parse(raw, nullptr, false), kMaxHintDepth);
}

}  // namespace

bool hints_at_nonfinite(const Fields& fields) {
  for (const ExtraField& field : fields.extra) {
    if (mentions(field.key) && is_hinting_name(field.key) && !says_none(field.raw)) return true;
    if (field.is_nested && object_hints(field.raw)) return true;
  }
  return fields.states(kExtra) && object_hints(fields.token[kExtra]);
}

}  // namespace greta::record
