#pragma once
#include <string>

namespace greta {

/// Value of an environment variable; "" when it is unset or empty. Not safe beside setenv.
std::string environment_variable(const char* name);

}  // namespace greta
