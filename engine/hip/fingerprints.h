#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/forward/backend.h"
#include "kernels/gpu/device.h"
#include "kernels/gpu/fingerprint.h"

namespace greta {

/// The fingerprints of one batch after another, rows kept and compared beside them: what to compute
/// goes to the device in one copy, the results come back in one, and two batches can be under way.
///
/// Rows are needed as they are when they are queued. Where they stay they are fingerprinted
/// together at the end of the batch. Else many are fingerprinted at once, and so is what is queued
/// with a long one; a few, which do not fill a device, are put aside for the end.
class FingerprintQueue {
 public:
  /// make_room: called before device memory that launches name is replaced; nothing may use it
  /// afterwards.
  FingerprintQueue(Stream& stream, std::function<void()> make_room);

  /// What to do with some rows on the device. The same for every batch that queues as many rows of
  /// about the same lengths in the same order.
  struct Work {
    const FingerprintCounts* counts = nullptr;
    const FingerprintPart* parts = nullptr;
    FingerprintLimits limits{};
    float* aside = nullptr;  ///< where rows are put aside; nullptr: they are fingerprinted
    DeviceFingerprint* results = nullptr;
    int64_t sample_values = 0;
    float* samples = nullptr;
    SketchCodes codes{};
    const RowTask* tasks = nullptr;  ///< rows to keep and to compare
    size_t n_tasks = 0;
    const RowParts* pairs = nullptr;
    size_t n_pairs = 0;
    RowDifference* parts_of_pairs = nullptr;
    RowDifference* differences = nullptr;

    void run(Stream& stream) const;
  };

  /// rows_stay: until the batch ends.
  void begin(bool rows_stay);
  /// Without parts when nothing is to be done before finish().
  Work add(std::span<const RowRef> rows, int64_t sample_values);
  /// What is left to do at the end; without parts when there is nothing.
  Work finish();
  /// Queues the copy of what was added since the last upload: before the work that needs it.
  void upload();
  /// Queues the copy of the results: after that work.
  void end();
  /// Those of the oldest batch that had any. Waits for them.
  std::vector<FingerprintedRow> fetch();

 private:
  static constexpr size_t kSlots = 2;
  struct Slot {
    PinnedBuffer<std::byte> plan;  // per piece of work: counts, parts, tasks, pairs
    PinnedBuffer<DeviceFingerprint> results;
    PinnedBuffer<float> samples;
    PinnedBuffer<RowDifference> differences;
    std::vector<size_t> sample_sizes;  // of every row, in the order of the queue
    std::vector<size_t> places;        // of its result
    size_t n_samples = 0;
    std::vector<bool> compared;  // of every row
    size_t n_differences = 0;
    Event done;
  };
  void open();
  Work put_aside(std::span<const RowRef> rows);
  void plan_row(const RowRef& row, uint64_t sample, size_t difference);
  Work print_rows();
  Work lay_out();
  void reserve_plan(size_t bytes);
  void reserve_codes(int64_t longest);
  template <class T>
  void reserve(DeviceBuffer<T>& memory, size_t used, size_t n, const char* purpose);
  Slot& slot() { return slots_[(begun_ - 1) % kSlots]; }  ///< of the batch in progress

  Stream& stream_;
  std::function<void()> make_room_;
  std::array<Slot, kSlots> slots_;
  size_t begun_ = 0, fetched_ = 0;  // batches with fingerprints; slot: number mod kSlots
  bool open_ = false;               // the batch in progress has had its slot
  bool rows_stay_ = false, few_rows_ = false;
  size_t used_ = 0, uploaded_ = 0;  // bytes of its plan
  int64_t sample_values_ = 0;
  FingerprintPlan plan_;  // of what is not laid out yet
  RowTasks tasks_;
  struct Aside {
    size_t number, first;  // in the queue; value
    RowRef row;            // but for its data
    uint64_t sample;
    size_t difference;
  };
  std::vector<Aside> aside_;
  size_t n_aside_ = 0;    // values
  size_t n_printed_ = 0;  // rows whose fingerprints were asked for
  DeviceBuffer<float> device_aside_;
  DeviceBuffer<std::byte> device_plan_;
  DeviceBuffer<DeviceFingerprint> device_results_;
  DeviceBuffer<float> device_samples_;
  DeviceBuffer<RowDifference> device_pair_parts_;
  DeviceBuffer<RowDifference> device_differences_;
  DeviceBuffer<uint16_t> sketch_codes_;
};

}  // namespace greta
