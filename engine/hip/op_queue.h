#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "engine/forward/route.h"
#include "engine/hip/recorder.h"
#include "kernels/gpu/device.h"
#include "kernels/gpu/matmul_mfma_token.h"
#include "kernels/gpu/matmul_valu.h"
#include "kernels/rows.h"

namespace greta {

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
