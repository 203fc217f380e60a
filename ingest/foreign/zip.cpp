#include "ingest/foreign/zip.h"

#include <locale.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "common/stop_signal.h"
#include "common/utf8.h"

namespace greta {
namespace {

constexpr size_t kInputBytes = size_t{64} << 10;
constexpr uint64_t kHarmlessBytes = uint64_t{128} << 20;
constexpr uint64_t kMostRatio = 100;

/// While it lives, this thread's characters are UTF-8: in any other locale libarchive has no name
/// for a member whose name is not ASCII.
class Utf8Characters {
 public:
  Utf8Characters() {
    static const locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
    if (utf8 != nullptr) before_ = uselocale(utf8);
  }
  ~Utf8Characters() {
    if (before_ != nullptr) uselocale(before_);
  }
  Utf8Characters(const Utf8Characters&) = delete;
  Utf8Characters& operator=(const Utf8Characters&) = delete;

 private:
  locale_t before_ = nullptr;
};

template <class T>
T little(const std::string& bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// How many members the end of the file says that there are (APPNOTE.TXT, 4.3.16, 4.3.14).
uint64_t claimed_members(Bytes& file) {
  constexpr size_t kEndBytes = 22, kLocatorBytes = 20, kEnd64Bytes = 56, kMostComment = 65535;
  const uint64_t from =
      file.size() - std::min<uint64_t>(file.size(), kEndBytes + kMostComment + kLocatorBytes);
  const std::string tail = file.text(from, static_cast<size_t>(file.size() - from));
  const size_t end = tail.rfind("PK\x05\x06");
  if (end == tail.npos || tail.size() - end < kEndBytes) {
    throw ForeignError("the ZIP is damaged (it has no end)");
  }
  const auto count = little<uint16_t>(tail, end + 10);
  const size_t locator = end - std::min(end, kLocatorBytes);
  if (count != UINT16_MAX || !std::string_view(tail).substr(locator).starts_with("PK\x06\x07")) {
    return count;
  }
  return little<uint64_t>(file.text(little<uint64_t>(tail, locator + 8), kEnd64Bytes), 32);
}

}  // namespace

ZipReader::ZipReader(Bytes& file)
    : input_{file},
      handle_(libarchive().read_new()),
      most_decoded_(std::max(kHarmlessBytes, kMostRatio * file.size())) {
  if (!handle_) throw std::bad_alloc();
  archive* const a = handle_.get();
  libarchive().read_support_format_zip_seekable(a);
  libarchive().read_set_read_callback(a, &ZipReader::read_input);
  libarchive().read_set_seek_callback(a, &ZipReader::seek_input);
  libarchive().read_set_callback_data(a, &input_);
  if (libarchive().read_open1(a) != ARCHIVE_OK) refuse();
}

la_ssize_t ZipReader::read_input(archive* a, void* data, const void** to) {
  Input& input = *static_cast<Input*>(data);
  const uint64_t left = input.file.size() - std::min(input.file.size(), input.at);
  input.buffer.resize(static_cast<size_t>(std::min<uint64_t>(kInputBytes, left)));
  try {
    input.file.read(input.at, input.buffer.data(), input.buffer.size());
  } catch (const ForeignError& error) {
    libarchive().set_error(a, -1, "%s", error.what());
    return -1;
  }
  input.at += input.buffer.size();
  *to = input.buffer.data();
  return static_cast<la_ssize_t>(input.buffer.size());
}

la_int64_t ZipReader::seek_input(archive*, void* data, la_int64_t offset, int whence) {
  Input& input = *static_cast<Input*>(data);
  const auto size = static_cast<la_int64_t>(input.file.size());
  const la_int64_t base = whence == SEEK_SET   ? 0
                          : whence == SEEK_CUR ? static_cast<la_int64_t>(input.at)
                                               : size;
  la_int64_t to = 0;
  if (__builtin_add_overflow(base, offset, &to) || to < 0) return ARCHIVE_FATAL;
  input.at = static_cast<uint64_t>(std::min(to, size));
  return static_cast<la_int64_t>(input.at);
}

void ZipReader::refuse() {
  const char* reason = libarchive().error_string(handle_.get());
  throw ForeignError("the ZIP is damaged (" + utf8::printable(reason ? reason : "no reason") + ")");
}

bool ZipReader::next(std::string& name) {
  for (;;) {
    throw_if_stopped();
    archive_entry* entry = nullptr;
    const int result = next_header(&entry);
    if (result == ARCHIVE_EOF) {
      check_count();
      return false;
    }
    // A warning is of a member of which its two headers say different things, or of a bad name.
    if (result != ARCHIVE_OK) refuse();
    ++n_entries_;
    if (libarchive().entry_filetype(entry) != AE_IFREG) continue;
    const char* path = libarchive().entry_pathname(entry);
    name = path ? path : "";
    const auto shown = [&] { return utf8::printable(name.substr(0, 200)); };
    if (libarchive().entry_is_encrypted(entry)) {
      throw ForeignError("member " + shown() +
                         " of the ZIP is encrypted: unpack it with its password, and pack it"
                         " without one");
    }
    if (!names_.insert(name).second) {
      throw ForeignError("the ZIP has two members " + shown() +
                         ", and nothing says which one is meant");
    }
    return true;
  }
}

int ZipReader::next_header(archive_entry** entry) {
  const Utf8Characters while_it_reads;
  return libarchive().read_next_header(handle_.get(), entry);
}

/// Of two members at one place libarchive gives one.
void ZipReader::check_count() {
  const uint64_t claimed = claimed_members(input_.file);
  if (claimed == n_entries_) return;
  throw ForeignError("the ZIP is damaged (it claims " + std::to_string(claimed) +
                     " members, and has " + std::to_string(n_entries_) + ")");
}

size_t ZipReader::read(char* to, size_t count) {
  const la_ssize_t got = libarchive().read_data(handle_.get(), to, count);
  if (got < 0) refuse();
  decoded_ += static_cast<uint64_t>(got);
  if (decoded_ > most_decoded_) {
    throw ForeignError("the ZIP expands to more than " + std::to_string(kMostRatio) +
                       " times its size; nothing more of it is read");
  }
  return static_cast<size_t>(got);
}

std::string ZipReader::read_start(size_t most) {
  std::string bytes;
  for (size_t filled = 0;;) {
    if (filled == bytes.size()) {
      bytes.resize(std::min(most + 1, std::max(kInputBytes, 2 * bytes.size())));
    }
    const size_t got = read(bytes.data() + filled, bytes.size() - filled);
    filled += got;
    if (got == 0 || filled == most + 1) {
      bytes.resize(filled);
      return bytes;
    }
  }
}

ZipMemberBytes::ZipMemberBytes(Bytes& file, std::string name)
    : file_(file), name_(std::move(name)) {
  open();
  std::vector<char> buffer(kInputBytes);
  for (size_t got; (got = reader_->read(buffer.data(), buffer.size())) > 0;) size_ += got;
  open();
}

void ZipMemberBytes::open() {
  reader_ = std::make_unique<ZipReader>(file_);
  at_ = 0;
  for (std::string name; reader_->next(name);) {
    if (name == name_) return;
  }
  throw ForeignError("the ZIP has lost its member " + utf8::printable(name_));
}

void ZipMemberBytes::skip(uint64_t count) {
  std::vector<char> buffer(kInputBytes);
  while (count > 0) {
    const size_t got =
        reader_->read(buffer.data(), static_cast<size_t>(std::min<uint64_t>(count, buffer.size())));
    if (got == 0) throw ForeignError("member " + utf8::printable(name_) + " is truncated");
    at_ += got;
    count -= got;
  }
}

void ZipMemberBytes::read(uint64_t offset, char* to, size_t count) {
  if (offset > size_ || count > size_ - offset) {
    throw ForeignError("bytes beyond the end of member " + utf8::printable(name_));
  }
  if (offset < at_) open();
  skip(offset - at_);
  while (count > 0) {
    const size_t got = reader_->read(to, count);
    if (got == 0) throw ForeignError("member " + utf8::printable(name_) + " is truncated");
    at_ += got;
    to += got;
    count -= got;
  }
}

}  // namespace greta
