// Lines through a parser, and what came of them as text.
#pragma once
#include <gtest/gtest.h>

#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ingest/record/parser.h"

namespace greta {

using Strings = std::vector<std::string>;

/// Lines through one parser, with its symbols resolved.
class Lines {
 public:
  explicit Lines(RecordSource source = {}) : parser(std::move(source)) {}

  Lines& add(const std::string& line) {
    std::string padded = line + std::string(RecordParser::kPaddingBytes, '\0');
    parser.parse({padded.data(), line.size()}, padded.size(), ++line_no_, batch);
    return *this;
  }

  /// A row as text: what it has, in a fixed order. "tensor prompt phase layer step pos ..."
  std::string row(size_t i) const {
    const TraceRow& r = batch.rows.at(i);
    std::string out = batch.names.at(at(r.name_id)) + " " + batch.prompts.at(at(r.prompt_id)).name +
                      " " + batch.phases.at(at(r.phase_id)) + " layer=" + std::to_string(r.layer) +
                      " step=" + std::to_string(r.step) + " pos=" + std::to_string(r.pos_id);
    put(out, "token", r.token_id);
    put(out, "logical", r.logical_tok_idx);
    put(out, "n", r.n);
    if (r.hash) out += " hash=" + std::to_string(*r.hash);
    put(out, "min", r.min);
    put(out, "max", r.max);
    put(out, "mean", r.mean);
    put(out, "abs", r.abs_sum);
    put(out, "nan", r.nan);
    put(out, "inf", r.inf);
    put(out, "nz", r.nz_count);
    if (r.flags != 0) out += " flags=" + std::to_string(r.flags);
    put(out, "ptr", r.ptr);
    put(out, "offset", r.offset_bytes);
    if (!r.sample.empty()) out += " sample=" + std::to_string(r.sample.size());
    if (r.context_id) out += context(batch.contexts.at(at(*r.context_id)));
    return out;
  }
  std::string extra(size_t i) const {
    const TraceRow& r = batch.rows.at(i);
    return r.context_id ? batch.contexts.at(at(*r.context_id)).extra.value_or("") : "";
  }
  std::string readout(size_t i) const {
    const Readout& r = batch.readouts.at(i);
    std::string out = batch.names.at(at(r.name_id)) + " " + batch.prompts.at(at(r.prompt_id)).name +
                      " " + batch.phases.at(at(r.phase_id)) + " step=" + std::to_string(r.step) +
                      " pos=" + std::to_string(r.pos_id);
    put(out, "top1", r.top1_id);
    put(out, "logit1", r.top1_logit);
    put(out, "top2", r.top2_id);
    put(out, "logit2", r.top2_logit);
    put(out, "gap", r.gap);
    put(out, "vocab", r.vocab);
    if (r.route) out += " route=" + *r.route;
    put(out, "cpu", r.cpu_top1_id);
    put(out, "agrees", r.cpu_agrees);
    return out;
  }
  /// "line error|warning reason", one per finding.
  Strings findings() const {
    Strings out;
    for (const LineFinding& f : batch.findings) {
      out.push_back(std::to_string(f.line) + (f.is_error ? " error " : " warning ") + f.reason);
    }
    return out;
  }

  RecordParser parser;
  RecordBatch batch;

 private:
  static size_t at(int64_t i) { return static_cast<size_t>(i); }
  static void put(std::string& out, const char* name, const std::optional<int64_t>& value) {
    if (value) out += std::string(" ") + name + "=" + std::to_string(*value);
  }
  static void put(std::string& out, const char* name, const std::optional<double>& value) {
    char text[40];
    if (value) std::snprintf(text, sizeof text, "%.12g", *value);
    if (value) out += std::string(" ") + name + "=" + text;
  }
  static std::string context(const RowContext& c) {
    std::string out;
    if (c.route) out += " route=" + *c.route;
    if (c.src_kind) out += " kind=" + *c.src_kind;
    if (c.phase_raw) out += " raw=" + *c.phase_raw;
    put(out, "seq_len", c.seq_len);
    put(out, "total", c.tokens_total);
    put(out, "index", c.token_index);
    put(out, "kv_pos", c.kv_pos);
    put(out, "stride", c.stride_elems);
    put(out, "alloc", c.alloc_bytes);
    put(out, "prompt_tokens", c.prompt_tokens);
    put(out, "decode_step", c.decode_step);
    if (c.extra) out += " extra=" + *c.extra;
    return out;
  }

  int64_t line_no_ = 0;
};

inline std::string row_of(const std::string& line, RecordSource source = {}) {
  Lines lines(std::move(source));
  lines.add(line);
  if (!lines.batch.findings.empty()) return lines.findings().front();
  return lines.batch.rows.size() == 1 ? lines.row(0)
                                      : std::to_string(lines.batch.rows.size()) + " rows";
}

inline Strings findings_of(const std::string& line, RecordSource source = {}) {
  Lines lines(std::move(source));
  lines.add(line);
  return lines.findings();
}

/// True if such a line, after nothing else, gives one error that keeps it as it is, and no more.
inline testing::AssertionResult is_refused(const std::string& line, RecordSource source = {}) {
  Lines lines(std::move(source));
  lines.add(line);
  const RecordBatch& batch = lines.batch;
  const bool gives_nothing = batch.rows.empty() && batch.readouts.empty() &&
                             batch.differences.empty() && batch.events.empty();
  if (gives_nothing && batch.findings.size() == 1 && batch.findings[0].is_error &&
      batch.findings[0].line == 1 && batch.findings[0].raw == line) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure()
         << line << " is taken, or not kept: " << testing::PrintToString(lines.findings());
}

/// True if such a line gives one row, and it counts as one that is not finite.
inline bool gives_row_in_doubt(const std::string& line) {
  Lines lines;
  lines.add(line);
  return lines.batch.rows.size() == 1 && (lines.batch.rows[0].flags & kFlagNonfiniteStatistic) != 0;
}

/// A stage_trace line with these members behind the ones that it must have.
inline std::string stage(const std::string& more = "") {
  return R"({"event":"stage_trace","prompt_id":"p","phase":"decode0","point":"attn_out","layer":3)" +
         more + "}";
}
inline const std::string kStage = "attn_out p decode0 layer=3 step=-1 pos=-1";

}  // namespace greta
