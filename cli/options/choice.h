#pragma once
#include <CLI/CLI.hpp>
#include <initializer_list>
#include <string>
#include <utility>

namespace greta {

/// What `name` stands for among the values of an option. Throws CLI::ValidationError that lists
/// them.
template <class T>
T choose(const char* option, const std::string& name,
         std::initializer_list<std::pair<const char*, T>> choices) {
  std::string known;
  for (const auto& [choice, value] : choices) {
    if (name == choice) return value;
    known += (known.empty() ? "" : ", ") + std::string(choice);
  }
  throw CLI::ValidationError(option, "'" + name + "' is none of " + known);
}

}  // namespace greta
