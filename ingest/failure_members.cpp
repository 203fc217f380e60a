#include "ingest/failure_members.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "ingest/failure_words.h"
#include "ingest/json_document.h"
#include "ingest/printed_hash.h"
#include "ingest/text.h"

namespace greta {
namespace {

using nlohmann::json;
using said::is_any_of;

constexpr size_t kMaxMemberWords = 12, kMaxShown = 96;
constexpr size_t kMostMembers = 256;  // of an object that are held against each other

bool is_of_what_should_be(std::string_view word) {
  return is_any_of(word, {"expected", "expect", "reference", "ref", "golden", "want", "wanted"});
}
bool is_of_what_is(std::string_view word) {
  return is_any_of(word, {"actual", "got", "observed", "computed", "measured", "have"});
}
bool is_hash_word(std::string_view word) {
  return is_any_of(word, {"hash", "fingerprint", "checksum", "digest", "crc", "crc32", "md5"}) ||
         word.starts_with("sha");
}

/// Whether a name may be of what should be, as hardly any is.
bool may_name_side(std::string_view name) {
  return text::holds_any(name, {"expect", "ref", "golden", "want"});
}

/// A member by its side: what the rest of its name says.
struct StatedSide {
  const Member* member = nullptr;
  bool should_be = false, is_named = false;
  bool is_hash = false;
  std::string of_what;
};

StatedSide stated_side(const Member& member) {
  StatedSide side;
  side.member = &member;
  for (const SaidWord& word : said_words(member.name, kMaxMemberWords)) {
    side.is_hash |= is_hash_word(word.text);
    if (is_of_what_should_be(word.text)) {
      side.should_be = side.is_named = true;
    } else if (is_of_what_is(word.text)) {
      side.is_named = true;
    } else {
      side.of_what += word.text + " ";
    }
  }
  return side;
}

bool is_one_word(std::string_view value) {
  return !value.empty() && std::all_of(value.begin(), value.end(), text::is_word);
}

/// Whether two values are not one; where they may be near each other nobody can tell.
bool is_another_value(const StatedSide& should_be, const StatedSide& is) {
  const std::string a = text::plain(should_be.member->value), b = text::plain(is.member->value);
  if (is_absent_cell(a) || is_absent_cell(b)) return false;
  if (should_be.is_hash || is.is_hash) return same_printed_hash(a, b) == false;
  const auto x = text::parse_int(a), y = text::parse_int(b);
  if (x && y) return *x != *y;
  const bool is_number = text::number<double>(a).has_value() || text::number<double>(b).has_value();
  return !is_number && is_one_word(a) && is_one_word(b) && text::to_lower(a) != text::to_lower(b);
}

std::string shown_member(const Member& member) {
  return member.name.substr(0, kMaxShown) + ": " + member.value.substr(0, kMaxShown);
}

std::string claim_of_sides(std::span<const Member> members) {
  const bool has_any = std::any_of(members.begin(), members.end(),
                                   [](const Member& member) { return may_name_side(member.name); });
  if (!has_any) return {};
  std::vector<StatedSide> sides;
  for (const Member& member : members) sides.push_back(stated_side(member));
  for (const StatedSide& should_be : sides) {
    if (!should_be.should_be) continue;
    for (const StatedSide& is : sides) {
      const bool is_other = !is.should_be && is.of_what == should_be.of_what &&
                            (is.is_named || (should_be.is_hash && !is.of_what.empty()));
      if (is_other && is_another_value(should_be, is))
        return shown_member(*is.member) + ", " + shown_member(*should_be.member);
    }
  }
  return {};
}

std::string claim_of_excess(std::span<const Member> members, std::span<const Quantity> outer) {
  const bool has_own = std::any_of(members.begin(), members.end(), [](const Member& member) {
    return may_name_limit(member.name);
  });
  if (!has_own && outer.empty()) return {};
  std::vector<Quantity> found;
  std::vector<const Member*> from;
  bool has_limit = false;
  for (const Member& member : members) {
    std::string_view value = text::trim(member.value);
    const bool is_percent = value.ends_with('%');
    if (is_percent) value = text::trim(value.substr(0, value.size() - 1));
    const auto number = text::number<double>(value);
    if (!number) continue;
    auto quantity =
        quantity_of(said_words(member.name, kMaxMemberWords), is_percent ? *number / 100 : *number);
    if (!quantity) continue;
    has_limit |= quantity->kind == Quantity::Kind::kLimit;
    found.push_back(*std::move(quantity));
    from.push_back(&member);
  }
  if (!has_limit) found.insert(found.end(), outer.begin(), outer.end());
  const Quantity* excess = first_excess(found);
  if (excess == nullptr) return {};
  return shown_member(*from[static_cast<size_t>(excess - found.data())]) + " is beyond its limit";
}

std::string claim_of_counts(const json& object) {
  const auto total = object.find("total");
  if (total == object.end() || !total->is_number_unsigned()) return {};
  std::optional<uint64_t> passed;
  uint64_t skipped = 0;
  for (const auto& [name, item] : object.items()) {
    if (!item.is_number_unsigned()) continue;
    const auto n = std::min<uint64_t>(item.get<uint64_t>(), UINT32_MAX);
    if (is_any_of(name, {"passed", "pass", "ok", "matched", "succeeded"})) passed = n;
    if (name.starts_with("skip")) skipped += n;
  }
  const auto all = total->get<uint64_t>();
  if (!passed || *passed + skipped >= all) return {};
  return "passed: " + std::to_string(*passed) + ", total: " + std::to_string(all);
}

/// Members that are no structures, and those of objects whose name is of all that they hold.
std::vector<Member> members_of(std::string_view key, const json& object) {
  std::vector<Member> members;
  const auto add = [&](std::string name, const json& value) {
    if (value.is_structured() || members.size() == kMostMembers) return;
    members.push_back(
        {std::move(name), value.is_string() ? value.get<std::string>() : json_text(value)});
  };
  // {"max_diff":{"value":0.5,"tolerance":0.01}}
  const std::string of_key(key.substr(0, kMaxShown));
  for (const auto& [name, value] : object.items()) {
    const bool is_said_of_key = !of_key.empty() && is_any_of(name, {"value", "max", "observed"});
    add(is_said_of_key ? of_key + " " + name : name, value);
    if (!value.is_object() ||
        (!may_be_held_against_others(name) && !is_any_of(name, {"actual", "got", "observed"})))
      continue;
    for (const auto& [part, item] : value.items()) add(name + " " + part, item);
  }
  return members;
}

bool may_be_held_against(const json& object) {
  return std::any_of(object.items().begin(), object.items().end(),
                     [](const auto& item) { return may_be_held_against_others(item.key()); });
}

}  // namespace

bool may_be_held_against_others(std::string_view name) {
  return may_name_limit(name) || may_name_side(name);
}

std::string claim_of_members(std::span<const Member> members, std::span<const Quantity> outer) {
  const std::string claim = claim_of_excess(members, outer);
  return claim.empty() ? claim_of_sides(members) : claim;
}

std::string claim_of_object(std::string_view key, const json& object,
                            std::span<const Quantity> outer) {
  if (!object.is_object()) return {};
  if (std::string claim = claim_of_counts(object); !claim.empty()) return claim;
  if (outer.empty() && !may_be_held_against(object)) return {};
  return claim_of_members(members_of(key, object), outer);
}

std::vector<Quantity> limits_of_object(const json& object) {
  if (!object.is_object() || !may_be_held_against(object)) return {};
  std::vector<Quantity> limits;
  for (const Member& member : members_of({}, object)) {
    const auto number = text::number<double>(member.value);
    if (!number || !may_name_limit(member.name)) continue;
    auto quantity = quantity_of(said_words(member.name, kMaxMemberWords), *number);
    if (quantity && quantity->kind == Quantity::Kind::kLimit)
      limits.push_back(*std::move(quantity));
  }
  return limits;
}

}  // namespace greta
