#pragma once
#include <string>

#include "ingest/foreign/tensor.h"

namespace greta {

/// The array of a .npy. Throws ForeignError for types that are not read: objects (which are
/// pickles), records, complex numbers, big-endian ones.
Tensor read_npy_header(Bytes& bytes, std::string name);

/// Throws ForeignError when a .npy does not end where the values of its array do: numpy.save into
/// one open file twice writes such a file, of which numpy.load shows the first array alone.
void refuse_more_than_one_array(const Tensor& array, Bytes& bytes);

}  // namespace greta
