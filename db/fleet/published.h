#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "db/fleet/row_sum.h"
#include "db/fleet/row_text.h"
#include "db/fleet/server.h"

namespace greta {

/// Pushes that are no run's: 1 is the repository's commits. A random push is greater than the last.
inline constexpr uint64_t kCommitsPush = 1, kLastSharedPush = 1000;

/// A row of the table `published`, field by field.
struct Published {
  uint64_t shard = 0, push = 0, version = 1;
  std::string identity, run;
  int64_t origin = 0;
  std::string experiment, date, commit_sha, mode, dtype, status, hash_algo, verdict,
      numeric_verdict;
  RowSum rows, differences, records;
  std::string content;
  uint64_t rules = 0, rules_records = 0;
  std::string host;

  /// Whether the push told what its rows say: one of an earlier greta-db only told how many.
  bool has_sums() const { return records.sum != 0; }
};

/// The identity of the run whose id an SQL expression is: what its engine calls itself, where no
/// other run of the file has an engine of that name; else its own name.
std::string identity_sql(const std::string& run_id);

/// Identity of a source, and how far it was read.
struct SourceKey {
  std::string leg, prompt, sha256;
  int64_t rows = 0;
  auto operator<=>(const SourceKey&) const = default;
};

/// A row of a table of SQLite.
struct Record {
  std::string kind;  ///< the table
  uint64_t ord = 0;  ///< within it, as in the file
  std::vector<CellText> cells;
};

/// Which runs: all conditions that are given hold.
struct PublishedFilter {
  std::string experiment, mode, since, date, commit;  ///< as the commands take them; "" any
  std::vector<std::string> runs;                      ///< names; none: any
  std::string part_of_name;                           ///< "" any
};

/// What is published of the runs that a filter lets through: of each identity the last push, in the
/// order of the files that they came from.
std::vector<Published> published(FleetServer& server, const PublishedFilter& filter);

/// The same of the runs with one of these identities, or one of these names or one with a number
/// behind it (NAME#2).
std::vector<Published> published_like(FleetServer& server,
                                      const std::vector<std::string>& identities,
                                      const std::vector<std::string>& names);

/// Dictionaries that something published goes by.
std::vector<uint64_t> wanted_rules(FleetServer& server);

void insert_published(FleetServer& server, const std::vector<Published>& runs);

/// What of rows is held against what was sent.
enum class Held { kCount, kContent };

/// Throws clickhouse::Error, with what the rows are called, unless those of each run (by its push)
/// are as many, and say the same, as those that were sent.
void require_all(const FleetServer& server, const std::vector<Published>& runs,
                 const std::map<uint64_t, RowSum>& found, const char* what, RowSum Published::*sent,
                 Held held);

/// Throws clickhouse::Error unless every row that these say they have is there, once.
void check_counts(FleetServer& server, const std::vector<Published>& runs);

/// The same of their records alone.
void check_record_counts(FleetServer& server, const std::vector<Published>& runs);

/// Throws clickhouse::Error unless the exact differences of these are those that were sent.
void check_differences(FleetServer& server, const std::vector<Published>& runs);

/// How many records a push has, those sent twice counted once.
uint64_t count_records(FleetServer& server, uint64_t push);

/// Calls back with the records of some tables of these pushes, in any order; those sent twice once.
/// No kinds: of all. `one_of`: the first record of a further table.
void for_each_record(FleetServer& server, const std::vector<Published>& runs,
                     const std::vector<std::string>& kinds, const char* one_of,
                     const std::function<void(uint64_t push, Record&)>& take);
void for_each_record(FleetServer& server, const std::vector<Published>& runs,
                     const std::vector<std::string>& kinds,
                     const std::function<void(uint64_t push, Record&)>& take);
void for_each_record(FleetServer& server, uint64_t push, const std::vector<std::string>& kinds,
                     const std::function<void(uint64_t push, Record&)>& take);

/// The external table asked(push UInt64).
clickhouse::ExternalTable asked_table(const std::vector<Published>& runs);
clickhouse::ExternalTable push_table(const std::string& name, const std::vector<uint64_t>& pushes);

}  // namespace greta
