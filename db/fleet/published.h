#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "db/fleet/fleet_table.h"
#include "db/fleet/server.h"

// The list of pushes that a warehouse has published.

namespace greta {

/// Push of the repository's commits, which are no run's. A random push is greater than the last.
inline constexpr uint64_t kCommitsPush = 1, kLastSharedPush = 1000;

/// Rows of each of fleet_tables().
using RowSums = std::array<RowSum, kFleetTables>;

/// A row of the table `published`, field by field.
struct Published {
  uint64_t shard = 0, push = 0, version = 1;
  std::string identity, run;
  int64_t origin = 0;
  std::string experiment, date, commit_sha, mode;
  RowSums sums;
  uint64_t rules = 0;
  std::string host;

  uint64_t trace_rows() const { return sums[kTraceRowTable].n; }
  /// In the order of the files that runs came from.
  bool operator<(const Published& other) const {
    return std::tie(origin, run, identity) < std::tie(other.origin, other.run, other.identity);
  }
};

/// Runs of a warehouse: all conditions that are given hold.
struct PublishedFilter {
  /// As the commands take them; "" any.
  std::string experiment = {}, mode = {}, since = {}, date = {}, commit = {};
};

/// The last push of each run that a filter lets through, in order.
std::vector<Published> published(FleetServer& server, const PublishedFilter& filter);

/// The same for runs with one of these identities, or one of these names or one with a number
/// behind it (NAME#2).
std::vector<Published> published_like(FleetServer& server,
                                      const std::vector<std::string>& identities,
                                      const std::vector<std::string>& names);

/// All that --run can mean by a text: a run and those of its name with a number; where there is no
/// run of that name, also an experiment, and runs whose names contain it.
std::vector<Published> published_named(FleetServer& server, const std::string& text);

/// Condition on rows of `published`: of several pushes of one run the last.
std::string is_last_push(const FleetServer& server);

/// Runs in portions of up to 1000, and of no more rows than that unless one run has them: a server
/// holds their groups, a client their rows.
std::vector<std::vector<Published>> portions(
    const std::vector<Published>& runs, uint64_t most_rows = std::numeric_limits<uint64_t>::max());

void insert_published(FleetServer& server, const std::vector<Published>& runs);

/// Rows that are there, by push.
using FoundRows = std::map<uint64_t, RowSums>;

/// Has the servers hash rows of one table, or of all. `condition` is of one row, `having` of those
/// of a push.
FoundRows find_rows(FleetServer& server, std::optional<size_t> table, const std::string& condition,
                    const std::string& having, const clickhouse::ExternalTable& asked);

/// Throws clickhouse::Error unless the rows of a table that were found are those that were sent.
void require_all(const FleetServer& server, const std::vector<Published>& runs,
                 const FoundRows& found, size_t table);

/// The same for rows that stay there, of one table or of all.
void check_rows(FleetServer& server, const std::vector<Published>& runs,
                std::optional<size_t> table = {});

/// The external table asked(push UInt64).
clickhouse::ExternalTable asked_table(const std::vector<Published>& runs);
clickhouse::ExternalTable push_table(const std::string& name, const std::vector<uint64_t>& pushes);

/// Calls back with the records of these pushes and tables, in any order; `kinds` {}: all.
void for_each_record(FleetServer& server, const clickhouse::ExternalTable& asked,
                     const std::vector<std::string>& kinds,
                     const std::function<void(uint64_t push, Record&)>& take);

/// All records of a push that runs share, those sent twice once, by table and number.
std::vector<Record> shared_records(FleetServer& server, uint64_t push);

/// Push of the dictionaries (names and tolerances) that these records are: known by what they say.
uint64_t push_of_rules(const std::vector<Record>& records);

}  // namespace greta
