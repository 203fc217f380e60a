#include "ingest/record/line_reader.h"
#include "ingest/record/shapes.h"

namespace greta::record {
namespace {

bool states_format(const Fields& fields) {
  for (const ExtraField& field : fields.extra) {
    if (field.key == "format") return unquoted(fields.token[kEvent]) == "run_start";
  }
  return false;
}

void take_event(LineReader& in, RunEvent&& event, const char* shape = "row") {
  in.set_shape(shape);
  in.batch->kept_bytes += in.line.size() + event.plan.size() * sizeof(RunEvent::Planned);
  in.batch->events.push_back(std::move(event));
}

void read_start(LineReader& in, RunEvent&& event) {
  if (in.row_format.has_begun) {
    return in.add_finding(true, "a second run_start: a content has one run");
  }
  in.row_format.has_begun = true;
  take_event(in, std::move(event));
}

void read_end(LineReader& in, RunEvent&& event) {
  const int64_t came = in.row_format.rows;
  if (event.rows != came) {
    in.add_finding(true, "run_end says " + std::to_string(*event.rows) + " rows, and " +
                             std::to_string(came) + " came");
  }
  in.row_format.has_ended = true;
  take_event(in, std::move(event));
}

void read_run_event_line(LineReader& in) {
  RunEvent event;
  if (std::string why = read_row_format_event(in.line, event); !why.empty()) {
    return in.add_finding(true, why);
  }
  if (event.kind == RunEvent::kStart) return read_start(in, std::move(event));
  if (event.kind == RunEvent::kEnd) return read_end(in, std::move(event));
  if (event.kind == RunEvent::kPrompt) {
    if (in.row_format.prompts.size() == kMaxPrompts || event.prompt.size() > kMaxNameBytes) {
      return in.add_finding(true, "more prompts than one file may name, or too long a name");
    }
    in.row_format.prompts.insert(event.prompt);
  }
  take_event(in, std::move(event));
}

}  // namespace

bool is_row_format(const LineReader& in) {
  return in.row_format.has_begun || unquoted(in.fields.token[kEvent]) == "row" ||
         states_format(in.fields);
}

void read_row_format(LineReader& in) {
  const std::string_view event = unquoted(in.fields.token[kEvent]);
  const bool is_start = event == "run_start";
  if (event == "row") ++in.row_format.rows;
  if (!in.row_format.has_begun && !is_start) {
    return in.add_finding(true, "a row before run_start, which says the format and the run");
  }
  if (in.row_format.has_ended) return in.add_finding(true, "a line behind run_end");
  if (event == "row") return read_row(in);
  if (is_run_event(event)) return read_run_event_line(in);
  in.add_finding(true, "event \"" + std::string(event.substr(0, 64)) +
                           "\" is none of run_start, run_attributes, run_prompt, row, run_end");
}

void finish_row_format(LineReader& in) {
  if (!in.row_format.has_begun || in.row_format.has_ended) return;
  in.batch->findings.push_back({0, true, "it ends before run_end: its run is INCOMPLETE", ""});
}

void read_run_line(LineReader& in) {
  RunEvent event;
  if (std::string why = read_run_event(in.line, event); !why.empty()) {
    return in.add_finding(true, why);
  }
  take_event(in, std::move(event), "run");
}

}  // namespace greta::record
