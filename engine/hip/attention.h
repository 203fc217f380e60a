#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "engine/forward/route.h"
#include "engine/hip/op_queue.h"
#include "kernels/gpu/attention.h"
#include "kernels/gpu/device.h"

namespace greta {

/// The attention of a batch's layers. Traced probabilities of a batch of one token are finished
/// together at its end: on the way every launch would cost the token time.
class AttentionCalls {
 public:
  /// make_room: as Scratch has it.
  AttentionCalls(Stream& stream, OpQueue& ops, const std::function<void()>& make_room);

  void begin(bool one_token);  ///< a batch
  /// pos: where shape.first_pos is, device. Throws std::invalid_argument for a route that there is
  /// not.
  void add(Route route, const AttentionShape& shape, const int32_t* pos, const float* q,
           ConstKvRows k, ConstKvRows v, float* out, const AttentionTrace& trace);
  void end();

 private:
  // Calls that differ in no more than their probabilities.
  struct Unfinished {
    AttentionShape shape;
    const int32_t* pos;
    int64_t max_keys;
    AttentionTrace trace;
    std::vector<UnfinishedTrace> calls;
  };
  void* zeroed(Scratch<std::byte>& scratch, size_t bytes);
  void* valu_scratch(size_t number, size_t bytes);
  void leave_unfinished(const AttentionShape& shape, const int32_t* pos, int64_t max_keys,
                        const AttentionTrace& trace, const void* scratch);

  Stream& stream_;
  OpQueue& ops_;
  std::function<void()> make_room_;
  bool one_token_ = false;  // the batch has
  Scratch<std::byte> mfma_scratch_;
  std::deque<Scratch<std::byte>> valu_scratch_;  // the first, and those of unfinished calls
  std::vector<Unfinished> unfinished_;
  size_t n_unfinished_ = 0;  // calls
};

}  // namespace greta
