#include "ingest/session.h"

namespace greta {

void IngestSession::add_finding(const std::string& file, int64_t line, bool is_error,
                                const std::string& reason, std::string_view raw,
                                std::optional<int64_t> source_id) {
  if (!sources.add_finding(source_id, file, line, is_error, reason, raw)) {
    if (source_id) return;  // take_known counts those of a source
    summary.known_errors += is_error && known_findings.take(file, line, reason);
    summary.known_warnings += !is_error && known_findings.take(file, line, reason);
    return;
  }
  ++(is_error ? summary.errors : summary.warnings);
  if (summary.findings.size() < IngestSummary::kMaxFindings) {
    summary.findings.push_back({file, line, is_error, reason});
  }
}

void IngestSession::count_known_findings(int64_t source_id) {
  const SourceStore::FindingCounts counts = known_findings.take(source_id);
  summary.known_errors += counts.errors;
  summary.known_warnings += counts.warnings;
}

void IngestSession::show_progress(const std::string& current) {
  progress.current = current;
  progress.rows = summary.rows;
  if (options.progress) options.progress(progress);
}

}  // namespace greta
