#include "ingest/record/nonfinite_hint.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

namespace greta::record {
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
    if (is_named && !says_none(member.dump(-1, ' ', false, Json::error_handler_t::replace))) {
      return true;
    }
    if (hints(member, depth - 1)) return true;
  }
  return false;
}

/// Whether it is worth a closer look: hardly any object is.
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
