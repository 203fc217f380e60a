#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "kernels/gpu/device.h"
#include "kernels/kv_rows.h"
#include "kernels/matrix.h"

namespace greta {

/// Turns the work of one batch after another into recorded graphs, so that a decoded token costs
/// one launch instead of hundreds.
///
/// Between begin() and end() each piece of work comes with a signature: a number made of all that
/// its launches depend on, but for what lies in device memory. A batch whose signatures are those
/// of a recorded one is not queued piece by piece; end() launches the graph. Any other batch is
/// recorded, but for the very first, which is done piece by piece: memory may still be missing.
class BatchRecorder {
 public:
  /// before_launch: called before kernels can run, and not while recording: queues the copies that
  /// the batch's work reads.
  BatchRecorder(Stream& stream, std::function<void()> before_launch);

  void begin();
  /// Does `work` now or later, once. It must queue the same launches whenever the signature is the
  /// same. Outside of a batch it is done at once.
  template <class Work>
  void op(uint64_t signature, const Work& work) {
    if (mode_ == Mode::kReplay && follow(signature)) return;
    if (mode_ == Mode::kRecord) ops_.push_back({signature, work});
    work();
  }
  /// Starts what has not been started.
  void end();

  /// Starts what was asked for so far and does the rest of the batch piece by piece: for work that
  /// has to wait, or that no graph can hold.
  void go_direct();
  /// Drops a batch that an error ended.
  void drop();
  /// Drops every graph: memory that they use is about to be freed. Waits for nothing.
  void forget();

  bool is_direct() const { return mode_ == Mode::kDirect; }
  int64_t replays() const { return replays_; }  ///< batches that were one launch so far

 private:
  enum class Mode { kDirect, kRecord, kReplay };
  struct Op {
    uint64_t signature;
    std::function<void()> work;
  };
  struct Recorded {
    std::vector<Op> ops;
    Graph graph;
  };
  bool follow(uint64_t signature);
  void record_rest();
  bool agrees(const Recorded& other, uint64_t signature) const;
  void launch(Recorded& recorded);

  Stream& stream_;
  std::function<void()> before_launch_;
  Mode mode_ = Mode::kDirect;
  bool warm_ = false;             // there was a batch before
  std::vector<Recorded> graphs_;  // used most recently: last
  size_t current_ = 0;            // kReplay: the graph that agrees so far,
  size_t next_ = 0;               // and its first op that was not asked for
  std::vector<Op> ops_;           // kRecord: so far
  std::optional<Recording> recording_;
  int64_t replays_ = 0;
};

/// What a signature begins with.
enum OpId : uint64_t {
  kEmbed = 1,
  kNorm,
  kProject,
  kProjectAdd,
  kHeads,
  kFeedForward,
  kRopeTable,
  kRope,
  kStore,
  kReadRows,
  kQkv,
  kAttend,
  kFinishAttention,
  kAdd,
  kTop,
  kFingerprints,
  kFill,
  kScale,
  kFp16Accumulate,
  kRace,
};

/// A signature from numbers, addresses and weights.
class Signature {
 public:
  template <class... Parts>
  explicit Signature(uint64_t op, const Parts&... parts) : value_(op) {
    (add(parts), ...);
  }

  void add(uint64_t part);
  void add(int64_t part) { add(static_cast<uint64_t>(part)); }
  void add(int part) { add(static_cast<uint64_t>(part)); }
  void add(bool part) { add(static_cast<uint64_t>(part)); }
  void add(float part);
  void add(const void* part) { add(reinterpret_cast<uint64_t>(part)); }
  void add(const Matrix& w) {
    add(w.data);
    add(w.rows);
    add(w.cols);
    add(static_cast<uint64_t>(w.type));
  }
  void add(const ConstKvRows& rows) {
    add(rows.data);
    add(static_cast<uint64_t>(rows.type));
  }
  void add(const Signature& part) { add(part.value_); }

  uint64_t value() const { return value_; }

 private:
  uint64_t value_;
};

}  // namespace greta
