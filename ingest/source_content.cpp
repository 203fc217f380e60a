#include "ingest/source_content.h"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/json_document.h"
#include "ingest/json_facts.h"
#include "ingest/known_claim.h"
#include "ingest/log.h"
#include "ingest/record/parser.h"
#include "ingest/text.h"

namespace greta {
namespace {

constexpr int64_t kMaxLogEvents = 500'000;
/// A verdict holds all of them in memory.
constexpr int64_t kMaxPairs = 100'000;
/// One is as good as all.
constexpr int64_t kMaxFailureClaims = 1'000;
constexpr size_t kMaxClaimBytes = 256;

}  // namespace

/// Trace lines amid other text: rows that only a document states.
class SourceContent::StatedRecords {
 public:
  StatedRecords(SourceContent& content, std::vector<std::string> prompt_names)
      : content_(content),
        parser_({content.identity_.leg, content.identity_.prompt, std::move(prompt_names)}) {}

  void take(std::string_view line, int64_t line_no) {
    padded_ = line;
    padded_.append(RecordParser::kPaddingBytes, ' ');
    parser_.parse({padded_.data(), line.size()}, padded_.size(), line_no, batch_);
    if (batch_.is_full()) add();
  }
  void finish() {
    parser_.finish(batch_);
    add();
  }
  const std::string& shape() const { return parser_.shape(); }

 private:
  void add() {
    for (TraceRow& row : batch_.rows) row.flags |= kFlagClaimed;
    drop_what_would_excuse();
    content_.add_batch(batch_);
    batch_.clear();
  }
  /// Made-up distances must not turn a failure into rounding, nor a quoted end finish a run; that
  /// it failed counts. A quoted start is of the run whose own lines say so, or of none.
  void drop_what_would_excuse() {
    for (const LineDifference& difference : batch_.differences) {
      content_.add_finding(difference.line, false,
                           "how rows differ is nothing that a document states");
    }
    batch_.differences.clear();
    std::erase_if(batch_.events, [](const RunEvent& event) {
      return event.kind == RunEvent::kStart || (event.kind == RunEvent::kEnd && event.complete);
    });
  }

  SourceContent& content_;
  RecordParser parser_;
  RecordBatch batch_;
  std::string padded_;
};

void SourceContent::finish(const std::string& sha256, int64_t bytes, int64_t lines) {
  warn_of_contradictions();
  session_.summary.taken += use_ != Use::kNone;
  session_.sources.finish_source(source_id_, sha256, shape_, bytes, lines, rows_, duplicates_,
                                 conflicts_);
}

void SourceContent::add_delimited(const std::string& bytes, char delimiter) {
  shape_ = "table";
  warn_of_binary(bytes.find('\0') != bytes.npos);
  std::optional<std::optional<ReportColumns>> judging;
  const Table table =
      read_delimited(bytes, delimiter, [&](const Table& header, const TableRow& row) {
        if (!judging) judging = report_columns(header);
        if (!*judging) judging = status_columns(header);
        // a line of text below a table
        if (row.cells.size() == 1 && line_claims_failure(row.cells[0])) {
          add_failure(row.line, row.cells[0]);
        }
        add_row(header, row, *judging);
      });
  if (!judging) add_failure_of_row({}, {table.line, table.columns});
  warn_of_table(table);
  if (pairs_ > 0 || report_columns(table)) add_report();
}

void SourceContent::add_json(const std::string& bytes) {
  JsonFacts facts = read_json_facts(bytes, file_stem(file_));
  shape_ = facts.kind;
  if (!facts.error.empty()) return add_finding(0, true, facts.error, kept_part(bytes));
  if (facts.kind != "other" || !facts.claims.empty()) note_use(Use::kEvidence);
  session_.summary.metrics += session_.facts.add_json_facts(source_id_, run_id_, identity_, facts);
  if (facts.holds_rows) {
    add_finding(
        0, true,
        "rows of a trace in a JSON document, which are not read: write each as one line of a "
        ".jsonl file");
  }
  if (!identity_.date_segment.empty() && identity_.date.empty() && !facts.timestamp.empty() &&
      session_.undated.insert(identity_.date_segment).second) {
    add_finding(0, false,
                "directory " + identity_.date_segment +
                    " is not a date; the earliest timestamp gives the date of its runs");
  }
}

void SourceContent::add_row(const Table& header, const TableRow& row,
                            const std::optional<ReportColumns>& judging) {
  note_use(Use::kFacts);
  session_.facts.add_table_row(source_id_, header, row);
  if (judging) return add_claim_of(header, row, *judging);
  add_failure_of_row(header, row);
}

/// Of a table that judges no pairs.
void SourceContent::add_failure_of_row(const Table& header, const TableRow& row) {
  const std::string claim = row_claim(header, row, is_document_);
  if (!claim.empty()) add_failure(row.line, claim);
}

/// Takes the claims of a line that is a JSON object and no row, or of an event beside its fields.
void SourceContent::add_failures_of_line(std::string_view line, int64_t line_no) {
  std::string error;
  const nlohmann::json object = parse_json_document(line, error);
  if (!error.empty()) return;
  for_each_failure("", object, [&](const std::string& claim) { add_failure(line_no, claim); });
}

/// A claim of failure, as it is written.
void SourceContent::add_failure(int64_t line, std::string_view text) {
  note_use(Use::kEvidence);
  if (++failure_claims_ > kMaxFailureClaims) return;
  session_.facts.add_claim(source_id_, run_id_, line, kFailureClaim, "FAIL",
                           std::string(text.substr(0, kMaxClaimBytes)));
}

void SourceContent::add_claim_of(const Table& header, const TableRow& row,
                                 const ReportColumns& judging) {
  if (auto pair = report_pair(header, row, judging)) add_pair(*std::move(pair));
}

void SourceContent::add_pair(ReportPair pair) {
  if (pairs_ == kMaxPairs) {
    if (!std::exchange(refused_pairs_, true)) {
      add_finding(pair.line, true,
                  "more pairs than a document may judge (" + std::to_string(kMaxPairs) +
                      "); those from here on are not taken");
    }
    return;
  }
  if (pair.prompt.empty()) pair.prompt = identity_.prompt;
  note_use(Use::kEvidence);
  if (!session_.facts.add_report_pair(source_id_, run_id_, pair)) refuse_name(pair.tensor);
  ++session_.summary.report_pairs;
  if (pairs_++ == 0) session_.facts.add_report(source_id_, run_id_, identity_.relative_path);
  failing_pairs_ += pair.status != ReportPair::kMatch;
  if (pair.only_hashes_differ && doubted_pairs_++ == 0) first_doubted_line_ = pair.line;
}

/// A document that says two things is judged by the worse one, and named.
void SourceContent::warn_of_contradictions() {
  if (doubted_pairs_ > 0) {
    add_finding(first_doubted_line_, false,
                std::to_string(doubted_pairs_) +
                    " rows from here on print hashes that differ and say no failure; they count as "
                    "DRIFT");
  }
  if (pass_line_ && failing_pairs_ > 0) {
    add_finding(*pass_line_, false,
                "says PASS here and lists " + std::to_string(failing_pairs_) +
                    " failing pairs; they count");
  }
  if (fail_line_ && pairs_ > 0 && failing_pairs_ == 0) {
    add_finding(*fail_line_, false, "says FAIL here and lists no pair that fails");
  }
}

void SourceContent::warn_of_table(const Table& table) {
  std::string repeated;
  for (const std::string& column : table.repeated_columns()) {
    if (repeated.size() < 200) repeated += (repeated.empty() ? "" : ", ") + column.substr(0, 64);
  }
  if (!repeated.empty()) {
    add_finding(table.line, false,
                "columns written twice, so that the table judges nothing: " + repeated);
  }
  const auto warn_of_rows = [this](const RowCount& count, const std::string& why) {
    if (count.rows > 0)
      add_finding(count.first_line, true, std::to_string(count.rows) + " rows from here on " + why);
  };
  warn_of_rows(table.wide,
               "have more cells than the table has columns: of which column a cell is nobody can "
               "tell");
  for (const TableRow& comment : table.comments) {
    add_finding(comment.line, false, "a line above the table's header", comment.cells[0]);
    if (line_claims_failure(comment.cells[0])) add_failure(comment.line, comment.cells[0]);
  }
  warn_of_rows(table.cut, "are wider than " + std::to_string(kMaxCells) +
                              " cells or 1 MiB; what is beyond is not kept");
  warn_of_rows(table.refused, "are more than a table may have; they are not kept");
}

void SourceContent::add_document(const Document& document) {
  shape_ = "document";
  is_document_ = true;
  warn_of_binary(document.is_binary);
  bool judges = false;
  if (!document.claims.empty() || !document.counts.empty() || !document.commit.empty() ||
      !document.date.empty() || !document.experiment.empty()) {
    note_use(Use::kFacts);
  }
  for (const DocumentClaim& c : document.claims) {
    session_.facts.add_claim(source_id_, run_id_, c.line, c.kind, c.value, c.text);
    if (c.kind == kFailureClaim) note_use(Use::kEvidence);
    if (c.kind != "verdict") continue;
    note_use(Use::kEvidence);
    judges = true;
    const bool is_pass = c.value.starts_with("PASS") && c.value != kPassWithinRounding;
    if (!pass_line_ && is_pass) pass_line_ = c.line;
    if (!fail_line_ && c.value.starts_with("FAIL")) fail_line_ = c.line;
  }
  for (const auto& [name, count] : document.counts) {
    session_.facts.add_claim(source_id_, run_id_, 0, name, std::to_string(count), "");
  }
  const std::pair<const char*, const std::string&> attributes[] = {
      {"commit", document.commit}, {"document_date", document.date}, {"title", document.title}};
  for (const auto& [name, value] : attributes) {
    if (!value.empty())
      session_.runs.add_attribute(run_id_, name, value, AttributeRank::kDocument, identity_.leg,
                                  source_id_);
  }
  add_tables(document.tables);
  if (judges || pairs_ > 0) add_report();
  for (const DocumentLine& limit : document.limits) add_finding(limit.line, true, limit.text);
  if (!document.valid_utf8) add_finding(0, false, "not valid UTF-8");
  add_records(document);
}

void SourceContent::add_tables(const std::vector<Table>& tables) {
  for (const Table& table : tables) {
    const auto judging = report_columns(table);
    if (judging) add_report();
    for (const TableRow& row : table.rows) add_row(table, row, judging);
    if (table.rows.empty()) add_failure_of_row({}, {table.line, table.columns});
    warn_of_table(table);
  }
  // A summary by status says again what a table of pairs has listed, unless that lists no failure.
  if (failing_pairs_ > 0) return;
  for (const Table& table : tables) {
    const auto judging = status_columns(table);
    if (!judging) continue;
    for (const TableRow& row : table.rows) add_claim_of(table, row, *judging);
  }
}

/// Trace lines of a document, fenced or not.
void SourceContent::add_records(const Document& document) {
  StatedRecords records(*this, document.prompt_names);
  for (const DocumentLine& line : document.json_lines) {
    if (is_record_line(line.text)) records.take(line.text, line.line);
  }
  records.finish();
  if (!records.shape().empty()) shape_ = records.shape();
}

void SourceContent::add_log(const std::string& bytes) {
  shape_ = "log";
  warn_of_binary(bytes.find('\0') != bytes.npos);
  LogParser parser;
  StatedRecords records(*this, {});
  std::vector<LogEvent> events;
  const int64_t events_before = session_.summary.log_events;
  int64_t line_no = 0, last_line = 0, seq = 0;
  RowCount not_kept;
  std::string_view rest = text::without_mark(bytes);
  for (std::string_view line; text::take_line(rest, line);) {
    ++line_no;
    if (line.size() > text::kMaxTextLine ||
        session_.summary.log_events - events_before >= kMaxLogEvents) {
      not_kept.add(line_no);
      continue;
    }
    if (begins_record(line)) {
      records.take(line, line_no);
      continue;
    }
    if (line_claims_failure(line)) add_failure(line_no, text::trim(line));
    events.clear();
    parser.add_line(line, line_no, events);
    for (const LogEvent& event : events) {
      seq = event.line == last_line ? seq + 1 : 0;
      last_line = event.line;
      note_use(Use::kEvidence);
      session_.facts.add_log_event(source_id_, run_id_, identity_.prompt, event, seq);
      ++session_.summary.log_events;
    }
  }
  records.finish();
  if (not_kept.rows > 0) {
    add_finding(not_kept.first_line, true,
                std::to_string(not_kept.rows) +
                    " lines from here on are longer than 1 MiB, or behind " +
                    std::to_string(kMaxLogEvents) + " events; they are not read");
  }
  if (parser.facts_not_kept() > 0) {
    add_finding(0, true,
                std::to_string(parser.facts_not_kept()) +
                    " facts are more than a log may state; they are not kept");
  }
  LogFacts facts = parser.facts();
  if (!facts.facts.empty()) note_use(Use::kFacts);
  for (const auto& [name, value] : facts.facts) {
    std::optional<double> number;
    if (char* end = nullptr; !value.empty()) {
      double parsed = std::strtod(value.c_str(), &end);
      if (*end == '\0') number = parsed;
    }
    session_.facts.add_metric(source_id_, run_id_, identity_.leg, identity_.prompt, name, number,
                              value);
    ++session_.summary.metrics;
  }
  if (facts.prompt_tokens && !identity_.prompt.empty()) {
    session_.runs.set_prompt_length(run_id_, identity_.prompt, *facts.prompt_tokens);
  }
  if (!facts.valid_utf8) add_finding(0, false, "not valid UTF-8; kept as it is");
}

void SourceContent::add_batch(RecordBatch& batch) {
  for (const PromptSymbol& symbol : batch.prompts)
    prompts_.push_back(session_.runs.prompt_id(run_id_, symbol));
  for (const std::string& name : batch.phases) phases_.push_back(session_.writer.phase_id(name));
  for (const std::string& name : batch.names) {
    names_.push_back(session_.writer.tensor_id_of_run(run_id_, name));
    if (!names_.back()) refuse_name(name);
  }
  for (const RowContext& context : batch.contexts) {
    contexts_.push_back(session_.writer.add_context(context));
  }
  std::optional<int64_t> lines_of_rows;  // all of them are in this batch and those before
  for (RunEvent& event : batch.events) {
    if (event.counts_lines) lines_of_rows = std::exchange(event.rows, std::nullopt);
    const std::string doubt = session_.runs.add_run_event(source_id_, run_id_, identity_, event);
    // of the run: which of the lines comes second is an accident
    if (!doubt.empty())
      session_.add_finding_about(identity_.run_name(), identity_.run_name(), doubt);
    for (const auto& [name, value] : event.attributes) {
      if (claims_failure(name, value)) add_failure(0, name + ": " + value);
    }
    if (!event.beside.empty()) add_failures_of_line(event.beside, 0);
  }
  const bool other_hash =
      !batch.hash_algo.empty() && !session_.runs.is_hash_algo(run_id_, batch.hash_algo);
  if (other_hash && !session_.runs.may_mix_hashes(run_id_, batch.hash_algo)) drop_hashes(batch);
  if (!batch.rows.empty() || !batch.readouts.empty() || !batch.events.empty() ||
      !batch.differences.empty()) {
    note_use(Use::kEvidence);
  }
  drop_unnamed(batch);
  for (TraceRow& row : batch.rows) {
    const PhaseId& phase = phases_[static_cast<size_t>(row.phase_id)];
    const TensorId& tensor = *names_[static_cast<size_t>(row.name_id)];
    row.run_id = run_id_;
    row.prompt_id = prompts_[static_cast<size_t>(row.prompt_id)];
    row.phase_id = phase.id;
    row.side = phase.side;
    row.name_id = tensor.name_id;
    row.tensor_id = tensor.tensor_id;
    if (row.context_id) {
      row.context_id = contexts_[static_cast<size_t>(*row.context_id - first_context_)];
    }
    row.source_id = source_id_;
    if (other_hash && row.hash) row.flags ^= kFlagOtherHash;
  }
  if (batch.contexts_from > first_context_) {
    contexts_.erase(contexts_.begin(), contexts_.begin() + (batch.contexts_from - first_context_));
    first_context_ = batch.contexts_from;
  }
  WriteCounts counts = session_.writer.write(batch.rows);
  for (Readout& readout : batch.readouts) {
    readout.run_id = run_id_;
    readout.prompt_id = prompts_[static_cast<size_t>(readout.prompt_id)];
    readout.side = phases_[static_cast<size_t>(readout.phase_id)].side;
    readout.name_id = names_[static_cast<size_t>(readout.name_id)]->name_id;
    readout.source_id = source_id_;
    const std::optional<ReadoutRow> left_out = session_.facts.add_readout(readout);
    if (!left_out) continue;
    session_.add_finding(
        left_out->source_id == source_id_ ? file_ : session_.sources.path_of(left_out->source_id),
        left_out->line, false,
        "another readout of this step is there and is kept; this one is " + readout_text(*left_out),
        "", left_out->source_id);
  }
  for (LineDifference& d : batch.differences) add_difference(d);
  for (const LineFinding& f : batch.findings) {
    add_finding(f.line, f.is_error, f.reason, f.raw);
    // A line that gives no row: what it claims counts nevertheless.
    if (!is_document_) add_failures_of_line(f.raw, f.line);
  }
  for (int64_t line : counts.conflict_lines) {
    add_finding(line, false, "a row with this key but other content is there; both are kept");
  }
  int64_t conflicts = static_cast<int64_t>(counts.conflict_lines.size());
  rows_ += static_cast<int64_t>(batch.rows.size());
  duplicates_ += counts.duplicates - counts.taken_over;
  conflicts_ += conflicts;
  if (lines_of_rows) {  // a line that came twice is one row
    session_.runs.add_attribute(run_id_, kTraceRows, std::to_string(*lines_of_rows - duplicates_),
                                AttributeRank::kLeaf, "", source_id_);
  }
  session_.summary.rows += counts.inserted;
  session_.summary.duplicates += counts.duplicates;
  session_.summary.conflicts += conflicts;
}

/// One finding names the first of them, and says of which run.
void SourceContent::refuse_name(const std::string& name) {
  if (std::exchange(refused_name_, true)) return;
  add_finding(0, false,
              "run " + identity_.run_name() + " brings more tensor names than a run may; " +
                  name.substr(0, 64) + " and the new ones behind it are not taken");
}

void SourceContent::add_difference(LineDifference& difference) {
  DifferenceRow& row = difference.row;
  row.run_id = run_id_;
  row.prompt_id = prompts_[static_cast<size_t>(row.prompt_id)];
  row.tensor_id = names_[static_cast<size_t>(row.tensor_id)]->tensor_id;
  session_.facts.add_difference(row);
}

/// Hashes by three algorithms do not say which two compare.
void SourceContent::drop_hashes(RecordBatch& batch) {
  for (TraceRow& row : batch.rows) row.hash.reset();
  if (std::exchange(refused_hash_, true)) return;
  add_finding(0, false,
              "its hashes (" + batch.hash_algo + ") are by another algorithm than those of run " +
                  identity_.run_name() + "; its rows are kept without them");
}

/// Rows of names that are not taken go, each with what it said.
void SourceContent::drop_unnamed(RecordBatch& batch) {
  if (!refused_name_) return;
  const auto is_unnamed = [this](int64_t name_id) { return !names_[static_cast<size_t>(name_id)]; };
  for (const TraceRow& row : batch.rows) {
    if (!is_unnamed(row.name_id)) continue;
    std::string said = "phase " + std::to_string(phases_[static_cast<size_t>(row.phase_id)].id) +
                       ", layer " + std::to_string(row.layer) + ", step " +
                       std::to_string(row.step) + ", position " + std::to_string(row.pos_id);
    if (row.hash) said += ", hash " + std::to_string(*row.hash);
    add_finding(row.line, true, "a row of a tensor name that is not taken", said);
  }
  std::erase_if(batch.rows, [&](const TraceRow& row) { return is_unnamed(row.name_id); });
  std::erase_if(batch.readouts, [&](const Readout& r) { return is_unnamed(r.name_id); });
  std::erase_if(batch.differences,
                [&](const LineDifference& d) { return is_unnamed(d.row.tensor_id); });
}

}  // namespace greta
