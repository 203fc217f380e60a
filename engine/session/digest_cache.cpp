#include "engine/session/digest_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/environment.h"
#include "common/sha256.h"

namespace greta {
namespace {

constexpr size_t kDigestDigits = 64;

/// What the entry of a file begins with: anything else is not an entry of this file as it is.
std::string head_of(const std::string& path, const FileStamp& stamp) {
  return "greta model digests 1\nsize " + std::to_string(stamp.size_bytes) + "\nmodified " +
         std::to_string(stamp.modified_ns) + "\nchanged " + std::to_string(stamp.changed_ns) +
         "\ninode " + std::to_string(stamp.inode) + "\ndevice " + std::to_string(stamp.device) +
         "\npath " + std::to_string(path.size()) + " " + path + "\n";
}

/// Takes `name`, a digest and a line end off the front; empty when that is not what comes.
std::string take_digest(std::string_view& text, std::string_view name) {
  const size_t size = name.size() + 1 + kDigestDigits + 1;
  if (text.size() < size || !text.starts_with(name) || text[name.size()] != ' ' ||
      text[size - 1] != '\n') {
    return "";
  }
  const std::string_view digits = text.substr(name.size() + 1, kDigestDigits);
  if (digits.find_first_not_of("0123456789abcdef") != std::string_view::npos) return "";
  text.remove_prefix(size);
  return std::string(digits);
}

std::string text_of(const std::string& head, const ModelDigests& digests) {
  std::string text = head + "root " + digests.root + "\n";
  if (!digests.file_sha256.empty()) text += "sha256 " + digests.file_sha256 + "\n";
  return text + "check " + Sha256::hex_of(text) + "\n";
}

/// Closes what open() gave.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

/// At most so much of a file that is the user's own; empty when there is none.
std::string read_own(const std::filesystem::path& file, size_t most) {
  const Descriptor fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  struct stat status {};
  if (fd.get() < 0 || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_uid != ::geteuid()) {
    return "";
  }
  std::string text(most, '\0');
  size_t size = 0;
  while (size < most) {
    const ssize_t n = ::read(fd.get(), text.data() + size, most - size);
    if (n <= 0) break;
    size += static_cast<size_t>(n);
  }
  text.resize(size);
  return text;
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n <= 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

/// The file under the name that it has everywhere, for one entry; empty when there is none.
std::string name_of(const std::filesystem::path& file) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(file, error);
  return error ? "" : path.string();
}

std::filesystem::path entry_of(const std::filesystem::path& folder, const std::string& path) {
  return folder / Sha256::hex_of(path).substr(0, 32);
}

}  // namespace

DigestCache DigestCache::usual() {
  for (const auto& [variable, below] :
       {std::pair{"XDG_CACHE_HOME", "greta/models"}, {"HOME", ".cache/greta/models"}}) {
    const std::filesystem::path folder = environment_variable(variable);
    if (folder.is_absolute()) return DigestCache(folder / below);
  }
  return {};
}

std::optional<ModelDigests> DigestCache::find(const std::filesystem::path& file,
                                              const FileStamp& stamp) const {
  const std::string path = folder_.empty() ? "" : name_of(file);
  if (path.empty()) return std::nullopt;
  const std::string head = head_of(path, stamp);
  const std::string entry = read_own(entry_of(folder_, path), head.size() + 1024);
  if (!entry.starts_with(head)) return std::nullopt;
  std::string_view rest = std::string_view(entry).substr(head.size());
  ModelDigests digests;
  digests.root = take_digest(rest, "root");
  digests.file_sha256 = take_digest(rest, "sha256");
  if (digests.root.empty() || entry != text_of(head, digests)) return std::nullopt;
  return digests;
}

void DigestCache::keep(const std::filesystem::path& file, const FileStamp& stamp,
                       const ModelDigests& digests) const {
  const std::string path = folder_.empty() ? "" : name_of(file);
  if (path.empty() || stamp.seen_ns - std::max(stamp.modified_ns, stamp.changed_ns) < kSettledNs) {
    return;
  }
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  const std::filesystem::path entry = entry_of(folder_, path);
  // Under a name of its own first: whoever reads finds all of it or what was there before.
  std::string made = entry.string() + ".XXXXXX";
  const Descriptor fd(::mkostemp(made.data(), O_CLOEXEC));
  if (fd.get() < 0) return;
  if (!write_all(fd.get(), text_of(head_of(path, stamp), digests)) ||
      ::rename(made.c_str(), entry.c_str()) != 0) {
    ::unlink(made.c_str());
  }
}

}  // namespace greta
