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
  if (::stat(path.c_str(), &opened_) != 0) throw_cannot_open(path, errno);
  require_regular(path, opened_);
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor_ < 0) throw_cannot_open(path, errno);
  const int failed = ::fstat(descriptor_, &opened_) != 0 ? errno : 0;
  if (failed != 0 || !S_ISREG(opened_.st_mode)) {
    ::close(descriptor_);
    if (failed != 0) throw_cannot_open(path, failed);
    require_regular(path, opened_);
  }
}

FileSource::~FileSource() { ::close(descriptor_); }

size_t FileSource::read(char* buffer, size_t size_bytes) {
  ssize_t count;
  do {
    count = ::read(descriptor_, buffer, size_bytes);
  } while (count < 0 && errno == EINTR);
  if (count == 0 && size_bytes > 0) look_for_change();
  if (count >= 0) read_bytes_ += count;
  if (count >= 0) return static_cast<size_t>(count);
  error_ = "read error (" + std::generic_category().message(errno) + ")";
  return 0;
}

// Of a file that is written to while it is read nobody knows which bytes belong together.
void FileSource::look_for_change() {
  struct stat now {};
  if (!change_.empty() || ::fstat(descriptor_, &now) != 0) return;
  const bool same_time = now.st_mtim.tv_sec == opened_.st_mtim.tv_sec &&
                         now.st_mtim.tv_nsec == opened_.st_mtim.tv_nsec;
  if (same_time && now.st_size == opened_.st_size && read_bytes_ == opened_.st_size) return;
  const char* what = now.st_size > opened_.st_size   ? "grew"
                     : now.st_size < opened_.st_size ? "shrank"
                                                     : "changed";
  change_ = std::string("the file ") + what +
            " while it was read: " + std::to_string(opened_.st_size) + " bytes before, " +
            std::to_string(now.st_size) + " after, and " + std::to_string(read_bytes_) +
            " are taken";
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
