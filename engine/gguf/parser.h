#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf/file.h"

// How the bytes of a GGUF file are read; file.h is what the engine uses.

namespace greta {

static_assert(std::endian::native == std::endian::little, "GGUF is read in place: little-endian");

/// Value types of the metadata, numbered as in the file.
enum class GgufType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

/// "uint8" …; "?" for a number that is none.
std::string_view gguf_type_name(uint32_t number);

/// Bytes of a number or bool; 0 for strings, arrays and numbers that are no type.
size_t gguf_type_bytes(uint32_t number);

/// A name for a message: in quotes, on one line whatever it holds, shortened when long.
std::string gguf_quoted(std::string_view name);

/// The little-endian T at any address.
template <typename T>
T load_unaligned(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// One pass over the bytes of `file`, filling its metadata and tensors. Allocates in proportion to
/// what was read so far, never to what a count claims.
class GgufParser {
 public:
  explicit GgufParser(GgufFile& file) : file_(file), bytes_(file.bytes_) {}

  /// Throws GgufError.
  void parse();

 private:
  [[noreturn]] void fail(uint64_t offset, const std::string& what) const;
  uint64_t left() const { return bytes_.size() - at_; }
  template <typename T>
  T read(std::string_view what);
  std::string_view read_string(std::string_view what);

  void parse_header();
  void parse_entry(uint64_t index);
  GgufValue read_value(uint32_t type);
  GgufValue read_number(uint32_t type);
  bool read_bool();
  GgufArray read_array();
  void set_alignment();
  void parse_tensor(uint64_t index);
  void read_shape(GgufTensor& tensor);
  void read_type(GgufTensor& tensor);
  void place_data();
  void check_overlaps();

  /// What fail() names beside the offset.
  struct Place {
    std::string_view kind;  ///< "" for the header
    uint64_t index = 0;
    std::string_view name;  ///< "" while unknown
  };

  /// Where a tensor says its data is, relative to the data section.
  struct Claim {
    uint64_t offset_bytes;
    uint64_t said_at;  ///< position of offset_bytes in the file
  };

  GgufFile& file_;
  std::span<const std::byte> bytes_;
  uint64_t at_ = 0;
  uint64_t n_entries_ = 0, n_tensors_ = 0;
  Place place_;
  std::vector<Claim> claims_;  ///< of file_.tensors_, same order
};

}  // namespace greta
