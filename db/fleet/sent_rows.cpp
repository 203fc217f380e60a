#include "db/fleet/sent_rows.h"

#include <array>
#include <string>

namespace greta {
namespace {

using clickhouse::RowWriter;

constexpr int kSampleColumn = 27, kSketchColumn = 29, kShareColumn = 16;

constexpr const char* kDifferenceColumnsHere =
    "prompt_id, pos_id, layer, tensor_id, prefill_hash, decode_hash, n, differing, first_at,"
    " last_at, rel_l2, max_abs, max_abs_at, max_ulp, heads, segments";

/// As view comparison_status has it for two sides of one run.
constexpr const char* kTolerance =
    "SELECT min(t.rel_l2, ifnull(CASE WHEN ?4 THEN (SELECT min(n.rel_l2) FROM run_noise n"
    " WHERE n.run_id = ?1 AND n.tensor_id = ?2 AND n.layer = ?3) END, 1e300))"
    " FROM run_tolerance t WHERE t.run_id = ?1 AND t.tensor_id = ?2";

void add_real(RowWriter& to, RowStatement& row, int column) {
  const bool is_null = row.is_null(column);
  to.null(is_null);
  if (!is_null) to.f64(row.real(column));
}

}  // namespace

const char* const TraceRows::kSelect =
    "SELECT t.prompt_id, t.pos_id, t.layer, t.tensor_id, t.side, t.nth, t.crowded, t.phase_id,"
    " t.step, t.name_id, t.token_id, t.logical_tok_idx, t.n, t.hash, t.min, t.max, t.mean,"
    " t.abs_sum, t.nan, t.inf, t.nz_count, t.flags, t.ptr, t.offset_bytes, t.context_id,"
    " t.source_id, t.line, u.n, u.data, k.*"
    " FROM trace_row t LEFT JOIN sketch k ON k.id = t.vector_id LEFT JOIN sample u ON u.id = "
    "t.vector_id WHERE t.run_id = ?";

void TraceRows::begin(int64_t run_id, uint64_t shard, uint64_t push) {
  rows_.reset();
  rows_.bind(run_id);
  run_id_ = run_id;
  shard_ = shard;
  push_ = push;
  tolerances_.clear();
}

bool TraceRows::add_next(RowWriter& to) {
  if (!rows_.step()) return false;
  const auto i64 = [this](int i) { return rows_.integer(i); };
  to.u64(shard_).u64(push_);
  to.i64(i64(0)).number(static_cast<int32_t>(i64(1))).number(static_cast<int32_t>(i64(2)));
  to.i64(i64(3)).u8(static_cast<uint8_t>(i64(4))).i64(i64(5)).u8(static_cast<uint8_t>(i64(6)));
  to.i64(i64(7)).i64(i64(8)).i64(i64(9));
  add_statistics(to);
  add_sketch(to);
  add_integer(to, kSampleColumn);
  to.text(rows_.bytes(kSampleColumn + 1));
  for (int i = 22; i <= 24; ++i) add_integer(to, i);
  to.i64(i64(25)).i64(i64(26));
  const bool steady = !rows_.is_null(12) && i64(12) >= 16;
  const std::optional<double> limit = tolerance(i64(9), i64(2), steady);
  to.null(!limit);
  if (limit) to.f64(*limit);
  return true;
}

/// From the token to the flags.
void TraceRows::add_statistics(RowWriter& to) {
  for (int i = 10; i <= 13; ++i) add_integer(to, i);
  for (int i = 14; i <= 17; ++i) add_real(to, rows_, i);
  for (int i = 18; i <= 20; ++i) add_integer(to, i);
  to.u8(static_cast<uint8_t>(rows_.integer(21)));
}

void TraceRows::add_sketch(RowWriter& to) {
  const bool has_sketch = !rows_.is_null(kSketchColumn);
  to.null(!has_sketch);
  if (has_sketch) to.i64(rows_.integer(kSketchColumn + 1));
  to.u8(static_cast<uint8_t>(rows_.integer(kSketchColumn + 2)));
  to.f64(rows_.real(kSketchColumn + 3));
  to.length(has_sketch ? kSketchNumbers : 0);
  if (!has_sketch) return;
  std::array<double, kSketchNumbers> buckets;
  for (int i = 0; i < kSketchNumbers; ++i)
    buckets[static_cast<size_t>(i)] = rows_.real(kSketchColumn + 4 + i);
  to.number(buckets);
}

void TraceRows::add_integer(RowWriter& to, int column) {
  const bool is_null = rows_.is_null(column);
  to.null(is_null);
  if (!is_null) to.i64(rows_.integer(column));
}

std::optional<double> TraceRows::tolerance(int64_t name_id, int64_t layer, bool steady) {
  const auto [known, is_new] = tolerances_.try_emplace(std::tuple(name_id, layer, steady));
  if (!is_new) return known->second;
  const int64_t tensor_id =
      statements_.find_id("SELECT tensor_id FROM tensor_name WHERE id = ?", name_id).value_or(-1);
  SQLite::Statement& limit = statements_(kTolerance, run_id_, tensor_id, layer, steady ? 1 : 0);
  if (limit.executeStep() && !limit.getColumn(0).isNull())
    known->second = limit.getColumn(0).getDouble();
  limit.reset();
  return known->second;
}

DifferenceRows::DifferenceRows(SQLite::Database& db)
    : rows_(db, [] {
        std::string shares;
        for (int i = 0; i < kDifferenceShares; ++i) shares += ", p" + std::to_string(i);
        return std::string("SELECT ") + kDifferenceColumnsHere + shares +
               " FROM difference WHERE run_id = ?";
      }()) {}

void DifferenceRows::begin(int64_t run_id, uint64_t shard, uint64_t push) {
  rows_.reset();
  rows_.bind(run_id);
  shard_ = shard;
  push_ = push;
}

bool DifferenceRows::add_next(RowWriter& to) {
  if (!rows_.step()) return false;
  const auto i64 = [this](int i) { return rows_.integer(i); };
  to.u64(shard_).u64(push_).i64(i64(0));
  to.number(static_cast<int32_t>(i64(1))).number(static_cast<int32_t>(i64(2)));
  for (int i = 3; i <= 9; ++i) to.i64(i64(i));
  add_real(to, rows_, 10);
  to.f64(rows_.real(11));
  to.null(rows_.is_null(12));
  if (!rows_.is_null(12)) to.i64(i64(12));
  for (int i = 13; i <= 15; ++i) to.i64(i64(i));
  int shares = kDifferenceShares;
  while (shares > 0 && rows_.is_null(kShareColumn + shares - 1)) --shares;
  to.length(static_cast<uint64_t>(shares));
  for (int i = 0; i < shares; ++i) add_real(to, rows_, kShareColumn + i);
  return true;
}

}  // namespace greta
