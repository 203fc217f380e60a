#pragma once
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingest/failure_limit.h"

/// What the members of one object, or the cells of one row, claim to have failed when they are held
/// against each other: fewer that passed than there were, a difference beyond its limit, another
/// value than the expected one. Pure functions of any bytes.
namespace greta {

/// What is stated under a name; a number as it is written.
struct Member {
  std::string name;
  std::string value;
};

/// Whether a name may be that of a limit, or of what should be, as hardly any is: members of which
/// none has such a name claim nothing.
bool may_be_held_against_others(std::string_view name);

/// "max_diff: 0.5 is beyond its limit", "actual: 8, expected: 7" of such members; "" of any other.
/// `outer` are limits that hold unless the members have their own.
std::string claim_of_members(std::span<const Member> members, std::span<const Quantity> outer = {});

/// The same of an object, `key` holds it, with what objects hold that its members are called
/// "tolerances" or "expected" of; and "passed: 47, total: 48" of one that counts fewer that passed
/// than there were. What was skipped is not missed.
std::string claim_of_object(std::string_view key, const nlohmann::json& object,
                            std::span<const Quantity> outer = {});

/// The limits that an object states; none if it has none.
std::vector<Quantity> limits_of_object(const nlohmann::json& object);

}  // namespace greta
