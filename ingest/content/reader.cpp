#include "ingest/content/reader.h"

#include <archive.h>
#include <archive_entry.h>
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
#include <optional>
#include <system_error>
#include <utility>

namespace greta {
namespace {

constexpr size_t kBufferBytes = size_t{64} * 1024;

// ---- raw bytes

class RawSource {
 public:
  virtual ~RawSource() = default;
  // Up to size_bytes bytes; 0 at the end and after a failure, which error() then describes.
  virtual size_t read(char* buffer, size_t size_bytes) = 0;
  const std::string& error() const { return error_; }

 protected:
  std::string error_;
};

[[noreturn]] void throw_cannot_open(const std::filesystem::path& path, int error,
                                    const char* why = "cannot open") {
  throw std::system_error(error, std::generic_category(), path.string() + ": " + why);
}

class FileSource : public RawSource {
 public:
  // O_NONBLOCK keeps open() from waiting for the other end of a FIFO; the type is checked before
  // as well, since opening a device can have an effect.
  explicit FileSource(const std::filesystem::path& path) {
    struct stat status;
    if (::stat(path.c_str(), &status) != 0) throw_cannot_open(path, errno);
    require_regular(path, status);
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor_ < 0) throw_cannot_open(path, errno);
    const int failed = ::fstat(descriptor_, &status) != 0 ? errno : 0;
    if (failed != 0 || !S_ISREG(status.st_mode)) {
      ::close(descriptor_);
      if (failed != 0) throw_cannot_open(path, failed);
      require_regular(path, status);
    }
  }
  ~FileSource() override { ::close(descriptor_); }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  size_t read(char* buffer, size_t size_bytes) override {
    ssize_t count;
    do {
      count = ::read(descriptor_, buffer, size_bytes);
    } while (count < 0 && errno == EINTR);
    if (count >= 0) return static_cast<size_t>(count);
    error_ = "read error (" + std::generic_category().message(errno) + ")";
    return 0;
  }

 private:
  static void require_regular(const std::filesystem::path& path, const struct stat& status) {
    if (S_ISDIR(status.st_mode)) throw_cannot_open(path, EISDIR);
    if (!S_ISREG(status.st_mode)) throw_cannot_open(path, EINVAL, "not a regular file");
  }

  int descriptor_ = -1;
};

// A source through a fixed buffer, so that headers can be looked at before they are consumed.
class RawBuffer {
 public:
  explicit RawBuffer(std::unique_ptr<RawSource> source) : source_(std::move(source)) {}

  // Tries to have `count` bytes at hand; fewer are there only at the end.
  std::string_view peek(size_t count) {
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
  void skip(size_t count) { begin_ += count; }
  std::optional<uint8_t> next() {
    if (peek(1).empty()) return std::nullopt;
    return static_cast<uint8_t>(bytes_[begin_++]);
  }
  const std::string& error() const { return source_->error(); }

 private:
  size_t size() const { return end_ - begin_; }

  std::unique_ptr<RawSource> source_;
  std::array<char, kBufferBytes> bytes_;
  size_t begin_ = 0, end_ = 0;
};

// ---- gzip

// Raw deflate. The gzip framing is ours, because zlib's own stops for good at a wrong CRC and
// does not tell a cut trailer from a cut stream.
class Inflater {
 public:
  Inflater() {
    if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  z_stream& stream() { return stream_; }
  void reset() { inflateReset(&stream_); }

 private:
  z_stream stream_ = {};
};

constexpr std::string_view kGzipMagic = "\x1f\x8b";

bool is_gzip_name(std::string_view name) { return name.ends_with(".gz"); }

// Plain bytes as they are, gzip by its magic.
class DecodingReader : public ContentReader {
 public:
  // Content that is not what a name in .gz promises is damage.
  DecodingReader(std::unique_ptr<RawSource> source, bool is_named_gzip)
      : input_(std::move(source)) {
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

  size_t read(char* buffer, size_t size_bytes) override {
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

 private:
  enum class State { kPlain, kHeader, kDeflate, kTrailer, kBetween, kEnd };

  void end(std::string_view damage) {
    source_failed_ = !input_.error().empty();
    add_damage(source_failed_ ? std::string_view(input_.error()) : damage);
    state_ = State::kEnd;
  }
  void end_truncated() { end("gzip stream is truncated"); }

  size_t read_plain(char* buffer, size_t size_bytes) {
    const std::string_view bytes = input_.peek(1).substr(0, size_bytes);
    if (bytes.empty()) end("");
    std::copy(bytes.begin(), bytes.end(), buffer);
    input_.skip(bytes.size());
    return bytes.size();
  }

  // RFC 1952, 2.3: magic, method, flags, mtime (4), xfl, os; then what the flags announce.
  void read_header() {
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

  bool skip_bytes(size_t count) {
    while (count > 0 && input_.next()) --count;
    return count == 0;
  }
  bool skip_extra_field() {
    const auto low = input_.next(), high = input_.next();
    return low && high && skip_bytes(static_cast<size_t>(*low | *high << 8));
  }
  bool skip_string() {
    for (;;) {
      const auto byte = input_.next();
      if (!byte || *byte == 0) return byte.has_value();
    }
  }

  // Input is asked for only when inflate can do nothing more with what it has, so that a cut
  // stream gives up every byte it holds.
  size_t read_deflate(char* buffer, size_t size_bytes) {
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
  void consume(size_t count) {
    available_.remove_prefix(count);
    input_.skip(count);
  }

  void read_trailer() {
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
  void find_next_member() {
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

  RawBuffer input_;
  Inflater inflater_;
  State state_ = State::kPlain;
  std::string_view available_;  // what inflate may take of input_'s buffer
  uLong crc_ = 0;
  uint32_t length_ = 0;  // mod 2^32, as the trailer has it
  uint64_t members_ = 0;
};

// ---- tar

struct FreeArchive {
  void operator()(archive* handle) const { archive_read_free(handle); }
};
using ArchiveHandle = std::unique_ptr<archive, FreeArchive>;

std::string tar_damage(archive* handle) {
  const char* text = archive_error_string(handle);
  const std::string_view reason = text != nullptr ? text : "unknown reason";
  if (reason.find("runcated") != std::string_view::npos) return "archive is truncated";
  if (reason.starts_with("Unrecognized")) return "not a tar archive";
  return "archive is damaged (" + std::string(reason) + ")";
}

// The bytes of a (decompressed) tar, handed to libarchive: decompression stays ours, because
// libarchive does not check the CRC of a gzip stream.
struct TarInput {
  ContentReader& content;
  std::array<char, kBufferBytes> buffer = {};
  bool is_empty = true;

  static la_ssize_t read(archive*, void* self, const void** block) {
    TarInput& input = *static_cast<TarInput*>(self);
    const size_t count = input.content.read(input.buffer.data(), input.buffer.size());
    if (count > 0) input.is_empty = false;
    *block = input.buffer.data();
    return static_cast<la_ssize_t>(count);
  }
};

class MemberSource : public RawSource {
 public:
  MemberSource(archive* handle, const ContentReader& content)
      : handle_(handle), content_(content) {}

  // By blocks: archive_read_data would lose what precedes a break in the same call.
  size_t read(char* buffer, size_t size_bytes) override {
    while (block_.empty()) {
      const void* data = nullptr;
      size_t count = 0;
      la_int64_t offset = 0;  // without holes the blocks follow each other
      const int result =
          is_at_end_ ? ARCHIVE_EOF : archive_read_data_block(handle_, &data, &count, &offset);
      is_at_end_ = result != ARCHIVE_OK && result != ARCHIVE_WARN;
      if (result == ARCHIVE_EOF) return 0;
      if (is_at_end_) {
        error_ = content_.damage().empty() ? tar_damage(handle_) : content_.damage();
        return 0;
      }
      block_ = {static_cast<const char*>(data), count};
    }
    const size_t count = block_.copy(buffer, size_bytes);
    block_.remove_prefix(count);
    return count;
  }

 private:
  archive* handle_;
  const ContentReader& content_;
  std::string_view block_;  // in libarchive's memory, until the next call to it
  bool is_at_end_ = false;
};

std::string member_path(archive_entry* entry) {
  const char* path = archive_entry_pathname(entry);
  if (path == nullptr) path = archive_entry_pathname_utf8(entry);  // not in the locale's charset
  return path != nullptr ? path : "";
}

bool has_parent_segment(std::string_view path) {
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find_first_of("/\\", begin), path.size());
    if (path.substr(begin, end - begin) == "..") return true;
    begin = end + 1;
  }
  return false;
}

// Why a member must not be read, "" when it may.
std::string refusal(archive_entry* entry, std::string_view path) {
  if (path.empty()) return "member has no name";
  if (path.front() == '/' || path.front() == '\\' || (path.size() > 1 && path[1] == ':')) {
    return "member path is absolute";
  }
  if (has_parent_segment(path)) return "member path contains \"..\"";
  if (archive_entry_hardlink(entry) != nullptr) return "member is a hard link";
  switch (archive_entry_filetype(entry)) {
    case AE_IFREG:
      break;
    case AE_IFLNK:
      return "member is a symbolic link";
    case AE_IFCHR:
    case AE_IFBLK:
      return "member is a device";
    case AE_IFIFO:
      return "member is a FIFO";
    case AE_IFSOCK:
      return "member is a socket";
    default:
      return "member is not a regular file";
  }
  // A few bytes can claim to be any number of zeros.
  return archive_entry_sparse_count(entry) > 0 ? "member is a sparse file" : "";
}

ArchiveHandle open_tar(TarInput& input) {
  ArchiveHandle handle(archive_read_new());
  if (handle == nullptr) throw std::bad_alloc();
  archive_read_support_format_tar(handle.get());
  // Everything up to the end of the input is read, so no second archive hides behind the first.
  archive_read_set_format_option(handle.get(), "tar", "read_concatenated_archives", "1");
  archive_read_open(handle.get(), &input, nullptr, &TarInput::read, nullptr);
  return handle;
}

bool has_tar_header(const std::filesystem::path& path) {
  constexpr size_t kMagicOffset = 257;
  constexpr std::string_view kMagic = "ustar";
  const std::unique_ptr<ContentReader> content = open_content(path);
  std::array<char, kMagicOffset + kMagic.size()> head;
  size_t size = 0;
  while (size < head.size()) {
    const size_t count = content->read(head.data() + size, head.size() - size);
    if (count == 0) return false;
    size += count;
  }
  return std::string_view(head.data(), size).substr(kMagicOffset) == kMagic;
}

}  // namespace

void ContentReader::add_damage(std::string_view reason) {
  if (reason.empty() || damage_.find(reason) != std::string::npos) return;
  if (!damage_.empty()) damage_ += "; ";
  damage_ += reason;
}

std::unique_ptr<ContentReader> open_content(const std::filesystem::path& path) {
  return std::make_unique<DecodingReader>(std::make_unique<FileSource>(path),
                                          is_gzip_name(path.native()));
}

bool is_archive_name(std::string_view name) {
  return name.ends_with(".tgz") || name.ends_with(".tar.gz") || name.ends_with(".tar");
}

bool is_archive(const std::filesystem::path& path) {
  if (is_archive_name(path.native())) return true;
  try {
    return has_tar_header(path);
  } catch (const std::system_error&) {
    return false;
  }
}

std::string for_each_member(
    const std::filesystem::path& archive,
    const std::function<void(const ArchiveMember& member, ContentReader& content)>& on_member,
    const std::function<void(const std::string& path, const std::string& reason)>& on_refused) {
  DecodingReader content(std::make_unique<FileSource>(archive), /*is_named_gzip=*/false);
  TarInput input{content};
  const ArchiveHandle handle = open_tar(input);
  std::string damage;
  for (;;) {
    archive_entry* entry = nullptr;
    const int result = archive_read_next_header(handle.get(), &entry);
    if (result == ARCHIVE_EOF) break;
    if (result != ARCHIVE_OK && result != ARCHIVE_WARN) {
      if (damage.empty()) damage = tar_damage(handle.get());
      if (result != ARCHIVE_RETRY) break;
      continue;  // a block that is no header: libarchive takes the next one
    }
    if (archive_entry_filetype(entry) == AE_IFDIR) continue;
    const ArchiveMember member{member_path(entry), static_cast<uint64_t>(std::max<la_int64_t>(
                                                       archive_entry_size(entry), 0))};
    if (const std::string reason = refusal(entry, member.path); !reason.empty()) {
      on_refused(member.path, reason);
      continue;
    }
    DecodingReader reader(std::make_unique<MemberSource>(handle.get(), content),
                          is_gzip_name(member.path));
    on_member(member, reader);
  }
  if (input.is_empty && content.damage().empty()) return "not an archive (0 bytes)";
  return content.damage().empty() ? damage : content.damage();
}

}  // namespace greta
