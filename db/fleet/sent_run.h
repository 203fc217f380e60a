#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "db/fleet/published.h"
#include "db/fleet/record_writer.h"
#include "db/fleet/shared_records.h"
#include "db/kept_tally.h"
#include "db/row_statement.h"
#include "db/statements.h"

namespace greta {

/// A run of the file as a push sends it, but for its rows and differences.
struct SentRun {
  Published published;  ///< under a push id of its own; name and version as if it were new there
  int64_t run_id = 0;
  std::string here;     ///< its name in the file
  std::string records;  ///< RowBinary
  std::set<SourceKey> sources;

  /// Gives it another push id.
  void renumber();
};

class SentRunReader {
 public:
  /// `rules`: of the dictionaries that the file's runs go by.
  SentRunReader(SQLite::Database& db, const SharedRules& rules);

  /// Throws DatabaseError where an ingest of the run has not ended.
  SentRun read(int64_t run_id);

 private:
  void read_published(SentRun& sent);
  void read_records(SentRun& sent);
  void read_sources(SentRun& sent);
  void read_verdict(SentRun& sent);
  void add_tally(RecordWriter& records, int64_t run_id);

  SharedRules rules_;
  TallyReader tallies_;
  Statements statements_;
  std::vector<std::pair<std::string, std::unique_ptr<RowStatement>>> selects_;
  std::string host_;
};

}  // namespace greta
