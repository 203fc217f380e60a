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

/// Which links below a directory are followed.
enum class Links {
  kWithin,  ///< to files of the same directory tree; what else they lead to nobody named
  kAll,     ///< out of it too, into directories as well, each of which is read once
};

/// The files of `paths`, those below a directory in order of path. What is passed over is listed
/// too, with the reason: links that are not followed, and whatever is no regular file or belongs to
/// the kernel (/proc, /sys, /dev but /dev/shm, and where else such are mounted). A path given may
/// be a link. Throws std::system_error when a path does not exist.
std::vector<Input> list_inputs(const std::vector<std::filesystem::path>& paths,
                               Links links = Links::kWithin);

/// Passes over a database that is written to, and the files that SQLite keeps beside it, whatever
/// their names here: who closes one of them drops all locks that its process has on it.
void pass_over_database(std::vector<Input>& inputs, const std::filesystem::path& database);

}  // namespace greta
