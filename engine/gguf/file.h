#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/matrix.h"
#include "kernels/rows.h"

// GGUF files, versions 2 and 3, little-endian. Source: the format's published specification
// (docs/gguf.md of ggml). Every offset, count and shape is checked against the file before use.

namespace greta {

/// Traits that set the blocks of an architecture apart; all else they share.
struct Architecture {
  std::string_view name;  ///< general.architecture, and the beginning of its keys
  RopePairing pairing = RopePairing::kInterleaved;
  bool has_qkv_bias = false;  ///< q, k and v have a bias always, not only where a file brings one
  bool has_qk_norm = false;   ///< heads of q and of k are normed before RoPE, each by itself

  /// llama.block_count
  std::string key(std::string_view rest) const {
    return std::string(name) + "." + std::string(rest);
  }
};

/// llama (Mistral's files call themselves so), qwen2, qwen3.
std::span<const Architecture> architectures();
/// "llama, qwen2, qwen3"
std::string architecture_names();
const Architecture* find_architecture(std::string_view name);  ///< nullptr when there is none

/// A file that is not GGUF, is damaged or uses what greta does not support. The message is one
/// line: file, where in it, what is wrong, what is supported.
struct GgufError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// An array of a metadata value, borrowed from the file. Numbers are kept as stored, unaligned.
struct GgufArray {
  uint32_t element_type = 0;  ///< GGUF value type; never an array (nested arrays are refused)
  uint64_t count = 0;
  std::span<const std::byte> data;        ///< of numbers and bools, little-endian
  std::vector<std::string_view> strings;  ///< of strings
};

/// A scalar is widened to the variant's type of its kind.
using GgufValue = std::variant<uint64_t, int64_t, double, bool, std::string_view, GgufArray>;

/// A tensor of the file. dims[0] is the contiguous one, as GGUF spells it: a matrix of [rows, cols]
/// has dims {cols, rows}. Every dimension is positive and n_values() does not overflow.
struct GgufTensor {
  std::string_view name;
  WeightType type = WeightType::kF32;
  int n_dims = 0;
  std::array<int64_t, 4> dims{1, 1, 1, 1};
  std::span<const std::byte> data;

  int64_t n_values() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
};

/// What a file system says of a file, which is another when its content changed: but for changes
/// within one tick of its clock, and through a mapping before the page is written.
struct FileStamp {
  int64_t size_bytes = 0;
  int64_t modified_ns = 0, changed_ns = 0;  ///< since 1970: the content, what is said of the file
  uint64_t inode = 0, device = 0;
  int64_t seen_ns = 0;  ///< when that was asked, by this machine's clock

  /// True if both say the same of the file, whenever that was.
  bool same_file(const FileStamp& other) const;
};

/// A parsed GGUF file. Everything it returns is borrowed from the mapping and lives as long as it.
/// Movable, not copyable; safe to read from several threads.
class GgufFile {
 public:
  /// Maps a file, read-only. What is cut off it while it is mapped reads as zeros: check_whole()
  /// tells. Throws GgufError, or std::system_error with the path when it cannot be opened.
  static GgufFile open(const std::filesystem::path& file);

  /// Parses bytes that the caller keeps alive; `name` stands for the file in messages. Tensor data
  /// is aligned in memory as far as bytes.data() is.
  static GgufFile parse(std::span<const std::byte> bytes, std::string name);

  ~GgufFile();
  GgufFile(GgufFile&&) noexcept;
  GgufFile& operator=(GgufFile&&) noexcept;

  /// After what was read is used, before its results are. Throws GgufError when the file was cut
  /// short since it was opened.
  void check_whole() const;

  /// Brings the file to memory, front to back, unless it is there: weights are used soon. Takes as
  /// long as its disk does, until `stop`.
  void read_ahead(const std::stop_token& stop) const;

  /// Of the file as it is now; nothing for parse().
  std::optional<FileStamp> stamp() const;

  const std::string& name() const { return name_; }
  uint32_t version() const { return version_; }
  uint64_t alignment() const { return alignment_; }
  std::span<const std::byte> bytes() const { return bytes_; }

  const GgufValue* find(std::string_view key) const;  ///< nullptr when absent
  std::span<const std::pair<std::string_view, GgufValue>> metadata() const { return metadata_; }

  /// Typed look-ups. Without a default a missing key is a GgufError; a value of another kind, a
  /// negative or a non-finite number where none may be, is a GgufError always. Integers are not
  /// reals.
  uint64_t unsigned_value(std::string_view key, std::optional<uint64_t> or_else = {}) const;
  double real_value(std::string_view key, std::optional<double> or_else = {}) const;
  bool bool_value(std::string_view key, bool or_else) const;
  std::string_view string_value(std::string_view key,
                                std::optional<std::string_view> or_else = {}) const;
  const GgufArray* array_value(std::string_view key) const;  ///< nullptr when absent

  /// Numbers of an array converted to T. Throws GgufError when the key is missing, when the
  /// elements are not of that kind, and for a NaN or an integer that int32 does not hold.
  std::vector<float> float_array(std::string_view key) const;
  std::vector<int32_t> int_array(std::string_view key) const;

  std::span<const GgufTensor> tensors() const { return tensors_; }
  const GgufTensor* find_tensor(std::string_view name) const;  ///< nullptr when absent

 private:
  friend class GgufParser;
  struct Mapping;
  GgufFile();
  [[noreturn]] void fail(std::string_view key, const std::string& what) const;
  [[noreturn]] void fail_kind(std::string_view key, std::string_view wanted) const;
  const GgufValue& require(std::string_view key) const;
  const GgufArray& require_array(std::string_view key) const;

  std::unique_ptr<Mapping> mapping_;  ///< null for parse()
  std::span<const std::byte> bytes_;
  std::string name_;
  uint32_t version_ = 0;
  uint64_t alignment_ = 32;
  std::vector<std::pair<std::string_view, GgufValue>> metadata_;
  std::unordered_map<std::string_view, size_t> by_key_;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string_view, size_t> by_name_;
};

}  // namespace greta
