#pragma once

#include <cstdint>
#include <string>

#include "common/json_text.h"
#include "engine/run/trace_sink.h"

// The records of a run as JSON lines, without newline. ingest/record/parser.h and
// ingest/record/run_event.h read them. What is not known or not finite has no key, or null.
// The functions of namespace rows write the row format of docs/traces.md; run_attribute_line and
// run_end_line are lines of both.

namespace greta {

std::string run_start_line(const RunRecord& run);
std::string run_attribute_line(const std::string& name, const std::string& value);
std::string run_prompt_line(const PromptRecord& prompt);
/// Throws std::invalid_argument when `extra` is not a JSON object.
std::string stage_trace_line(const TraceRecord& row, const std::string& prompt);
/// Of a row whose `difference` is known.
std::string difference_line(const TraceRecord& row, const std::string& prompt);
std::string readout_line(const ReadoutRecord& readout, const std::string& prompt);
std::string run_end_line(bool complete, int64_t rows, const std::string& finished_at);

namespace rows {
/// `name` is what the run is called; empty: who reads it gives it one.
std::string start_line(const RunRecord& run);
/// May say of a prompt what lines before did not: more of its plan.
std::string prompt_line(const PromptRecord& prompt);
std::string row_line(const TraceRecord& row, const std::string& prompt);
}  // namespace rows

/// top1_id, top1_logit, top2_id, top2_logit, gap, vocab.
void add_readout(JsonObject& line, const ReadoutRecord& readout);
/// cpu_probe_top1_id, cpu_probe_agrees_gpu; nothing without a CPU probe.
void add_cpu_probe(JsonObject& line, const ReadoutRecord& readout);

}  // namespace greta
