// What a file holds, for tests that look at one.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

namespace greta {

/// All bytes of a file; none of one that cannot be read. By blocks: one byte at a time takes a test
/// of a model longer than the model.
inline std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return std::move(bytes).str();
}

}  // namespace greta
