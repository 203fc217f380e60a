#include "ingest/session.h"

namespace greta {

void IngestSession::add_finding(const std::string& file, int64_t line, bool is_error,
                                const std::string& reason, std::string_view raw,
                                std::optional<int64_t> source_id) {
  if (!sources.add_finding(source_id, file, line, is_error, reason, raw)) return;
  ++(is_error ? summary.errors : summary.warnings);
  if (summary.findings.size() < IngestSummary::kMaxFindings) {
    summary.findings.push_back({file, line, is_error, reason});
  }
}

void IngestSession::show_progress(const std::string& current) {
  throw_if_stopped();
  progress.current = current;
  progress.rows = summary.rows;
  if (options.progress) options.progress(progress);
}

}  // namespace greta
