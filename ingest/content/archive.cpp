#include "ingest/content/archive.h"

#include <algorithm>
#include <array>
#include <new>

#include "common/shared_library.h"

namespace greta {
namespace {

Libarchive load_libarchive() {
  const SharedLibrary library("libarchive.so.13");  // its name since version 3
  Libarchive archive{};
  library.find("archive_read_new", archive.read_new);
  library.find("archive_read_free", archive.read_free);
  library.find("archive_read_support_format_tar", archive.read_support_format_tar);
  library.find("archive_read_support_format_zip_seekable",
               archive.read_support_format_zip_seekable);
  library.find("archive_read_set_format_option", archive.read_set_format_option);
  library.find("archive_read_open", archive.read_open);
  library.find("archive_read_open1", archive.read_open1);
  library.find("archive_read_set_read_callback", archive.read_set_read_callback);
  library.find("archive_read_set_seek_callback", archive.read_set_seek_callback);
  library.find("archive_read_set_callback_data", archive.read_set_callback_data);
  library.find("archive_read_next_header", archive.read_next_header);
  library.find("archive_read_data", archive.read_data);
  library.find("archive_read_data_block", archive.read_data_block);
  library.find("archive_error_string", archive.error_string);
  library.find("archive_set_error", archive.set_error);
  library.find("archive_entry_filetype", archive.entry_filetype);
  library.find("archive_entry_hardlink", archive.entry_hardlink);
  library.find("archive_entry_is_encrypted", archive.entry_is_encrypted);
  library.find("archive_entry_pathname", archive.entry_pathname);
  library.find("archive_entry_pathname_utf8", archive.entry_pathname_utf8);
  library.find("archive_entry_size", archive.entry_size);
  library.find("archive_entry_sparse_count", archive.entry_sparse_count);
  return archive;
}

}  // namespace

const Libarchive& libarchive() {
  static const Libarchive archive = load_libarchive();
  return archive;
}

namespace {

struct FreeArchive {
  void operator()(archive* handle) const { libarchive().read_free(handle); }
};
using ArchiveHandle = std::unique_ptr<archive, FreeArchive>;

std::string tar_damage(archive* handle) {
  const char* text = libarchive().error_string(handle);
  const std::string_view reason = text != nullptr ? text : "unknown reason";
  if (reason.find("runcated") != std::string_view::npos) return "archive is truncated";
  if (reason.starts_with("Unrecognized")) return "not a tar archive";
  return "archive is damaged (" + std::string(reason) + ")";
}

// The bytes of a (decompressed) tar, handed to libarchive: decompression stays ours, because
// libarchive does not check the CRC of a gzip stream.
struct TarInput {
  ContentReader& content;
  std::array<char, size_t{64}* 1024> buffer = {};
  bool is_empty = true;

  static la_ssize_t read(archive*, void* self, const void** block) {
    TarInput& input = *static_cast<TarInput*>(self);
    const size_t count = input.content.read(input.buffer.data(), input.buffer.size());
    if (count > 0) input.is_empty = false;
    *block = input.buffer.data();
    return static_cast<la_ssize_t>(count);
  }
};

class MemberSource : public ByteSource {
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
          is_at_end_ ? ARCHIVE_EOF : libarchive().read_data_block(handle_, &data, &count, &offset);
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
  const char* path = libarchive().entry_pathname(entry);
  if (path == nullptr)
    path = libarchive().entry_pathname_utf8(entry);  // not in the locale's charset
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
  if (libarchive().entry_hardlink(entry) != nullptr) return "member is a hard link";
  switch (libarchive().entry_filetype(entry)) {
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
  return libarchive().entry_sparse_count(entry) > 0 ? "member is a sparse file" : "";
}

ArchiveHandle open_tar(TarInput& input) {
  ArchiveHandle handle(libarchive().read_new());
  if (handle == nullptr) throw std::bad_alloc();
  libarchive().read_support_format_tar(handle.get());
  // Everything up to the end of the input is read, so no second archive hides behind the first.
  libarchive().read_set_format_option(handle.get(), "tar", "read_concatenated_archives", "1");
  libarchive().read_open(handle.get(), &input, nullptr, &TarInput::read, nullptr);
  return handle;
}

}  // namespace

std::string for_each_member(
    ContentReader& archive,
    const std::function<void(const ArchiveMember& member, std::unique_ptr<ContentReader> content)>&
        on_member,
    const std::function<void(const std::string& path, const std::string& reason)>& on_refused) {
  TarInput input{archive};
  const ArchiveHandle handle = open_tar(input);
  std::string damage;
  for (;;) {
    archive_entry* entry = nullptr;
    const int result = libarchive().read_next_header(handle.get(), &entry);
    if (result == ARCHIVE_EOF) break;
    if (result != ARCHIVE_OK && result != ARCHIVE_WARN) {
      if (damage.empty()) damage = tar_damage(handle.get());
      if (result != ARCHIVE_RETRY) break;
      continue;  // a block that is no header: libarchive takes the next one
    }
    if (libarchive().entry_filetype(entry) == AE_IFDIR) continue;
    const ArchiveMember member{member_path(entry), static_cast<uint64_t>(std::max<la_int64_t>(
                                                       libarchive().entry_size(entry), 0))};
    if (const std::string reason = refusal(entry, member.path); !reason.empty()) {
      on_refused(member.path, reason);
      continue;
    }
    on_member(member, decoded(std::make_unique<MemberSource>(handle.get(), archive),
                              is_gzip_name(member.path)));
  }
  if (input.is_empty && archive.damage().empty()) return "not an archive (0 bytes)";
  return archive.damage().empty() ? damage : archive.damage();
}

}  // namespace greta
