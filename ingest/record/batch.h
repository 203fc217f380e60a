#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "db/difference.h"
#include "db/run_records.h"
#include "db/trace_writer.h"
#include "ingest/record/run_event.h"

namespace greta {

/// What the path and the document around a line already say; a line's own fields beat them, except
/// the name of a prompt that no line names.
struct RecordSource {
  std::string leg;     ///< "prefill", "decode" or ""
  std::string prompt;  ///< prompt for lines that name none
  std::vector<std::string>
      prompt_names;  ///< names of readout segments, in order, when a document has them
};

/// A line or a document up to this size is kept whole when it cannot be taken; of a longer one the
/// beginning is.
inline constexpr size_t kKeptWholeBytes = 4u << 20;
inline constexpr size_t kKeptLineBytes = 1u << 20;
inline std::string_view kept_part(std::string_view raw) {
  return raw.size() <= kKeptWholeBytes ? raw : raw.substr(0, kKeptLineBytes);
}

/// A line or field that was not taken as it stands.
struct LineFinding {
  int64_t line = 0;
  bool is_error = true;
  std::string reason;
  std::string raw;  ///< the line, or its kept_part
};

/// Readout of one row of logits; prompt, phase and name are symbols as in RecordBatch::rows.
struct Readout : ReadoutRow {
  int64_t phase_id = 0;
};

/// How the rows of a pair differ; prompt_id, and tensor_id of a name, are symbols as in
/// RecordBatch::rows.
struct LineDifference {
  int64_t line = 0;
  DifferenceRow row;
};

/// A prompt that lines refer to. A readout segment without a name is "seg<i>", with its length.
struct PromptSymbol {
  std::string name;
  bool is_segment = false;
  std::optional<int64_t> n_tokens;
};

/// Rows parsed from consecutive lines. In `rows`, prompt_id, phase_id, name_id and context_id are
/// 0-based symbols of the parser (numbered over all its batches), run_id, side, tensor_id and
/// source_id are not set. Each batch defines the symbols that are new in it.
struct RecordBatch {
  std::vector<TraceRow> rows;
  std::vector<Readout> readouts;
  std::vector<LineDifference> differences;
  std::vector<PromptSymbol> prompts;
  std::vector<std::string> phases;
  std::vector<std::string> names;
  std::vector<RowContext> contexts;
  std::vector<RunEvent> events;
  std::vector<LineFinding> findings;
  std::string
      hash_algo;  ///< of the rows that have a hash and no kFlagOtherHash; "" when no row has one
  int64_t contexts_from = 0;  ///< lower symbols of contexts are of no row behind this batch
  int64_t lines = 0;
  size_t kept_bytes = 0;  ///< of samples, raw lines and contexts

  std::deque<std::vector<float>> samples;  ///< what rows[i].sample borrows
  std::deque<RowSketch> sketches;          ///< what rows[i].sketch borrows

  /// Empties the batch for reuse; its memory is kept.
  void clear();

  /// Large enough to be written.
  bool is_full() const {
    return rows.size() >= 4'096 || differences.size() >= 4'096 || kept_bytes >= (2u << 20) ||
           findings.size() >= 4096;
  }
};

}  // namespace greta
