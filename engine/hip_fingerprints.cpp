#include "engine/hip_fingerprints.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace greta {
namespace {

// A launch's counts lie in front of its parts.
constexpr size_t kHeader = sizeof(FingerprintPart);
static_assert(sizeof(FingerprintCounts) <= kHeader);

// Sizes are rounded up so that a row that grows with the position does not make another launch of
// every token.
size_t round_up(size_t n) { return n == 0 ? 0 : std::bit_ceil(n); }

}  // namespace

FingerprintQueue::FingerprintQueue(Stream& stream, std::function<void()> make_room)
    : stream_(stream), make_room_(std::move(make_room)) {}

void FingerprintQueue::begin() {
  if (open_) --begun_;  // an error ended the batch
  open_ = false;
  used_ = uploaded_ = 0;
}

void FingerprintQueue::open() {
  if (begun_ - fetched_ == kSlots) {
    throw std::logic_error("fingerprints of two batches wait to be fetched");
  }
  open_ = true;
  ++begun_;
  slot().done.synchronize();  // its last copies read and wrote the slot
  slot().sample_sizes.clear();
  slot().n_samples = 0;
}

FingerprintQueue::Launch FingerprintQueue::add(std::span<const RowRef> rows,
                                               int64_t sample_values) {
  if (!open_) open();
  const size_t first_row = slot().sample_sizes.size();
  size_t n_samples = slot().n_samples;
  plan_.clear();
  for (const RowRef& row : rows) {
    plan_.add(row.data, row.n, n_samples);
    n_samples += static_cast<size_t>(std::min(row.n, sample_values));
  }
  const size_t room = round_up(plan_.n_parts());
  const size_t begin = used_, end = begin + kHeader + room * sizeof(FingerprintPart);
  reserve_plan(end);
  reserve_results(first_row + rows.size(), n_samples);
  used_ = end;
  slot().n_samples = n_samples;
  for (const RowRef& row : rows) {
    slot().sample_sizes.push_back(static_cast<size_t>(std::min(row.n, sample_values)));
  }

  std::byte* const place = slot().plan.data() + begin;
  const FingerprintCounts counts = plan_.counts();
  std::memcpy(place, &counts, sizeof counts);
  auto* const parts = reinterpret_cast<FingerprintPart*>(place + kHeader);
  plan_.write({parts, plan_.n_parts()});

  const std::byte* const on_device = device_plan_.data() + begin;
  return {reinterpret_cast<const FingerprintCounts*>(on_device),
          reinterpret_cast<const FingerprintPart*>(on_device + kHeader),
          {rows.size(), round_up(plan_.n_long_parts()), room},
          device_results_.data() + first_row,
          device_samples_.data()};
}

void FingerprintQueue::reserve_plan(size_t bytes) {
  if (bytes <= slot().plan.size() && bytes <= device_plan_.size()) return;
  const size_t room = std::bit_ceil(std::max<size_t>(bytes, 1 << 16));
  make_room_();
  stream_.synchronize();  // copies from one to the other may be under way
  if (bytes > slot().plan.size()) {
    PinnedBuffer<std::byte> larger(room, "the plan of fingerprints");
    if (used_ > 0) std::memcpy(larger.data(), slot().plan.data(), used_);
    slot().plan = std::move(larger);
  }
  if (bytes > device_plan_.size()) {
    device_plan_ = DeviceBuffer<std::byte>(room, "the plan of fingerprints");
  }
}

void FingerprintQueue::reserve_results(size_t n_rows, size_t n_samples) {
  const auto grow = [this](auto& memory, size_t used, size_t n, const char* purpose) {
    if (n <= memory.size()) return;
    make_room_();
    std::remove_reference_t<decltype(memory)> larger(std::bit_ceil(std::max<size_t>(n, 1024)),
                                                     purpose);
    if (used > 0) copy_on_device(memory.data(), used, larger.data(), stream_);
    stream_.synchronize();
    memory = std::move(larger);
  };
  grow(device_results_, slot().sample_sizes.size(), n_rows, "fingerprints");
  grow(device_samples_, slot().n_samples, n_samples, "sampled values");
}

void FingerprintQueue::upload() {
  if (used_ == uploaded_) return;
  copy_to_device<std::byte>({slot().plan.data() + uploaded_, used_ - uploaded_},
                            device_plan_.data() + uploaded_, stream_);
  uploaded_ = used_;
}

void FingerprintQueue::end() {
  if (!open_) return;
  open_ = false;
  const auto copy = [this](const auto& from, auto& to, size_t n, const char* purpose) {
    if (n == 0) return;
    if (to.size() < n) to = std::remove_reference_t<decltype(to)>(std::bit_ceil(n), purpose);
    copy_to_host(from.data(), to.span().first(n), stream_);
  };
  copy(device_results_, slot().results, slot().sample_sizes.size(), "fingerprints");
  copy(device_samples_, slot().samples, slot().n_samples, "sampled values");
  slot().done.record(stream_);
}

std::vector<RowPrint> FingerprintQueue::fetch() {
  if (fetched_ == begun_) throw std::logic_error("no fingerprints to fetch");
  const Slot& oldest = slots_[fetched_ % kSlots];
  ++fetched_;
  oldest.done.synchronize();
  std::vector<RowPrint> made(oldest.sample_sizes.size());
  const float* sample = oldest.samples.data();
  for (size_t i = 0; i < made.size(); ++i) {
    made[i].fingerprint = to_sums(oldest.results[i]).finish();
    if (oldest.sample_sizes[i] == 0) continue;
    made[i].sample.assign(sample, sample + oldest.sample_sizes[i]);
    sample += oldest.sample_sizes[i];
  }
  return made;
}

}  // namespace greta
