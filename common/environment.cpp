#include "common/environment.h"

#include <cstdlib>

namespace greta {

std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace greta
