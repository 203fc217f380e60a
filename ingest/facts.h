#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <optional>
#include <string>

#include "db/run_records.h"
#include "db/statements.h"
#include "db/trace_writer.h"
#include "ingest/json_facts.h"
#include "ingest/log.h"
#include "ingest/report_pairs.h"
#include "ingest/run_identity.h"
#include "ingest/runs.h"
#include "ingest/table.h"

namespace greta {

/// report_claim.kind of a claim of failure in any words; its value is FAIL.
inline constexpr const char* kFailureClaim = "failure";

/// A readout as a JSON object, for people.
std::string readout_text(const ReadoutRow& readout);

/// What sources state that is no trace row: reports, claims, metrics, log events, readouts. All
/// calls happen inside the caller's transaction. Throws SQLite::Exception.
class Facts {
 public:
  Facts(SQLite::Database& db, TraceWriter& writer, Runs& runs)
      : sql_(db), records_(db), writer_(writer), runs_(runs) {}

  /// Attributes, metrics and claims of a JSON document; returns how many metrics.
  int64_t add_json_facts(int64_t source_id, int64_t run_id, const RunIdentity& identity,
                         const JsonFacts& facts);
  /// Of two columns of one name the second is "NAME (2)".
  void add_table_row(int64_t source_id, const Table& header, const TableRow& row);
  /// A table or document that judges the run; stage by file name.
  void add_report(int64_t source_id, int64_t run_id, const std::string& path);
  /// False when the run may bring no further tensor name: the pair then stands without it.
  bool add_report_pair(int64_t source_id, int64_t run_id, const ReportPair& pair);
  void add_claim(int64_t source_id, int64_t run_id, int64_t line, const std::string& kind,
                 const std::string& value, const std::string& text);
  void add_metric(int64_t source_id, int64_t run_id, const std::string& leg,
                  const std::string& prompt, const std::string& name, std::optional<double> value,
                  const std::string& text);
  void add_log_event(int64_t source_id, int64_t run_id, const std::string& prompt,
                     const LogEvent& event, int64_t seq);
  /// As RunRecords::add_difference.
  void add_difference(const DifferenceRow& difference) { records_.add_difference(difference); }
  /// As RunRecords::add_readout.
  std::optional<ReadoutRow> add_readout(const ReadoutRow& readout) {
    return records_.add_readout(readout);
  }

 private:
  Statements sql_;
  RunRecords records_;
  TraceWriter& writer_;
  Runs& runs_;
};

}  // namespace greta
