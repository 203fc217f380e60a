#include "engine/forward/kept_rows.h"

#include <algorithm>
#include <stdexcept>

namespace greta {
namespace {

constexpr int64_t kBlockValues = 4 << 20;
constexpr int64_t kAlign = 16;  // values: rows begin where wide loads can

// A model has fewer layers, and fewer positions, than these bits tell apart.
uint64_t key_of(const KeptRows::Place& place) {
  return static_cast<uint64_t>(place.pos) << 24 |
         static_cast<uint64_t>(place.layer - kLayerAfterStack) << 8 |
         static_cast<uint64_t>(place.point);
}

/// Parts that heads can be taken together to; 1 when they cannot.
int32_t head_parts(const HeadCounts& heads, int64_t n) {
  if (heads.heads == 0 || n % heads.heads != 0) return 1;
  auto parts = static_cast<int32_t>(std::min<int64_t>(heads.heads, kMaxSegments));
  while (heads.heads % parts != 0) --parts;
  return parts;
}

}  // namespace

void KeptRows::clear() {
  rows_.clear();
  by_place_.clear();
  n_compared_ = 0;
  block_ = 0;
  used_ = 0;
}

const KeptRows::Row& KeptRows::compare(size_t number) {
  Row& row = rows_[number];
  row.compared = true;
  ++n_compared_;
  return row;
}

size_t KeptRows::find(const Place& place) const {
  const auto found = by_place_.find(key_of(place));
  return found == by_place_.end() ? kNone : found->second;
}

size_t KeptRows::add(const Place& place, bool decode, int64_t n, float* data) {
  if (data == nullptr) data = room_for(n);
  if (data == nullptr) {
    ++n_without_room_;
    return kNone;
  }
  Row& row = rows_.emplace_back();
  row.data = data;
  row.n = n;
  row.decode = decode;
  by_place_[key_of(place)] = rows_.size() - 1;
  return rows_.size() - 1;
}

/// nullptr beyond the limit, and where the device has no more: a comparison is worth no failure.
float* KeptRows::room_for(int64_t n) {
  const int64_t wanted = (n + kAlign - 1) / kAlign * kAlign;
  while (block_ < blocks_.size() && used_ + wanted > blocks_[block_].size) {
    ++block_;
    used_ = 0;
  }
  if (block_ == blocks_.size()) {
    const int64_t left = limit_ / static_cast<int64_t>(sizeof(float)) - allocated_;
    const int64_t size = std::min(std::max(wanted, kBlockValues), left);
    if (size < wanted) return nullptr;
    try {
      blocks_.push_back({backend_.allocate(size), size});
    } catch (const std::runtime_error&) {
      limit_ = allocated_ * static_cast<int64_t>(sizeof(float));
      return nullptr;
    }
    allocated_ += size;
  }
  float* const data = blocks_[block_].memory.get() + used_;
  used_ += wanted;
  return data;
}

HeadCounts heads_of(TracePoint point, int64_t n_heads, int64_t n_kv_heads) {
  switch (point) {
    case TracePoint::kQPreRope:
    case TracePoint::kQPostRope:
    case TracePoint::kAttnOut:
      return {n_heads, false};
    case TracePoint::kKPreRope:
    case TracePoint::kVProj:
    case TracePoint::kKPostRope:
    case TracePoint::kKCache:
    case TracePoint::kVCache:
      return {n_kv_heads, false};
    case TracePoint::kAttnScores:
    case TracePoint::kAttnProbs:
      return {n_heads, true};
    default:
      return {};
  }
}

bool are_heads(const HeadCounts& heads, int64_t n) { return head_parts(heads, n) > 1; }

RowSegments segments_of(const HeadCounts& heads, int64_t n) {
  if (!are_heads(heads, n)) {
    return {static_cast<int32_t>(std::clamp<int64_t>(n, 1, kMaxSegments)), 0};
  }
  return {head_parts(heads, n), heads.interleaved ? heads.heads : 0};
}

}  // namespace greta
