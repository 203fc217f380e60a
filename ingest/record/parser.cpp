#include "ingest/record/parser.h"

#include "ingest/record/shapes.h"

namespace greta {

void RecordBatch::clear() {
  rows.clear();
  readouts.clear();
  differences.clear();
  prompts.clear();
  phases.clear();
  names.clear();
  contexts.clear();
  events.clear();
  hash_algo.clear();
  findings.clear();
  samples.clear();
  sketches.clear();
  contexts_from = 0;
  lines = 0;
  kept_bytes = 0;
}

using namespace record;

namespace {

/// A line whose "event" says what it is.
void read_event(LineReader& in) {
  std::string_view event = unquoted(in.fields.token[kEvent]);
  if (event == "stage_trace") return read_stage_trace(in);
  if (event == "readout") return read_readout_event(in);
  if (event == "difference") return read_difference(in);
  if (is_run_event(event)) return read_run_line(in);
  in.add_finding(in.speaks_of_a_row(),
                 "event " + std::string(event.substr(0, 64)) +
                     " is not a shape greta knows; the line is kept as it is");
}

/// Tells the shape of a line by its keys.
void read_line(LineReader& in) {
  const Fields& fields = in.fields;
  if (fields.has(kEvent)) return read_event(in);
  if (fields.has(kMetric) || fields.has(kTensorName)) return read_metric(in);
  if (fields.has(kHiddenHash)) {
    return fields.states(kPosId) ? read_readout(in) : read_prefill_decode(in);
  }
  if (fields.states(kTop1)) return read_landscape(in);
  if (fields.states(kTokenIdx) && fields.values_key == kLogits) return read_logits(in);
  if (fields.has(kTag) && fields.has(kLayer)) return read_layer_trace(in);
  in.add_finding(in.speaks_of_a_row(),
                 "a JSON object of no shape greta knows; the line is kept as it is");
}

void take_line(LineReader& in, size_t readable_bytes) {
  if (in.line.front() != '{') return in.add_finding(true, "not a JSON object");
  in.fields.values_name = in.row_format.has_begun ? "values" : "";
  std::string why = in.fields.take_apart(in.line, readable_bytes);
  if (!why.empty()) return in.add_finding(true, why);
  if (is_row_format(in)) return read_row_format(in);
  in.take_hash_algo();
  in.warn_of_contradictions();
  read_line(in);
}

}  // namespace

RecordParser::RecordParser(RecordSource source)
    : reader_(std::make_unique<LineReader>(std::move(source))) {}
RecordParser::~RecordParser() = default;
const std::string& RecordParser::shape() const { return reader_->shape; }
bool RecordParser::phase_conflict() const { return reader_->phase_conflict; }

void RecordParser::parse(std::string_view line, size_t buffer_bytes, int64_t line_no,
                         RecordBatch& batch) {
  const char* start = line.data();
  line = trimmed(line);
  ++batch.lines;
  if (line.empty()) return;
  LineReader& in = *reader_;
  in.begin(line, line_no, batch);
  take_line(in, buffer_bytes - static_cast<size_t>(line.data() - start));
  in.end();
}

void RecordParser::refuse(std::string_view head, int64_t line_no, std::string reason,
                          RecordBatch& batch) {
  reader_->begin(head, line_no, batch);
  reader_->add_finding(true, std::move(reason));
  reader_->end();
}

void RecordParser::finish(RecordBatch& batch) {
  reader_->batch = &batch;
  finish_row_format(*reader_);
  const auto& [count, first_line, any_error] = reader_->not_kept;
  if (count == 0) return;
  batch.findings.push_back({first_line, any_error,
                            std::to_string(count) + " lines from here on gave no row either; the " +
                                std::to_string(kMaxKeptLines) + " before them are kept",
                            ""});
}

bool begins_record(std::string_view line) {
  if (!trimmed(line).starts_with('{')) return false;
  for (std::string_view key : {"\"event\"", "\"metric\"", "\"tensor_name\"", "\"hidden_hash\"",
                               "\"top1\"", "\"logits\"", "\"tag\""}) {
    if (line.find(key) != std::string_view::npos) return true;
  }
  return false;
}

bool is_record_line(std::string_view line) {
  return trimmed(line).ends_with('}') && begins_record(line);
}

}  // namespace greta
