#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "engine/forward/backend.h"
#include "engine/run/trace_sink.h"

namespace greta {

/// The rows of one side of a comparison, kept in the backend's memory until the other side of the
/// same position, layer and trace point is there to be compared with.
class KeptRows {
 public:
  /// limit_bytes: of all rows that are kept at once; 0: none are.
  KeptRows(Backend& backend, int64_t limit_bytes) : backend_(backend), limit_(limit_bytes) {}

  struct Place {
    int64_t pos = 0;
    int layer = 0;
    TracePoint point{};
  };
  struct Row {
    float* data = nullptr;  ///< [n]
    int64_t n = 0;
    bool decode = false;    ///< its side
    bool compared = false;  ///< the other side came
    // Of its fingerprint, once its batch was taken.
    uint64_t hash = 0;
    double sum_sq = 0;
    bool finite = false;
  };

  bool keeps_any() const { return limit_ > 0; }
  /// Forgets all rows. Their memory is used again, but not before the batch in progress ends.
  void clear();
  /// The same where each has been compared.
  void clear_compared() {
    if (n_compared_ == rows_.size()) clear();
  }
  /// The number of the row that is kept of a place; kNone.
  size_t find(const Place& place) const;
  /// Keeps a row of a place of which none is: in `data`, which another place's row is kept in, or
  /// in new memory. kNone, and counted, when there is no room.
  size_t add(const Place& place, bool decode, int64_t n, float* data);
  Row& row(size_t number) { return rows_[number]; }
  /// Marks a row as compared, and returns it.
  const Row& compare(size_t number);

  int64_t n_without_room() const { return n_without_room_; }
  static constexpr size_t kNone = static_cast<size_t>(-1);

 private:
  float* room_for(int64_t n);

  struct Block {
    Buffer memory;
    int64_t size = 0;
  };
  Backend& backend_;
  int64_t limit_;
  std::vector<Block> blocks_;
  size_t block_ = 0;  // in use
  int64_t used_ = 0;  // values of it
  int64_t allocated_ = 0;
  std::vector<Row> rows_;
  size_t n_compared_ = 0;
  std::unordered_map<uint64_t, size_t> by_place_;
  int64_t n_without_room_ = 0;
};

/// How many heads the rows of a trace point have; 0: none.
struct HeadCounts {
  int64_t heads = 0;
  bool interleaved = false;  ///< value i is of head i mod heads; else heads follow each other
};
HeadCounts heads_of(TracePoint point, int64_t n_heads, int64_t n_kv_heads);

/// Segments of a row of n values: its heads, or as few together as make at most kMaxSegments; equal
/// slices where there is no more than one head, or heads make no such parts.
RowSegments segments_of(const HeadCounts& heads, int64_t n);
/// Whether those segments are heads.
bool are_heads(const HeadCounts& heads, int64_t n);

}  // namespace greta
