#include "engine/record/line_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

#include "common/stop_signal.h"

namespace greta {
namespace {

constexpr size_t kBufferBytes = 256u << 10;

int open_lines(const std::filesystem::path& path, LineFile::Existing existing) {
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC;
  if (existing == LineFile::Existing::kAppend) return ::open(path.c_str(), flags | O_APPEND, 0666);
  const int fd = ::open(path.c_str(), flags | O_EXCL, 0666);
  if (fd >= 0 || errno != EEXIST) return fd;
  std::error_code unknown;
  const auto type = std::filesystem::status(path, unknown).type();
  using Type = std::filesystem::file_type;
  if (type == Type::fifo || type == Type::character)
    return ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  errno = EEXIST;
  return -1;
}

}  // namespace

LineFile::LineFile(std::filesystem::path path, int fd) : path_(std::move(path)), fd_(fd) {
  if (fd_ < 0) fail(errno);
}

LineFile::LineFile(std::filesystem::path path, Existing existing)
    : LineFile(path, open_lines(path, existing)) {}

LineFile::LineFile(LineFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      buffer_(std::move(other.buffer_)) {}

LineFile LineFile::standard_output() {
  return {"the standard output", ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)};
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
  const HeldSignals held{SIGPIPE, SIGXFSZ};
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
  struct stat file {};
  const bool is_deleted = ::fstat(fd_, &file) == 0 && S_ISREG(file.st_mode) && file.st_nlink == 0;
  if (is_deleted && error == 0) error = ENOENT;
  if (::close(std::exchange(fd_, -1)) != 0 && error == 0) error = errno;
  if (error != 0) fail(error);
}

void LineFile::fail(int error) const {
  throw std::system_error(error, std::generic_category(), "cannot write " + path_.string());
}

}  // namespace greta
