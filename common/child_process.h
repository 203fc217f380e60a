#pragma once
#include <string>
#include <vector>

namespace greta {

/// Runs a program, found by PATH, with these arguments, and returns what it writes to standard
/// output; its errors go where ours go, and it has nothing to read. No shell sees the arguments.
/// Throws std::system_error when it cannot be started, std::runtime_error when it does not end with
/// status 0 or writes more than max_bytes.
std::string output_of(const std::vector<std::string>& command, size_t max_bytes = size_t{1} << 30);

}  // namespace greta
