#pragma once
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

namespace greta {

/// A file or a tensor of another tool that cannot be taken; the message says which and why.
struct ForeignError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Bytes that are read at any place. Not thread-safe.
class Bytes {
 public:
  Bytes() = default;
  virtual ~Bytes() = default;
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  virtual uint64_t size() const = 0;
  /// Writes `count` bytes from `offset` on to `to` (host). Throws ForeignError when they are not
  /// all there.
  virtual void read(uint64_t offset, char* to, size_t count) = 0;
  /// True if a read of what lies before the last one begins anew, at a cost that grows with it.
  virtual bool is_forward_only() const { return false; }

  /// Bytes at `offset` as text.
  std::string text(uint64_t offset, size_t count);
};

/// Those of a text, which is borrowed.
class MemoryBytes : public Bytes {
 public:
  explicit MemoryBytes(std::string_view bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  void read(uint64_t offset, char* to, size_t count) override;

 private:
  std::string_view bytes_;
};

/// Those of a regular file, of which nothing stays in memory.
class FileBytes : public Bytes {
 public:
  /// Throws std::system_error with path and reason.
  explicit FileBytes(const std::filesystem::path& path);
  ~FileBytes() override;
  uint64_t size() const override { return static_cast<uint64_t>(opened_.st_size); }
  void read(uint64_t offset, char* to, size_t count) override;

  /// SHA-256 of all of it, as 64 hex digits.
  std::string sha256();
  /// How the file changed since it was opened; "" when it did not.
  std::string change() const;

 private:
  int descriptor_ = -1;
  struct stat opened_ {};
};

}  // namespace greta
