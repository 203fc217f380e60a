#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace greta {

/// A text file that is written line by line, buffered. Throws std::system_error with its path, also
/// for a pipe that nobody reads any more.
class LineFile {
 public:
  /// What becomes of a file that is there already. A pipe or a device is written to in any case.
  enum class Existing { kRefuse, kAppend };

  /// Refused, the error is std::errc::file_exists.
  LineFile(std::filesystem::path path, Existing existing);
  /// The standard output, which stays open behind it.
  static LineFile standard_output();
  /// Writes what is buffered, if that goes; close() says whether it did.
  ~LineFile();
  LineFile(LineFile&& other) noexcept;
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  void write(std::string_view line);  ///< without newline
  void flush();                       ///< gives all lines to the system
  void close();                       ///< when it returns, all lines are synced to disk

 private:
  LineFile(std::filesystem::path path, int fd);
  [[noreturn]] void fail(int error) const;

  std::filesystem::path path_;
  int fd_ = -1;
  std::string buffer_;
};

}  // namespace greta
