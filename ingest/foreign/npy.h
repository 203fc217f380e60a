#pragma once
#include <string>

#include "ingest/foreign/tensor.h"

namespace greta {

/// The array of a .npy. Throws ForeignError for types that are not read: objects (which are
/// pickles), records, complex numbers, big-endian ones.
Tensor read_npy_header(Bytes& bytes, std::string name);

}  // namespace greta
