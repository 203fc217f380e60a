#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

// Suites of prompts in files of the user.

namespace greta {

/// A prompt of a suite's file, as text or as ids.
struct FilePrompt {
  std::string name;
  std::optional<std::string> text;  ///< else tokens, at least one
  std::vector<int32_t> tokens;
  std::optional<int64_t> decode_steps;
  int64_t line = 0;
};

/// Prompts of one's own, JSON Lines: {"name": "a", "text": "Hi"} or {"name": "b", "tokens": [1,
/// 5]}, each with "decode_steps" where it is to have its own number. Blank lines are passed over.
struct SuiteFile {
  std::vector<FilePrompt> prompts;
  std::vector<std::string> mistakes;  ///< FILE:LINE: why, of every line that cannot be taken
};

/// vocab: ids that there are. Throws std::invalid_argument when the file cannot be read.
SuiteFile read_suite_file(const std::filesystem::path& file, int64_t vocab);

}  // namespace greta
