#pragma once
#include <archive.h>
#include <archive_entry.h>

namespace greta {

/// What is called of libarchive, which is loaded when the first archive is read: with the libraries
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

}  // namespace greta
