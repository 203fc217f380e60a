#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "ingest/content/reader.h"

// Members of tar archives, plain or gzip.

namespace greta {

struct ArchiveMember {
  std::string path;         ///< as the archive spells it; relative and without ".."
  uint64_t size_bytes = 0;  ///< as the archive declares it; the reader tells the truth
};

/// True for the names .tgz, .tar.gz and .tar.
bool is_archive_name(std::string_view name);

/// Whether a tar begins so: a header of 512 bytes, of which the first 262 tell.
inline constexpr size_t kTarTellsBytes = 262;
constexpr bool begins_as_tar(std::string_view head) {
  constexpr std::string_view kMagic = "ustar";
  return head.size() >= kTarTellsBytes &&
         head.substr(kTarTellsBytes - kMagic.size()).starts_with(kMagic);
}

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
/// but a checksum of the stream comes after every member and is only in the result. `change`, when
/// given, gets ContentReader::change of the archive.
/// Throws std::system_error when the file cannot be opened, and whatever the callbacks throw.
std::string for_each_member(
    const std::filesystem::path& archive,
    const std::function<void(const ArchiveMember& member, ContentReader& content)>& on_member,
    const std::function<void(const std::string& path, const std::string& reason)>& on_refused,
    std::string* change = nullptr);

}  // namespace greta
