#pragma once
#include <filesystem>
#include <optional>

#include "common/environment.h"

namespace greta {

/// The folder that a variable of the environment names; nothing when it is unset or empty.
inline std::optional<std::filesystem::path> folder_from_environment(const char* variable) {
  const std::string folder = environment_variable(variable);
  if (folder.empty()) return std::nullopt;
  return folder;
}

}  // namespace greta
