#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

/// Any artifact as decoded bytes: plain or gzip, loose or in a tar archive, whole or damaged.
namespace greta {

/// A stream of decoded bytes. Damage is a value, not an exception: everything that can be decoded
/// is delivered first. Memory is bounded whatever the input claims. Not thread-safe.
class ContentReader {
 public:
  ContentReader() = default;
  virtual ~ContentReader() = default;
  ContentReader(const ContentReader&) = delete;
  ContentReader& operator=(const ContentReader&) = delete;

  /// Writes 1..size_bytes bytes to `buffer` (host) and returns how many; 0 only at the end, or
  /// when size_bytes is 0. After the end it keeps returning 0.
  virtual size_t read(char* buffer, size_t size_bytes) = 0;

  /// Decoded bytes still to come, where that is known: for the size of a buffer.
  virtual std::optional<size_t> bytes_left() const { return {}; }

  /// What is wrong with the content, reasons joined with "; "; "" when nothing is. Complete once
  /// read() has returned 0. Reasons: "not a gzip stream (0 bytes)", "gzip stream is truncated",
  /// "gzip CRC does not match", "gzip length does not match", "gzip data is corrupt (...)",
  /// "garbage after the gzip stream", "named .gz but is not gzip; read as plain text",
  /// "read error (...)", and those of for_each_member.
  const std::string& damage() const { return damage_; }

  /// How the file changed while it was read, "" when it did not: what was read is then a mixture,
  /// or a part. Complete once read() has returned 0. Of a member of an archive never.
  const std::string& change() const { return change_; }

  /// Stored bytes of the file when it was opened; nothing for a member of an archive.
  std::optional<int64_t> stored_bytes() const { return stored_bytes_; }

  /// True when the content is a gzip stream; known from the start. Together with no bytes and no
  /// damage: a valid gzip of nothing.
  bool is_compressed() const { return is_compressed_; }

  /// True when the damage is that of what the content is read from: the disk, or the archive around
  /// it. Complete once read() has returned 0.
  bool source_failed() const { return source_failed_; }

 protected:
  void add_damage(std::string_view reason);

  std::string damage_;
  std::string change_;
  std::optional<int64_t> stored_bytes_;
  bool is_compressed_ = false;
  bool source_failed_ = false;
};

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

/// True if a name promises gzip.
inline bool is_gzip_name(std::string_view name) { return name.ends_with(".gz"); }

/// Plain bytes as they are, gzip by its magic, with any number of members (RFC 1952). Content that
/// is not what a name in .gz promises is damage.
std::unique_ptr<ContentReader> decoded(std::unique_ptr<ByteSource> source, bool is_named_gzip);

/// Opens a regular file, never waiting for one that is something else. gzip is recognised by its
/// magic, with any number of members (RFC 1952). Throws std::system_error with path and reason.
std::unique_ptr<ContentReader> open_content(const std::filesystem::path& path);

}  // namespace greta
