// Any bytes are a trace file: each line that is not blank gives rows or is kept, whatever it holds,
// and what the rows refer to is there.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "ingest/record/parser.h"
#include "ingest/record/stream.h"

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

class MemoryReader : public greta::ContentReader {
 public:
  MemoryReader(std::string_view bytes, size_t step) : bytes_(bytes), step_(step) {}
  size_t read(char* buffer, size_t size) override {
    const size_t n = std::min({size, step_, bytes_.size()});
    std::copy_n(bytes_.data(), n, buffer);
    bytes_.remove_prefix(n);
    return n;
  }

 private:
  std::string_view bytes_;
  size_t step_;
};

/// Symbols that the batches so far have defined.
struct Defined {
  size_t prompts = 0, phases = 0, names = 0, contexts = 0;
};

bool is_symbol(int64_t id, size_t defined) { return id >= 0 && static_cast<size_t>(id) < defined; }
bool is_number(const std::optional<double>& value) { return !value || !std::isnan(*value); }

void check_row(const greta::TraceRow& row, const Defined& defined, int64_t line) {
  require(row.line == line, "a row knows its line");
  require(is_symbol(row.prompt_id, defined.prompts) && is_symbol(row.phase_id, defined.phases) &&
              is_symbol(row.name_id, defined.names),
          "symbols of a row are defined");
  require(!row.context_id || is_symbol(*row.context_id, defined.contexts),
          "the context of a row is defined");
  require(row.layer >= -1 && row.layer <= greta::kMaxLayer, "layer in range");
  require(row.pos_id >= -1 && row.pos_id <= greta::kMaxPosition, "position in range");
  require(row.step >= -1 && row.step <= INT32_MAX, "step in range");
  require(is_number(row.min) && is_number(row.max) && is_number(row.mean) && is_number(row.abs_sum),
          "no statistic is NaN");
  require(row.sample.size() <= (size_t{1} << 21), "a sample fits");
  require(row.sample.empty() || row.sketch, "a sample has its sketch");
  if (!row.sketch) return;
  const int64_t sampled = static_cast<int64_t>(row.sample.size());
  require(row.sketch->derived ? row.sketch->n == sampled : row.sketch->n >= 0,
          "a sketch knows its length");
  require(std::isfinite(row.sketch->sum_sq) &&
              std::all_of(row.sketch->bucket.begin(), row.sketch->bucket.end(),
                          [](double x) { return std::isfinite(x); }),
          "a sketch is finite");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  greta::RecordSource source;  // the size chooses, so that a seed is a plain file
  if (size % 3 == 1) source = {"decode", "p0", {}};
  if (size % 3 == 2) source = {"", "", {"p4_sys"}};
  greta::RecordParser parser(source);
  MemoryReader reader(bytes, size % 4 == 0 ? 7 : SIZE_MAX);
  greta::RecordBatch batch;
  Defined defined;
  int64_t lines = 0, bad_lines = 0;
  const greta::StreamEnd end = greta::for_each_line(
      reader,
      [&](std::string_view line, size_t readable, int64_t line_no, bool, int64_t) {
        require(line_no == ++lines, "lines are counted");
        batch.clear();
        parser.parse(line, readable, line_no, batch);
        const bool is_blank = std::all_of(
            line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) <= ' '; });
        require(batch.lines == 1, "one line");
        const bool gave_nothing = batch.rows.empty() && batch.readouts.empty() &&
                                  batch.differences.empty() && batch.events.empty();
        const bool is_nothing = gave_nothing && batch.findings.empty();
        bad_lines += !is_nothing && gave_nothing;
        require(is_blank == is_nothing || bad_lines == greta::RecordParser::kMaxKeptLines,
                "a line gives rows, a readout, a difference, an event or a finding");
        for (const greta::RunEvent& event : batch.events) {
          for (const auto& row : event.plan)
            require(row.layer >= -1 && row.layer <= greta::kMaxLayer, "planned layer");
          require(!event.token_ids || nlohmann::json::accept(*event.token_ids),
                  "token ids are JSON");
        }
        defined.prompts += batch.prompts.size();
        defined.phases += batch.phases.size();
        defined.names += batch.names.size();
        defined.contexts += batch.contexts.size();
        for (const greta::TraceRow& row : batch.rows) check_row(row, defined, line_no);
        for (const greta::RowContext& context : batch.contexts) {
          require(!context.extra || nlohmann::json::accept(*context.extra), "extra is JSON");
        }
        for (const greta::Readout& readout : batch.readouts) {
          require(is_symbol(readout.prompt_id, defined.prompts) &&
                      is_symbol(readout.phase_id, defined.phases) &&
                      is_symbol(readout.name_id, defined.names),
                  "symbols of a readout are defined");
          require(is_number(readout.top1_logit) && is_number(readout.top2_logit) &&
                      is_number(readout.gap),
                  "no logit is NaN");
        }
        for (const greta::LineDifference& difference : batch.differences) {
          require(is_symbol(difference.row.prompt_id, defined.prompts) &&
                      is_symbol(difference.row.tensor_id, defined.names) &&
                      greta::fault_of(difference.row).empty(),
                  "a difference can be, and its symbols are defined");
        }
        for (const greta::LineFinding& finding : batch.findings) {
          require(finding.line == line_no && !finding.reason.empty(),
                  "a finding names its line and reason");
          require(!finding.raw.empty() && line.find(finding.raw) != std::string_view::npos,
                  "a finding keeps the line");
        }
      },
      [](std::string_view, int64_t) {});
  require(end.bytes == static_cast<int64_t>(size) && end.lines == lines,
          "every byte and line is read");
  return 0;
}
