#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace greta {

/// A file that an ingest was given, or found below a directory.
struct Input {
  std::filesystem::path path;
  int64_t bytes = 0;
  std::string not_read = {};  ///< why it is not even opened
  bool is_error = false;
};

/// The files of `paths`, those below a directory in order of path. What is passed over is listed
/// too, with the reason. Throws std::system_error when a path does not exist.
std::vector<Input> list_inputs(const std::vector<std::filesystem::path>& paths);

}  // namespace greta
