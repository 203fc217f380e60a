#include "db/fleet/push.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "common/sha256.h"
#include "common/stop_signal.h"
#include "db/clickhouse/quote.h"
#include "db/database.h"
#include "db/fleet/published.h"
#include "db/fleet/record_writer.h"
#include "db/fleet/row_text.h"
#include "db/fleet/run_tables.h"
#include "db/fleet/sent_rows.h"
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
/// Rows after which is told how far it is.
constexpr int64_t kRowsATell = 4096;

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

uint64_t random_number() {
  static std::random_device device;
  uint64_t number = 0;
  while (number <= kLastSharedPush) number = (uint64_t{device()} << 32) | device();
  return number;
}

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
        differences_(db),
        tallies_(db) {
    char name[256] = {};
    if (gethostname(name, sizeof name - 1) == 0) host_ = name;
    for (const RunTable& table : run_tables()) {
      selects_.emplace_back(table.name,
                            std::make_unique<RowStatement>(db, record_select(db, table)));
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
    RecordWriter records;
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
  void add_tally(RecordWriter& records, int64_t run_id) {
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
    send_table("trace_row", kTraceColumnsThere, trace_rows_, batch, [this] {
      ++progress_.rows;
      if (progress_.rows % kRowsATell == 0) tell();
    });
  }

  void send_differences(const std::vector<Sent>& batch) {
    const bool any = std::any_of(batch.begin(), batch.end(),
                                 [](const Sent& sent) { return sent.published.differences > 0; });
    if (any) send_table("difference", kDifferenceColumnsThere, differences_, batch, [] {});
  }

  /// Rows of all runs of a batch, run after run, in blocks.
  template <class Rows, class Added>
  void send_table(const char* table, const char* columns, Rows& rows,
                  const std::vector<Sent>& batch, const Added& added) {
    size_t next = 0;
    bool is_open = false;
    RowWriter block;
    server_.insert(table, std::string("shard, ") + columns, [&]() -> std::string_view {
      throw_if_stopped();
      block.clear();
      while (block.size() < kBlockBytes && (is_open || next < batch.size())) {
        if (!is_open) {
          const Sent& sent = batch[next++];
          rows.begin(sent.run_id, sent.published.shard, sent.published.push);
        }
        is_open = rows.add_next(block);
        if (is_open) added();
      }
      return block.bytes();
    });
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
    RecordWriter records;
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
  void send_shared(const RecordWriter& records) {
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
    RecordWriter records;
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
  DifferenceRows differences_;
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
