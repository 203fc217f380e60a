#include "db/fleet/push.h"

#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <unordered_map>

#include "common/sha256.h"
#include "common/stop_signal.h"
#include "db/clickhouse/quote.h"
#include "db/database.h"
#include "db/fleet/published.h"
#include "db/fleet/row_text.h"
#include "db/fleet/run_tables.h"
#include "db/kept_tally.h"
#include "db/row_statement.h"
#include "db/schema.h"

namespace greta {
namespace {

using clickhouse::RowWriter;

/// Runs that are published together: an insert costs a server as much as thousands of rows.
constexpr size_t kMostRuns = 200;
constexpr int64_t kMostRows = 1'000'000;
/// What is compressed and sent at a time.
constexpr size_t kBlockBytes = size_t{1} << 20;

constexpr const char* kTraceColumnsThere =
    "shard, push, prompt_id, pos_id, layer, tensor_id, side, nth, crowded, phase_id, step, name_id,"
    " token_id, logical_tok_idx, n, hash, min, max, mean, abs_sum, nan_count, inf_count, nz_count, "
    "flags,"
    " sketch_n, sketch_derived, sum_sq, sketch, sample_n, sample, ptr, offset_bytes, context_id,"
    " source_id, line, tolerance";
constexpr const char* kTraceRows =
    "SELECT t.prompt_id, t.pos_id, t.layer, t.tensor_id, t.side, t.nth, t.crowded, t.phase_id,"
    " t.step, t.name_id, t.token_id, t.logical_tok_idx, t.n, t.hash, t.min, t.max, t.mean,"
    " t.abs_sum, t.nan, t.inf, t.nz_count, t.flags, t.ptr, t.offset_bytes, t.context_id,"
    " t.source_id, t.line, u.n, u.data, k.*"
    " FROM trace_row t LEFT JOIN sketch k ON k.id = t.vector_id LEFT JOIN sample u ON u.id = "
    "t.vector_id WHERE t.run_id = ?";
constexpr int kSampleColumn = 27, kSketchColumn = 29;

constexpr const char* kDifferenceColumns =
    "prompt_id, pos_id, layer, tensor_id, prefill_hash, decode_hash, n, differing, first_at,"
    " last_at, rel_l2, max_abs, max_abs_at, max_ulp, heads, segments";
constexpr int kShareColumn = 16, kShares = 32;

/// As view comparison_status has it for two sides of one run.
constexpr const char* kTolerance =
    "SELECT min(t.rel_l2, ifnull(CASE WHEN ?4 THEN (SELECT min(n.rel_l2) FROM run_noise n"
    " WHERE n.run_id = ?1 AND n.tensor_id = ?2 AND n.layer = ?3) END, 1e300))"
    " FROM run_tolerance t WHERE t.run_id = ?1 AND t.tensor_id = ?2";

/// ?1 is the run.
const std::string kRun = std::string(
                             "SELECT r.name, r.experiment, ifnull(r.date, ''), "
                             "ifnull(r.commit_sha, ''), ifnull(r.mode, ''),"
                             " ifnull(r.dtype, ''), r.status, r.hash_algo,"
                             " ") +
                         identity_sql("r.id") +
                         ", (SELECT count(*) FROM trace_row t WHERE t.run_id = r.id),"
                         " (SELECT count(*) FROM difference d WHERE d.run_id = r.id),"
                         " EXISTS (SELECT 1 FROM ingest_run i WHERE i.run_id = r.id)"
                         " FROM run r WHERE r.id = ?";

constexpr const char* kLevels =
    "SELECT l.id FROM run r CROSS JOIN run l ON r.name > l.name || '/' AND r.name < l.name || '0'"
    " CROSS JOIN directory_level d ON d.run_id = l.id WHERE r.id = ? ORDER BY l.id";

constexpr const char* kSources =
    "SELECT id FROM source WHERE run_id IN (SELECT value FROM json_each(?2))"
    " UNION SELECT source_id FROM attribute WHERE run_id = ?1 AND source_id IS NOT NULL"
    " UNION SELECT source_id FROM run_metric WHERE run_id = ?1"
    " UNION SELECT source_id FROM report_claim WHERE run_id = ?1"
    " UNION SELECT source_id FROM report_pair WHERE run_id = ?1"
    " UNION SELECT source_id FROM report WHERE run_id = ?1"
    " UNION SELECT source_id FROM log_event WHERE run_id = ?1"
    " UNION SELECT source_id FROM run_event WHERE run_id = ?1"
    " UNION SELECT source_id FROM readout WHERE run_id = ?1"
    " UNION SELECT source_id FROM trace_row WHERE run_id = ?1";

std::string json_of(const std::vector<int64_t>& ids) {
  std::string text = "[";
  for (const int64_t id : ids) text += (text.size() > 1 ? "," : "") + std::to_string(id);
  return text + "]";
}

/// What tells the content of run a from what it was when it was compared.
constexpr const char* kContentOfA =
    "(SELECT count(*) || ':' || ifnull(sum(s.rows), 0) FROM source s WHERE s.run_id = run_a_id)";

/// Columns of a table as a record holds them: a run of another push by its identity, and prompts of
/// that run by name.
std::string record_columns(SQLite::Database& db, const std::string& table) {
  std::string columns = columns_of(db, table);
  const auto replace = [&](const std::string& name, const std::string& by) {
    const size_t at = (", " + columns + ",").find(", " + name + ",");
    columns.replace(at, name.size(), by);
  };
  if (table == "kept_diff") {
    replace("run_a_id", identity_sql("run_a_id"));
    replace("prompt_id", "(SELECT name FROM prompt WHERE id = prompt_id)");
    replace("divergent_prompt_id", "(SELECT name FROM prompt WHERE id = divergent_prompt_id)");
    columns += std::string(", ") + kContentOfA;
  } else if (table == "source") {
    // one of a run that does not come along is this one's
    replace("run_id",
            "CASE WHEN run_id IN (SELECT value FROM json_each(?2)) THEN run_id ELSE ?1 END");
  }
  return columns;
}

uint64_t random_number() {
  static std::random_device device;
  uint64_t number = 0;
  while (number <= kLastSharedPush) number = (uint64_t{device()} << 32) | device();
  return number;
}

uint64_t number_of(const Sha256::Digest& digest) {
  uint64_t number = 0;
  for (int i = 0; i < 8; ++i) number = number << 8 | digest[static_cast<size_t>(i)];
  return number;
}

/// Records on their way.
class Records {
 public:
  void begin(uint64_t shard, uint64_t push) {
    shard_ = shard;
    push_ = push;
    count_ = 0;
    content_ = Sha256();
  }

  /// Rows of a statement, all of its columns; `kept` says whether they are part of the content.
  void add(RowStatement& rows, const std::string& kind, bool is_content) {
    const int columns = rows.columns();
    for (uint64_t ord = 0; rows.step(); ++ord) {
      cells_.clear();
      for (int i = 0; i < columns; ++i) cells_.push_back(cell_text(rows, i));
      add_row(kind, ord, is_content);
    }
    rows.reset();
  }

  void add_row(const std::string& kind, uint64_t ord, const std::vector<CellText>& cells) {
    cells_ = cells;
    add_row(kind, ord, true);
  }
  /// An answer: no part of the content.
  void add_kept(const std::string& kind, uint64_t ord, const std::vector<CellText>& cells) {
    cells_ = cells;
    add_row(kind, ord, false);
  }

  uint64_t count() const { return count_; }
  const RowWriter& rows() const { return rows_; }
  Sha256& content() { return content_; }
  void clear() { rows_.clear(); }

 private:
  void add_row(const std::string& kind, uint64_t ord, bool is_content) {
    rows_.u64(shard_).u64(push_);
    const size_t from = rows_.size();
    rows_.text(kind).u64(ord).length(cells_.size());
    for (const CellText& cell : cells_) {
      rows_.null(!cell);
      if (cell) rows_.text(*cell);
    }
    if (is_content) content_.update(rows_.bytes().data() + from, rows_.size() - from);
    ++count_;
  }

  RowWriter rows_;
  std::vector<CellText> cells_;
  uint64_t shard_ = 0, push_ = 0, count_ = 0;
  Sha256 content_;
};

/// Trace rows of a run as they travel.
class TraceRows {
 public:
  explicit TraceRows(SQLite::Database& db)
      : rows_(db, kTraceRows),
        tolerance_(db, kTolerance),
        names_(db, "SELECT tensor_id FROM tensor_name WHERE id = ?") {}

  void begin(int64_t run_id, uint64_t shard, uint64_t push) {
    rows_.reset();
    rows_.bind(run_id);
    run_id_ = run_id;
    shard_ = shard;
    push_ = push;
    tolerances_.clear();
  }

  /// False after the last.
  bool add_next(RowWriter& to) {
    if (!rows_.step()) return false;
    const auto i64 = [this](int i) { return rows_.integer(i); };
    const auto is_null = [this](int i) { return rows_.is_null(i); };
    const auto i64_or_null = [&](int i) {
      to.null(is_null(i));
      if (!is_null(i)) to.i64(i64(i));
    };
    to.u64(shard_).u64(push_);
    to.i64(i64(0)).number(static_cast<int32_t>(i64(1))).number(static_cast<int32_t>(i64(2)));
    to.i64(i64(3)).u8(static_cast<uint8_t>(i64(4))).i64(i64(5)).u8(static_cast<uint8_t>(i64(6)));
    to.i64(i64(7)).i64(i64(8)).i64(i64(9));
    for (int i = 10; i <= 13; ++i) i64_or_null(i);
    for (int i = 14; i <= 17; ++i) {
      to.null(is_null(i));
      if (!is_null(i)) to.f64(rows_.real(i));
    }
    for (int i = 18; i <= 20; ++i) i64_or_null(i);
    to.u8(static_cast<uint8_t>(i64(21)));
    const bool has_sketch = !is_null(kSketchColumn);
    to.null(!has_sketch);
    if (has_sketch) to.i64(i64(kSketchColumn + 1));
    to.u8(static_cast<uint8_t>(i64(kSketchColumn + 2)));
    to.f64(rows_.real(kSketchColumn + 3));
    to.length(has_sketch ? 32 : 0);
    if (has_sketch) {
      std::array<double, 32> buckets;
      for (int i = 0; i < 32; ++i)
        buckets[static_cast<size_t>(i)] = rows_.real(kSketchColumn + 4 + i);
      to.number(buckets);
    }
    i64_or_null(kSampleColumn);
    to.text(rows_.bytes(kSampleColumn + 1));
    for (int i = 22; i <= 24; ++i) i64_or_null(i);
    to.i64(i64(25)).i64(i64(26));
    const std::optional<double> limit = tolerance(i64(9), i64(2), !is_null(12) && i64(12) >= 16);
    to.null(!limit);
    if (limit) to.f64(*limit);
    return true;
  }

 private:
  std::optional<double> tolerance(int64_t name_id, int64_t layer, bool steady) {
    const auto [known, is_new] = tolerances_.try_emplace(std::tuple(name_id, layer, steady));
    if (!is_new) return known->second;
    names_.reset();
    names_.bind(1, name_id);
    const int64_t tensor_id = names_.executeStep() ? names_.getColumn(0).getInt64() : -1;
    tolerance_.reset();
    tolerance_.bind(1, run_id_);
    tolerance_.bind(2, tensor_id);
    tolerance_.bind(3, layer);
    tolerance_.bind(4, steady ? 1 : 0);
    if (tolerance_.executeStep() && !tolerance_.getColumn(0).isNull())
      known->second = tolerance_.getColumn(0).getDouble();
    tolerance_.reset();
    return known->second;
  }

  RowStatement rows_;
  SQLite::Statement tolerance_, names_;
  int64_t run_id_ = 0;
  uint64_t shard_ = 0, push_ = 0;
  std::map<std::tuple<int64_t, int64_t, bool>, std::optional<double>> tolerances_;
};

/// One run of a batch.
struct Sent {
  Published published;
  int64_t run_id = 0;
  std::string here;     ///< its name in the file
  std::string records;  ///< RowBinary
  std::set<SourceKey> sources;
};

class Pusher {
 public:
  Pusher(SQLite::Database& db, FleetServer& server, const PushOptions& options)
      : db_(db),
        server_(server),
        options_(options),
        trace_rows_(db),
        differences_(db, std::string("SELECT ") + kDifferenceColumns + shares() +
                             " FROM difference WHERE run_id = ?"),
        tallies_(db) {
    char name[256] = {};
    if (gethostname(name, sizeof name - 1) == 0) host_ = name;
    for (const RunTable& table : run_tables()) {
      std::string order = " ORDER BY rowid";
      for (const char* without : {"trace_row", "source_location", "trace_repeat", "readout", "plan",
                                  "run_event", "log_event", "document_row", "report_pair",
                                  "noise_floor", "kept_verdict", "kept_diff"}) {
        if (std::strcmp(without, table.name) == 0) order = "";  // WITHOUT ROWID: by its key
      }
      selects_.emplace_back(
          table.name,
          std::make_unique<RowStatement>(db, "SELECT " + record_columns(db, table.name) + " FROM " +
                                                 table.name + " WHERE " + table.condition + order));
    }
  }

  PushSummary run(std::span<const int64_t> runs) {
    progress_.all_runs = static_cast<int64_t>(runs.size());
    send_rules();
    send_commits();
    for (size_t at = 0; at < runs.size();) {
      std::vector<Sent> batch;
      int64_t rows = 0;
      for (; at < runs.size() && batch.size() < kMostRuns && rows < kMostRows; ++at) {
        throw_if_stopped();
        batch.push_back(describe(runs[at]));
        rows += static_cast<int64_t>(batch.back().published.rows);
      }
      const auto done = static_cast<int64_t>(batch.size());
      leave_out_known(batch);
      if (!batch.empty()) send_surely(batch);
      progress_.runs += done;
      tell();
    }
    return summary_;
  }

 private:
  static std::string shares() {
    std::string list;
    for (int i = 0; i < kShares; ++i) list += ", p" + std::to_string(i);
    return list;
  }

  void tell() const {
    if (options_.progress) options_.progress(progress_);
  }

  Sent describe(int64_t run_id) {
    Sent sent;
    sent.run_id = run_id;
    Published& p = sent.published;
    SQLite::Statement run(db_, kRun);
    run.bind(1, run_id);
    if (!run.executeStep()) throw DatabaseError("a run went while it was to be pushed");
    sent.here = run.getColumn(0).getString();
    p.run = sent.here;
    p.origin = run_id;
    p.experiment = run.getColumn(1).getString();
    p.date = run.getColumn(2).getString();
    p.commit_sha = run.getColumn(3).getString();
    p.mode = run.getColumn(4).getString();
    p.dtype = run.getColumn(5).getString();
    p.status = run.getColumn(6).getString();
    p.hash_algo = run.getColumn(7).getString();
    p.identity = run.getColumn(8).getString();
    p.rows = static_cast<uint64_t>(run.getColumn(9).getInt64());
    p.differences = static_cast<uint64_t>(run.getColumn(10).getInt64());
    if (run.getColumn(11).getInt() != 0) {
      throw DatabaseError("an ingest of " + sent.here +
                          " has not ended: `greta-db ingest --resume` finishes it, then push");
    }
    p.shard = number_of(Sha256::digest_of(p.identity));
    p.push = random_number();
    p.rules = rules_;
    p.rules_records = rules_records_;
    p.host = host_;
    add_records(sent);
    return sent;
  }

  void add_records(Sent& sent) {
    Published& p = sent.published;
    std::vector<int64_t> runs{sent.run_id}, sources;
    SQLite::Statement levels(db_, kLevels);
    levels.bind(1, sent.run_id);
    while (levels.executeStep()) runs.push_back(levels.getColumn(0).getInt64());
    const std::string run_list = json_of(runs);
    SQLite::Statement used(db_, kSources);
    used.bind(1, sent.run_id);
    used.bind(2, run_list);
    while (used.executeStep()) sources.push_back(used.getColumn(0).getInt64());
    const std::string source_list = json_of(sources);
    Records records;
    records.begin(p.shard, p.push);
    bool has_tally = false;
    for (auto& [name, select] : selects_) {
      const int parameters = select->parameters();
      if (parameters >= 1) select->bind(sent.run_id);
      if (parameters >= 2) select->bind_text(run_list);
      if (parameters >= 3) select->bind_text(source_list);
      const uint64_t before = records.count();
      const bool is_kept = name.starts_with("kept_");
      records.add(*select, name, !is_kept);
      if (name == "kept_tally") has_tally = records.count() > before;
    }
    if (!has_tally) add_tally(records, sent.run_id);
    records.content().update(&p.rows, sizeof p.rows);
    p.records = records.count();
    p.content = records.content().hex();
    sent.records = records.rows().bytes();
    SQLite::Statement own(db_, "SELECT leg, prompt, sha256, rows FROM source WHERE run_id = ?");
    own.bind(1, sent.run_id);
    while (own.executeStep()) {
      sent.sources.insert(
          {own.getColumn(0), own.getColumn(1), own.getColumn(2), own.getColumn(3).getInt64()});
    }
    SQLite::Statement verdict(db_,
                              "SELECT verdict, numeric_verdict FROM verdict_part WHERE run_id = ?"
                              " AND prompt_id = 0");
    verdict.bind(1, sent.run_id);
    if (!verdict.executeStep()) throw DatabaseError(sent.here + " has no verdict");
    p.verdict = verdict.getColumn(0).getString();
    p.numeric_verdict = verdict.getColumn(1).getString();
  }

  /// Of a run that nobody has judged.
  void add_tally(Records& records, int64_t run_id) {
    constexpr size_t kTallyColumns = 17;
    const TallyRows tally = tallies_.read(run_id);
    for (size_t at = 0; at < tally.values.size(); at += kTallyColumns) {
      std::vector<CellText> cells;
      for (size_t i = at; i < at + kTallyColumns; ++i) {
        const TallyRows::Value& value = tally.values[i];
        if (const auto* number = std::get_if<int64_t>(&value)) {
          cells.emplace_back(std::to_string(*number));
        } else if (const auto* text = std::get_if<std::string>(&value)) {
          cells.emplace_back(*text);
        } else {
          cells.emplace_back();
        }
      }
      records.add_kept("kept_tally", at / kTallyColumns, cells);
    }
  }

  /// Leaves out what is there as it is here; numbers the others, and gives them names of their own.
  void leave_out_known(std::vector<Sent>& batch) {
    std::vector<std::string> identities, names;
    for (const Sent& sent : batch) {
      identities.push_back(sent.published.identity);
      names.push_back(sent.here);
    }
    const std::vector<Published> there = published_like(server_, identities, names);
    std::map<std::string, const Published*> by_identity;
    std::map<std::string, std::string> by_name;
    for (const Published& one : there) {
      by_identity[one.identity] = &one;
      by_name[one.run] = one.identity;
    }
    std::vector<Sent> wanted;
    for (Sent& sent : batch) {
      const auto known = by_identity.find(sent.published.identity);
      if (known == by_identity.end()) {
        give_name(sent, by_name);
      } else {
        const Published& old = *known->second;
        sent.published.version = old.version + 1;
        sent.published.run = old.run;
        if (old.content == sent.published.content && old.rules == rules_ &&
            old.verdict == sent.published.verdict &&
            old.numeric_verdict == sent.published.numeric_verdict) {
          ++summary_.known;
          continue;
        }
        if (!options_.replace) refuse_loss(sent, old);
      }
      wanted.push_back(std::move(sent));
    }
    batch = std::move(wanted);
  }

  void give_name(Sent& sent, std::map<std::string, std::string>& by_name) {
    std::string& name = sent.published.run;
    for (int n = 2; by_name.contains(name); ++n) name = sent.here + "#" + std::to_string(n);
    by_name[name] = sent.published.identity;
    if (name != sent.here) summary_.renamed.emplace_back(sent.here, name);
  }

  /// A run there that has what the file lacks stays as it is.
  void refuse_loss(const Sent& sent, const Published& old) {
    std::string own;
    std::vector<Record> sources;
    for_each_record(server_, {old}, {"run", "source"}, [&](uint64_t, Record& record) {
      if (record.kind == "source") {
        sources.push_back(std::move(record));
      } else if (*record.cells.at(0) == std::to_string(old.origin)) {
        own = *record.cells.at(0);
      }
    });
    std::vector<SourceKey> lacking;
    for (const Record& record : sources) {
      if (*record.cells.at(1) != own) continue;  // of a directory level
      SourceKey key{*record.cells.at(2), *record.cells.at(3), *record.cells.at(4),
                    std::stoll(*record.cells.at(8))};
      const bool is_here =
          std::any_of(sent.sources.begin(), sent.sources.end(), [&](const SourceKey& mine) {
            return std::tie(mine.leg, mine.prompt, mine.sha256) ==
                       std::tie(key.leg, key.prompt, key.sha256) &&
                   mine.rows >= key.rows;
          });
      if (!is_here) lacking.push_back(std::move(key));
    }
    if (lacking.empty()) return;
    throw DatabaseError(
        sent.here + " has " + std::to_string(lacking.size()) + " sources at " + server_.where() +
        " that are not in this file, or fewer rows here: `greta-db pull` brings them here first;"
        " --replace gives them up");
  }

  /// An insert that fails leaves it unknown what arrived: it is begun anew under other push ids.
  void send_surely(std::vector<Sent>& batch) {
    for (int attempt = 1;; ++attempt) {
      const PushProgress before = progress_;
      try {
        return send(batch);
      } catch (const clickhouse::Unreachable&) {
        if (attempt >= options_.attempts) throw;
      }
      progress_ = before;
      for (Sent& sent : batch) renumber(sent);
    }
  }

  static void renumber(Sent& sent) {
    const uint64_t old = sent.published.push, push = random_number();
    // every record begins with the shard and the push
    RowWriter from, to;
    from.u64(sent.published.shard).u64(old);
    to.u64(sent.published.shard).u64(push);
    for (size_t at = 0; (at = sent.records.find(from.bytes(), at)) != std::string::npos;
         at += to.size()) {
      sent.records.replace(at, to.size(), to.bytes());
    }
    sent.published.push = push;
  }

  void send(std::vector<Sent>& batch) {
    send_rows(batch);
    send_differences(batch);
    size_t next = 0;
    server_.insert("record", "shard, push, kind, ord, cells", [&]() -> std::string_view {
      throw_if_stopped();
      while (next < batch.size() && batch[next].records.empty()) ++next;
      return next < batch.size() ? pieces(batch, next) : std::string_view();
    });
    verify(batch);
    publish(batch);
    for (const Sent& sent : batch) {
      ++summary_.runs;
      summary_.rows += static_cast<int64_t>(sent.published.rows);
      summary_.differences += static_cast<int64_t>(sent.published.differences);
      summary_.records += static_cast<int64_t>(sent.published.records);
    }
  }

  /// The records of a run, in pieces that a block can hold.
  std::string_view pieces(const std::vector<Sent>& batch, size_t& next) {
    constexpr size_t kMost = size_t{8} << 20;
    const std::string& all = batch[next].records;
    const std::string_view piece = std::string_view(all).substr(piece_at_, kMost);
    piece_at_ += piece.size();
    if (piece_at_ == all.size()) {
      piece_at_ = 0;
      ++next;
    }
    return piece;
  }

  void send_rows(const std::vector<Sent>& batch) {
    size_t next = 0;
    bool is_open = false;
    RowWriter block;
    server_.insert("trace_row", kTraceColumnsThere, [&]() -> std::string_view {
      throw_if_stopped();
      block.clear();
      while (block.size() < kBlockBytes) {
        if (!is_open) {
          if (next == batch.size()) break;
          const Sent& sent = batch[next++];
          trace_rows_.begin(sent.run_id, sent.published.shard, sent.published.push);
          is_open = true;
        }
        if (trace_rows_.add_next(block)) {
          ++progress_.rows;
        } else {
          is_open = false;
        }
      }
      tell();
      return block.bytes();
    });
  }

  void send_differences(const std::vector<Sent>& batch) {
    const bool any = std::any_of(batch.begin(), batch.end(),
                                 [](const Sent& sent) { return sent.published.differences > 0; });
    if (!any) return;
    size_t next = 0;
    bool is_open = false;
    RowWriter block;
    server_.insert("difference", std::string("shard, push, ") + kDifferenceColumns + ", shares",
                   [&]() -> std::string_view {
                     throw_if_stopped();
                     block.clear();
                     while (block.size() < kBlockBytes) {
                       if (!is_open) {
                         if (next == batch.size()) break;
                         differences_.reset();
                         differences_.bind(batch[next++].run_id);
                         is_open = true;
                       }
                       if (differences_.step()) {
                         add_difference(block, batch[next - 1].published);
                       } else {
                         is_open = false;
                       }
                     }
                     return block.bytes();
                   });
  }

  void add_difference(RowWriter& to, const Published& run) {
    RowStatement& row = differences_;
    const auto i64 = [&row](int i) { return row.integer(i); };
    const auto is_null = [&row](int i) { return row.is_null(i); };
    to.u64(run.shard).u64(run.push).i64(i64(0));
    to.number(static_cast<int32_t>(i64(1))).number(static_cast<int32_t>(i64(2)));
    for (int i = 3; i <= 9; ++i) to.i64(i64(i));
    to.null(is_null(10));
    if (!is_null(10)) to.f64(row.real(10));
    to.f64(row.real(11));
    to.null(is_null(12));
    if (!is_null(12)) to.i64(i64(12));
    for (int i = 13; i <= 15; ++i) to.i64(i64(i));
    int shares = kShares;
    while (shares > 0 && is_null(kShareColumn + shares - 1)) --shares;
    to.length(static_cast<uint64_t>(shares));
    for (int i = 0; i < shares; ++i) {
      to.null(is_null(kShareColumn + i));
      if (!is_null(kShareColumn + i)) to.f64(row.real(kShareColumn + i));
    }
  }

  /// Everything has arrived, or nothing is published.
  void verify(const std::vector<Sent>& batch) {
    std::vector<Published> runs;
    for (const Sent& sent : batch) runs.push_back(sent.published);
    check_counts(server_, runs);
  }

  /// Whether an insert that broke off has published is asked: to do it twice would do no harm.
  void publish(const std::vector<Sent>& batch) {
    std::vector<Published> runs;
    for (const Sent& sent : batch) runs.push_back(sent.published);
    for (int attempt = 1;; ++attempt) {
      try {
        return insert_published(server_, runs);
      } catch (const clickhouse::Unreachable&) {
        if (attempt >= options_.attempts) throw;
      }
    }
  }

  void send_rules() {
    Records records;
    const auto add_all = [&](uint64_t push) {
      records.clear();
      records.begin(push, push);
      for (const char* table : rule_tables()) {
        const std::string name = table;
        RowStatement rows(db_,
                          "SELECT " + columns_of(db_, name) + " FROM " + name + " ORDER BY 1, 2");
        records.add(rows, name, true);
      }
    };
    add_all(0);
    rules_ = number_of(records.content().digest());
    if (rules_ <= kLastSharedPush) rules_ += kLastSharedPush + 1;
    rules_records_ = records.count();
    if (count_records(server_, rules_) == rules_records_) return;
    add_all(rules_);
    send_shared(records);
  }

  /// In one block of one insert, which is there as a whole or not at all.
  void send_shared(const Records& records) {
    bool is_sent = records.rows().size() == 0;
    server_.insert("record", "shard, push, kind, ord, cells", [&]() -> std::string_view {
      return std::exchange(is_sent, true) ? std::string_view()
                                          : std::string_view(records.rows().bytes());
    });
  }

  /// Commits that are not there yet.
  void send_commits() {
    std::set<std::string> known;
    for_each_record(server_, kCommitsPush, {"commit_node"},
                    [&](uint64_t, Record& record) { known.insert(*record.cells.at(0)); });
    Records records;
    records.begin(kCommitsPush, kCommitsPush);
    for (const std::string table : {"commit_parent", "commit_node"}) {
      RowStatement rows(db_, "SELECT * FROM " + table);
      const int columns = rows.columns();
      while (rows.step()) {
        if (known.contains(std::string(rows.bytes(0)))) continue;
        std::vector<CellText> cells;
        for (int i = 0; i < columns; ++i) cells.push_back(cell_text(rows, i));
        std::string key = table;
        for (const CellText& cell : cells) key += '\n' + cell.value_or("");
        records.add_row(table, number_of(Sha256::digest_of(key)), cells);
      }
      if (records.rows().size() > (size_t{12} << 20)) {  // a history of a hundred thousand commits
        throw DatabaseError("the file has too many commits to be sent at once");
      }
    }
    if (records.count() > 0) send_shared(records);
  }

  SQLite::Database& db_;
  FleetServer& server_;
  const PushOptions& options_;
  TraceRows trace_rows_;
  RowStatement differences_;
  TallyReader tallies_;
  std::vector<std::pair<std::string, std::unique_ptr<RowStatement>>> selects_;
  std::string host_;
  uint64_t rules_ = 0, rules_records_ = 0;
  size_t piece_at_ = 0;
  PushProgress progress_;
  PushSummary summary_;
};

}  // namespace

PushSummary push_runs(SQLite::Database& db, FleetServer& server, std::span<const int64_t> runs,
                      const PushOptions& options) {
  SQLite::Transaction one_state(db);
  return Pusher(db, server, options).run(runs);
}

}  // namespace greta
