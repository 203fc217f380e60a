#pragma once
#include <optional>
#include <string_view>

namespace greta {

/// Whether two hashes that a document prints are the same value: decimal (signed ones by their 64
/// bits) or hexadecimal ("0x", or with letters), padded, or with separators of thousands. What is
/// neither is compared as text. Nothing when one is absent, or cut ("414...") and no digit that is
/// there differs.
std::optional<bool> same_printed_hash(std::string_view a, std::string_view b);

/// "", "-", "none", "null", "n/a" or "tbd", in any case: how tables say that there is no value.
bool is_absent_cell(std::string_view cell);

}  // namespace greta
