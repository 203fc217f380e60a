#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/device.h"
#include "kernels/half_type.h"
#include "kernels/matrix.h"

// How weights lie in the memory of a GPU.
//
// Float types, q4_k and q5_k (blocks of 144 and 176 bytes) lie as in the file. The blocks of q4_0,
// q8_0 and q6_k (18, 34, 210 bytes) would put every load at an odd place: their fields lie apart, a
// plane for each field over all blocks of the matrix, blocks in the order of the file. Planes
// follow each other without gaps, the widest field first:
//
//   q4_0  qs[16], d        q8_0  qs[32], d        q6_k  ql[128], qh[64], scales[16], d
//
// The size is the file's. On the host a device matrix is a Matrix whose `data` begins its first
// plane.

namespace greta {

/// Whether the layout on the device is not the file's.
bool has_planes(WeightType type);

/// Queues the rearrangement of a matrix whose type has planes. file: bytes as in the file, out:
/// file.bytes(), both device memory that does not overlap.
void arrange_planes(const Matrix& file, std::byte* out, Stream& stream);

/// Queues out[r − first_row] = row r of w as 16-bit floats, for n_rows rows: each value rounded
/// once to f32 as kernels/cpu/quants.h does, then to nearest even. f16 to f16 and bf16 to bf16
/// keep their bits. w: device layout; out: [n_rows, cols], device.
void to_halves(const Matrix& w, int64_t first_row, int64_t n_rows, HalfType type, uint16_t* out,
               Stream& stream);

}  // namespace greta
