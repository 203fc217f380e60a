#include "db/fleet/row_loader.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>

#include "common/stop_signal.h"
#include "db/clickhouse/error.h"
#include "db/fleet/sent_rows.h"
#include "db/trace_row.h"

namespace greta {
namespace {

using clickhouse::RowReader;

/// Rows as they come. All of one is read before anything is written: it may not be there as a whole
/// yet, and is then read again (NoMoreBytes).
struct FetchedRow {
  explicit FetchedRow(RowReader& row)
      : prompt(row.i64()),
        pos(row.number<int32_t>()),
        layer(row.number<int32_t>()),
        tensor(row.i64()),
        side(row.u8()),
        nth(row.i64()),
        crowded(row.u8()),
        phase(row.i64()),
        step(row.i64()),
        name(row.i64()) {
    for (auto& one : token_to_hash) one = row.i64_or_null();
    for (auto& one : statistics) one = row.f64_or_null();
    for (auto& one : counts) one = row.i64_or_null();
    flags = row.u8();
    sketch_n = row.i64_or_null();
    sketch_derived = row.u8();
    sum_sq = row.f64();
    const uint64_t n_buckets = row.length();
    if (sketch_n && n_buckets != kSketchNumbers)
      throw clickhouse::Error("a sketch has no 32 buckets: its push is damaged");
    for (uint64_t i = 0; i < n_buckets; ++i) {
      const double value = row.f64();
      if (i < kSketchNumbers) buckets[i] = value;
    }
    sample_n = row.i64_or_null();
    sample = row.text();
    ptr = row.i64_or_null();
    offset = row.i64_or_null();
    context = row.i64_or_null();
    source = row.i64();
    line = row.i64();
    row.f64_or_null();  // the tolerance is worked out here
  }

  int64_t prompt, pos, layer, tensor, side, nth, crowded, phase, step, name;
  std::array<std::optional<int64_t>, 4> token_to_hash;  ///< token, logical index, n, hash
  std::array<std::optional<double>, 4> statistics;      ///< min, max, mean, abs_sum
  std::array<std::optional<int64_t>, 3> counts;         ///< nan, inf, not zero
  int64_t flags = 0, sketch_derived = 0, source = 0, line = 0;
  std::optional<int64_t> sketch_n, sample_n, ptr, offset, context;
  double sum_sq = 0;
  std::array<double, kSketchNumbers> buckets{};
  std::string_view sample;
};

void bind_or_null(RowStatement& to, const std::optional<double>& value) {
  value ? to.bind(*value) : to.bind_null();
}

struct FetchedDifference {
  explicit FetchedDifference(RowReader& row)
      : prompt(row.i64()),
        pos(row.number<int32_t>()),
        layer(row.number<int32_t>()),
        tensor(row.i64()) {
    for (int64_t& one : hashes_to_last) one = row.i64();
    rel_l2 = row.f64_or_null();
    max_abs = row.f64();
    max_abs_at = row.i64_or_null();
    for (int64_t& one : ulp_to_segments) one = row.i64();
    const uint64_t n_shares = row.length();
    for (uint64_t i = 0; i < n_shares; ++i) {
      const auto share = row.f64_or_null();
      if (i < kDifferenceShares) shares[i] = share;
    }
  }

  int64_t prompt, pos, layer, tensor;
  std::array<int64_t, 6> hashes_to_last;  ///< both hashes, n, differing, first_at, last_at
  std::optional<double> rel_l2;
  double max_abs;
  std::optional<int64_t> max_abs_at;
  std::array<int64_t, 3> ulp_to_segments;  ///< max_ulp, heads, segments
  std::array<std::optional<double>, kDifferenceShares> shares;
};

void put_difference(RowStatement& to, const PushedRun& run, const FetchedDifference& from) {
  to.bind(run.run_id);
  to.bind(run.mapped(Reference::kPrompt, from.prompt));
  to.bind(from.pos);
  to.bind(from.layer);
  to.bind(run.mapped(Reference::kTensor, from.tensor));
  for (const int64_t one : from.hashes_to_last) to.bind(one);
  bind_or_null(to, from.rel_l2);
  to.bind(from.max_abs);
  to.bind(from.max_abs_at);
  for (const int64_t one : from.ulp_to_segments) to.bind(one);
  for (const auto& share : from.shares) bind_or_null(to, share);
  to.run();
}

}  // namespace

struct RowLoader::Inserts {
  explicit Inserts(SQLite::Database& db)
      : row(db, "INSERT INTO trace_row(" + kTraceColumns + ") VALUES (" +
                    parameter_marks(split_columns(kTraceColumns).size()) + ")"),
        sketch(db, "INSERT INTO sketch VALUES (" + parameter_marks(4 + kSketchNumbers) + ")"),
        sample(db, "INSERT INTO sample VALUES (?, ?, ?)") {}

  void put(const PushedRun& run, const FetchedRow& from, std::optional<int64_t> vector) {
    put_row(run, from, vector);
    if (from.sketch_n) {
      sketch.bind(*vector);
      sketch.bind(*from.sketch_n);
      sketch.bind(from.sketch_derived);
      sketch.bind(from.sum_sq);
      for (const double value : from.buckets) sketch.bind(value);
      sketch.run();
    }
    if (from.sample_n) {
      sample.bind(*vector);
      sample.bind(*from.sample_n);
      sample.bind_bytes(from.sample);
      sample.run();
    }
  }

 private:
  void put_row(const PushedRun& run, const FetchedRow& from, std::optional<int64_t> vector) {
    row.bind(run.run_id);
    row.bind(run.mapped(Reference::kPrompt, from.prompt));
    row.bind(from.side);
    row.bind(from.pos);
    row.bind(from.layer);
    row.bind(run.mapped(Reference::kTensor, from.tensor));
    row.bind(from.nth);
    row.bind(from.crowded);
    row.bind(run.mapped(Reference::kPhase, from.phase));
    row.bind(from.step);
    row.bind(run.mapped(Reference::kName, from.name));
    for (const auto& value : from.token_to_hash) row.bind(value);
    for (const auto& value : from.statistics) bind_or_null(row, value);
    for (const auto& value : from.counts) row.bind(value);
    row.bind(from.flags);
    row.bind(vector);
    row.bind(from.ptr);
    row.bind(from.offset);
    const bool was_fetched = from.context && !run.contexts.empty();
    if (was_fetched) {
      row.bind(run.mapped(Reference::kContext, *from.context));
    } else {
      row.bind_null();
    }
    row.bind(run.mapped(Reference::kSource, from.source));
    row.bind(from.line);
    row.run();
  }

  RowStatement row, sketch, sample;
};

void RowLoader::load(PushedRuns& runs, std::vector<PushedRun*> wanted) {
  std::erase_if(wanted, [](const PushedRun* run) { return run->has_rows; });
  for (size_t at = 0; at < wanted.size();) {
    std::vector<Published> asked;
    uint64_t rows = 0;
    for (; at < wanted.size() && asked.size() < kMostRunsAsked && rows < kMostRowsAsked; ++at) {
      asked.push_back(*wanted[at]->published);
      rows += wanted[at]->published->rows.n;
      clear(*wanted[at]);
      wanted[at]->has_rows = true;
    }
    throw_if_stopped();
    fetch_rows(runs, asked);
    fetch_differences(runs, asked);
  }
}

/// The row that stood for all.
void RowLoader::clear(const PushedRun& run) {
  for (const char* table : {"trace_row", "traced_position"}) {
    SQLite::Statement remove(db_, std::string("DELETE FROM ") + table + " WHERE run_id = ?");
    remove.bind(1, run.run_id);
    remove.exec();
  }
}

void RowLoader::fetch_rows(const PushedRuns& runs, const std::vector<Published>& asked) {
  Inserts inserts(db_);
  std::map<uint64_t, RowSum> found;
  const std::string columns = "push, " + names_of(kTraceColumnsThere);
  server_.select("SELECT " + columns + " FROM " + server_.table("trace_row") +
                     " WHERE push IN (SELECT push FROM asked)",
                 columns,
                 [&](RowReader& reader) {
                   const uint64_t push = reader.u64();
                   const size_t at = reader.taken();
                   const FetchedRow row(reader);
                   std::optional<int64_t> vector;
                   if (row.sketch_n || row.sample_n) vector = next_vector_++;
                   inserts.put(runs.at(push), row, vector);
                   found[push].add(hash_of_row(kTraceColumnsThere, reader.since(at)));
                 },
                 {asked_table(asked)});
  require_all(server_, asked, found, "trace rows", &Published::rows, Held::kContent);
  for (const Published& one : asked) note_positions(runs.at(one.push).run_id);
}

void RowLoader::note_positions(int64_t run_id) {
  SQLite::Statement insert(
      db_,
      "INSERT INTO traced_position SELECT run_id, prompt_id, side, pos_id,"
      " max(phase_id = (SELECT id FROM phase WHERE name = 'prefill_last'))"
      " FROM trace_row WHERE run_id = ? GROUP BY run_id, prompt_id, side, pos_id");
  insert.bind(1, run_id);
  insert.exec();
}

void RowLoader::fetch_differences(const PushedRuns& runs, const std::vector<Published>& asked) {
  std::string columns =
      "run_id, prompt_id, pos_id, layer, tensor_id, prefill_hash, decode_hash, n, differing,"
      " first_at, last_at, rel_l2, max_abs, max_abs_at, max_ulp, heads, segments";
  for (size_t i = 0; i < kDifferenceShares; ++i) columns += ", p" + std::to_string(i);
  RowStatement insert(db_, "INSERT INTO difference(" + columns + ") VALUES (" +
                               parameter_marks(split_columns(columns).size()) + ")");
  std::map<uint64_t, RowSum> found;
  const std::string asked_columns = "push, " + names_of(kDifferenceColumnsThere);
  server_.select("SELECT " + asked_columns + " FROM " + server_.table("difference") +
                     " WHERE push IN (SELECT push FROM asked)",
                 asked_columns,
                 [&](RowReader& row) {
                   const uint64_t push = row.u64();
                   const size_t at = row.taken();
                   put_difference(insert, runs.at(push), FetchedDifference(row));
                   found[push].add(hash_of_row(kDifferenceColumnsThere, row.since(at)));
                 },
                 {asked_table(asked)});
  require_all(server_, asked, found, "differences", &Published::differences, Held::kContent);
}

}  // namespace greta
