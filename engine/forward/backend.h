#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/forward/fault.h"
#include "engine/forward/model.h"
#include "engine/forward/route.h"
#include "kernels/attention_shape.h"
#include "kernels/fingerprint/fingerprint.h"
#include "kernels/matrix.h"
#include "kernels/row_difference.h"
#include "kernels/rows.h"

// The interface of what computes: the operations of a forward pass and the memory for them.

namespace greta {

/// Consecutive tokens of one sequence, as part of a batch.
struct Stretch {
  int64_t n_tokens = 0;
  int64_t first_pos = 0;
  int64_t cache_row = 0;   ///< of the KV cache, which has the sequence's position 0
  int64_t cache_rows = 0;  ///< from there on that are the sequence's, a spare one included
};

/// One batch of consecutive tokens, or of several sequences.
struct Batch {
  std::span<const int32_t> tokens;  ///< 1 .. max_batch ids, all below vocab
  /// Places of several sequences, whose tokens follow each other; empty: of one, at first_pos,
  /// which has the cache from its first row on. Of several, faults go by the first one's moment.
  std::span<const Stretch> stretches = {};
  /// The one token is the greatest of the batch before, whatever `tokens` says: it need not be
  /// known.
  bool after_top = false;
  int64_t first_pos = 0;
  bool decode = false;   ///< which routes and faults apply
  bool keep_kv = true;   ///< false: K and V are computed and traced, the cache stays as it is
  int64_t n_logits = 1;  ///< logits of the last n_logits tokens; of several sequences 1, of each
  int64_t step = 0;      ///< of decode, and
  int64_t n_prompt = 0;  ///< tokens of the (longest) prompt: what the onset of a fault goes by
  int64_t repeat = 0;    ///< how often the prompt ran before: a race comes out otherwise

  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
  Moment moment() const { return {first_pos, step, n_prompt}; }
};

/// Limits that a batch must fit.
struct BatchLimits {
  int64_t max_batch = 0;     ///< tokens
  int64_t capacity = 0;      ///< positions of the KV cache
  int64_t cache_rows = 0;    ///< of all sequences
  int64_t vocab = 0;         ///< ids of the vocabulary
  bool first_batch = false;  ///< there is none before
};

/// Throws std::invalid_argument for a batch that does not fit, with the numbers.
void check_batch(const Batch& batch, const BatchLimits& limits);

/// The greatest logits of one token, greatest first; −1 and NaN where no further logit is a number.
struct TopLogits {
  static constexpr int kCount = 5;
  static constexpr int64_t kWidth =
      2 * kCount;  ///< values and indices, as Backend::top_k leaves them
  std::array<int32_t, kCount> ids;
  std::array<float, kCount> values;

  /// True if one of them can be chosen: none can when all are NaN or −inf.
  bool has_choice() const { return values[0] > -std::numeric_limits<float>::infinity(); }
};

/// Result of Backend::top_k, read to the host.
TopLogits unpack_top(std::span<const float, TopLogits::kWidth> top);

/// Memory of a backend, f32 [n], freed with it. The backend must outlive it.
using Buffer = std::unique_ptr<float, std::function<void(float*)>>;

/// One f32 row to fingerprint, in the backend's memory.
struct RowRef {
  const float* data = nullptr;
  int64_t n = 0;
  float* keep = nullptr;         ///< where it is copied to as well; nullptr: nowhere
  const float* other = nullptr;  ///< a row of n values to compare it with; nullptr: none
  RowSegments segments{};        ///< of that comparison
};

/// The feed-forward network of a block: down(silu(x · gateᵀ) ⊙ (x · upᵀ)).
struct FeedForward {
  Route gate_up_route, down_route;
  Matrix gate, up;  ///< [ffn_dim, dim]
  Product down;     ///< w [dim, ffn_dim]
};

/// What is left of a row: its fingerprint and its leading values.
struct FingerprintedRow {
  Fingerprint fingerprint;
  std::vector<float> sample;
  std::optional<RowDifference> difference;  ///< from RowRef::other, which is its x
};

/// Is told how many bytes of all are loaded, on the thread that loads. May be empty.
using LoadProgress = std::function<void(int64_t done, int64_t all)>;

/// A device that computes. Pointers are in its memory; operations take effect in the order of the
/// calls and may still be under way when a call returns: read(), fetch_fingerprints() and
/// synchronize() wait. Errors of the device throw std::runtime_error with the call, the sizes and
/// what is free.
///
/// All activations are f32, row-major without gaps. Every result depends on its own token only, but
/// for what Route says about the order of summation.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string name() const = 0;    ///< cpu, hip
  virtual std::string device() const = 0;  ///< what it runs on, for people
  /// The instruction set that its bits depend on, as isa_name() has it; "" where there is no
  /// choice.
  virtual std::string isa() const { return ""; }
  /// Arithmetic of a set of routes, which is what tolerances go by: f32, f16, bf16.
  virtual std::string arithmetic(const RouteTable& routes) const = 0;

  /// Routes that exist for an operation; the first is the usual one of prefill, the last of decode.
  virtual std::vector<Route> routes(Op op) const = 0;
  /// One by which a token has the same bits alone and in any batch: for both phases of
  /// batch_invariant.
  virtual Route invariant_route(Op op) const { return routes(op).back(); }

  /// Batches that were replayed from a recording so far.
  virtual int64_t replays() const { return 0; }

  /// Tokens that prefill had better take at once.
  virtual int64_t usual_batch() const = 0;

  /// Memory that allocate() can still give, as far as is known.
  virtual int64_t free_bytes() const = 0;
  virtual Buffer allocate(int64_t n) = 0;  ///< contents undefined
  /// Weights in the backend's memory, which live as long as it does; the bytes of `host` have been
  /// read when it returns.
  virtual std::vector<Matrix> upload(std::span<const Matrix> host, const LoadProgress& on_load) = 0;
  virtual const float* upload(std::span<const float> host) = 0;
  virtual void fill(float* data, int64_t n, float value) = 0;
  virtual void copy(const float* from, int64_t n, float* to) = 0;
  virtual void read(const float* from, int64_t n, float* host) = 0;
  virtual void synchronize() = 0;

  /// Queues a copy of values as they are at this point, to be fetched by the number returned while
  /// the device goes on. The last four can be fetched.
  virtual int64_t queue_read(const float* from, int64_t n) = 0;
  virtual void fetch_read(int64_t number, std::span<float> host) = 0;
  /// True if calls return before the work is done, so that it pays to ask for the next token before
  /// this one is known.
  virtual bool runs_ahead() const { return false; }
  /// True if the rows of a batch of one token are fingerprinted when it ends: until then they must
  /// stay as they are.
  virtual bool fingerprints_at_end() const { return false; }

  /// Starts a batch: these tokens, of one sequence or of several that follow each other. A backend
  /// may record what is asked of it between begin_batch() and end_batch(), and replay that for
  /// another token: positions given to operations count from the first of their stretch.
  virtual void begin_batch(std::span<const int32_t> tokens, std::span<const Stretch> stretches) = 0;
  /// The same for one token, the greatest of a top_k() queued before, which the host need not know
  /// yet. top, k: that call's.
  virtual void begin_next(const float* top, int k, int64_t first_pos) = 0;
  /// All of the batch has been asked for; it is under way now at the latest.
  virtual void end_batch() = 0;

  /// out [n − first, cols] = rows of the batch's n tokens, from number `first` on.
  virtual void embed(const Matrix& table, int64_t first, float* out) = 0;
  virtual void rms_norm(const float* x, const float* weight, float eps, int64_t n_tokens,
                        int64_t dim, float* out) = 0;
  /// All products of one input.
  virtual void project(Route route, const float* x, int64_t n_tokens,
                       std::span<const Product> products) = 0;
  /// out = x · wᵀ, sum = residual + out.
  virtual void project_add(Route route, const float* x, int64_t n_tokens, const Product& product,
                           const float* residual, float* sum) = 0;
  /// ffn.down.out = the network's result, sum = residual + that. gated: [n_tokens, ffn_dim], holds
  /// what is in between, in a form of the backend's own.
  virtual void feed_forward(const FeedForward& ffn, const float* x, int64_t n_tokens, float* gated,
                            const float* residual, float* sum) = 0;
  /// Biases and norms of the heads of up to three tensors, each by itself, in place.
  virtual void finish_heads(int64_t n_tokens, int64_t head_dim, float eps,
                            std::span<const HeadTensor> tensors) = 0;
  /// Turns tensors of all of the batch's tokens by their positions plus `shift`.
  virtual void rope(int64_t shift, const RopeTurn& turn, int64_t head_dim,
                    std::span<const RopeTensor> tensors) = 0;
  /// Stores a stretch's rows of `width` values each to rows first_row, ... of its caches.
  virtual void store_rows(size_t stretch, int64_t width, int64_t first_row,
                          std::span<const RowStore> stores) = 0;
  /// Copies rows of two caches as f32: all up to the stretch's last token's, or those of its tokens
  /// from first_token on.
  virtual void read_rows(size_t stretch, int64_t width, std::optional<int64_t> first_token,
                         const std::array<RowRead, 2>& reads) = 0;
  /// Of the tokens of a stretch, over its cache. With fingerprints_at_end(), traced probabilities
  /// of a batch of one token are in place when it ends.
  virtual void attention(size_t stretch, Route route, const AttentionShape& shape, const float* q,
                         ConstKvRows k, ConstKvRows v, float* out, const AttentionTrace& trace) = 0;
  virtual void add(const float* a, const float* b, int64_t n, float* out) = 0;

  /// Greatest k ≤ 8 of n values, greatest first; ties go to the lower index, NaN is below
  /// everything. top: [2k], the values, then the bits of their i32 indices; beyond n: NaN and −1.
  virtual void top_k(const float* values, int64_t n, int k, float* top) = 0;

  /// Queues fingerprints of rows as they are at this point, but for fingerprints_at_end(), copies
  /// of their leading sample_values values, and what else their RowRef asks for. A row that is kept
  /// can be compared with from the next batch on.
  virtual void queue_fingerprints(std::span<const RowRef> rows, int64_t sample_values) = 0;
  /// Those of the oldest ended batch that had any and was not fetched yet, in the order of the
  /// queue. Two batches can wait, so that one is fetched while the next is computed.
  virtual std::vector<FingerprintedRow> fetch_fingerprints() = 0;

  // What only fault injection needs; speed does not matter.
  virtual void scale(KvRows values, int64_t n, float factor) = 0;
  virtual void project_fp16_accumulate(const float* x, int64_t n_tokens, int64_t step,
                                       const Product& product) = 0;
  /// `count` values of each row, chosen by `seed`, take one bit from the value beside them.
  virtual void race(float* rows, int64_t n_rows, int64_t width, int64_t count, uint64_t seed) = 0;
};

/// The usual routes of a mode, changed as asked: batch_invariant takes the invariant one for
/// both phases.
/// Throws std::invalid_argument for a route that the backend does not have, with those it has.
RouteTable choose_routes(const Backend& backend, Mode mode, std::span<const RouteChoice> choices);

/// All weights of a model in a backend's memory; on the CPU they stay where the file is mapped.
ModelWeights upload_weights(const Model& model, Backend& backend, const LoadProgress& on_load = {});

/// The CPU of this machine. n_threads 0: as many as there are cores; isa: which it must have.
std::unique_ptr<Backend> make_cpu_backend(int n_threads, Isa isa = best_isa());

}  // namespace greta
