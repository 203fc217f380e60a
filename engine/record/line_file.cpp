#include "engine/record/line_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace greta {
namespace {

constexpr size_t kBufferBytes = 256u << 10;

}  // namespace

LineFile::LineFile(std::filesystem::path path, Existing existing) : path_(std::move(path)) {
  const int how = existing == Existing::kAppend ? O_APPEND : O_EXCL;
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, 0666);
  if (fd_ < 0) fail(errno);
}

LineFile::~LineFile() {
  if (fd_ < 0) return;
  try {
    flush();
  } catch (const std::system_error&) {
  }
  ::close(fd_);
}

void LineFile::write(std::string_view line) {
  buffer_ += line;
  buffer_ += '\n';
  if (buffer_.size() >= kBufferBytes) flush();
}

void LineFile::flush() {
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    const ssize_t n = ::write(fd_, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error = errno;
      buffer_.erase(0, buffer_.size() - rest.size());
      fail(error);
    }
    rest.remove_prefix(static_cast<size_t>(n));
  }
  buffer_.clear();
}

void LineFile::close() {
  flush();
  // A pipe or a terminal cannot be synced, and need not be.
  int error = ::fsync(fd_) == 0 || errno == EINVAL || errno == EROFS ? 0 : errno;
  if (::close(std::exchange(fd_, -1)) != 0 && error == 0) error = errno;
  if (error != 0) fail(error);
}

void LineFile::fail(int error) const {
  throw std::system_error(error, std::generic_category(), "cannot write " + path_.string());
}

}  // namespace greta
