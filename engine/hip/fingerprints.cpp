#include "engine/hip/fingerprints.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

namespace greta {
namespace {

// The counts of a piece of work lie in front of its parts.
constexpr size_t kHeader = sizeof(FingerprintPart);
static_assert(sizeof(FingerprintCounts) <= kHeader);
static_assert(sizeof(FingerprintPart) % alignof(RowTask) == 0);
static_assert(sizeof(RowTask) % alignof(RowParts) == 0);

// Rows put aside begin where wide loads can.
constexpr size_t kAlign = 4;

// A batch that begins with more rows than these has many.
constexpr size_t kFewRows = 96;

// A row longer than this, of a cache, fills the device, and takes as long to put aside. Scores of
// 32 heads over 8,192 positions are not.
constexpr int64_t kLongRow = 1 << 18;

// What is longer works out the rest: the cache of 4,096 positions of 1,024 values.
constexpr size_t kMostCodes = size_t{1} << 22;

bool any_long(std::span<const RowRef> rows) {
  return std::any_of(rows.begin(), rows.end(), [](const RowRef& row) { return row.n > kLongRow; });
}

// Sizes are rounded up so that a row that grows with the position does not make other work of every
// token.
size_t round_up(size_t n) { return n == 0 ? 0 : std::bit_ceil(n); }

size_t sample_size(const RowRef& row, int64_t sample_values) {
  return static_cast<size_t>(std::min(row.n, sample_values));
}

bool is_compared(const RowRef& row) { return row.other != nullptr && row.n > 0; }

/// Copies items to `place`, and fills up the room with such as do nothing.
template <class T>
void write_padded(const std::vector<T>& items, size_t room, std::byte* place) {
  T* const to = reinterpret_cast<T*>(place);
  std::fill(std::copy(items.begin(), items.end(), to), to + room, T{});
}

}  // namespace

void FingerprintQueue::Work::run(Stream& stream) const {
  if (aside != nullptr) {
    return copy_rows(counts, parts, limits, std::numeric_limits<int64_t>::max(), aside, stream);
  }
  fingerprint_rows(counts, parts, limits, codes, results, stream);
  if (sample_values > 0) copy_rows(counts, parts, limits, sample_values, samples, stream);
  run_row_tasks(tasks, static_cast<int64_t>(n_tasks), pairs, static_cast<int64_t>(n_pairs),
                parts_of_pairs, differences, stream);
}

FingerprintQueue::FingerprintQueue(Stream& stream, std::function<void()> make_room)
    : stream_(stream), make_room_(std::move(make_room)) {}

void FingerprintQueue::begin(bool rows_stay) {
  if (open_) {  // an error ended the batch
    --begun_;
    stream_.synchronize();  // it may still read the plan in its slot
  }
  open_ = false;
  rows_stay_ = rows_stay;
  used_ = uploaded_ = n_aside_ = n_printed_ = 0;
  aside_.clear();
  plan_.clear();
  tasks_.clear();
  // The last copies from and to the slot that the batch may take. Waiting is not possible later,
  // while a batch is recorded.
  slots_[begun_ % kSlots].done.synchronize();
}

void FingerprintQueue::open() {
  if (begun_ - fetched_ == kSlots) {
    throw std::logic_error("fingerprints of two batches wait to be fetched");
  }
  open_ = true;
  ++begun_;
  slot().sample_sizes.clear();
  slot().places.clear();
  slot().n_samples = 0;
  slot().compared.clear();
  slot().n_differences = 0;
}

FingerprintQueue::Work FingerprintQueue::add(std::span<const RowRef> rows, int64_t sample_values) {
  if (!open_) {
    open();
    few_rows_ = rows.size() <= kFewRows;
  }
  sample_values_ = sample_values;
  const bool aside = few_rows_ && !rows_stay_ && !any_long(rows);
  const Work copies = aside ? put_aside(rows) : Work{};
  for (const RowRef& row : rows) {
    slot().places.push_back(n_printed_ + plan_.n_rows());
    if (!aside) plan_row(row, slot().n_samples, slot().n_differences);
    slot().sample_sizes.push_back(sample_size(row, sample_values));
    slot().n_samples += slot().sample_sizes.back();
    slot().compared.push_back(is_compared(row));
    slot().n_differences += is_compared(row) ? 1 : 0;
  }
  return aside || rows_stay_ ? copies : print_rows();
}

void FingerprintQueue::plan_row(const RowRef& row, uint64_t sample, size_t difference) {
  plan_.add(row.data, row.n, sample);
  tasks_.add({row.other, row.data, row.n, row.segments}, row.keep,
             static_cast<int64_t>(difference));
}

FingerprintQueue::Work FingerprintQueue::put_aside(std::span<const RowRef> rows) {
  const size_t before = n_aside_;
  size_t n_samples = slot().n_samples, n_differences = slot().n_differences;
  for (const RowRef& row : rows) {
    plan_.add(row.data, row.n, n_aside_);
    aside_.push_back(
        {slot().places.size() + plan_.n_rows() - 1, n_aside_, row, n_samples, n_differences});
    n_aside_ += (static_cast<size_t>(row.n) + kAlign - 1) / kAlign * kAlign;
    n_samples += sample_size(row, sample_values_);
    n_differences += is_compared(row) ? 1 : 0;
  }
  reserve(device_aside_, before, n_aside_, "rows to fingerprint");
  Work work = lay_out();
  work.aside = device_aside_.data();
  return work;
}

FingerprintQueue::Work FingerprintQueue::finish() {
  for (Aside& aside : aside_) {
    slot().places[aside.number] = n_printed_ + plan_.n_rows();
    aside.row.data = device_aside_.data() + aside.first;
    plan_row(aside.row, aside.sample, aside.difference);
  }
  aside_.clear();
  return plan_.n_rows() > 0 ? print_rows() : Work{};
}

/// The fingerprints of the plan's rows, behind those asked for before.
FingerprintQueue::Work FingerprintQueue::print_rows() {
  const size_t first = n_printed_;
  n_printed_ += plan_.n_rows();
  reserve(device_results_, first, n_printed_, "fingerprints");
  reserve(device_samples_, device_samples_.size(), slot().n_samples, "sampled values");
  reserve(device_differences_, device_differences_.size(), slot().n_differences,
          "differences of rows");
  reserve(device_pair_parts_, 0, static_cast<size_t>(tasks_.n_parts), "differences of parts");
  reserve_codes(plan_.longest());
  Work work = lay_out();
  work.codes = {sketch_codes_.data(), sketch_codes_.size()};
  work.parts_of_pairs = device_pair_parts_.data();
  work.results = device_results_.data() + first;
  work.sample_values = sample_values_;
  work.samples = device_samples_.data();
  work.differences = device_differences_.data();
  return work;
}

/// Writes the plan behind those before it.
FingerprintQueue::Work FingerprintQueue::lay_out() {
  const size_t room = round_up(plan_.n_parts()), task_room = round_up(tasks_.tasks.size());
  const size_t pair_room = round_up(tasks_.rows.size());
  const size_t begin = used_, tasks = begin + kHeader + room * sizeof(FingerprintPart);
  const size_t pairs = tasks + task_room * sizeof(RowTask);
  const size_t end = pairs + pair_room * sizeof(RowParts);
  reserve_plan(end);
  used_ = end;
  std::byte* const place = slot().plan.data() + begin;
  const FingerprintCounts counts = plan_.counts();
  std::memcpy(place, &counts, sizeof counts);
  plan_.write({reinterpret_cast<FingerprintPart*>(place + kHeader), plan_.n_parts()});
  write_padded(tasks_.tasks, task_room, slot().plan.data() + tasks);
  write_padded(tasks_.rows, pair_room, slot().plan.data() + pairs);
  const std::byte* const on_device = device_plan_.data() + begin;
  const Work work{.counts = reinterpret_cast<const FingerprintCounts*>(on_device),
                  .parts = reinterpret_cast<const FingerprintPart*>(on_device + kHeader),
                  .limits = {plan_.n_rows(), round_up(plan_.n_long_parts()), room},
                  .tasks = reinterpret_cast<const RowTask*>(device_plan_.data() + tasks),
                  .n_tasks = task_room,
                  .pairs = reinterpret_cast<const RowParts*>(device_plan_.data() + pairs),
                  .n_pairs = pair_room};
  plan_.clear();
  tasks_.clear();
  return work;
}

void FingerprintQueue::reserve_plan(size_t bytes) {
  if (bytes <= slot().plan.size() && bytes <= device_plan_.size()) return;
  const size_t room = std::bit_ceil(std::max<size_t>(bytes, 1 << 18));
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

void FingerprintQueue::reserve_codes(int64_t longest) {
  const size_t wanted = std::bit_ceil(static_cast<size_t>(std::max(longest, kFingerprintPart)));
  const size_t n = std::min(wanted, kMostCodes);
  if (n <= sketch_codes_.size()) return;
  reserve(sketch_codes_, 0, n, "places in sketches");
  make_sketch_codes(sketch_codes_.data(), sketch_codes_.size(), stream_);
}

/// Room for n values, of which the first `used` are kept.
template <class T>
void FingerprintQueue::reserve(DeviceBuffer<T>& memory, size_t used, size_t n,
                               const char* purpose) {
  if (n <= memory.size()) return;
  make_room_();
  DeviceBuffer<T> larger(std::bit_ceil(std::max<size_t>(n, 1024)), purpose);
  if (used > 0) copy_on_device(memory.data(), used, larger.data(), stream_);
  stream_.synchronize();
  memory = std::move(larger);
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
  copy(device_differences_, slot().differences, slot().n_differences, "differences of rows");
  slot().done.record(stream_);
}

std::vector<FingerprintedRow> FingerprintQueue::fetch() {
  if (fetched_ == begun_) throw std::logic_error("no fingerprints to fetch");
  const Slot& oldest = slots_[fetched_ % kSlots];
  ++fetched_;
  oldest.done.synchronize();
  std::vector<FingerprintedRow> made(oldest.sample_sizes.size());
  const float* sample = oldest.samples.data();
  const RowDifference* difference = oldest.differences.data();
  for (size_t i = 0; i < made.size(); ++i) {
    made[i].fingerprint = to_sums(oldest.results[oldest.places[i]]).finish();
    if (oldest.compared[i]) made[i].difference = *difference++;
    if (oldest.sample_sizes[i] == 0) continue;
    made[i].sample.assign(sample, sample + oldest.sample_sizes[i]);
    sample += oldest.sample_sizes[i];
  }
  return made;
}

}  // namespace greta
