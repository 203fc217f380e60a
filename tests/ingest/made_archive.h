// Archives and compressed contents that a test makes in memory.
#pragma once
#include <archive.h>
#include <archive_entry.h>
#include <zlib.h>

#include <string>
#include <vector>

namespace greta {

inline std::string gzipped(const std::string& text, int level = 6, gz_header* header = nullptr) {
  z_stream stream = {};
  deflateInit2(&stream, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  if (header != nullptr) deflateSetHeader(&stream, header);
  std::string out(deflateBound(&stream, text.size()) + 1000, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

struct MadeEntry {
  std::string path;
  std::string content = {};
  unsigned type = AE_IFREG;
  std::string link = {};  ///< target: symbolic for AE_IFLNK, else hard
  bool sparse = false;    ///< of a tebibyte, nothing in it
};

inline void add_made_entry(archive* writer, const MadeEntry& entry) {
  archive_entry* header = archive_entry_new();
  archive_entry_set_pathname(header, entry.path.c_str());
  archive_entry_set_filetype(header, entry.type);
  archive_entry_set_perm(header, 0644);
  archive_entry_set_size(header, static_cast<la_int64_t>(entry.content.size()));
  if (entry.type == AE_IFLNK) {
    archive_entry_set_symlink(header, entry.link.c_str());
  } else if (!entry.link.empty()) {
    archive_entry_set_hardlink(header, entry.link.c_str());
  }
  if (entry.sparse) {
    archive_entry_set_size(header, la_int64_t{1} << 40);
    archive_entry_sparse_add_entry(header, 0, 1);
  }
  archive_write_header(writer, header);
  archive_write_data(writer, entry.content.data(), entry.content.size());
  archive_entry_free(header);
}

/// `set_format` is told the writer.
template <class SetFormat>
std::string archived(const std::vector<MadeEntry>& entries, SetFormat set_format) {
  size_t room = 1 << 16, used = 0;
  for (const MadeEntry& entry : entries) room += entry.content.size() + 4096;
  std::string out(room, '\0');
  archive* writer = archive_write_new();
  set_format(writer);
  archive_write_open_memory(writer, out.data(), out.size(), &used);
  for (const MadeEntry& entry : entries) add_made_entry(writer, entry);
  archive_write_close(writer);
  archive_write_free(writer);
  out.resize(used);
  return out;
}

inline std::string tarred(const std::vector<MadeEntry>& entries) {
  return archived(entries, archive_write_set_format_pax_restricted);
}

/// A ZIP, stored or deflated.
inline std::string zipped(const std::vector<MadeEntry>& entries, bool deflated = false) {
  return archived(entries, [deflated](archive* writer) {
    archive_write_set_format_zip(writer);
    deflated ? archive_write_zip_set_compression_deflate(writer)
             : archive_write_zip_set_compression_store(writer);
  });
}

}  // namespace greta
