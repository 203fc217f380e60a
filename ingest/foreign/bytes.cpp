#include "ingest/foreign/bytes.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

#include "common/sha256.h"
#include "common/stop_signal.h"

namespace greta {
namespace {

[[noreturn]] void throw_beyond(uint64_t offset, size_t count, uint64_t size) {
  throw ForeignError("bytes " + std::to_string(offset) + " to " + std::to_string(offset + count) +
                     " are beyond its end at " + std::to_string(size));
}

bool holds(uint64_t size, uint64_t offset, size_t count) {
  return offset <= size && count <= size - offset;
}

}  // namespace

std::string Bytes::text(uint64_t offset, size_t count) {
  if (!holds(size(), offset, count)) throw_beyond(offset, count, size());
  std::string bytes(count, '\0');
  read(offset, bytes.data(), count);
  return bytes;
}

void MemoryBytes::read(uint64_t offset, char* to, size_t count) {
  if (!holds(size(), offset, count)) throw_beyond(offset, count, size());
  std::copy_n(bytes_.data() + offset, count, to);
}

FileBytes::FileBytes(const std::filesystem::path& path) {
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  const auto refuse = [&](int error) {
    if (descriptor_ >= 0) ::close(descriptor_);
    throw std::system_error(error, std::generic_category(), path.string() + ": cannot open");
  };
  if (descriptor_ < 0 || ::fstat(descriptor_, &opened_) != 0) refuse(errno);
  if (!S_ISREG(opened_.st_mode)) refuse(EINVAL);
}

FileBytes::~FileBytes() { ::close(descriptor_); }

void FileBytes::read(uint64_t offset, char* to, size_t count) {
  if (!holds(size(), offset, count)) throw_beyond(offset, count, size());
  while (count > 0) {
    const ssize_t got = ::pread(descriptor_, to, count, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw ForeignError("read error (" + std::generic_category().message(errno) + ")");
    }
    if (got == 0) throw ForeignError("the file shrank while it was read");
    to += got;
    offset += static_cast<uint64_t>(got);
    count -= static_cast<size_t>(got);
  }
}

std::string FileBytes::sha256() {
  Sha256 sha;
  std::vector<char> buffer(size_t{1} << 20);
  for (uint64_t at = 0; at < size();) {
    throw_if_stopped();
    const size_t count = static_cast<size_t>(std::min<uint64_t>(buffer.size(), size() - at));
    read(at, buffer.data(), count);
    sha.update(buffer.data(), count);
    at += count;
  }
  return sha.hex();
}

std::string FileBytes::change() const {
  struct stat now {};
  if (::fstat(descriptor_, &now) != 0) return "";
  const bool same = now.st_mtim.tv_sec == opened_.st_mtim.tv_sec &&
                    now.st_mtim.tv_nsec == opened_.st_mtim.tv_nsec &&
                    now.st_size == opened_.st_size;
  return same ? "" : "the file changed while it was read";
}

}  // namespace greta
