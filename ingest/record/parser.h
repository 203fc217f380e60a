#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "ingest/record/batch.h"

namespace greta {
namespace record {
struct LineReader;
}

/// Parses the JSON lines of a trace file, and what an engine exports, into rows: one parser
/// per file, lines in order. Shapes are told by their keys, never by the file's name. Not
/// thread-safe.
///
/// A stage_trace line of an engine says "hash_algo":"greta-1": its hash and statistics cover all n
/// values, its sketch (32 numbers) and sum_sq are the row's own, `extra` holds further fields, and
/// a line {"event":"readout"} holds what a row of logits chose.
///
/// Lines behind a run_start that says "format":"greta-rows-1" are of the row format
/// (docs/traces.md): all that it does not define is an error.
class RecordParser {
 public:
  /// Bytes that must be readable after a line passed to parse().
  static constexpr size_t kPaddingBytes = 64;

  explicit RecordParser(RecordSource source);
  ~RecordParser();

  /// Parses one line (no newline; CR and blanks around it are ignored) and appends its rows to the
  /// batch, or a finding: never both dropped. buffer_bytes is the readable length from line.data().
  void parse(std::string_view line, size_t buffer_bytes, int64_t line_no, RecordBatch& batch);

  /// Reports a line that is not even parsed, `head` being its beginning.
  void refuse(std::string_view head, int64_t line_no, std::string reason, RecordBatch& batch);

  /// Call it behind the last line: says how many lines gave no row and were not kept with their
  /// text, because kMaxKeptLines before them were.
  void finish(RecordBatch& batch);
  static constexpr int64_t kMaxKeptLines = 1'000;

  /// Shape of the lines so far: "stage_trace", "metric", "readout", "delta", "prefill_decode",
  /// "landscape", "logits", "layer_trace", "run", "row" (the row format), or "" before the first
  /// row.
  const std::string& shape() const;

  /// True when a line's own phase contradicted the leg of the source: the line won.
  bool phase_conflict() const;

 private:
  std::unique_ptr<record::LineReader> reader_;
};

/// True when a line begins like a JSON object of one of those shapes, whether or not it was written
/// to its end.
bool begins_record(std::string_view line);
/// True when it is there to its end, too (for documents and sniffing).
bool is_record_line(std::string_view line);

}  // namespace greta
