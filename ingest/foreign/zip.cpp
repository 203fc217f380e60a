#include "ingest/foreign/zip.h"

#include <archive_entry.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <vector>

#include "common/stop_signal.h"
#include "common/utf8.h"
#include "ingest/foreign/error.h"

namespace greta {
namespace {

constexpr size_t kInputBytes = size_t{64} << 10;
constexpr uint64_t kHarmlessBytes = uint64_t{128} << 20;
constexpr uint64_t kMostRatio = 100;

}  // namespace

ZipReader::ZipReader(Bytes& file)
    : input_{file},
      handle_(archive_read_new()),
      most_decoded_(std::max(kHarmlessBytes, kMostRatio * file.size())) {
  if (!handle_) throw std::bad_alloc();
  archive* const a = handle_.get();
  archive_read_support_format_zip_seekable(a);
  archive_read_set_read_callback(a, &ZipReader::read_input);
  archive_read_set_seek_callback(a, &ZipReader::seek_input);
  archive_read_set_callback_data(a, &input_);
  if (archive_read_open1(a) != ARCHIVE_OK) refuse();
}

la_ssize_t ZipReader::read_input(archive* a, void* data, const void** to) {
  Input& input = *static_cast<Input*>(data);
  const uint64_t left = input.file.size() - std::min(input.file.size(), input.at);
  input.buffer.resize(static_cast<size_t>(std::min<uint64_t>(kInputBytes, left)));
  try {
    input.file.read(input.at, input.buffer.data(), input.buffer.size());
  } catch (const ForeignError& error) {
    archive_set_error(a, -1, "%s", error.what());
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
  const char* reason = archive_error_string(handle_.get());
  throw ForeignError("the ZIP is damaged (" + utf8::printable(reason ? reason : "no reason") + ")");
}

bool ZipReader::next(std::string& name) {
  for (;;) {
    throw_if_stopped();
    archive_entry* entry = nullptr;
    const int result = archive_read_next_header(handle_.get(), &entry);
    if (result == ARCHIVE_EOF) return false;
    if (result != ARCHIVE_OK && result != ARCHIVE_WARN) refuse();
    if (archive_entry_filetype(entry) != AE_IFREG) continue;
    const char* path = archive_entry_pathname(entry);
    name = path ? path : "";
    return true;
  }
}

size_t ZipReader::read(char* to, size_t count) {
  const la_ssize_t got = archive_read_data(handle_.get(), to, count);
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
