#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gpu/device.h"
#include "kernels/matrix.h"

// How weights lie in the memory of a GPU.
//
// Float types lie as in the file. Of the others, whose blocks would put loads at odd places, the
// fields lie apart: a plane for each field over all blocks of the matrix, blocks in the order of
// the file. Planes follow each other without gaps, the widest field first; `head` is d and m, d and
// dmin, or d, dmin and scales:
//
//   q4_0, iq4_nl  qs[16], d             q2_k  qs[64], scales[16], head[4]
//   q4_1  qs[16], head[4]               q3_k  qs[64], hmask[32], scales[12], d
//   q5_0  qs[16], qh[4], d              q4_k  qs[128], head[16]
//   q5_1  qs[16], qh[4], head[4]        q5_k  qs[128], qh[32], head[16]
//   q8_0  qs[32], d                     q6_k  ql[128], qh[64], scales[16], d
//
// Within a block bytes are where the lanes of a product want them, each of which takes a quarter of
// a k-type's block. Lanes should find what is theirs together, and neighbours read next to each
// other:
//
//   q4_k, q5_k  the 16-byte pieces of qs lie in the order 0 2 4 6 1 3 5 7; quarter c has the pieces
//               2c and 2c + 1 of the file
//   q5_k        bit i of byte 4s + b of qh is bit s of the file's byte 4i + b: sub-block s has four
//               bytes of its own, with the fifth bits of four consecutive values i bits up in them
//   q5_0, q5_1  the same of the one sub-block that a block is
//   q3_k        the same of hmask, where a lane has eight bytes: kernels/gpu/weight_planes.h
//   q2_k, q6_k  scales lie in the order 0 2 4 6 1 3 5 7 8 10 12 14 9 11 13 15
//
// The size is the file's. On the host a device matrix is a Matrix whose `data` begins its first
// plane, on a multiple of 16 bytes.

namespace greta {

/// True if the layout on the device is not the file's.
bool has_planes(WeightType type);

/// Queues the rearrangement of a matrix whose type has planes; std::invalid_argument for others.
/// file: bytes as in the file, out: file.bytes(), both device memory that does not overlap, at
/// even addresses.
void arrange_planes(const Matrix& file, std::byte* out, Stream& stream);

/// Queues out[r − first_row] = row r of w as 16-bit floats, for n_rows rows: each value rounded
/// once to f32 as kernels/cpu/quantise.h does, then to nearest even. f16 to f16 and bf16 to bf16
/// keep their bits. w: device layout; out: [n_rows, cols], device.
void to_halves(const Matrix& w, int64_t first_row, int64_t n_rows, HalfType type, uint16_t* out,
               Stream& stream);

}  // namespace greta
