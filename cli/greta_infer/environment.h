#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace greta {

/// A variable that greta-infer knows.
struct EnvironmentVariable {
  std::string_view name;
  std::string_view description;  ///< one line, for --help
  bool obeyed = true;            ///< false: only recorded, because what it changes lies below us
};

/// All of them, in the order in which --help lists them.
std::span<const EnvironmentVariable> environment_variables();

/// The environment of the process, as greta-infer reads it. A variable that is empty counts as not
/// set. Callers let a flag win over its variable, and ask for the variable only when the flag is
/// not given: what is overridden is never an error.
namespace environment {

/// name must be one of environment_variables(): std::logic_error otherwise.
std::optional<std::string> text(std::string_view name);
/// Throws std::invalid_argument, naming variable and value, for what is not a whole number from
/// `least` on.
std::optional<int64_t> number(std::string_view name, int64_t least);
/// 1, on, true, yes or 0, off, false, no; not set is false. Throws std::invalid_argument otherwise.
bool flag(std::string_view name);

/// Name and value of every variable of environment_variables() that is set.
std::vector<std::pair<std::string, std::string>> in_force();

}  // namespace environment

}  // namespace greta
