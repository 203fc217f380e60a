#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ingest/foreign/bytes.h"
#include "ingest/foreign/dtype.h"

namespace greta {

/// Where the values of a tensor lie, and how.
struct Tensor {
  std::string name;  ///< as its file writes it
  Dtype dtype = Dtype::kF32;
  std::vector<uint64_t> shape;  ///< none: a scalar
  std::vector<uint64_t>
      stride;           ///< in values, one for each dimension; none: row by row, without gaps
  std::string storage;  ///< what of its file holds it: a member of an archive
  uint64_t offset = 0;  ///< bytes into that
  bool is_negated =
      false;  ///< its values are those that are stored, with the other sign; no integers
};

/// Values of a shape. Throws ForeignError beyond 2^62.
uint64_t count_of(const std::vector<uint64_t>& shape);

/// "[7, 256]"
std::string text_of(const std::vector<uint64_t>& shape);

/// Whether the values follow each other row by row, without gaps.
bool is_contiguous(const Tensor& tensor);

/// Bytes of the storage, from its start on, that the tensor reaches to. Throws ForeignError when
/// that is more than can be.
uint64_t end_of(const Tensor& tensor);

}  // namespace greta
