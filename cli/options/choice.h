#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/completion.h"

// Options whose value is one of a few words.

namespace greta {

template <class T>
using Choices = std::vector<std::pair<const char*, T>>;

/// What `name` stands for among the values of an option. Throws CLI::ValidationError that lists
/// them.
template <class T>
T choose(const std::string& option, const std::string& name, const Choices<T>& choices) {
  std::string known;
  for (const auto& [choice, value] : choices) {
    if (name == choice) return value;
    known += (known.empty() ? "" : ", ") + std::string(choice);
  }
  throw CLI::ValidationError(option, "'" + name + "' is none of " + known);
}

/// Adds an option whose value is one of a few words, which shells complete.
template <class T>
CLI::Option* add_choice_option(CLI::App& app, const std::string& name, T& value,
                               const Choices<T>& choices, const std::string& help) {
  std::vector<std::string> words;
  for (const auto& [word, meaning] : choices) words.emplace_back(word);
  return app
      .add_option_function<std::string>(
          name,
          [name, &value, choices](const std::string& word) { value = choose(name, word, choices); },
          help)
      ->check(offers(words));
}

}  // namespace greta
