#pragma once

#include <cstdlib>
#include <string>

namespace greta {

/// Value of an environment variable; "" when it is unset or empty. Not safe beside setenv.
inline std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace greta
