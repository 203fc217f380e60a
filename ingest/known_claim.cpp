#include "ingest/known_claim.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/json_document.h"
#include "ingest/text.h"

namespace greta {
namespace {

constexpr size_t kMaxKeyBytes = 64, kMaxShown = 256;

enum class Key { kNone, kVerdict, kExitCode, kPassed, kFailed };

struct KnownKey {
  std::string_view name;
  Key key;
};
constexpr KnownKey kKeys[] = {{"verdict", Key::kVerdict},
                              {"result", Key::kVerdict},
                              {"veredicto", Key::kVerdict},
                              {"resultado", Key::kVerdict},
                              {"status", Key::kVerdict},
                              {"estado", Key::kVerdict},
                              {"global_verdict", Key::kVerdict},
                              {"final_verdict", Key::kVerdict},
                              {"veredicto_global", Key::kVerdict},
                              {"veredicto_final", Key::kVerdict},
                              {"exit_code", Key::kExitCode},
                              {"ok", Key::kPassed},
                              {"pass", Key::kPassed},
                              {"passed", Key::kPassed},
                              {"fail", Key::kFailed},
                              {"failed", Key::kFailed}};

/// "**Exit code**" as exit_code, without an allocation: every field of a log is asked for. Of
/// "Status / Estado" each part is a key by itself.
Key known_key(std::string_view written) {
  if (written.size() > kMaxKeyBytes) return Key::kNone;
  if (const size_t slash = written.rfind('/'); slash != written.npos) {
    const Key last = known_key(written.substr(slash + 1));
    return last == Key::kNone ? known_key(written.substr(0, slash)) : last;
  }
  char name[kMaxKeyBytes];
  size_t size = 0;
  for (const char c : text::trim(written)) {
    if (c == '*' || c == '`' || c == '"' || c == '{') continue;
    name[size++] = c == ' ' || c == '-' ? '_' : text::is_upper(c) ? static_cast<char>(c | 0x20) : c;
  }
  const auto known = std::find_if(std::begin(kKeys), std::end(kKeys), [&](const KnownKey& one) {
    return one.name == std::string_view(name, size);
  });
  return known == std::end(kKeys) ? Key::kNone : known->key;
}

/// A word of a verdict and what stands behind it. Marks in front are no part of it.
struct LeadingWord {
  std::string word;  ///< lower case
  bool is_upper = false, is_alone = false;
};

LeadingWord leading_word(std::string_view value) {
  const auto is_part = [](char c) {
    return text::is_word(c) || static_cast<unsigned char>(c) >= 0x80;
  };
  const auto is_mark = [](char c) { return !text::is_word(c); };
  const auto begin = std::find_if_not(value.begin(), value.end(), is_mark);
  const auto end = std::find_if_not(begin, value.end(), is_part);
  const std::string_view word(begin, end);
  return {text::to_lower(word), std::none_of(word.begin(), word.end(), text::is_lower),
          std::none_of(end, value.end(), text::is_word)};
}

bool is_false(std::string_view word) { return word == "false" || word == "no"; }

/// "47/48" and "47 of 48".
bool is_part_of_all(std::string_view value) {
  const size_t digits = value.find_first_not_of("0123456789");
  if (digits == 0 || digits == value.npos) return false;
  std::string_view rest = text::trim(value.substr(digits));
  for (const std::string_view between : {"/", "of "}) {
    if (!rest.starts_with(between)) continue;
    rest = text::trim(rest.substr(between.size()));
    const auto all = text::parse_int(rest.substr(0, rest.find_first_not_of("0123456789")));
    const auto part = text::parse_int(value.substr(0, digits));
    return all && part && *part < *all;
  }
  return false;
}

/// The whole number that a value begins with: 3 of "3 (6 %)".
std::optional<int64_t> leading_number(std::string_view value) {
  const size_t end = std::min(value.find_first_not_of("-0123456789"), value.size());
  if (end < value.size() && std::string_view(" ,;(").find(value[end]) == std::string_view::npos)
    return std::nullopt;
  return text::parse_int(value.substr(0, end));
}

bool fails(Key key, std::string_view value) {
  const LeadingWord first = leading_word(value);
  switch (key) {
    case Key::kNone:
      return false;
    case Key::kVerdict:
      return (is_failure_word(first.word) && (first.is_upper || first.is_alone)) ||
             (first.word == "false" && first.is_alone);
    case Key::kExitCode:
      return leading_number(value).value_or(0) != 0;
    case Key::kPassed:
      return (is_false(first.word) && first.is_alone) || is_part_of_all(value);
    case Key::kFailed:
      return (first.word == "true" && first.is_alone) || leading_number(value).value_or(0) > 0;
  }
  return false;
}

std::string shown(std::string_view key, std::string_view value) {
  return std::string(key.substr(0, kMaxShown)) + ": " + std::string(value.substr(0, kMaxShown));
}

/// Behind "- ", "3. ", "> ", "## " and one "[TAG]".
std::string_view without_marks(std::string_view line) {
  line = text::trim(line);
  const size_t marks = line.find_first_not_of("#>-*+ \t");
  line.remove_prefix(std::min(marks, line.size()));
  const size_t digits = line.find_first_not_of("0123456789");
  if (digits > 0 && digits != line.npos && line.substr(digits).starts_with(". "))
    line.remove_prefix(digits + 2);
  if (line.starts_with('[')) {
    const size_t end = line.substr(0, kMaxKeyBytes).find(']');
    if (end != line.npos) line = text::trim(line.substr(end + 1));
  }
  return line;
}

/// True if a word of the line is "key=value" that fails.
bool has_failing_field(std::string_view line) {
  for (size_t at = line.find('='); at != line.npos; at = line.find('=', at + 1)) {
    size_t begin = at;
    while (begin > 0 && at - begin <= kMaxKeyBytes && text::is_word(line[begin - 1])) --begin;
    const Key key = known_key(line.substr(begin, at - begin));
    if (key == Key::kNone) continue;
    const std::string_view rest = line.substr(at + 1);
    if (fails(key, rest.substr(0, rest.find_first_of(" \t,;")))) return true;
  }
  return false;
}

}  // namespace

bool is_failure_word(std::string_view word) {
  for (const std::string_view begun : {"fail", "fallo", "fall\u00f3", "fallid", "drift", "mismatch",
                                       "differ", "diverg", "nonfinite", "conflict", "error"}) {
    if (word.starts_with(begun)) return true;
  }
  return word.ends_with("_failed");
}

bool claims_failure(std::string_view key, std::string_view value) {
  return fails(known_key(key), text::trim(value.substr(0, kMaxShown)));
}

bool line_claims_failure(std::string_view line) {
  const std::string_view said = without_marks(line);
  const size_t at = said.substr(0, kMaxKeyBytes).find_first_of(":=");
  if (at != said.npos &&
      claims_failure(said.substr(0, at), text::plain(said.substr(at + 1, kMaxShown))))
    return true;
  return has_failing_field(said);
}

std::string row_claim(const Table& header, const TableRow& row, bool only_pairs) {
  if (row.cells.size() == 2 && claims_failure(row.cells[0], text::plain(row.cells[1])))
    return shown(row.cells[0], row.cells[1]);
  const size_t cells = only_pairs ? 0 : std::min(header.columns.size(), row.cells.size());
  for (size_t i = 0; i < cells; ++i) {
    if (claims_failure(header.columns[i], text::plain(row.cells[i])))
      return shown(header.columns[i], row.cells[i]);
  }
  return {};
}

bool has_fewer_than_total(const nlohmann::json& object) {
  if (!object.is_object()) return false;
  const auto count = [&](const char* name) -> std::optional<uint64_t> {
    const auto at = object.find(name);
    if (at == object.end() || !at->is_number_unsigned()) return std::nullopt;
    return std::min<uint64_t>(at->get<uint64_t>(), UINT32_MAX);
  };
  const auto passed = count("passed"), total = count("total");
  return passed && total && *passed + count("skipped").value_or(0) < *total;
}

void for_each_failure(std::string_view key, const nlohmann::json& value,
                      const std::function<void(const std::string& claim)>& on_claim) {
  if (value.is_object()) {
    if (has_fewer_than_total(value)) on_claim(kFewerThanTotal);
    for (const auto& [name, item] : value.items()) for_each_failure(name, item, on_claim);
    return;
  }
  if (value.is_array()) {
    for (const nlohmann::json& item : value) for_each_failure(key, item, on_claim);
    return;
  }
  const std::string said = value.is_string() ? value.get<std::string>() : json_text(value);
  if (claims_failure(key, said)) on_claim(shown(key, said));
}

}  // namespace greta
