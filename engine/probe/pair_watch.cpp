#include "engine/probe/pair_watch.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace greta {
namespace {

PairPlace place_of_row(const TraceRecord& row) { return {row.point, row.layer, row.pos_id}; }

/// Of a repeat there are no pairs, and the other rows of prefill have no partner.
bool is_paired(Phase phase) {
  return phase == Phase::kPrefillLast || phase == Phase::kDecode0 || phase == Phase::kDecode;
}

}  // namespace

double sketched_distance(const Fingerprint& a, const Fingerprint& b) {
  if (a.n != b.n || a.nan + a.inf + b.nan + b.inf > 0) {
    return std::numeric_limits<double>::infinity();
  }
  double sum_sq = 0;
  for (size_t i = 0; i < a.sketch.size(); ++i) {
    const double apart = a.sketch[i] - b.sketch[i];
    sum_sq += apart * apart;
  }
  const double norm_sq = std::max(a.sum_sq, b.sum_sq);
  return norm_sq > 0 ? std::sqrt(sum_sq / 2 / norm_sq) : 0;  // two maps: each has every value
}

void PairWatch::begin() {
  waiting_.clear();
  shown_.clear();
  first_.reset();
  any_beyond_ = false;
}

void PairWatch::look(std::span<const TraceRecord> rows) {
  if (tolerances_.empty()) return;
  for (const TraceRecord& row : rows) {
    if (is_paired(row.phase)) look(row);
  }
}

void PairWatch::look(const TraceRecord& row) {
  const PairPlace place = place_of_row(row);
  if (first_ && *first_ < place) return;
  const auto [other, is_new] = waiting_.try_emplace(place, row.fingerprint);
  if (is_new) return;
  const Fingerprint& a = other->second;
  const Fingerprint& b = row.fingerprint;
  const bool equal = a.n == b.n && a.hash == b.hash && a.nan + a.inf == 0;
  const double apart = equal ? 0 : sketched_distance(a, b);
  const double tolerance = tolerances_[static_cast<size_t>(row.point)];
  if (!equal && !(apart <= tolerance && tolerance > 0)) {
    any_beyond_ = true;
    if (!(apart <= tolerance + explained(place) && tolerance > 0)) first_ = place;
  }
  Shown& shown = shown_[place.pos];
  if (first_ != place) shown.most = std::max(shown.most, apart);
  if (place.point == TracePoint::kAttnScores) {
    shown.scores = 4 * apart * std::max(std::fabs(a.min), std::fabs(a.max));
  }
  waiting_.erase(other);
}

/// As the gains of the table edge allow at most, from any pair before.
double PairWatch::explained(const PairPlace& place) const {
  const auto shown = shown_.find(place.pos);
  const Shown before = shown == shown_.end() ? Shown() : shown->second;
  if (place.point >= TracePoint::kKCache && place.point <= TracePoint::kVCacheRows) {
    return 32 * before.most + stored_;
  }
  return std::max(8 * before.most, place.point == TracePoint::kAttnProbs ? 2 * before.scores : 0);
}

void RestOfRows::rows(size_t prompt, std::vector<TraceRecord> rows) {
  std::erase_if(rows, [this](const TraceRecord& row) {
    const bool everywhere = trace_point_stage(row.point) != Stage::kLayer;
    return selection_.wants(row.point) && (everywhere || selection_.wants_layer(row.layer));
  });
  if (!rows.empty()) sink_.rows(prompt, std::move(rows));
}

void RowHashes::add(std::span<const TraceRecord> rows) {
  for (const TraceRecord& row : rows) {
    if (!is_paired(row.phase)) continue;
    hashes_.emplace(std::pair(place_of_row(row), is_decode(row.phase)), row.fingerprint.hash);
  }
}

bool RowHashes::agree_with(const TraceRecord& row) const {
  const auto found = hashes_.find({place_of_row(row), is_decode(row.phase)});
  return found == hashes_.end() || found->second == row.fingerprint.hash;
}

void ChangedRows::rows(size_t prompt, std::vector<TraceRecord> rows) {
  std::erase_if(rows, [this](const TraceRecord& row) {
    return !is_paired(row.phase) || before_.agree_with(row);
  });
  if (rows.empty()) return;
  for (TraceRecord& row : rows) {
    row.difference = nullptr;  // it is not of the pair that is judged
    const PairPlace place = place_of_row(row);
    first_ = first_ ? std::min(*first_, place) : place;
  }
  sink_.rows(prompt, std::move(rows));
}

void RepeatedRows::rows(size_t prompt, std::vector<TraceRecord> rows) {
  std::vector<TraceRecord> kept;
  for (TraceRecord& row : rows) {
    if (!is_paired(row.phase) || place_of_row(row) != place_) continue;
    row.phase = is_decode(row.phase) ? Phase::kRepeatDecode : Phase::kRepeatPrefill;
    row.step = number_;
    row.difference = nullptr;  // it is of no pair
    kept.push_back(std::move(row));
  }
  if (!kept.empty()) sink_.rows(prompt, std::move(kept));
}

}  // namespace greta
