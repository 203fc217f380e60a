#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/backend.h"
#include "kernels/device.h"
#include "kernels/fingerprint.h"

namespace greta {

/// The fingerprints of one batch after another: what to compute goes to the device in one copy, the
/// results come back in one, and two batches can be under way.
class FingerprintQueue {
 public:
  /// make_room: called before device memory that launches name is replaced; nothing may use it
  /// afterwards.
  FingerprintQueue(Stream& stream, std::function<void()> make_room);

  /// What one launch takes, all in device memory. The same for every batch that queues as many rows
  /// of about the same lengths in the same order.
  struct Launch {
    const FingerprintCounts* counts;
    const FingerprintPart* parts;
    FingerprintLimits limits;
    DeviceFingerprint* results;
    float* samples;
  };

  void begin();
  Launch add(std::span<const RowRef> rows, int64_t sample_values);
  /// Queues the copy of what was added since the last upload: before the launches that need it.
  void upload();
  /// Queues the copy of the results: after those launches.
  void end();
  /// Those of the oldest batch that had any. Waits for them.
  std::vector<RowPrint> fetch();

 private:
  static constexpr size_t kSlots = 2;
  struct Slot {
    PinnedBuffer<std::byte> plan;  // per launch: counts, then parts
    PinnedBuffer<DeviceFingerprint> results;
    PinnedBuffer<float> samples;
    std::vector<size_t> sample_sizes;  // of every row
    size_t n_samples = 0;
    Event done;
  };
  void open();
  void reserve_plan(size_t bytes);
  void reserve_results(size_t n_rows, size_t n_samples);
  Slot& slot() { return slots_[(begun_ - 1) % kSlots]; }  ///< of the batch in progress

  Stream& stream_;
  std::function<void()> make_room_;
  FingerprintPlan plan_;
  std::array<Slot, kSlots> slots_;
  size_t begun_ = 0, fetched_ = 0;  // batches with fingerprints; slot: number mod kSlots
  bool open_ = false;               // the batch in progress has had its slot
  size_t used_ = 0, uploaded_ = 0;  // bytes of its plan
  DeviceBuffer<std::byte> device_plan_;
  DeviceBuffer<DeviceFingerprint> device_results_;
  DeviceBuffer<float> device_samples_;
};

}  // namespace greta
