#pragma once
#include <string>
#include <vector>

#include "ingest/foreign/bytes.h"
#include "ingest/foreign/tensor.h"

namespace greta {

/// The values of a tensor that is not contiguous, as stored, row by row and without gaps: of any
/// size, some 48 MiB of which are in memory. Reads forward are cheap.
class RowByRowBytes : public Bytes {
 public:
  /// Borrows both; `storage` holds the tensor. Throws ForeignError for a tensor that reaches beyond
  /// it, and for one that shows its values so often that they are more than 32 MiB and than the
  /// storage.
  RowByRowBytes(const Tensor& tensor, Bytes& storage);

  uint64_t size() const override { return count_ * value_bytes_; }
  void read(uint64_t offset, char* to, size_t count) override;
  /// Whether reading it forward reads the storage forward.
  bool is_forward() const;

 private:
  struct Axis {
    uint64_t size, stride;  ///< in values, of the storage
    uint64_t step;          ///< in values, of the block
  };

  void load(uint64_t first);
  void copy(const Axis* axis, size_t n, uint64_t place, uint64_t at);
  void copy_window(const Axis* axis, size_t n, uint64_t place, uint64_t at, uint64_t values);
  void pick(const Axis* axis, size_t n, const char* from, uint64_t at);

  const Tensor& tensor_;
  Bytes& storage_;
  uint64_t value_bytes_, count_;
  bool is_whole_ = true;        // one block holds all of it
  size_t split_ = 0;            // else the axis that a block has a part of: all behind it are whole
  uint64_t behind_split_ = 1;   // values of all axes behind it
  uint64_t block_rows_ = 1;     // of that axis, in a block
  uint64_t block_first_ = 0;    // index of the first value in block_
  std::string block_, window_;  // block_ row by row
};

}  // namespace greta
