#include "ingest/content/libarchive.h"

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

}  // namespace greta
