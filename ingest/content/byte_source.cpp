#include "ingest/content/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace greta {
namespace {

[[noreturn]] void throw_cannot_open(const std::filesystem::path& path, int error,
                                    const char* why = "cannot open") {
  throw std::system_error(error, std::generic_category(), path.string() + ": " + why);
}

void require_regular(const std::filesystem::path& path, const struct stat& status) {
  if (S_ISDIR(status.st_mode)) throw_cannot_open(path, EISDIR);
  if (!S_ISREG(status.st_mode)) throw_cannot_open(path, EINVAL, "not a regular file");
}

}  // namespace

// O_NONBLOCK keeps open() from waiting for the other end of a FIFO; the type is checked before
// as well, since opening a device can have an effect.
FileSource::FileSource(const std::filesystem::path& path) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) throw_cannot_open(path, errno);
  require_regular(path, status);
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor_ < 0) throw_cannot_open(path, errno);
  const int failed = ::fstat(descriptor_, &status) != 0 ? errno : 0;
  if (failed != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    if (failed != 0) throw_cannot_open(path, failed);
    require_regular(path, status);
  }
}

FileSource::~FileSource() { ::close(descriptor_); }

size_t FileSource::read(char* buffer, size_t size_bytes) {
  ssize_t count;
  do {
    count = ::read(descriptor_, buffer, size_bytes);
  } while (count < 0 && errno == EINTR);
  if (count >= 0) return static_cast<size_t>(count);
  error_ = "read error (" + std::generic_category().message(errno) + ")";
  return 0;
}

std::string_view ByteBuffer::peek(size_t count) {
  if (size() < count) {
    std::memmove(bytes_.data(), bytes_.data() + begin_, size());
    end_ -= std::exchange(begin_, 0);
  }
  while (size() < count) {
    const size_t got = source_->read(bytes_.data() + end_, bytes_.size() - end_);
    if (got == 0) break;
    end_ += got;
  }
  return {bytes_.data() + begin_, size()};
}

std::optional<uint8_t> ByteBuffer::next() {
  if (peek(1).empty()) return std::nullopt;
  return static_cast<uint8_t>(bytes_[begin_++]);
}

}  // namespace greta
