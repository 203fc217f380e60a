#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "common/exit_status.h"

namespace greta {

/// The words most like `wanted`, best first, at most five: those that hold it, then those that few
/// changes make it. Case does not matter.
std::vector<std::string> near_words(std::string_view wanted, const std::vector<std::string>& words);

/// That `name` is none of `names`: lists the nearest, else all of few, else says what lists them.
/// `noun` says what it is a name of.
UsageError unknown_name(const std::string& noun, const std::string& name,
                        const std::vector<std::string>& names, const std::string& lister);

}  // namespace greta
