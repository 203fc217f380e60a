#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "db/fleet/fleet_table.h"
#include "db/fleet/server.h"

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
};

/// Runs of a warehouse: all conditions that are given hold.
struct PublishedFilter {
  std::string experiment, mode, since, date, commit;  ///< as the commands take them; "" any
  std::string part_of_name;                           ///< "" any
};

/// The last push of each run that a filter lets through, in the order of the files that they came
/// from.
std::vector<Published> published(FleetServer& server, const PublishedFilter& filter);

/// The same for runs with one of these identities, or one of these names or one with a number
/// behind it (NAME#2).
std::vector<Published> published_like(FleetServer& server,
                                      const std::vector<std::string>& identities,
                                      const std::vector<std::string>& names);

/// Runs in portions of up to 1000, and of no more rows than that unless one run has them: a server
/// holds their groups, a client their rows.
std::vector<std::vector<Published>> portions(
    const std::vector<Published>& runs, uint64_t most_rows = std::numeric_limits<uint64_t>::max());

/// Dictionaries that something published goes by.
std::vector<uint64_t> wanted_rules(FleetServer& server);

void insert_published(FleetServer& server, const std::vector<Published>& runs);

/// Extent of a comparison with the rows that were sent: their number, or their content.
enum class Held { kCount, kContent };

/// Throws clickhouse::Error unless the rows of a table that were found, by push, are those that
/// were sent.
void require_all(const FleetServer& server, const std::vector<Published>& runs,
                 const std::map<uint64_t, RowSum>& found, size_t table, Held held);

/// The same for rows that stay there: the server counts, or hashes, those of some tables.
void check_rows(FleetServer& server, const std::vector<Published>& runs,
                std::span<const size_t> tables, Held held);

/// The same for all tables.
void check_all_rows(FleetServer& server, const std::vector<Published>& runs, Held held);

/// Calls back with the records of some tables of these runs, in any order.
void for_each_record(FleetServer& server, const std::vector<Published>& runs,
                     const std::vector<std::string>& kinds,
                     const std::function<void(uint64_t push, Record&)>& take);

/// All records of a push that runs share, those sent twice once, by table and number.
std::vector<Record> shared_records(FleetServer& server, uint64_t push);

/// The external table asked(push UInt64).
clickhouse::ExternalTable asked_table(const std::vector<Published>& runs);
clickhouse::ExternalTable push_table(const std::string& name, const std::vector<uint64_t>& pushes);

}  // namespace greta
