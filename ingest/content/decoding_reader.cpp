#include "ingest/content/decoding_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "ingest/content/reader.h"

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

namespace {

constexpr std::string_view kGzipMagic = "\x1f\x8b";

}  // namespace

DecodingReader::Inflater::Inflater() {
  if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
}

DecodingReader::Inflater::~Inflater() { inflateEnd(&stream_); }

DecodingReader::DecodingReader(std::unique_ptr<ByteSource> source, bool is_named_gzip)
    : input_(std::move(source)) {
  stored_bytes_ = input_.source().size_bytes();
  const std::string_view head = input_.peek(kGzipMagic.size());
  is_compressed_ = head.starts_with(kGzipMagic);
  if (is_compressed_) {
    state_ = State::kHeader;
    if (!is_named_gzip) notes_.push_back("gzip content under another name");
  } else if (!input_.error().empty()) {
    end("");
  } else if (is_named_gzip) {
    add_damage(head.empty() ? "not a gzip stream (0 bytes)"
                            : "named .gz but is not gzip; read as plain text");
  }
}

size_t DecodingReader::read(char* buffer, size_t size_bytes) {
  while (size_bytes > 0 && state_ != State::kEnd) {
    size_t count = 0;
    switch (state_) {
      case State::kPlain:
        count = read_plain(buffer, size_bytes);
        break;
      case State::kHeader:
        read_header();
        break;
      case State::kDeflate:
        count = read_deflate(buffer, size_bytes);
        break;
      case State::kTrailer:
        read_trailer();
        break;
      case State::kBetween:
        find_next_member();
        break;
      case State::kEnd:
        break;
    }
    if (count > 0) return count;
  }
  return 0;
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

// RFC 1952, 2.3: magic, method, flags, mtime (4), xfl, os; then what the flags announce.
void DecodingReader::read_header() {
  constexpr uint8_t kDeflateMethod = 8, kHeaderCrc = 2, kExtra = 4, kName = 8, kComment = 16;
  constexpr uint8_t kReserved = 0xe0;
  std::array<uint8_t, 10> head;
  for (uint8_t& byte : head) {
    const auto next = input_.next();
    if (!next) return end_truncated();
    byte = *next;
  }
  const uint8_t flags = head[3];
  if (head[2] != kDeflateMethod) return end("gzip data is corrupt (unknown method)");
  if ((flags & kReserved) != 0) return end("gzip data is corrupt (unknown flags)");
  if ((flags & kExtra) != 0 && !skip_extra_field()) return end_truncated();
  if ((flags & kName) != 0 && !skip_string()) return end_truncated();
  if ((flags & kComment) != 0 && !skip_string()) return end_truncated();
  if ((flags & kHeaderCrc) != 0 && !skip_bytes(2)) return end_truncated();
  inflater_.reset();
  crc_ = ::crc32(0, nullptr, 0);
  length_ = 0;
  ++members_;
  state_ = State::kDeflate;
}

bool DecodingReader::skip_bytes(size_t count) {
  while (count > 0 && input_.next()) --count;
  return count == 0;
}

bool DecodingReader::skip_extra_field() {
  const auto low = input_.next(), high = input_.next();
  return low && high && skip_bytes(static_cast<size_t>(*low | *high << 8));
}

bool DecodingReader::skip_string() {
  for (;;) {
    const auto byte = input_.next();
    if (!byte || *byte == 0) return byte.has_value();
  }
}

// Input is asked for only when inflate can do nothing more with what it has, so that a cut
// stream gives up every byte it holds.
size_t DecodingReader::read_deflate(char* buffer, size_t size_bytes) {
  z_stream& stream = inflater_.stream();
  const uInt room =
      static_cast<uInt>(std::min<size_t>(size_bytes, std::numeric_limits<uInt>::max()));
  const std::string_view bytes = available_;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(buffer);
  stream.avail_out = room;
  const int result = ::inflate(&stream, Z_NO_FLUSH);
  consume(bytes.size() - stream.avail_in);
  const uInt count = room - stream.avail_out;
  crc_ = ::crc32(crc_, reinterpret_cast<const Bytef*>(buffer), count);
  length_ += count;
  if (result == Z_STREAM_END) {
    state_ = State::kTrailer;
  } else if (result != Z_OK && result != Z_BUF_ERROR) {
    const char* reason = stream.msg != nullptr ? stream.msg : "no deflate stream";
    end("gzip data is corrupt (" + std::string(reason) + ")");
  } else if (count == 0 && available_.empty()) {
    available_ = input_.peek(1);
    if (available_.empty()) end_truncated();
  }
  return count;
}

void DecodingReader::consume(size_t count) {
  available_.remove_prefix(count);
  input_.skip(count);
}

void DecodingReader::read_trailer() {
  available_ = {};
  std::array<uint32_t, 2> words = {0, 0};  // CRC-32 and length mod 2^32, little-endian
  for (uint32_t& word : words) {
    for (unsigned shift = 0; shift < 32; shift += 8) {
      const auto byte = input_.next();
      if (!byte) return end_truncated();
      word |= static_cast<uint32_t>(*byte) << shift;
    }
  }
  if (words[0] != crc_) {
    add_damage("gzip CRC does not match");
  } else if (words[1] != length_) {
    add_damage("gzip length does not match");
  }
  state_ = State::kBetween;
}

// After a member: the end, another member, or the zeros with which tapes are padded.
void DecodingReader::find_next_member() {
  const std::string_view head = input_.peek(kGzipMagic.size());
  if (head.starts_with(kGzipMagic)) {
    state_ = State::kHeader;
    return;
  }
  if (members_ > 1) notes_.push_back(std::to_string(members_) + " gzip members");
  if (head.empty()) return end("");
  auto byte = input_.next();
  while (byte && *byte == 0) byte = input_.next();
  if (!byte) notes_.push_back("zero padding after the gzip stream");
  end(byte ? "garbage after the gzip stream" : "");
}

void ContentReader::add_damage(std::string_view reason) {
  if (reason.empty() || damage_.find(reason) != std::string::npos) return;
  if (!damage_.empty()) damage_ += "; ";
  damage_ += reason;
}

std::unique_ptr<ContentReader> open_content(const std::filesystem::path& path) {
  return std::make_unique<DecodingReader>(std::make_unique<FileSource>(path),
                                          is_gzip_name(path.native()));
}

}  // namespace greta
