#include "engine/hip/recorder.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace greta {
namespace {

// Traced and untraced decode, each with a few sizes of the attention grid. An older one is recorded
// again when it comes back.
constexpr size_t kMaxGraphs = 8;

}  // namespace

BatchRecorder::BatchRecorder(Stream& stream, std::function<void()> before_launch)
    : stream_(stream), before_launch_(std::move(before_launch)) {}

void BatchRecorder::begin() {
  ops_.clear();
  next_ = 0;
  if (!graphs_.empty()) {
    current_ = graphs_.size() - 1;
    mode_ = Mode::kReplay;
  } else if (std::exchange(warm_, true)) {
    recording_.emplace(stream_);
    mode_ = Mode::kRecord;
  } else {
    mode_ = Mode::kDirect;
    before_launch_();
  }
}

/// Whether `other` begins with what was asked for so far, and goes on with `signature`.
bool BatchRecorder::agrees(const Recorded& other, uint64_t signature) const {
  const std::vector<Op>& so_far = graphs_[current_].ops;
  if (other.ops.size() <= next_ || other.ops[next_].signature != signature) return false;
  const auto same = [](const Op& a, const Op& b) { return a.signature == b.signature; };
  return std::equal(so_far.begin(), so_far.begin() + static_cast<std::ptrdiff_t>(next_),
                    other.ops.begin(), same);
}

/// Whether a graph holds the batch up to this op.
bool BatchRecorder::follow(uint64_t signature) {
  for (size_t i = 0; i < graphs_.size(); ++i) {
    const size_t candidate = (current_ + i) % graphs_.size();
    const bool is_current = i == 0;
    const Recorded& recorded = graphs_[candidate];
    if (is_current ? next_ < recorded.ops.size() && recorded.ops[next_].signature == signature
                   : agrees(recorded, signature)) {
      current_ = candidate;
      ++next_;
      return true;
    }
  }
  record_rest();
  return false;
}

/// No graph holds this batch: what was taken for the beginning of one is recorded anew.
void BatchRecorder::record_rest() {
  recording_.emplace(stream_);
  mode_ = Mode::kRecord;
  const std::vector<Op>& ops = graphs_[current_].ops;
  ops_.assign(ops.begin(), ops.begin() + static_cast<std::ptrdiff_t>(next_));
  for (const Op& op : ops_) op.work();
}

void BatchRecorder::go_direct() {
  if (mode_ == Mode::kDirect) return;
  const bool recorded = mode_ == Mode::kRecord;
  recording_.reset();
  mode_ = Mode::kDirect;
  before_launch_();
  const std::vector<Op>& ops = recorded ? ops_ : graphs_[current_].ops;
  const size_t n = recorded ? ops_.size() : next_;
  for (size_t i = 0; i < n; ++i) ops[i].work();
}

void BatchRecorder::launch(Recorded& recorded) {
  before_launch_();
  recorded.graph.launch(stream_);
  ++replays_;
}

void BatchRecorder::end() {
  if (mode_ == Mode::kReplay && next_ < graphs_[current_].ops.size()) record_rest();
  if (mode_ == Mode::kRecord) {
    Graph graph = recording_->finish();
    recording_.reset();
    if (graphs_.size() == kMaxGraphs) {
      stream_.synchronize();  // it may still run
      graphs_.erase(graphs_.begin());
    }
    graphs_.push_back({std::exchange(ops_, {}), std::move(graph)});
    mode_ = Mode::kDirect;
    launch(graphs_.back());
  } else if (mode_ == Mode::kReplay) {
    mode_ = Mode::kDirect;
    std::rotate(graphs_.begin() + static_cast<std::ptrdiff_t>(current_),
                graphs_.begin() + static_cast<std::ptrdiff_t>(current_) + 1, graphs_.end());
    launch(graphs_.back());
  }
}

void BatchRecorder::drop() {
  recording_.reset();
  ops_.clear();
  mode_ = Mode::kDirect;
}

void BatchRecorder::forget() {
  go_direct();
  graphs_.clear();
}

// Hundreds are made per token while the device waits: one multiplication each.
void Signature::add(uint64_t part) {
  value_ = (value_ ^ part) * 0x9fb21c651e98df25u;
  value_ ^= value_ >> 29;
}
void Signature::add(float part) { add(uint64_t{std::bit_cast<uint32_t>(part)}); }

}  // namespace greta
