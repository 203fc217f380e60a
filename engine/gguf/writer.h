#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/matrix.h"

namespace greta {

/// Writes a GGUF v3 file: metadata first, then tensors one by one, so that a model larger than
/// memory can be made. The file appears under its name only when finish() succeeds (written beside
/// it, synced, renamed over what was there). Throws std::system_error with the path,
/// std::logic_error for calls in a wrong order, names used twice and sizes that do not match.
class GgufWriter {
 public:
  explicit GgufWriter(std::filesystem::path file);
  ~GgufWriter();  ///< removes what was not finished
  GgufWriter(const GgufWriter&) = delete;
  GgufWriter& operator=(const GgufWriter&) = delete;

  /// Metadata, in the order of the file; before the first write.
  void add_uint32(std::string_view key, uint32_t value);
  void add_float32(std::string_view key, float value);
  void add_bool(std::string_view key, bool value);
  void add_string(std::string_view key, std::string_view value);
  void add_strings(std::string_view key, std::span<const std::string> values);
  void add_floats(std::string_view key, std::span<const float> values);
  void add_int32s(std::string_view key, std::span<const int32_t> values);
  void add_bools(std::string_view key, const std::vector<bool>& values);

  /// Declares a tensor, before the first write. 1 to 4 positive dims; dims[0] is the contiguous
  /// one and fills whole blocks.
  void declare(std::string_view name, WeightType type, std::span<const int64_t> dims);

  /// Writes the tensors in the order of declare(), as they are stored: any piece of a tensor's
  /// bytes, none that reaches into the next one.
  void write(std::span<const std::byte> data);

  /// Ends the file. Throws std::logic_error when a declared tensor is incomplete.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace greta
