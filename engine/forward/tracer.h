#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/forward/backend.h"
#include "engine/forward/route.h"
#include "engine/run/trace_sink.h"

// Collects the rows of trace points while the forward pass computes them.

namespace greta {

/// The rows of one side of a comparison, kept in the backend's memory until the other side of the
/// same position, layer and trace point is there to be compared with.
class KeptRows {
 public:
  /// limit_bytes: of all rows that are kept at once; 0: none are.
  KeptRows(Backend& backend, int64_t limit_bytes) : backend_(backend), limit_(limit_bytes) {}

  struct Place {
    int64_t pos = 0;
    int layer = 0;
    TracePoint point{};
  };
  struct Row {
    float* data = nullptr;  ///< [n]
    int64_t n = 0;
    bool decode = false;    ///< its side
    bool compared = false;  ///< the other side came
    // Part of its fingerprint, once its batch was taken.
    uint64_t hash = 0;
    double sum_sq = 0;
    bool finite = false;
  };

  bool keeps_any() const { return limit_ > 0; }
  /// Forgets all rows. Their memory is used again, but not before the batch in progress ends.
  void clear();
  /// The same where each has been compared.
  void clear_compared() {
    if (n_compared_ == rows_.size()) clear();
  }
  /// The number of the row that is kept of a place; kNone.
  size_t find(const Place& place) const;
  /// Keeps a row of a place of which none is: in `data`, which another place's row is kept in, or
  /// in new memory. kNone, and counted, when there is no room.
  size_t add(const Place& place, bool decode, int64_t n, float* data);
  Row& row(size_t number) { return rows_[number]; }
  /// Marks a row as compared, and returns it.
  const Row& compare(size_t number);

  int64_t n_without_room() const { return n_without_room_; }
  static constexpr size_t kNone = static_cast<size_t>(-1);

 private:
  float* room_for(int64_t n);

  struct Block {
    Buffer memory;
    int64_t size = 0;
  };
  Backend& backend_;
  int64_t limit_;
  std::vector<Block> blocks_;
  size_t block_ = 0;  // in use
  int64_t used_ = 0;  // values of it
  int64_t allocated_ = 0;
  std::vector<Row> rows_;
  size_t n_compared_ = 0;
  std::unordered_map<uint64_t, size_t> by_place_;
  int64_t n_without_room_ = 0;
};

/// How many heads the rows of a trace point have; 0: none.
struct HeadCounts {
  int64_t heads = 0;
  bool interleaved = false;  ///< value i is of head i mod heads; else heads follow each other
};
HeadCounts heads_of(TracePoint point, int64_t n_heads, int64_t n_kv_heads);

/// Segments of a row of n values: its heads, or as few together as make at most kMaxSegments; equal
/// slices where there is no more than one head, or heads make no such parts.
RowSegments segments_of(const HeadCounts& heads, int64_t n);
/// True if those segments are heads.
bool are_heads(const HeadCounts& heads, int64_t n);

/// What to trace.
struct TraceSelection {
  std::vector<int> layers;         ///< layers of the stack; empty: all
  std::vector<TracePoint> points;  ///< empty: all
  std::vector<Phase> phases{Phase::kPrefillLast, Phase::kDecode0, Phase::kDecode};
  int64_t sample_values = 0;  ///< leading values to keep of every row; 0 none
  bool compares = true;       ///< every traced token is to have its other side

  bool wants_layer(int layer) const;
  /// Where nothing is compared, `all` leaves out is_cache_rows().
  bool wants(TracePoint point) const;
  bool wants(Phase phase) const;
  /// True if rows of the other side are traced too.
  bool wants_partners(Phase phase) const;
  /// Rows that a probe of an n_layers model must give on both sides.
  std::vector<PlannedRow> plan(int64_t n_layers) const;
};

/// What is needed to compare the two sides of a value on the device.
struct RowComparison {
  int64_t kept_bytes = 0;  ///< for rows of the side that comes first; 0: nothing is compared
  int64_t n_heads = 0, n_kv_heads = 0;
};

/// A token of a batch that is traced.
struct TracedToken {
  int64_t row = 0;  ///< in the batch
  Phase phase{};
  int64_t step = 0;
  size_t sequence = 0;  ///< number in the batch
  int64_t pos = 0;
};

/// A sequence's keys and values in a layer, f32 [rows, width], from row first_row on.
struct TracedCache {
  const float *k = nullptr, *v = nullptr;
  int64_t first_row = 0;
};

/// Tokens of one sequence in a batch that is traced.
struct TracedSequence {
  std::span<const int32_t> tokens;
  int64_t first_pos = 0;
  int64_t from = 0;   ///< positions before this one are not traced
  size_t number = 0;  ///< which one it is, of those whose rows are kept for their other side
};

/// Collects the trace points of one batch after another. The forward pass calls note() where a
/// value exists and flush() before it is overwritten; take() gives what a batch has left. Two
/// batches can wait to be taken: the rows of one are made while the device computes the next.
class Tracer {
 public:
  Tracer(TraceSelection selection, Backend& backend, const RowComparison& comparison = {});

  const TraceSelection& selection() const { return selection_; }
  /// Traces other points and layers from the next batch on.
  void select(TraceSelection selection) { selection_ = std::move(selection); }

  /// Forgets the rows that wait for their other side: other prompts begin. Not while a batch waits
  /// to be taken.
  void forget_kept();
  /// Rows of a sequence, by its number, that could not be kept, so that nothing was compared with
  /// them.
  int64_t n_not_kept(size_t number) const {
    return number < kept_.size() ? kept_[number].n_without_room() : 0;
  }

  /// Starts a batch of sequences, and says how they are traced: `last` for the last token of each,
  /// `others` for the rest (nothing: not traced). `step` is that of all of them.
  void begin(std::span<const TracedSequence> sequences, std::optional<Phase> last,
             std::optional<Phase> others, int64_t step);
  /// The same of one.
  void begin(std::span<const int32_t> tokens, int64_t first_pos, std::optional<Phase> last,
             std::optional<Phase> others, int64_t step, int64_t from = 0) {
    const TracedSequence one{.tokens = tokens, .first_pos = first_pos, .from = from};
    begin({&one, 1}, last, others, step);
  }

  /// The token of the batch begun last, of one token, which was not known then.
  void set_token(int32_t token) { batches_.back().tokens.front() = token; }

  bool wants(TracePoint point, int layer) const;
  /// Of the batch begun last.
  std::span<const TracedToken> traced() const { return traced_; }
  /// Batch row of its first traced token; 0 when there is none.
  int64_t first_row() const { return traced_.empty() ? 0 : traced_.front().row; }
  /// The first traced one among a stretch of n tokens from batch row `first` on, counted from that
  /// row; n when there is none.
  int64_t first_of(int64_t first, int64_t n) const;

  /// A tensor with one row per token of the batch, from batch row `first_row` on.
  void note(TracePoint point, int layer, const float* rows, int64_t width,
            std::optional<Route> route = {}, int64_t first_row = 0);
  /// A tensor that is the same for every token: a weight.
  void note_shared(TracePoint point, int layer, const float* row, int64_t n);
  /// One row of one token, given by its index in traced().
  void note_row(TracePoint point, int layer, size_t traced, const float* row, int64_t n,
                std::optional<Route> route = {});
  /// The same where the point is wanted. Where it is not, a row with a value that is not finite is
  /// traced all the same: no selection makes it look fine.
  void watch_row(TracePoint point, int layer, size_t traced, const float* row, int64_t n,
                 Route route);
  /// The rows of the traced tokens in the caches of a layer, [rows, width], and all of their
  /// sequence up to them, but for phase prefill: those of every token would take longer than the
  /// pass. To be called before attention reads them; they are fingerprinted as they are then.
  /// Without sequences: nothing of them is traced.
  void note_cache(int layer, std::span<const TracedCache> by_sequence, int64_t width);
  /// What the attention call of each sequence left of the traced tokens' scores and probabilities.
  void note_attention(int layer, std::span<const AttentionTrace> left_by_sequence, int64_t n_heads,
                      Route route);
  /// JSON object for the `extra` of every row of a point, for the traced token of that index in the
  /// batch begun last.
  void annotate(TracePoint point, size_t traced, std::string extra);

  /// Fingerprints what was noted since the last flush.
  void flush();

  /// The rows of the oldest batch that was not taken, complete. Waits for the device.
  std::vector<TraceRecord> take();
  /// The same of every sequence.
  std::vector<std::vector<TraceRecord>> take_each();

 private:
  struct Row {
    TracePoint point;
    int layer;
    std::optional<Route> route;
    size_t traced;
    size_t fingerprint;  ///< which of those fetched is its own
    bool watched;        ///< nobody asked for it: only what is not finite is taken
    size_t kept;         ///< number in kept_: of itself, or of what it is compared with
  };
  struct Note {
    TracePoint point;
    size_t traced;
    std::string extra;
  };
  /// All that rows need; they are made when the batch is taken, which is not while the device waits
  /// for work.
  struct TracedBatch {
    struct Sequence {
      int64_t first_row, n_tokens;
      size_t number;
    };
    std::vector<int32_t> tokens;
    std::vector<Sequence> sequences;
    std::vector<TracedToken> traced;
    std::vector<Row> rows;
    std::vector<Note> notes;
    size_t n_queued = 0;  ///< fingerprints queued for it
  };
  static TraceRecord make_record(const TracedBatch& batch, const Row& row);
  void add_row(TracePoint point, int layer, size_t traced, RowRef row, std::optional<Route> route,
               bool watched);
  size_t pair_up(TracePoint point, int layer, size_t traced, RowRef& row);
  void take_difference(const Row& row, KeptRows& rows, const FingerprintedRow& made,
                       TraceRecord& record);
  RowRef* find_pending(const RowRef& row);
  size_t pend(const RowRef& row);

  TraceSelection selection_;
  Backend& backend_;
  RowComparison comparison_;
  std::vector<KeptRows> kept_;       ///< by number of the sequence
  std::vector<TracedToken> traced_;  ///< empty: nothing of the batch is traced
  std::deque<TracedBatch> batches_;  ///< oldest first; the last one is in progress
  std::vector<RowRef> pending_;      ///< rows to queue at the next flush, each once
};

}  // namespace greta
