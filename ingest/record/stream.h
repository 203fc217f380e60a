#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ingest/content/reader.h"
#include "ingest/record/parser.h"

namespace greta {

/// Longest line read as one record; a longer one is a finding, with its beginning.
inline constexpr size_t kMaxLineBytes = 32u << 20;
struct StreamEnd {
  std::string sha256;  ///< of the decoded bytes
  int64_t bytes = 0;   ///< decoded
  int64_t lines = 0;
  std::string damage;  ///< ContentReader::damage
  std::string tail;    ///< a last line cut by the damage, not taken
};

/// Takes a batch and the decoded bytes read so far; gives an empty batch, or null to stop.
using BatchTaker =
    std::function<std::unique_ptr<RecordBatch>(std::unique_ptr<RecordBatch>, int64_t)>;

/// Reads lines from `reader` and parses them with `parser` into batches; `take` gets the full ones
/// and the last. Stopped by it, the end is not filled in.
StreamEnd parse_records(ContentReader& reader, RecordParser& parser, const BatchTaker& take);

/// Reads lines from `reader`, parses them with `parser` and hands full batches to `write`, in
/// order. With on_other_thread, reading and parsing run on a second thread and `write` on the
/// caller's; at most three batches are alive. Exceptions of either side end both and are rethrown
/// here. `on_bytes`, called on the caller's thread, gets the decoded bytes read so far.
StreamEnd stream_records(ContentReader& reader, RecordParser& parser, bool on_other_thread,
                         const std::function<void(RecordBatch&)>& write,
                         const std::function<void(int64_t)>& on_bytes);

/// Calls on_line(line, line_no) for each line of the reader; lines are without newline, and
/// readable_bytes tells how far the buffer reaches from line.data(), RecordParser::kPaddingBytes
/// beyond the line at least. `terminated` is false for a last line without newline. Returns what
/// StreamEnd says.
StreamEnd for_each_line(
    ContentReader& reader,
    const std::function<void(std::string_view line, size_t readable_bytes, int64_t line_no,
                             bool terminated, int64_t bytes_read)>& on_line,
    const std::function<void(std::string_view head, int64_t line_no)>& on_overlong);

}  // namespace greta
