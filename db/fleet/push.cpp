#include "db/fleet/push.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/stop_signal.h"
#include "db/database.h"
#include "db/fleet/published.h"
#include "db/fleet/row_sum.h"
#include "db/fleet/sent_rows.h"
#include "db/fleet/sent_run.h"
#include "db/fleet/shared_records.h"

namespace greta {
namespace {

using clickhouse::RowWriter;

/// Runs that are published together: an insert costs a server as much as thousands of rows.
constexpr size_t kMostRuns = 200;
constexpr int64_t kMostRows = 1'000'000;
/// What is compressed and sent at a time.
constexpr size_t kBlockBytes = size_t{1} << 20, kPieceBytes = size_t{8} << 20;
/// Rows after which is told how far it is.
constexpr int64_t kRowsATell = 4096;

std::vector<Published> published_of(const std::vector<SentRun>& batch) {
  std::vector<Published> runs;
  for (const SentRun& sent : batch) runs.push_back(sent.published);
  return runs;
}

class Pusher {
 public:
  Pusher(SQLite::Database& db, FleetServer& server, const PushOptions& options)
      : db_(db),
        server_(server),
        options_(options),
        trace_rows_(db),
        differences_(db),
        rules_(send_rules(db, server)),
        reader_(db, rules_) {}

  PushSummary run(std::span<const int64_t> runs) {
    progress_.all_runs = static_cast<int64_t>(runs.size());
    send_commits(db_, server_);
    for (size_t at = 0; at < runs.size();) {
      std::vector<SentRun> batch;
      int64_t rows = 0;
      for (; at < runs.size() && batch.size() < kMostRuns && rows < kMostRows; ++at) {
        throw_if_stopped();
        batch.push_back(reader_.read(runs[at]));
        rows += static_cast<int64_t>(batch.back().published.rows.n);
      }
      const auto done = static_cast<int64_t>(batch.size());
      leave_out_known(batch);
      if (!batch.empty()) {
        send_surely(batch);
        check_counts(server_, published_of(batch));  // all has arrived, or nothing is published
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

  /// Leaves out what is there as it is here; numbers the others, and gives them names of their own.
  void leave_out_known(std::vector<SentRun>& batch) {
    std::vector<std::string> identities, names;
    for (const SentRun& sent : batch) {
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
    std::vector<SentRun> wanted;
    for (SentRun& sent : batch) {
      const auto known = by_identity.find(sent.published.identity);
      if (known == by_identity.end()) {
        give_name(sent, by_name);
      } else {
        const Published& old = *known->second;
        sent.published.version = old.version + 1;
        sent.published.run = old.run;
        if (!options_.replace && old.has_sums() && old.content == sent.published.content &&
            old.rules == rules_.push && old.verdict == sent.published.verdict &&
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

  void give_name(SentRun& sent, std::map<std::string, std::string>& by_name) {
    std::string& name = sent.published.run;
    for (int n = 2; by_name.contains(name); ++n) name = sent.here + "#" + std::to_string(n);
    by_name[name] = sent.published.identity;
    if (name != sent.here) summary_.renamed.emplace_back(sent.here, name);
  }

  /// A run there that has what the file lacks stays as it is.
  void refuse_loss(const SentRun& sent, const Published& old) {
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
  void send_surely(std::vector<SentRun>& batch) {
    const PushProgress before = progress_;
    bool is_again = false;
    clickhouse::until_available(server_.client().retries(), [&] {
      if (std::exchange(is_again, true)) {
        progress_ = before;
        for (SentRun& sent : batch) sent.renumber();
      }
      send(batch);
    });
  }

  void send(std::vector<SentRun>& batch) {
    send_rows(batch);
    send_differences(batch);
    send_records(batch);
  }

  /// Whether one that broke off has published is not asked: to do it twice does no harm.
  void publish(const std::vector<SentRun>& batch) {
    const std::vector<Published> runs = published_of(batch);
    clickhouse::until_available(server_.client().retries(),
                                [&] { insert_published(server_, runs); });
    for (const Published& run : runs) {
      ++summary_.runs;
      summary_.rows += static_cast<int64_t>(run.rows.n);
      summary_.differences += static_cast<int64_t>(run.differences.n);
      summary_.records += static_cast<int64_t>(run.records.n);
    }
  }

  /// Of all runs, in pieces that a block can hold.
  void send_records(const std::vector<SentRun>& batch) {
    size_t next = 0, at = 0;
    server_.insert("record", kRecordColumnsThere, [&]() -> std::string_view {
      throw_if_stopped();
      while (next < batch.size() && at == batch[next].records.size()) {
        ++next;
        at = 0;
      }
      if (next == batch.size()) return {};
      const auto piece = std::string_view(batch[next].records).substr(at, kPieceBytes);
      at += piece.size();
      return piece;
    });
  }

  void send_rows(std::vector<SentRun>& batch) {
    send_table("trace_row", kTraceColumnsThere, &Published::rows, trace_rows_, batch, [this] {
      ++progress_.rows;
      if (progress_.rows % kRowsATell == 0) tell();
    });
  }

  void send_differences(std::vector<SentRun>& batch) {
    const bool any = std::any_of(batch.begin(), batch.end(), [](const SentRun& sent) {
      return sent.published.differences.n > 0;
    });
    if (!any) return;
    send_table("difference", kDifferenceColumnsThere, &Published::differences, differences_, batch,
               [] {});
  }

  /// Rows of all runs of a batch, run after run, in blocks; adds up what they say.
  template <class Rows, class Added>
  void send_table(const char* table, std::span<const SentColumn> columns, RowSum Published::*sum,
                  Rows& rows, std::vector<SentRun>& batch, const Added& added) {
    constexpr size_t kShardAndPush = 2 * sizeof(uint64_t);
    size_t next = 0;
    bool is_open = false;
    RowWriter block;
    server_.insert(table, "shard, push, " + names_of(columns), [&]() -> std::string_view {
      throw_if_stopped();
      block.clear();
      while (block.size() < kBlockBytes && (is_open || next < batch.size())) {
        if (!is_open) {
          SentRun& sent = batch[next++];
          rows.begin(sent.run_id, sent.published.shard, sent.published.push);
          (sent.published.*sum).sum = 0;
        }
        const size_t at = block.size() + kShardAndPush;
        is_open = rows.add_next(block);
        if (!is_open) continue;
        (batch[next - 1].published.*sum).sum +=
            hash_of_row(columns, std::string_view(block.bytes()).substr(at));
        added();
      }
      return block.bytes();
    });
  }

  SQLite::Database& db_;
  FleetServer& server_;
  const PushOptions& options_;
  TraceRows trace_rows_;
  DifferenceRows differences_;
  const SharedRules rules_;
  SentRunReader reader_;
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
