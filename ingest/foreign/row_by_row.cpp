#include "ingest/foreign/row_by_row.h"

#include <algorithm>
#include <cstring>

#include "common/stop_signal.h"
#include "ingest/foreign/error.h"

namespace greta {
namespace {

constexpr uint64_t kBlockBytes = uint64_t{32} << 20;
constexpr uint64_t kWindowBytes = uint64_t{16} << 20;
constexpr uint64_t kMostRepeated = uint64_t{32} << 20;

}  // namespace

RowByRowBytes::RowByRowBytes(const Tensor& tensor, Bytes& storage)
    : tensor_(tensor),
      storage_(storage),
      value_bytes_(bytes_of(tensor.dtype)),
      count_(count_of(tensor.shape)) {
  if (end_of(tensor) > storage.size()) throw ForeignError("reaches beyond its storage");
  // A stride of 0 repeats values: many of them from few bytes.
  if (count_ > std::max(kMostRepeated, storage.size()) / value_bytes_) {
    throw ForeignError("is not contiguous, and larger than 32 MiB and than what it lies in");
  }
  const uint64_t most = kBlockBytes / value_bytes_;
  split_ = tensor.shape.size();
  while (split_ > 0 && behind_split_ <= most / std::max<uint64_t>(tensor.shape[split_ - 1], 1)) {
    behind_split_ *= std::max<uint64_t>(tensor.shape[--split_], 1);
  }
  if (split_ == 0) return;  // one block holds it all
  is_whole_ = false;
  --split_;
  block_rows_ = std::max<uint64_t>(1, most / behind_split_);
}

bool RowByRowBytes::is_forward() const {
  uint64_t before = UINT64_MAX;
  for (size_t i = 0; i < tensor_.shape.size(); ++i) {
    if (tensor_.shape[i] == 1) continue;
    if (tensor_.stride[i] > before) return false;
    before = tensor_.stride[i];
  }
  return true;
}

void RowByRowBytes::read(uint64_t offset, char* to, size_t count) {
  if (offset > size() || count > size() - offset) {
    throw ForeignError("is read beyond its end");
  }
  while (count > 0) {
    const uint64_t begin = block_first_ * value_bytes_;
    if (block_.empty() || offset < begin || offset >= begin + block_.size()) {
      load(offset / value_bytes_);
      continue;
    }
    const uint64_t skipped = offset - begin;
    const size_t now = static_cast<size_t>(std::min<uint64_t>(count, block_.size() - skipped));
    std::memcpy(to, block_.data() + skipped, now);
    to += now;
    offset += now;
    count -= now;
  }
}

/// Fills the block with the values around index `first`.
void RowByRowBytes::load(uint64_t first) {
  throw_if_stopped();
  // The axes before the split stand at one index each, that of the split at some, others at all.
  std::vector<Axis> axes;
  uint64_t place = 0, step = 1;
  for (size_t i = tensor_.shape.size(); i-- > (is_whole_ ? 0 : split_ + 1);) {
    axes.push_back({tensor_.shape[i], tensor_.stride[i], step});
    step *= tensor_.shape[i];
  }
  uint64_t index = first / behind_split_, rows = 1;
  block_first_ = 0;
  if (!is_whole_) {
    uint64_t at = index % tensor_.shape[split_];
    at -= at % block_rows_;
    rows = std::min(block_rows_, tensor_.shape[split_] - at);
    axes.push_back({rows, tensor_.stride[split_], behind_split_});
    block_first_ = (index - index % tensor_.shape[split_] + at) * behind_split_;
    place += at * tensor_.stride[split_];
    index /= tensor_.shape[split_];
    for (size_t i = split_; i-- > 0;) {
      place += index % tensor_.shape[i] * tensor_.stride[i];
      index /= tensor_.shape[i];
    }
  }
  block_.resize(static_cast<size_t>(rows * behind_split_ * value_bytes_));
  // Outermost what lies farthest apart, so that what is read at once is as much as can be.
  std::stable_sort(axes.begin(), axes.end(),
                   [](const Axis& a, const Axis& b) { return a.stride > b.stride; });
  copy(axes.data(), axes.size(), place, 0);
}

/// Copies the values of `n` axes that begin at `place` of the storage to `at` of the block.
void RowByRowBytes::copy(const Axis* axis, size_t n, uint64_t place, uint64_t at) {
  const uint64_t most = kWindowBytes / value_bytes_;
  uint64_t values = 1;
  for (size_t i = 0; i < n; ++i) values += (axis[i].size - 1) * axis[i].stride;
  if (values <= most) return copy_window(axis, n, place, at, values);
  // As many of the outermost axis as one window holds with all that is behind it; else one by one.
  uint64_t behind = 1;
  for (size_t i = 1; i < n; ++i) behind += (axis[i].size - 1) * axis[i].stride;
  const uint64_t room = behind > most ? 0 : (most - behind) / std::max<uint64_t>(axis[0].stride, 1);
  for (uint64_t i = 0; i < axis[0].size;) {
    const uint64_t now = std::min(room + 1, axis[0].size - i);
    const uint64_t from = place + i * axis[0].stride, to = at + i * axis[0].step;
    if (behind > most) {
      copy(axis + 1, n - 1, from, to);
    } else {
      std::vector<Axis> some(axis, axis + n);
      some[0].size = now;
      copy_window(some.data(), n, from, to, behind + (now - 1) * axis[0].stride);
    }
    i += now;
  }
}

void RowByRowBytes::copy_window(const Axis* axis, size_t n, uint64_t place, uint64_t at,
                                uint64_t values) {
  window_.resize(static_cast<size_t>(values * value_bytes_));
  storage_.read(tensor_.offset + place * value_bytes_, window_.data(), window_.size());
  pick(axis, n, window_.data(), at);
}

void RowByRowBytes::pick(const Axis* axis, size_t n, const char* from, uint64_t at) {
  if (n == 0) {
    std::memcpy(block_.data() + at * value_bytes_, from, value_bytes_);
    return;
  }
  const size_t stride = static_cast<size_t>(axis->stride * value_bytes_);
  if (n == 1 && axis->stride == 1 && axis->step == 1) {
    std::memcpy(block_.data() + at * value_bytes_, from, axis->size * value_bytes_);
    return;
  }
  for (uint64_t i = 0; i < axis->size; ++i) {
    pick(axis + 1, n - 1, from + i * stride, at + i * axis->step);
  }
}

}  // namespace greta
