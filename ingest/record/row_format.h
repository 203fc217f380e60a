#pragma once
#include <cstdint>
#include <string>
#include <unordered_set>

namespace greta::record {

struct LineReader;

/// What came so far of a content in the row format (docs/traces.md): run_start, rows, run_end.
struct RowFormat {
  bool has_begun = false, has_ended = false;
  int64_t rows = 0;  ///< lines of rows, taken or not
  std::unordered_set<std::string> prompts;
};

/// Whether the line at hand is of the row format: it, or a line before, says so, or it can be
/// nothing else.
bool is_row_format(const LineReader& in);

/// Takes a line of the row format, or says with one finding why it cannot be: nothing of it is
/// taken then.
void read_row_format(LineReader& in);

/// Behind the last line.
void finish_row_format(LineReader& in);

}  // namespace greta::record
