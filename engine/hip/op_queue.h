#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/forward/route.h"
#include "kernels/attention_shape.h"
#include "kernels/gpu/device.h"
#include "kernels/gpu/matmul_mfma.h"
#include "kernels/gpu/matmul_valu.h"
#include "kernels/matrix.h"
#include "kernels/rows.h"

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

/// First words of a signature.
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
  void add(std::span<const Product> products) {
    for (const Product& product : products) {
      add(product.w);
      add(product.out);
    }
  }
  void add(const Signature& part) { add(part.value_); }

  uint64_t value() const { return value_; }

 private:
  uint64_t value_;
};

/// Device memory that operations use among themselves and that grows when one needs more.
template <class T>
class Scratch {
 public:
  /// make_room: called before smaller memory is given back; nothing may use it afterwards.
  Scratch(const char* purpose, std::function<void()> make_room)
      : purpose_(purpose), make_room_(std::move(make_room)) {}

  /// At least n values; those of before are lost when it grew.
  T* get(size_t n) {
    if (n > memory_.size()) {
      make_room_();
      memory_ = {};
      memory_ = DeviceBuffer<T>(n, purpose_);
    }
    return memory_.data();
  }
  size_t size() const { return memory_.size(); }

 private:
  const char* purpose_;
  std::function<void()> make_room_;
  DeviceBuffer<T> memory_;
};

/// The operations of a batch on their way to the device, by a BatchRecorder.
///
/// Small operations that one launch does as well as its neighbour wait here until the next one
/// shows which it is: a norm for the products of one token that take it along, those of q, k and v
/// for their RoPE, and that for the copies to the cache. Everything else settles what waits first.
class OpQueue {
 public:
  /// before_launch: as BatchRecorder has it. Positions are relative to the batch's.
  OpQueue(Stream& stream, std::function<void()> before_launch);

  void begin(const int32_t* pos, bool record);  ///< pos: of the batch's first stretch, device
  void end();
  void drop();  ///< what an error ended
  BatchRecorder& recorder() { return recorder_; }
  const BatchRecorder& recorder() const { return recorder_; }

  template <class Work>
  void add(const Signature& signature, const Work& work) {
    settle();
    recorder_.op(signature.value(), work);
  }
  /// Something that nothing that waits needs or changes: before it.
  template <class Work>
  void add_before(const Signature& signature, const Work& work) {
    recorder_.op(signature.value(), work);
  }
  /// Queues what waits.
  void settle();
  /// Before something that has to wait for the device, or that no graph can hold.
  void go_direct();

  void rms_norm(const NormedRow& row, int64_t n_tokens, int64_t dim);
  /// The norm that gives `row` of one token, if it waits: for who does it then.
  std::optional<NormedRow> take_norm(const float* row);
  /// By VALU, or of one token that fits by MFMA.
  void matmul(Route route, const float* x, int64_t n_tokens, std::span<const Product> products);

  struct Rope {
    const float* table;
    RopePairing pairing;
    int64_t n_tokens, head_dim, half_dim;
    std::array<RopeTensor, 2> tensors;
  };
  void rope(const Rope& rope);
  /// pos: where the position of the rows' stretch is, device.
  void store_rows(const std::array<RowStore, 2>& stores, int64_t n_rows, int64_t width,
                  const int32_t* pos, int64_t shift);

 private:
  struct Norm {
    NormedRow row;
    int64_t dim;
  };
  struct Products {
    Route route;
    NormedRow in;
    std::array<Product, 3> qkv;
  };
  static Signature sign(const NormedRow& row);
  void add_norm(const NormedRow& row, int64_t n_tokens, int64_t dim);
  /// in: of one token it may lack its norm.
  void add_products(Route route, const NormedRow& in, int64_t n_tokens,
                    std::span<const Product> products);
  void add_rope(const Rope& rope, const std::array<RowStore, 2>& stores, int64_t shift);
  void add_qkv(const Products& products, const Rope& rope, const KvRows& k_cache,
               const KvRows& v_cache, int64_t shift);
  bool goes_on(const Rope& rope) const;
  void settle_store(int64_t shift);

  Stream& stream_;
  BatchRecorder recorder_;
  const int32_t* pos_ = nullptr;
  // What waits; a later one for an earlier one's result.
  std::optional<Norm> norm_;
  std::optional<Products> products_;
  std::optional<Rope> rope_;
};

}  // namespace greta
