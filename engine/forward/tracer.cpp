#include "engine/forward/tracer.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <stdexcept>

namespace greta {
namespace {

constexpr int64_t kBlockValues = 4 << 20;
constexpr int64_t kAlign = 16;  // values: rows begin where wide loads can

// A model has fewer layers, and fewer positions, than these bits tell apart.
uint64_t key_of(const KeptRows::Place& place) {
  return static_cast<uint64_t>(place.pos) << 24 |
         static_cast<uint64_t>(place.layer - kLayerAfterStack) << 8 |
         static_cast<uint64_t>(place.point);
}

/// Parts that heads can be taken together to; 1 when they cannot.
int32_t head_parts(const HeadCounts& heads, int64_t n) {
  if (heads.heads == 0 || n % heads.heads != 0) return 1;
  auto parts = static_cast<int32_t>(std::min<int64_t>(heads.heads, kMaxSegments));
  while (heads.heads % parts != 0) --parts;
  return parts;
}

template <class T>
bool empty_or_has(const std::vector<T>& all, T one) {
  return all.empty() || std::find(all.begin(), all.end(), one) != all.end();
}

/// As sums of squares are that were rounded in two ways.
bool nearly_equal(double a, double b) { return std::fabs(a - b) <= 1e-3 * std::max(a, b); }

}  // namespace

void KeptRows::clear() {
  rows_.clear();
  by_place_.clear();
  n_compared_ = 0;
  block_ = 0;
  used_ = 0;
}

const KeptRows::Row& KeptRows::compare(size_t number) {
  Row& row = rows_[number];
  row.compared = true;
  ++n_compared_;
  return row;
}

size_t KeptRows::find(const Place& place) const {
  const auto found = by_place_.find(key_of(place));
  return found == by_place_.end() ? kNone : found->second;
}

size_t KeptRows::add(const Place& place, bool decode, int64_t n, float* data) {
  if (data == nullptr) data = room_for(n);
  if (data == nullptr) {
    ++n_without_room_;
    return kNone;
  }
  Row& row = rows_.emplace_back();
  row.data = data;
  row.n = n;
  row.decode = decode;
  by_place_[key_of(place)] = rows_.size() - 1;
  return rows_.size() - 1;
}

/// nullptr beyond the limit, and where the device has no more: a comparison is worth no failure.
float* KeptRows::room_for(int64_t n) {
  const int64_t wanted = (n + kAlign - 1) / kAlign * kAlign;
  while (block_ < blocks_.size() && used_ + wanted > blocks_[block_].size) {
    ++block_;
    used_ = 0;
  }
  if (block_ == blocks_.size()) {
    const int64_t left = limit_ / static_cast<int64_t>(sizeof(float)) - allocated_;
    const int64_t size = std::min(std::max(wanted, kBlockValues), left);
    if (size < wanted) return nullptr;
    try {
      blocks_.push_back({backend_.allocate(size), size});
    } catch (const std::runtime_error&) {
      limit_ = allocated_ * static_cast<int64_t>(sizeof(float));
      return nullptr;
    }
    allocated_ += size;
  }
  float* const data = blocks_[block_].memory.get() + used_;
  used_ += wanted;
  return data;
}

HeadCounts heads_of(TracePoint point, int64_t n_heads, int64_t n_kv_heads) {
  switch (point) {
    case TracePoint::kQPreRope:
    case TracePoint::kQPostRope:
    case TracePoint::kAttnOut:
      return {n_heads, false};
    case TracePoint::kKPreRope:
    case TracePoint::kVProj:
    case TracePoint::kKPostRope:
    case TracePoint::kKCache:
    case TracePoint::kVCache:
      return {n_kv_heads, false};
    case TracePoint::kAttnScores:
    case TracePoint::kAttnProbs:
      return {n_heads, true};
    default:
      return {};
  }
}

bool are_heads(const HeadCounts& heads, int64_t n) { return head_parts(heads, n) > 1; }

RowSegments segments_of(const HeadCounts& heads, int64_t n) {
  if (!are_heads(heads, n)) {
    return {static_cast<int32_t>(std::clamp<int64_t>(n, 1, kMaxSegments)), 0};
  }
  return {head_parts(heads, n), heads.interleaved ? heads.heads : 0};
}

bool TraceSelection::wants_layer(int layer) const { return empty_or_has(layers, layer); }
bool TraceSelection::wants(TracePoint point) const {
  return points.empty() ? compares || !is_cache_rows(point) : empty_or_has(points, point);
}
bool TraceSelection::wants(Phase phase) const {
  return std::find(phases.begin(), phases.end(), phase) != phases.end();
}

bool TraceSelection::wants_partners(Phase phase) const {
  if (is_decode(phase)) return wants(Phase::kPrefillLast);
  return phase == Phase::kPrefillLast && (wants(Phase::kDecode0) || wants(Phase::kDecode));
}

std::vector<PlannedRow> TraceSelection::plan(int64_t n_layers) const {
  std::vector<PlannedRow> rows;
  for (const bool decode : {false, true}) {
    if (!wants(decode ? Phase::kDecode0 : Phase::kPrefillLast)) continue;
    for (int p = 0; p < kTracePoints; ++p) {
      const auto point = static_cast<TracePoint>(p);
      if (!wants(point)) continue;
      switch (trace_point_stage(point)) {
        case Stage::kEmbed:
          rows.push_back({decode, 0, point});
          break;
        case Stage::kHead:
          rows.push_back({decode, kLayerAfterStack, point});
          break;
        case Stage::kLayer:
          for (int layer = 0; layer < n_layers; ++layer) {
            if (wants_layer(layer)) rows.push_back({decode, layer, point});
          }
      }
    }
  }
  return rows;
}

Tracer::Tracer(TraceSelection selection, Backend& backend, const RowComparison& comparison)
    : selection_(std::move(selection)), backend_(backend), comparison_(comparison) {}

void Tracer::forget_kept() {
  for (KeptRows& kept : kept_) kept.clear();
}

void Tracer::begin(std::span<const TracedSequence> sequences, std::optional<Phase> last,
                   std::optional<Phase> others, int64_t step) {
  if (batches_.size() == 2) throw std::logic_error("Tracer: two batches wait to be taken");
  if (batches_.empty()) {
    for (KeptRows& kept : kept_) kept.clear_compared();
  }
  TracedBatch& batch = batches_.emplace_back();
  traced_.clear();
  for (size_t i = 0; i < sequences.size(); ++i) {
    const TracedSequence& one = sequences[i];
    while (kept_.size() <= one.number) kept_.emplace_back(backend_, comparison_.kept_bytes);
    const auto first = static_cast<int64_t>(batch.tokens.size());
    const auto n = static_cast<int64_t>(one.tokens.size());
    for (int64_t token = 0; token < n; ++token) {
      const std::optional<Phase> phase = token == n - 1 ? last : others;
      const int64_t pos = one.first_pos + token;
      const bool wanted = phase && selection_.wants(*phase) && pos >= one.from;
      if (wanted) traced_.push_back({first + token, *phase, step, i, pos});
    }
    batch.tokens.insert(batch.tokens.end(), one.tokens.begin(), one.tokens.end());
    batch.sequences.push_back({first, n, one.number});
  }
  batch.traced = traced_;
}

int64_t Tracer::first_of(int64_t first, int64_t n) const {
  const auto found = std::partition_point(traced_.begin(), traced_.end(),
                                          [&](const TracedToken& one) { return one.row < first; });
  return found == traced_.end() ? n : std::min(found->row - first, n);
}

bool Tracer::wants(TracePoint point, int layer) const {
  return !traced_.empty() && selection_.wants(point) &&
         (trace_point_stage(point) != Stage::kLayer || selection_.wants_layer(layer));
}

TraceRecord Tracer::make_record(const TracedBatch& batch, const Row& row) {
  const TracedToken& token = batch.traced[row.traced];
  TraceRecord record;
  record.point = row.point;
  record.layer = row.layer;
  record.phase = token.phase;
  record.step = token.step;
  const TracedBatch::Sequence& sequence = batch.sequences[token.sequence];
  record.pos_id = token.pos;
  record.token_id = batch.tokens[static_cast<size_t>(token.row)];
  record.seq_len = sequence.n_tokens;
  record.token_index = token.row - sequence.first_row;
  if (row.route) record.route = route_name(*row.route);
  for (const Note& note : batch.notes) {
    if (note.point == row.point && note.traced == row.traced) record.extra = note.extra;
  }
  return record;
}

void Tracer::note(TracePoint point, int layer, const float* rows, int64_t width,
                  std::optional<Route> route, int64_t first_row) {
  if (!wants(point, layer)) return;
  for (size_t i = 0; i < traced_.size(); ++i) {
    note_row(point, layer, i, rows + (traced_[i].row - first_row) * width, width, route);
  }
}

void Tracer::watch_row(TracePoint point, int layer, size_t traced, const float* row, int64_t n,
                       Route route) {
  add_row(point, layer, traced, {row, n}, route, !wants(point, layer));
}

void Tracer::note_shared(TracePoint point, int layer, const float* row, int64_t n) {
  if (!wants(point, layer)) return;
  for (size_t i = 0; i < traced_.size(); ++i) note_row(point, layer, i, row, n);
}

void Tracer::note_row(TracePoint point, int layer, size_t traced, const float* row, int64_t n,
                      std::optional<Route> route) {
  if (wants(point, layer)) add_row(point, layer, traced, {row, n}, route, false);
}

void Tracer::add_row(TracePoint point, int layer, size_t traced, RowRef row,
                     std::optional<Route> route, bool watched) {
  TracedBatch& batch = batches_.back();
  const size_t kept = watched ? KeptRows::kNone : pair_up(point, layer, traced, row);
  batch.rows.push_back({point, layer, route, traced, batch.n_queued + pend(row), watched, kept});
}

/// Has a row compared with its other side, or kept until that is there. Returns the kept one's
/// number.
size_t Tracer::pair_up(TracePoint point, int layer, size_t traced, RowRef& row) {
  const TracedToken& token = traced_[traced];
  KeptRows& kept = kept_[batches_.back().sequences[token.sequence].number];
  if (!kept.keeps_any() || !selection_.wants_partners(token.phase)) return KeptRows::kNone;
  const KeptRows::Place place{token.pos, layer, point};
  const bool decode = is_decode(token.phase);
  size_t number = kept.find(place);
  if (number != KeptRows::kNone) {
    const KeptRows::Row& other = kept.row(number);
    if (other.decode == decode || other.compared || other.n != row.n) return KeptRows::kNone;
    row.other = kept.compare(number).data;
    row.segments = segments_of(heads_of(point, comparison_.n_heads, comparison_.n_kv_heads), row.n);
    return number;
  }
  const RowRef* const pending = find_pending(row);
  number = kept.add(place, decode, row.n, pending != nullptr ? pending->keep : nullptr);
  if (number != KeptRows::kNone) row.keep = kept.row(number).data;
  return number;
}

void Tracer::note_cache(int layer, std::span<const TracedCache> by_sequence, int64_t width) {
  if (by_sequence.empty()) return;
  for (size_t i = 0; i < traced_.size(); ++i) {
    const TracedCache& its = by_sequence[traced_[i].sequence];
    const int64_t offset = (traced_[i].pos - its.first_row) * width;
    note_row(TracePoint::kKCache, layer, i, its.k + offset, width);
    note_row(TracePoint::kVCache, layer, i, its.v + offset, width);
    if (traced_[i].phase == Phase::kPrefill) continue;
    note_row(TracePoint::kKCacheRows, layer, i, its.k, offset + width);
    note_row(TracePoint::kVCacheRows, layer, i, its.v, offset + width);
  }
  if (wants(TracePoint::kKCacheRows, layer) || wants(TracePoint::kVCacheRows, layer)) flush();
}

void Tracer::note_attention(int layer, std::span<const AttentionTrace> left_by_sequence,
                            int64_t n_heads, Route route) {
  for (size_t i = 0; i < traced_.size(); ++i) {
    const TracedToken& token = traced_[i];
    const AttentionTrace& left = left_by_sequence[token.sequence];
    const int64_t query = token.row - batches_.back().sequences[token.sequence].first_row;
    const int64_t offset = (query - left.first_query) * left.stride;
    const int64_t n = (token.pos + 1) * n_heads;
    const auto note_left = [&](TracePoint point, const float* rows) {
      if (rows != nullptr) note_row(point, layer, i, rows + offset, n, route);
    };
    note_left(TracePoint::kAttnScores, left.scores);
    note_left(TracePoint::kAttnProbs, left.probs);
  }
}

/// The row in pending_ that is the same, if any. One memory that two points name (x_out is
/// residual_post_mlp) is fingerprinted once; looking further back than a layer, or than one of one
/// token where a whole prompt is traced, is not worth it.
RowRef* Tracer::find_pending(const RowRef& row) {
  constexpr size_t kLookBack = 32, kFewTokens = 64;
  const size_t look_back = kLookBack * (traced_.size() <= kFewTokens ? traced_.size() : 1);
  const size_t first = pending_.size() - std::min(pending_.size(), look_back);
  for (size_t i = first; i < pending_.size(); ++i) {
    RowRef& pending = pending_[i];
    if (pending.data == row.data && pending.n == row.n && pending.other == row.other)
      return &pending;
  }
  return nullptr;
}

/// Place of a row in pending_.
size_t Tracer::pend(const RowRef& row) {
  RowRef* pending = find_pending(row);
  if (pending == nullptr) {
    pending_.push_back(row);
    return pending_.size() - 1;
  }
  if (row.keep != nullptr) pending->keep = row.keep;
  return static_cast<size_t>(pending - pending_.data());
}

void Tracer::annotate(TracePoint point, size_t traced, std::string extra) {
  batches_.back().notes.push_back({point, traced, std::move(extra)});
}

void Tracer::flush() {
  if (pending_.empty()) return;
  backend_.queue_fingerprints(pending_, selection_.sample_values);
  batches_.back().n_queued += pending_.size();
  pending_.clear();
}

std::vector<TraceRecord> Tracer::take() {
  std::vector<TraceRecord> all;
  for (std::vector<TraceRecord>& rows : take_each()) {
    if (all.empty()) {
      all = std::move(rows);
    } else {
      std::move(rows.begin(), rows.end(), std::back_inserter(all));
    }
  }
  return all;
}

std::vector<std::vector<TraceRecord>> Tracer::take_each() {
  if (batches_.empty()) throw std::logic_error("Tracer: no batch to take");
  TracedBatch batch = std::move(batches_.front());
  batches_.pop_front();
  std::vector<FingerprintedRow> made;
  if (batch.n_queued > 0) made = backend_.fetch_fingerprints();
  if (made.size() != batch.n_queued) {
    throw std::logic_error(
        "Tracer: the device gave another number of fingerprints than were queued");
  }
  std::vector<std::vector<TraceRecord>> records(batch.sequences.size());
  for (std::vector<TraceRecord>& rows : records) {
    rows.reserve(batch.rows.size() / records.size() + 1);
  }
  for (const Row& row : batch.rows) {
    const Fingerprint& print = made[row.fingerprint].fingerprint;
    if (row.watched && print.nan == 0 && print.inf == 0) continue;
    const size_t sequence = batch.traced[row.traced].sequence;
    TraceRecord& record = records[sequence].emplace_back(make_record(batch, row));
    record.fingerprint = print;
    record.sample = made[row.fingerprint].sample;  // a copy: points can share a row
    if (row.kept == KeptRows::kNone) continue;
    take_difference(row, kept_[batch.sequences[sequence].number], made[row.fingerprint], record);
  }
  return records;
}

/// Of a row that is kept for the other side: what its difference will need. Of that side: its
/// difference, unless the sums of squares are not those of the fingerprints: then the comparison is
/// of other rows.
void Tracer::take_difference(const Row& row, KeptRows& rows, const FingerprintedRow& made,
                             TraceRecord& record) {
  KeptRows::Row& kept = rows.row(row.kept);
  const Fingerprint& print = made.fingerprint;
  const bool decode = is_decode(record.phase), finite = print.nan == 0 && print.inf == 0;
  if (kept.decode == decode) {
    kept.hash = print.hash;
    kept.sum_sq = print.sum_sq;
    kept.finite = finite;
    return;
  }
  if (!made.difference || made.difference->differing == 0 || kept.hash == print.hash) return;
  PairDifference difference;
  difference.values = *made.difference;
  difference.finite = finite && kept.finite;
  if (difference.finite && !(nearly_equal(difference.values.x_sum_sq, kept.sum_sq) &&
                             nearly_equal(difference.values.y_sum_sq, print.sum_sq))) {
    return;
  }
  difference.prefill_hash = decode ? kept.hash : print.hash;
  difference.decode_hash = decode ? print.hash : kept.hash;
  const HeadCounts heads = heads_of(row.point, comparison_.n_heads, comparison_.n_kv_heads);
  difference.segments = segments_of(heads, kept.n);
  difference.heads = are_heads(heads, kept.n) ? heads.heads : 0;
  record.difference = std::make_shared<const PairDifference>(difference);
}

}  // namespace greta
