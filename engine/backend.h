#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/model.h"
#include "engine/route.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/fingerprint.h"
#include "kernels/matrix.h"

namespace greta {

/// Memory of a backend, f32 [n], freed with it. The backend must outlive it.
using Buffer = std::unique_ptr<float, std::function<void(float*)>>;

/// One f32 row to fingerprint, in the backend's memory.
struct RowRef {
  const float* data = nullptr;
  int64_t n = 0;
};

/// One product of a projection: out [n_tokens, w.rows] = x · wᵀ.
struct Product {
  Matrix w;
  float* out = nullptr;
};

/// A device that computes. Pointers are in its memory; operations take effect in the order of the
/// calls and may still be under way when a call returns: read(), top_k(), fetch_fingerprints() and
/// synchronize() wait. Errors of the device throw std::runtime_error with the call, sizes and what is free.
///
/// All activations are f32, row-major without gaps. Every result depends on its own token only, but for
/// what Route says about the order of summation.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string name() const = 0;    ///< cpu, hip
  virtual std::string device() const = 0;  ///< what it runs on, for people
  /// Arithmetic of a set of routes, which is what tolerances go by: f32, f16, bf16.
  virtual std::string arithmetic(const RouteTable& routes) const = 0;

  /// Routes that exist for an operation; the first is the usual one of prefill, the last of decode.
  virtual std::vector<Route> routes(Op op) const = 0;

  virtual Buffer allocate(int64_t n) = 0;  ///< contents undefined
  virtual Matrix upload(const Matrix& host) = 0;  ///< lives as long as the backend
  virtual const float* upload(std::span<const float> host) = 0;
  virtual void fill(float* data, int64_t n, float value) = 0;
  virtual void copy(const float* from, int64_t n, float* to) = 0;
  virtual void read(const float* from, int64_t n, float* host) = 0;
  virtual void synchronize() = 0;

  /// Starts a batch: these tokens at first_pos, first_pos + 1, ... Positions given to later operations
  /// are relative to these, which is what lets a backend replay a recorded batch for another token.
  virtual void begin_batch(std::span<const int32_t> tokens, int64_t first_pos) = 0;

  /// out [n, cols] = rows of the batch's tokens.
  virtual void embed(const Matrix& table, float* out) = 0;
  virtual void rms_norm(const float* x, const float* weight, float eps, int64_t n_tokens,
                        int64_t dim, float* out) = 0;
  /// All products of one input.
  virtual void project(Route route, const float* x, int64_t n_tokens,
                       std::span<const Product> products) = 0;
  /// out = x · wᵀ, sum = residual + out.
  virtual void project_add(Route route, const float* x, int64_t n_tokens, const Product& product,
                           const float* residual, float* sum) = 0;
  /// out [n_tokens, ffn_dim] = silu(x · gateᵀ) ⊙ (x · upᵀ).
  virtual void gated_project(Route route, const float* x, int64_t n_tokens, const Matrix& gate,
                             const Matrix& up, float* out) = 0;
  /// Turns [n_tokens, n_heads, head_dim] by positions first_pos, ...; inv_freq: host [rope_dim / 2].
  virtual void rope(const float* in, int64_t first_pos, std::span<const double> inv_freq,
                    RopePairing pairing, int64_t n_tokens, int64_t n_heads, int64_t head_dim,
                    float* out) = 0;
  /// Copies n_rows rows of `width` values to rows first_row, ... of a cache.
  virtual void store_rows(const float* rows, int64_t n_rows, int64_t width, int64_t first_row,
                          float* cache) = 0;
  virtual void attention(Route route, const AttentionShape& shape, const float* q, const float* k,
                         const float* v, float* out, const AttentionTrace& trace) = 0;
  virtual void add(const float* a, const float* b, int64_t n, float* out) = 0;

  /// Greatest k of n values, ties to the lower index; NaN is below everything. On the host.
  virtual void top_k(const float* values, int64_t n, int k, int32_t* ids, float* top) = 0;

  /// Queues fingerprints of rows as they are at this point. They come back in order.
  virtual void queue_fingerprints(std::span<const RowRef> rows) = 0;
  virtual std::vector<Fingerprint> fetch_fingerprints() = 0;

  // What only fault injection needs; speed does not matter.
  virtual void scale(float* data, int64_t n, float factor) = 0;
  virtual void project_fp16_accumulate(const float* x, int64_t n_tokens, int64_t step,
                                       const Product& product) = 0;
  /// `count` values of each row, chosen by `seed`, take one bit from the value beside them.
  virtual void race(float* rows, int64_t n_rows, int64_t width, int64_t count, uint64_t seed) = 0;
};

/// The CPU of this machine. n_threads 0: as many as there are cores.
std::unique_ptr<Backend> make_cpu_backend(int n_threads);

/// The usual routes of a mode, changed as asked: batch_invariant takes decode's for both phases.
/// Throws std::invalid_argument for a route that the backend does not have, with those it has.
RouteTable choose_routes(const Backend& backend, Mode mode, std::span<const RouteChoice> choices);

/// All weights of a model in a backend's memory; on the CPU they stay where the file is mapped.
ModelWeights upload_weights(const Model& model, Backend& backend);

}  // namespace greta
