#pragma once
#include <sys/stat.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace greta {

/// Bytes as they are stored: of a file or of a member of an archive.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Up to size_bytes bytes; 0 at the end and after a failure, which error() then describes.
  virtual size_t read(char* buffer, size_t size_bytes) = 0;
  const std::string& error() const { return error_; }
  /// How what is read became another while it was read; "" when it did not. Once it has ended.
  const std::string& change() const { return change_; }
  /// Bytes that there were at the start, where that is known.
  virtual std::optional<int64_t> size_bytes() const { return {}; }

 protected:
  std::string change_;
  std::string error_;
};

/// A regular file; never waits for one that is something else.
class FileSource : public ByteSource {
 public:
  /// Throws std::system_error with path and reason.
  explicit FileSource(const std::filesystem::path& path);
  ~FileSource() override;
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  size_t read(char* buffer, size_t size_bytes) override;
  std::optional<int64_t> size_bytes() const override { return opened_.st_size; }

 private:
  void look_for_change();

  int descriptor_ = -1;
  int64_t read_bytes_ = 0;
  struct stat opened_ {};
};

/// A source through a fixed buffer, so that headers can be looked at before they are consumed.
class ByteBuffer {
 public:
  explicit ByteBuffer(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {}

  /// Tries to have `count` bytes at hand; fewer are there only at the end.
  std::string_view peek(size_t count);
  void skip(size_t count) { begin_ += count; }
  std::optional<uint8_t> next();
  const ByteSource& source() const { return *source_; }
  const std::string& error() const { return source_->error(); }

 private:
  static constexpr size_t kBytes = size_t{64} * 1024;

  size_t size() const { return end_ - begin_; }

  std::unique_ptr<ByteSource> source_;
  std::array<char, kBytes> bytes_;
  size_t begin_ = 0, end_ = 0;
};

}  // namespace greta
