#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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

  /// What is wrong with the content, reasons joined with "; "; "" when nothing is. Complete once
  /// read() has returned 0. Reasons: "not a gzip stream (0 bytes)", "gzip stream is truncated",
  /// "gzip CRC does not match", "gzip length does not match", "gzip data is corrupt (...)",
  /// "garbage after the gzip stream", "named .gz but is not gzip; read as plain text",
  /// "read error (...)", and those of for_each_member.
  const std::string& damage() const { return damage_; }

  /// What is odd and harmless: "2 gzip members", "gzip content under another name",
  /// "zero padding after the gzip stream". Complete once read() has returned 0.
  const std::vector<std::string>& notes() const { return notes_; }

  /// True when the content is a gzip stream; known from the start. Together with no bytes and no
  /// damage: a valid gzip of nothing.
  bool is_compressed() const { return is_compressed_; }

  /// True when the damage is that of what the content is read from: the disk, or the archive around
  /// it. Complete once read() has returned 0.
  bool source_failed() const { return source_failed_; }

 protected:
  void add_damage(std::string_view reason);

  std::string damage_;
  std::vector<std::string> notes_;
  bool is_compressed_ = false;
  bool source_failed_ = false;
};

/// Opens a regular file, never waiting for one that is something else. gzip is recognised by its
/// magic, with any number of members (RFC 1952). Throws std::system_error with path and reason.
std::unique_ptr<ContentReader> open_content(const std::filesystem::path& path);

struct ArchiveMember {
  std::string path;         ///< as the archive spells it; relative and without ".."
  uint64_t size_bytes = 0;  ///< as the archive declares it; the reader tells the truth
};

/// True for the names .tgz, .tar.gz and .tar.
bool is_archive_name(std::string_view name);

/// By name, or because the (decompressed) content begins with a tar header. False for what cannot
/// be opened: open_content says why.
bool is_archive(const std::filesystem::path& path);

/// Streams every regular member of a tar archive, plain or gzip, through on_member, in archive
/// order; the reader is valid during the call only, and what it leaves unread is skipped. A member
/// that is itself gzip is decoded. on_refused gets the members that are never read, with a reason:
/// absolute or empty path, "..", link, device, FIFO, socket, sparse file. Directories are skipped.
/// Nothing is written to disk.
///
/// Returns the damage of the archive, "" if none: a gzip reason as above, "archive is truncated",
/// "archive is damaged (...)", "not a tar archive", "not an archive (0 bytes)". The member in
/// which the stream breaks says so in its reader's damage() too, and those before it are whole;
/// but a checksum of the stream comes after every member and is only in the result.
/// Throws std::system_error when the file cannot be opened, and whatever the callbacks throw.
std::string for_each_member(
    const std::filesystem::path& archive,
    const std::function<void(const ArchiveMember& member, ContentReader& content)>& on_member,
    const std::function<void(const std::string& path, const std::string& reason)>& on_refused);

}  // namespace greta
