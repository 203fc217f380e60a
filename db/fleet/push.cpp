#include "db/fleet/push.h"

#include <unistd.h>

#include <future>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>

#include "common/sha256.h"
#include "common/stop_signal.h"
#include "common/thread.h"
#include "db/database.h"
#include "db/fleet/published.h"
#include "db/judge.h"
#include "db/schema.h"
#include "db/statements.h"

namespace greta {
namespace {

using clickhouse::RowWriter;

/// Runs that are published together: an insert costs a server as much as thousands of rows.
constexpr size_t kMostRuns = 200;
constexpr uint64_t kMostRows = 1'000'000;
/// Bytes of an insert. A server makes some files per column of each.
constexpr size_t kBlockBytes = size_t{16} << 20;
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

/// The first 64 bits of a text's SHA-256.
uint64_t shard_of(const std::string& identity) {
  const Sha256::Digest digest = Sha256::digest_of(identity);
  return std::accumulate(digest.begin(), digest.begin() + 8, uint64_t{0},
                         [](uint64_t number, uint8_t byte) { return number << 8 | byte; });
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
  bool is_open = false;         ///< an ingest of it has not ended
  std::string levels, sources;  ///< JSON arrays: parameters of RecordTable::condition
};

/// Sends records of a push that runs share. Done again, it does no harm.
void send_shared(FleetServer& server, uint64_t push, const std::vector<Record>& records) {
  if (records.empty()) return;
  RowWriter rows;
  for (const Record& record : records) record.write(rows.u64(push).u64(push));
  clickhouse::until_available(server.client().retries(), [&] {
    server.insert("record", "shard, push, kind, ord, cells", rows.bytes());
  });
}

/// Sends the dictionaries that the file's runs go by, unless they are there. Returns their push.
uint64_t send_rules(SQLite::Database& db, FleetServer& server) {
  std::vector<Record> records;
  for (const std::string table : {"phase", "cause", "tensor", "tensor_name", "tolerance"}) {
    RowStatement rows(db, "SELECT * FROM " + table + " ORDER BY 1, 2");
    for (uint64_t ord = 0; rows.step(); ++ord) records.emplace_back(table, ord, rows);
  }
  const uint64_t push = push_of_rules(records);
  if (shared_records(server, push).size() != records.size()) send_shared(server, push, records);
  return push;
}

/// Sends the repository's commits that are not there yet.
void send_commits(SQLite::Database& db, FleetServer& server) {
  std::set<std::string> known;
  for (const Record& record : shared_records(server, kCommitsPush)) {
    if (record.kind == "commit_node") known.insert(record.text(0));
  }
  std::vector<Record> records;
  for (const std::string table : {"commit_parent", "commit_node"}) {
    RowStatement rows(db, "SELECT * FROM " + table);
    while (rows.step()) {
      Record record(table, 0, rows);
      if (known.contains(record.text(0))) continue;
      record.ord = record.hash();  // what several files send is one
      records.push_back(std::move(record));
    }
  }
  send_shared(server, kCommitsPush, records);
}

class Pusher {
 public:
  /// `judges`: verdicts of the file are by other tolerances than those of the warehouse.
  Pusher(SQLite::Database& db, FleetServer& server, const PushOptions& options, bool judges)
      : db_(db),
        server_(server),
        options_(options),
        judges_(judges),
        statements_(db),
        rules_(send_rules(db, server)),
        host_(host_name()) {
    for (const FleetTable& table : fleet_tables())
      if (!table.select.empty()) rows_.push_back(std::make_unique<RowStatement>(db, table.select));
    for (const RecordTable& table : record_tables()) {
      std::string columns = columns_of(db, table.name);
      // a source of a run that does not come along is this one's
      if (std::string_view(table.name) == "source") {
        const std::string run_id = " run_id,";
        columns.replace(columns.find(run_id), run_id.size(),
                        " CASE WHEN run_id IN (SELECT value FROM json_each(?2)) THEN run_id ELSE ?1"
                        " END,");
      }
      records_.push_back(
          std::make_unique<RowStatement>(db, "SELECT " + columns + " FROM " + table.name +
                                                 " WHERE " + table.condition + " ORDER BY 1, 2"));
    }
    send_commits(db, server);
  }

  PushSummary run(std::span<const int64_t> runs) {
    progress_.all_runs = static_cast<int64_t>(runs.size());
    summary_.judged_as_shipped = judges_;
    for (size_t at = 0; at < runs.size();) {
      std::vector<SentRun> batch;
      uint64_t rows = 0;
      for (; at < runs.size() && batch.size() < kMostRuns && rows < kMostRows; ++at) {
        throw_if_stopped();
        batch.push_back(read(runs[at]));
        rows += batch.back().published.trace_rows();
      }
      const auto done = static_cast<int64_t>(batch.size());
      leave_out_open(batch);
      leave_out_known(batch);
      if (!batch.empty()) {
        if (judges_) judge(db_, ids_of(batch));
        send_surely(batch);
        check_rows(server_, published_of(batch));  // or nothing is published
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

  static std::vector<int64_t> ids_of(const std::vector<SentRun>& batch) {
    std::vector<int64_t> ids;
    for (const SentRun& sent : batch) ids.push_back(sent.run_id);
    return ids;
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
    sent.is_open = run.getColumn(column).getInt() != 0;
    run.reset();
    p.run = sent.name;
    p.origin = run_id;
    p.shard = shard_of(p.identity);
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
    for (const size_t table : {kVerdictTable, kRecordTable}) {
      RowWriter unsent;
      write_rows(table, sent, unsent, [&] { unsent.clear(); });
    }
    if (p.sums[kVerdictTable].n == 0 && !sent.is_open)
      throw DatabaseError(sent.name + " has no verdict");
    return sent;
  }

  void leave_out_open(std::vector<SentRun>& batch) {
    std::erase_if(batch, [&](const SentRun& sent) {
      if (sent.is_open) {
        summary_.refused.push_back("an ingest of " + sent.name +
                                   " has not ended: `greta-db ingest"
                                   " --resume` finishes it, then push");
      }
      return sent.is_open;
    });
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
                           (judges_ || old.sums[kVerdictTable] == own.sums[kVerdictTable]) &&
                           old.sums[kRecordTable] == own.sums[kRecordTable];
      if (is_same && !options_.replace) {
        ++summary_.known;
        return true;
      }
      return !options_.replace && would_lose(sent, old);
    });
  }

  /// A run there that has what the file lacks stays as it is.
  bool would_lose(const SentRun& sent, const Published& old) {
    size_t lacking = 0;
    for_each_record(server_, asked_table({old}), {"source"}, [&](uint64_t, const Record& record) {
      if (record.integer(1) != old.origin) return;  // of a directory level
      if (!statements_.find_id(kHasSource, sent.run_id, record.text(2), record.text(3),
                               record.text(4), record.integer(8)))
        ++lacking;
    });
    if (lacking == 0) return false;
    summary_.refused.push_back(
        sent.name + " has " + std::to_string(lacking) + " sources at " + server_.where() +
        " that are not in this file, or fewer rows here: `greta-db pull` brings them here first;"
        " --replace gives them up");
    return true;
  }

  /// An insert that fails leaves it unknown what arrived: it is begun anew under other push ids.
  void send_surely(std::vector<SentRun>& batch) {
    const PushProgress before = progress_;
    clickhouse::until_available(server_.client().retries(), [&] {
      progress_ = before;
      sending_ = {};              // waits for what is under way
      std::set<uint64_t> pushes;  // in their order rows are in that of the tables
      while (pushes.size() < batch.size()) pushes.insert(random_push());
      for (SentRun& sent : batch) {
        sent.published.push = pushes.extract(pushes.begin()).value();
        sent.published.sums = {};
      }
      for (size_t table = 0; table < kFleetTables; ++table) send_table(table, batch);
      await_sent();
    });
  }

  /// Writes the rows of a table of a run behind their shard and push, and adds up what they say.
  /// Calls back after each.
  void write_rows(size_t table, SentRun& run, RowWriter& to, const std::function<void()>& after) {
    Published& p = run.published;
    const auto write = [&](RowStatement& rows, const auto& write_one) {
      rows.reset();
      const int parameters = rows.parameters();
      rows.bind(run.run_id);
      if (parameters >= 2) rows.bind(run.levels);
      if (parameters >= 3) rows.bind(run.sources);
      while (rows.step()) {
        to.u64(p.shard).u64(p.push);
        p.sums[table].add(write_one(rows));
        after();
      }
    };
    if (table != kRecordTable) {
      write(*rows_[table],
            [&](RowStatement& row) { return write_row(row, fleet_tables()[table].columns, to); });
      return;
    }
    for (size_t i = 0; i < records_.size(); ++i) {
      uint64_t ord = 0;
      write(*records_[i], [&](RowStatement& row) {
        const Record record(record_tables()[i].name, ord++, row);
        record.write(to);
        return record.hash();
      });
    }
  }

  /// Sends the rows of a table of all runs of a batch, but for the last block, which is under way.
  void send_table(size_t number, std::vector<SentRun>& batch) {
    RowWriter block;
    const auto send = [&] {
      if (block.size() == 0) return;
      await_sent();
      sending_ = with_thread_error([&] {
        return std::async(std::launch::async, [this, number, rows = std::exchange(block, {})] {
          const FleetTable& table = fleet_tables()[number];
          server_.insert(table.name, "shard, push, " + table.names, rows.bytes());
        });
      });
    };
    for (SentRun& run : batch) {
      write_rows(number, run, block, [&] {
        if (number == kTraceRowTable && ++progress_.rows % kRowsATell == 0) tell();
        if (block.size() >= kBlockBytes) send();
      });
    }
    send();
  }

  void await_sent() {
    throw_if_stopped();
    if (sending_.valid()) sending_.get();
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

  SQLite::Database& db_;
  FleetServer& server_;
  const PushOptions& options_;
  const bool judges_;
  Statements statements_;
  const uint64_t rules_;
  const std::string host_;
  std::vector<std::unique_ptr<RowStatement>> rows_;     ///< of fleet_tables(), but of records
  std::vector<std::unique_ptr<RowStatement>> records_;  ///< of record_tables()
  PushProgress progress_;
  PushSummary summary_;
  std::future<void> sending_;  ///< the insert of a block while the next one is read
};

}  // namespace

PushSummary push_runs(SQLite::Database& db, FleetServer& server, std::span<const int64_t> runs,
                      const PushOptions& options) {
  SQLite::Transaction one_state(db);
  const bool judges = use_shipped_tolerances(db);
  return Pusher(db, server, options, judges).run(runs);
}

}  // namespace greta
