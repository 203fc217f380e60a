#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ingest/document.h"
#include "ingest/record/batch.h"
#include "ingest/report_pairs.h"
#include "ingest/run_identity.h"
#include "ingest/session.h"
#include "ingest/table.h"

namespace greta {

/// Outcome of a source: nothing, something of a run that something else names, or what is a run
/// by itself: rows, pairs, a verdict, events of a log, a file of a run that docs/ingest.md names.
enum class Use { kNone, kFacts, kEvidence };

/// Writes what one source states into the run that it belongs to. Call one add_ function of a
/// source, add_batch for each of its batches, in the transaction of the source, then finish(). All
/// throw SQLite::Exception.
class SourceContent {
 public:
  /// Borrows the session and the identity; findings name `file`.
  SourceContent(IngestSession& session, int64_t source_id, int64_t run_id,
                const RunIdentity& identity, std::string file)
      : session_(session),
        source_id_(source_id),
        run_id_(run_id),
        identity_(identity),
        file_(std::move(file)) {}

  void add_json(const std::string& bytes);
  void add_delimited(const std::string& bytes, char delimiter);
  void add_document(const Document& document);
  void add_log(const std::string& bytes);

  /// Rows of a record file; the batches of one parser, in order.
  void add_batch(RecordBatch& batch);

  /// Says that the source is of use, though no row came of it.
  void note_use(Use use) { use_ = std::max(use_, use); }
  Use use() const { return use_; }
  void set_shape(std::string shape) { shape_ = std::move(shape); }
  void finish(const std::string& sha256, int64_t bytes, int64_t lines);

  void add_finding(int64_t line, bool is_error, const std::string& reason,
                   std::string_view raw = "") {
    session_.add_finding(file_, line, is_error, reason, raw, source_id_);
  }

 private:
  class StatedRecords;

  void add_row(const Table& header, const TableRow& row,
               const std::optional<ReportColumns>& judging);
  void add_failure(int64_t line, std::string_view text);
  void add_failures_of_line(std::string_view line, int64_t line_no);
  void add_failure_of_row(const Table& header, const TableRow& row);
  void add_claim_of(const Table& header, const TableRow& row, const ReportColumns& judging);
  void add_pair(ReportPair pair);
  void add_tables(const std::vector<Table>& tables);
  void add_records(const Document& document);
  void warn_of_contradictions();
  void warn_of_binary(bool is_binary) {
    if (is_binary)
      add_finding(0, false, "binary content in a file that is named a text; read as one");
  }
  void warn_of_table(const Table& table);
  void add_report() {
    shape_ = "report";
    session_.facts.add_report(source_id_, run_id_, identity_.relative_path);
  }
  void refuse_name(const std::string& name);
  void drop_unnamed(RecordBatch& batch);
  void drop_hashes(RecordBatch& batch);
  void add_difference(LineDifference& difference);

  IngestSession& session_;
  int64_t source_id_, run_id_;
  const RunIdentity& identity_;
  std::string file_;
  std::string shape_;
  int64_t rows_ = 0, duplicates_ = 0, conflicts_ = 0;
  bool is_document_ = false;
  int64_t failure_claims_ = 0;
  Use use_ = Use::kNone;
  bool refused_hash_ = false;
  // what it says of itself
  int64_t pairs_ = 0, failing_pairs_ = 0;
  int64_t doubted_pairs_ = 0, first_doubted_line_ = 0;  ///< ReportPair::only_hashes_differ
  std::optional<int64_t> pass_line_, fail_line_;        ///< where it states a verdict
  std::vector<int64_t> prompts_, contexts_;             // of the parser's symbols
  int64_t first_context_ = 0;  // symbol of contexts_[0]: those before it are over
  std::vector<PhaseId> phases_;
  std::vector<std::optional<TensorId>> names_;  // nothing where the run may bring no more
  bool refused_name_ = false;
  bool refused_pairs_ = false;  ///< and it was said
};

}  // namespace greta
