#include "ingest/content/reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
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

// A file that is written to while it is read has bytes that do not belong together.
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

constexpr std::string_view kGzipMagic = "\x1f\x8b";

/// zlib's inflate of one gzip member after the other.
class Inflater {
 public:
  Inflater() {
    if (inflateInit2(&stream_, MAX_WBITS + 16) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  z_stream& stream() { return stream_; }
  void reset() { inflateReset(&stream_); }

 private:
  z_stream stream_ = {};
};

class DecodingReader : public ContentReader {
 public:
  DecodingReader(std::unique_ptr<ByteSource> source, bool is_named_gzip);

  size_t read(char* buffer, size_t size_bytes) override;

 private:
  enum class State { kPlain, kMember, kBetween, kEnd };

  void end(std::string_view damage);
  size_t read_plain(char* buffer, size_t size_bytes);
  size_t read_member(char* buffer, size_t size_bytes);
  void end_member(int result, std::string_view reason);
  void find_next_member();

  ByteBuffer input_;
  Inflater inflater_;
  State state_ = State::kPlain;
  std::string_view available_;  // what inflate may take of input_'s buffer
};

DecodingReader::DecodingReader(std::unique_ptr<ByteSource> source, bool is_named_gzip)
    : input_(std::move(source)) {
  stored_bytes_ = input_.source().size_bytes();
  const std::string_view head = input_.peek(kGzipMagic.size());
  is_compressed_ = head.starts_with(kGzipMagic);
  if (is_compressed_) {
    state_ = State::kMember;
  } else if (!input_.error().empty()) {
    end("");
  } else if (is_named_gzip) {
    add_damage(head.empty() ? "not a gzip stream (0 bytes)"
                            : "named .gz but is not gzip; read as plain text");
  }
}

size_t DecodingReader::read(char* buffer, size_t size_bytes) {
  size_t count = 0;
  while (count == 0 && size_bytes > 0 && state_ != State::kEnd) {
    if (state_ == State::kBetween) find_next_member();
    if (state_ == State::kPlain) count = read_plain(buffer, size_bytes);
    if (state_ == State::kMember) count = read_member(buffer, size_bytes);
  }
  return count;
}

void DecodingReader::end(std::string_view damage) {
  source_failed_ = !input_.error().empty();
  change_ = input_.source().change();
  add_damage(source_failed_ ? std::string_view(input_.error()) : damage);
  state_ = State::kEnd;
}

size_t DecodingReader::read_plain(char* buffer, size_t size_bytes) {
  const std::string_view bytes = input_.peek(1).substr(0, size_bytes);
  if (bytes.empty()) end("");
  std::copy(bytes.begin(), bytes.end(), buffer);
  input_.skip(bytes.size());
  return bytes.size();
}

// Input is asked for only when inflate can do nothing more with what it has, so that a cut
// stream gives up every byte it holds.
size_t DecodingReader::read_member(char* buffer, size_t size_bytes) {
  z_stream& stream = inflater_.stream();
  const uInt room =
      static_cast<uInt>(std::min<size_t>(size_bytes, std::numeric_limits<uInt>::max()));
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(available_.data()));
  stream.avail_in = static_cast<uInt>(available_.size());
  stream.next_out = reinterpret_cast<Bytef*>(buffer);
  stream.avail_out = room;
  const int result = ::inflate(&stream, Z_NO_FLUSH);
  const size_t taken = available_.size() - stream.avail_in;
  available_.remove_prefix(taken);
  input_.skip(taken);
  const uInt count = room - stream.avail_out;
  if (result != Z_OK && result != Z_BUF_ERROR) {
    end_member(result, stream.msg != nullptr ? stream.msg : "no deflate stream");
  } else if (count == 0 && available_.empty()) {
    available_ = input_.peek(1);
    if (available_.empty()) end("gzip stream is truncated");
  }
  return count;
}

// zlib stops for good at a wrong CRC, in front of the length. What comes behind is another member.
void DecodingReader::end_member(int result, std::string_view reason) {
  available_ = {};
  const bool is_wrong_crc = reason == "incorrect data check";
  if (result != Z_STREAM_END && !is_wrong_crc && reason != "incorrect length check") {
    return end("gzip data is corrupt (" + std::string(reason) + ")");
  }
  if (result != Z_STREAM_END) {
    add_damage(is_wrong_crc ? "gzip CRC does not match" : "gzip length does not match");
  }
  for (int byte = is_wrong_crc ? 4 : 0; byte > 0; --byte) {
    if (!input_.next()) return end("gzip stream is truncated");
  }
  state_ = State::kBetween;
}

// After a member: the end, another member, or the zeros with which tapes are padded.
void DecodingReader::find_next_member() {
  const std::string_view head = input_.peek(kGzipMagic.size());
  if (head.starts_with(kGzipMagic)) {
    inflater_.reset();
    state_ = State::kMember;
    return;
  }
  auto byte = input_.next();
  while (byte && *byte == 0) byte = input_.next();
  end(byte ? "garbage after the gzip stream" : "");
}

}  // namespace

void ContentReader::add_damage(std::string_view reason) {
  if (reason.empty() || damage_.find(reason) != std::string::npos) return;
  if (!damage_.empty()) damage_ += "; ";
  damage_ += reason;
}

std::unique_ptr<ContentReader> decoded(std::unique_ptr<ByteSource> source, bool is_named_gzip) {
  return std::make_unique<DecodingReader>(std::move(source), is_named_gzip);
}

std::unique_ptr<ContentReader> open_content(const std::filesystem::path& path) {
  return decoded(std::make_unique<FileSource>(path), is_gzip_name(path.native()));
}

}  // namespace greta
