#include "db/fleet/push.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "common/sha256.h"
#include "common/stop_signal.h"
#include "db/database.h"
#include "db/fleet/published.h"
#include "db/schema.h"
#include "db/statements.h"

namespace greta {
namespace {

using clickhouse::RowWriter;

/// Runs that are published together: an insert costs a server as much as thousands of rows.
constexpr size_t kMostRuns = 200;
constexpr uint64_t kMostRows = 1'000'000;
/// Bytes that are compressed and sent at a time.
constexpr size_t kBlockBytes = size_t{1} << 20;
/// Bytes that one insert of a single block may hold: a history of a hundred thousand commits.
constexpr size_t kMostSharedBytes = size_t{12} << 20;
/// Rows from one report of progress to the next.
constexpr int64_t kRowsATell = 4096;

/// ?1 is the run.
const std::string kSentRun =
    "SELECT r.name, r.experiment, ifnull(r.date, ''), ifnull(r.commit_sha, ''), ifnull(r.mode, "
    "''), " +
    identity_sql("r.id") +
    ", (SELECT count(*) FROM trace_row t WHERE t.run_id = r.id),"
    " EXISTS (SELECT 1 FROM ingest_run i WHERE i.run_id = r.id) FROM run r WHERE r.id = ?";

/// The run and the directory levels above it.
constexpr const char* kRunAndLevels =
    "SELECT json_group_array(id) FROM (SELECT ?1 AS id UNION ALL SELECT l.id FROM run r CROSS JOIN"
    " run l ON r.name > l.name || '/' AND r.name < l.name || '0' CROSS JOIN directory_level d ON"
    " d.run_id = l.id WHERE r.id = ?1)";

/// ?2 is an array of these.
constexpr const char* kSources =
    "SELECT json_group_array(id) FROM ("
    "SELECT id FROM source WHERE run_id IN (SELECT value FROM json_each(?2))"
    " UNION SELECT source_id FROM attribute WHERE run_id = ?1 AND source_id IS NOT NULL"
    " UNION SELECT source_id FROM run_metric WHERE run_id = ?1"
    " UNION SELECT source_id FROM report_claim WHERE run_id = ?1"
    " UNION SELECT source_id FROM report_pair WHERE run_id = ?1"
    " UNION SELECT source_id FROM report WHERE run_id = ?1"
    " UNION SELECT source_id FROM log_event WHERE run_id = ?1"
    " UNION SELECT source_id FROM run_event WHERE run_id = ?1"
    " UNION SELECT source_id FROM readout WHERE run_id = ?1"
    " UNION SELECT source_id FROM trace_row WHERE run_id = ?1 ORDER BY 1)";

constexpr const char* kHasSource =
    "SELECT 1 FROM source WHERE run_id = ? AND leg = ? AND prompt = ? AND sha256 = ? AND rows >= ?";

uint64_t random_push() {
  static std::random_device device;
  uint64_t number = 0;
  while (number <= kLastSharedPush) number = (uint64_t{device()} << 32) | device();
  return number;
}

/// The first 64 bits of a digest.
uint64_t number_of(const Sha256::Digest& digest) {
  uint64_t number = 0;
  for (int i = 0; i < 8; ++i) number = number << 8 | digest[static_cast<size_t>(i)];
  return number;
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

/// A run of the file, and how it is published.
struct SentRun {
  Published published;
  int64_t run_id = 0;
  std::string name;             ///< in the file
  std::string levels, sources;  ///< JSON arrays: parameters of RecordTable::condition
};

/// Rows of runs as they travel, one table of the warehouse.
class SentRows {
 public:
  virtual ~SentRows() = default;
  virtual void begin(const SentRun& run) = 0;
  /// Appends the next row behind its shard and push, and adds it up; false after the last.
  virtual bool add_next(const Published& run, RowWriter& to, RowSum& sum) = 0;
};

class TableRows : public SentRows {
 public:
  TableRows(SQLite::Database& db, const FleetTable& table)
      : columns_(table.columns), rows_(db, table.select) {}

  void begin(const SentRun& run) override {
    rows_.reset();
    rows_.bind(run.run_id);
  }
  bool add_next(const Published& run, RowWriter& to, RowSum& sum) override {
    if (!rows_.step()) return false;
    to.u64(run.shard).u64(run.push);
    sum.add(write_row(rows_, columns_, to));
    return true;
  }

 private:
  const Columns& columns_;
  RowStatement rows_;
};

class RecordRows : public SentRows {
 public:
  explicit RecordRows(SQLite::Database& db) {
    for (const RecordTable& table : record_tables()) {
      std::string columns = columns_of(db, table.name);
      // a source of a run that does not come along is this one's
      if (const std::string source = "id, run_id";
          columns.starts_with(source) && std::string_view(table.name) == "source") {
        columns.replace(0, source.size(),
                        "id, CASE WHEN run_id IN (SELECT value FROM json_each(?2)) THEN run_id ELSE"
                        " ?1 END");
      }
      selects_.emplace_back(
          table.name,
          std::make_unique<RowStatement>(db, "SELECT " + columns + " FROM " + table.name +
                                                 " WHERE " + table.condition + " ORDER BY 1, 2"));
    }
  }

  void begin(const SentRun& run) override {
    for (auto& [table, rows] : selects_) {
      rows->reset();
      const int parameters = rows->parameters();
      rows->bind(run.run_id);
      if (parameters >= 2) rows->bind_text(run.levels);
      if (parameters >= 3) rows->bind_text(run.sources);
    }
    at_ = 0;
    ord_ = 0;
  }

  bool add_next(const Published& run, RowWriter& to, RowSum& sum) override {
    for (; at_ < selects_.size(); ++at_, ord_ = 0) {
      auto& [table, rows] = selects_[at_];
      if (!rows->step()) continue;
      const Record record(table, ord_++, *rows);
      to.u64(run.shard).u64(run.push);
      record.write(to);
      sum.add(record.hash());
      return true;
    }
    return false;
  }

 private:
  std::vector<std::pair<std::string, std::unique_ptr<RowStatement>>> selects_;
  size_t at_ = 0;
  uint64_t ord_ = 0;
};

/// Records of a push that runs share. They travel in one block of one insert, which is there as a
/// whole or not at all: done again, it does no harm.
class SharedRecords {
 public:
  void add(const Record& record) {
    records_.push_back(record);
    sum_ += record.hash();
  }
  uint64_t sum() const { return sum_; }
  size_t size() const { return records_.size(); }

  void send(FleetServer& server, uint64_t push) const {
    if (records_.empty()) return;
    RowWriter rows;
    for (const Record& record : records_) record.write(rows.u64(push).u64(push));
    if (rows.size() > kMostSharedBytes)
      throw DatabaseError("the file has too many commits to be sent at once");
    clickhouse::until_available(server.client().retries(), [&] {
      bool is_sent = false;
      server.insert("record", "shard, push, kind, ord, cells", [&]() -> std::string_view {
        return std::exchange(is_sent, true) ? std::string_view() : std::string_view(rows.bytes());
      });
    });
  }

 private:
  std::vector<Record> records_;
  uint64_t sum_ = 0;
};

/// Sends the dictionaries that the file's runs go by, unless the same are there. Returns their
/// push.
uint64_t send_rules(SQLite::Database& db, FleetServer& server) {
  SharedRecords records;
  for (const std::string table : kRuleTables) {
    RowStatement rows(db, "SELECT * FROM " + table + " ORDER BY 1, 2");
    for (uint64_t ord = 0; rows.step(); ++ord) records.add({table, ord, rows});
  }
  const uint64_t push = push_of_rules(records.sum());
  if (shared_records(server, push).size() != records.size()) records.send(server, push);
  return push;
}

/// Sends the repository's commits that are not there yet.
void send_commits(SQLite::Database& db, FleetServer& server) {
  std::set<std::string> known;
  for (const Record& record : shared_records(server, kCommitsPush)) {
    if (record.kind == "commit_node") known.insert(record.text(0));
  }
  SharedRecords records;
  for (const std::string table : {"commit_parent", "commit_node"}) {
    RowStatement rows(db, "SELECT * FROM " + table);
    while (rows.step()) {
      Record record(table, 0, rows);
      if (known.contains(record.text(0))) continue;
      record.ord = record.hash();  // what several files send is one
      records.add(record);
    }
  }
  records.send(server, kCommitsPush);
}

class Pusher {
 public:
  Pusher(SQLite::Database& db, FleetServer& server, const PushOptions& options)
      : server_(server),
        options_(options),
        statements_(db),
        rules_(send_rules(db, server)),
        host_(host_name()) {
    for (const FleetTable& table : fleet_tables()) {
      if (table.select.empty()) {
        rows_.push_back(std::make_unique<RecordRows>(db));
      } else {
        rows_.push_back(std::make_unique<TableRows>(db, table));
      }
    }
    send_commits(db, server);
  }

  PushSummary run(std::span<const int64_t> runs) {
    progress_.all_runs = static_cast<int64_t>(runs.size());
    for (size_t at = 0; at < runs.size();) {
      std::vector<SentRun> batch;
      uint64_t rows = 0;
      for (; at < runs.size() && batch.size() < kMostRuns && rows < kMostRows; ++at) {
        throw_if_stopped();
        batch.push_back(read(runs[at]));
        rows += batch.back().published.trace_rows();
      }
      const auto done = static_cast<int64_t>(batch.size());
      leave_out_known(batch);
      if (!batch.empty()) {
        send_surely(batch);
        check_all_rows(server_, published_of(batch), Held::kCount);  // or nothing is published
        publish(batch);
      }
      progress_.runs += done;
      tell();
    }
    return summary_;
  }

 private:
  void tell() const {
    if (options_.progress) options_.progress(progress_);
  }

  static std::vector<Published> published_of(const std::vector<SentRun>& batch) {
    std::vector<Published> runs;
    for (const SentRun& sent : batch) runs.push_back(sent.published);
    return runs;
  }

  /// A run as if it were new there, with what tells whether it is.
  SentRun read(int64_t run_id) {
    SentRun sent;
    sent.run_id = run_id;
    SQLite::Statement& run = statements_(kSentRun.c_str(), run_id);
    if (!run.executeStep()) throw DatabaseError("a run went while it was to be pushed");
    Published& p = sent.published;
    int column = 0;
    for (std::string* text :
         {&sent.name, &p.experiment, &p.date, &p.commit_sha, &p.mode, &p.identity}) {
      *text = run.getColumn(column++).getString();
    }
    p.sums[kTraceRowTable].n = static_cast<uint64_t>(run.getColumn(column++).getInt64());
    const bool is_open = run.getColumn(column).getInt() != 0;
    run.reset();
    if (is_open) {
      throw DatabaseError("an ingest of " + sent.name +
                          " has not ended: `greta-db ingest --resume` finishes it, then push");
    }
    p.run = sent.name;
    p.origin = run_id;
    p.shard = number_of(Sha256::digest_of(p.identity));
    p.push = random_push();
    p.rules = rules_;
    p.host = host_;
    const auto text = [](SQLite::Statement& query) {
      query.executeStep();
      std::string found = query.getColumn(0);
      query.reset();
      return found;
    };
    sent.levels = text(statements_(kRunAndLevels, run_id));
    sent.sources = text(statements_(kSources, run_id, sent.levels));
    RowWriter unsent;
    for (const size_t table : {kVerdictTable, kRecordTable}) {
      rows_[table]->begin(sent);
      while (rows_[table]->add_next(p, unsent, p.sums[table])) unsent.clear();
    }
    if (p.sums[kVerdictTable].n == 0) throw DatabaseError(sent.name + " has no verdict");
    return sent;
  }

  /// Leaves out what is there as it is here; numbers the others, and gives them names of their own.
  void leave_out_known(std::vector<SentRun>& batch) {
    std::vector<std::string> identities, names;
    for (const SentRun& sent : batch) {
      identities.push_back(sent.published.identity);
      names.push_back(sent.name);
    }
    const std::vector<Published> there = published_like(server_, identities, names);
    std::map<std::string, const Published*> by_identity;
    std::set<std::string> taken;
    for (const Published& one : there) {
      by_identity[one.identity] = &one;
      taken.insert(one.run);
    }
    std::erase_if(batch, [&](SentRun& sent) {
      Published& own = sent.published;
      const auto known = by_identity.find(own.identity);
      if (known == by_identity.end()) {
        for (int n = 2; !taken.insert(own.run).second; ++n)
          own.run = sent.name + "#" + std::to_string(n);
        if (own.run != sent.name) summary_.renamed.emplace_back(sent.name, own.run);
        return false;
      }
      const Published& old = *known->second;
      own.version = old.version + 1;
      own.run = old.run;
      const bool is_same = old.rules == own.rules && old.trace_rows() == own.trace_rows() &&
                           old.sums[kVerdictTable] == own.sums[kVerdictTable] &&
                           old.sums[kRecordTable] == own.sums[kRecordTable];
      if (is_same && !options_.replace) {
        ++summary_.known;
        return true;
      }
      if (!options_.replace) refuse_loss(sent, old);
      return false;
    });
  }

  /// A run there that has what the file lacks stays as it is.
  void refuse_loss(const SentRun& sent, const Published& old) {
    size_t lacking = 0;
    for_each_record(server_, {old}, {"source"}, [&](uint64_t, const Record& record) {
      if (record.integer(1) != old.origin) return;  // of a directory level
      if (!statements_.find_id(kHasSource, sent.run_id, record.text(2), record.text(3),
                               record.text(4), record.integer(8)))
        ++lacking;
    });
    if (lacking == 0) return;
    throw DatabaseError(
        sent.name + " has " + std::to_string(lacking) + " sources at " + server_.where() +
        " that are not in this file, or fewer rows here: `greta-db pull` brings them here first;"
        " --replace gives them up");
  }

  /// An insert that fails leaves it unknown what arrived: it is begun anew under other push ids.
  void send_surely(std::vector<SentRun>& batch) {
    const PushProgress before = progress_;
    clickhouse::until_available(server_.client().retries(), [&] {
      progress_ = before;
      for (SentRun& sent : batch) {
        sent.published.push = random_push();
        sent.published.sums = {};
      }
      for (size_t table = 0; table < kFleetTables; ++table) send_table(table, batch);
    });
  }

  /// Rows of all runs of a batch, run after run, in blocks; adds up what they say.
  void send_table(size_t number, std::vector<SentRun>& batch) {
    const FleetTable& table = fleet_tables()[number];
    SentRows& rows = *rows_[number];
    size_t next = 0;
    bool is_open = false;
    RowWriter block;
    const auto fill = [&] {
      throw_if_stopped();
      block.clear();
      while (block.size() < kBlockBytes && (is_open || next < batch.size())) {
        if (!is_open) rows.begin(batch[next++]);
        Published& run = batch[next - 1].published;
        is_open = rows.add_next(run, block, run.sums[number]);
        if (!is_open || number != kTraceRowTable) continue;
        if (++progress_.rows % kRowsATell == 0) tell();
      }
    };
    fill();
    if (block.size() == 0) return;  // an insert of nothing costs a server as much as one of rows
    bool is_first = true;
    server_.insert(table.name, "shard, push, " + table.names, [&]() -> std::string_view {
      if (!std::exchange(is_first, false)) fill();
      return block.bytes();
    });
  }

  /// Publishes again after a connection that broke off, for doing it twice does no harm.
  void publish(const std::vector<SentRun>& batch) {
    const std::vector<Published> runs = published_of(batch);
    clickhouse::until_available(server_.client().retries(),
                                [&] { insert_published(server_, runs); });
    for (const Published& run : runs) {
      ++summary_.runs;
      summary_.rows += static_cast<int64_t>(run.trace_rows());
      summary_.differences += static_cast<int64_t>(run.sums[kDifferenceTable].n);
      summary_.records += static_cast<int64_t>(run.sums[kRecordTable].n);
    }
  }

  FleetServer& server_;
  const PushOptions& options_;
  Statements statements_;
  const uint64_t rules_;
  const std::string host_;
  std::vector<std::unique_ptr<SentRows>> rows_;  ///< of fleet_tables()
  PushProgress progress_;
  PushSummary summary_;
};

}  // namespace

uint64_t push_of_rules(uint64_t sum) {
  return sum > kLastSharedPush ? sum : sum + kLastSharedPush + 1;
}

PushSummary push_runs(SQLite::Database& db, FleetServer& server, std::span<const int64_t> runs,
                      const PushOptions& options) {
  SQLite::Transaction one_state(db);
  return Pusher(db, server, options).run(runs);
}

}  // namespace greta
