#pragma once
#include <sys/stat.h>
#include <zlib.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ingest/content/reader.h"

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

/// True if a name promises gzip.
inline bool is_gzip_name(std::string_view name) { return name.ends_with(".gz"); }

/// Plain bytes as they are, gzip by its magic, with any number of members (RFC 1952). The framing
/// is ours, because zlib's own stops for good at a wrong CRC and does not tell a cut trailer from a
/// cut stream.
class DecodingReader : public ContentReader {
 public:
  /// Content that is not what a name in .gz promises is damage.
  DecodingReader(std::unique_ptr<ByteSource> source, bool is_named_gzip);

  size_t read(char* buffer, size_t size_bytes) override;

 private:
  enum class State { kPlain, kHeader, kDeflate, kTrailer, kBetween, kEnd };

  /// zlib's inflate of raw deflate.
  class Inflater {
   public:
    Inflater();
    ~Inflater();
    Inflater(const Inflater&) = delete;
    Inflater& operator=(const Inflater&) = delete;

    z_stream& stream() { return stream_; }
    void reset() { inflateReset(&stream_); }

   private:
    z_stream stream_ = {};
  };

  void end(std::string_view damage);
  void end_truncated() { end("gzip stream is truncated"); }
  size_t read_plain(char* buffer, size_t size_bytes);
  void read_header();
  bool skip_bytes(size_t count);
  bool skip_extra_field();
  bool skip_string();
  size_t read_deflate(char* buffer, size_t size_bytes);
  void consume(size_t count);
  void read_trailer();
  void find_next_member();

  ByteBuffer input_;
  Inflater inflater_;
  State state_ = State::kPlain;
  std::string_view available_;  // what inflate may take of input_'s buffer
  uLong crc_ = 0;
  uint32_t length_ = 0;  // mod 2^32, as the trailer has it
  uint64_t members_ = 0;
};

}  // namespace greta
