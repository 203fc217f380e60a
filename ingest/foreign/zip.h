#pragma once
#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "ingest/content/archive.h"
#include "ingest/foreign/bytes.h"

namespace greta {

/// The members of a ZIP, one after the other, through libarchive. Their paths are names and nothing
/// else. Borrows the bytes. Throws ForeignError for what is damaged (headers that contradict each
/// other, too), encrypted, has two members of one name, or expands to more than 128 MiB and more
/// than 100 times the ZIP's size.
class ZipReader {
 public:
  explicit ZipReader(Bytes& file);

  /// The next regular member; false behind the last.
  bool next(std::string& name);
  /// Up to `count` bytes of it; 0 only at its end.
  size_t read(char* to, size_t count);
  /// All of it, when it is no larger than `most`; else its first most + 1 bytes.
  std::string read_start(size_t most);

  /// For members that are read again: bytes read so far.
  uint64_t decoded() const { return decoded_; }

 private:
  struct Input {
    Bytes& file;
    uint64_t at = 0;
    std::string buffer = {};
  };
  struct Free {
    void operator()(archive* handle) const { libarchive().read_free(handle); }
  };
  static la_ssize_t read_input(archive*, void* input, const void** to);
  static la_int64_t seek_input(archive*, void* input, la_int64_t offset, int whence);
  [[noreturn]] void refuse();
  int next_header(archive_entry** entry);
  void check_count();

  Input input_;
  std::unique_ptr<archive, Free> handle_;
  std::set<std::string> names_;
  uint64_t n_entries_ = 0, decoded_ = 0, most_decoded_;
};

/// One member of a ZIP, however large: read forward, and anew from its start for what lies before.
class ZipMemberBytes : public Bytes {
 public:
  /// Reads all of it once, to know its size.
  ZipMemberBytes(Bytes& file, std::string name);
  uint64_t size() const override { return size_; }
  void read(uint64_t offset, char* to, size_t count) override;
  bool is_forward_only() const override { return true; }

 private:
  void open();
  void skip(uint64_t count);

  Bytes& file_;
  std::string name_;
  std::unique_ptr<ZipReader> reader_;
  uint64_t at_ = 0, size_ = 0;
};

}  // namespace greta
