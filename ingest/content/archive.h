#pragma once
#include <archive.h>
#include <archive_entry.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "ingest/content/reader.h"

namespace greta {

/// Functions of libarchive, which is loaded when the first archive is read: with the libraries
/// that it needs it would take a tenth of the time in which a file says how a run comes out.
struct Libarchive {
  decltype(&archive_read_new) read_new;
  decltype(&archive_read_free) read_free;
  decltype(&archive_read_support_format_tar) read_support_format_tar;
  decltype(&archive_read_support_format_zip_seekable) read_support_format_zip_seekable;
  decltype(&archive_read_set_format_option) read_set_format_option;
  decltype(&archive_read_open) read_open;
  decltype(&archive_read_open1) read_open1;
  decltype(&archive_read_set_read_callback) read_set_read_callback;
  decltype(&archive_read_set_seek_callback) read_set_seek_callback;
  decltype(&archive_read_set_callback_data) read_set_callback_data;
  decltype(&archive_read_next_header) read_next_header;
  decltype(&archive_read_data) read_data;
  decltype(&archive_read_data_block) read_data_block;
  decltype(&archive_error_string) error_string;
  decltype(&archive_set_error) set_error;
  decltype(&archive_entry_filetype) entry_filetype;
  decltype(&archive_entry_hardlink) entry_hardlink;
  decltype(&archive_entry_is_encrypted) entry_is_encrypted;
  decltype(&archive_entry_pathname) entry_pathname;
  decltype(&archive_entry_pathname_utf8) entry_pathname_utf8;
  decltype(&archive_entry_size) entry_size;
  decltype(&archive_entry_sparse_count) entry_sparse_count;
};

/// Loaded once in a process. Throws std::runtime_error where the library is not there, or has not
/// all of these.
const Libarchive& libarchive();

struct ArchiveMember {
  std::string path;         ///< as the archive spells it; relative and without ".."
  uint64_t size_bytes = 0;  ///< as the archive declares it; the reader tells the truth
};

/// True if a tar begins so: a header of 512 bytes, of which the first 262 tell.
inline constexpr size_t kTarTellsBytes = 262;
constexpr bool begins_as_tar(std::string_view head) {
  constexpr std::string_view kMagic = "ustar";
  return head.size() >= kTarTellsBytes &&
         head.substr(kTarTellsBytes - kMagic.size()).starts_with(kMagic);
}

/// Streams every regular member of a tar archive through on_member, in archive
/// order; the reader is valid during the call only, and what it leaves unread is skipped. A member
/// that is itself gzip is decoded. on_refused gets the members that are never read, with a reason:
/// absolute or empty path, "..", link, device, FIFO, socket, sparse file. Directories are skipped.
/// Nothing is written to disk.
///
/// Returns the damage of the archive, "" if none: a gzip reason as above, "archive is truncated",
/// "archive is damaged (...)", "not a tar archive", "not an archive (0 bytes)". The member in
/// which the stream breaks says so in its reader's damage() too, and those before it are whole;
/// but a checksum of the stream comes after every member and is only in the result. Throws what the
/// callbacks throw.
std::string for_each_member(
    ContentReader& archive,
    const std::function<void(const ArchiveMember& member, std::unique_ptr<ContentReader> content)>&
        on_member,
    const std::function<void(const std::string& path, const std::string& reason)>& on_refused);

}  // namespace greta
