// Any bytes are a report, a table, a log or a JSON document: what is read of them says a line that
// is there, and a claim of failure stays one whatever blanks are around it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "ingest/content_kind.h"
#include "ingest/document.h"
#include "ingest/json_facts.h"
#include "ingest/known_claim.h"
#include "ingest/log.h"
#include "ingest/report_pairs.h"
#include "ingest/table.h"
#include "ingest/text.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

/// What a table judges lies on its lines.
void check_table(const greta::Table& table, int64_t lines) {
  require(table.line >= 0 && table.line <= lines);
  for (const greta::TableRow& row : table.rows) {
    require(row.line > table.line && row.line <= lines && row.cells.size() <= greta::kMaxCells);
  }
  (void)greta::status_columns(table);
  const auto pairs = greta::report_pairs(table);
  if (!pairs) return;
  require(pairs->size() <= table.rows.size());
  for (const greta::ReportPair& pair : *pairs) require(pair.line > table.line);
}

void check_log(const std::vector<std::string_view>& lines) {
  greta::LogParser parser;
  std::vector<greta::LogEvent> events;
  int64_t line_no = 0;
  for (const std::string_view line : lines) {
    parser.add_line(line, ++line_no, events);
    const bool claims = greta::line_claims_failure(line);
    require(claims == greta::line_claims_failure(greta::text::trim(line)));
  }
  for (const greta::LogEvent& event : events) require(event.line > 0 && event.line <= line_no);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const char* name : {"a", "a.md", "a.txt", "a.json"}) (void)greta::classify(name, text);
  const std::vector<std::string_view> lines = greta::text::split_lines(text);
  const auto n_lines = static_cast<int64_t>(lines.size());
  const greta::Document document = greta::read_document(text);
  for (const greta::DocumentClaim& claim : document.claims) {
    require(claim.line > 0 && claim.line <= n_lines && !claim.kind.empty());
  }
  for (const greta::Table& table : document.tables) check_table(table, n_lines);
  for (const char delimiter : {',', '\t'}) {
    check_table(greta::read_delimited(text, delimiter), n_lines);
  }
  check_log(lines);
  const greta::JsonFacts facts = greta::read_json_facts(text, "summary");
  require(facts.error.empty() || facts.claims.empty());
  return 0;
}
