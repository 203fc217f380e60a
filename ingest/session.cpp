#include "ingest/session.h"

#include "db/judge.h"
#include "ingest/run_identity.h"

namespace greta {

void IngestSession::add_finding(const std::string& file, int64_t line, bool is_error,
                                const std::string& reason, std::string_view raw,
                                std::optional<int64_t> source_id) {
  const std::string about = source_id ? "" : run_named_by(file);
  const bool is_new = sources.add_finding(source_id, file, line, is_error, reason, raw, about);
  if (is_new && is_error && !about.empty()) forget_verdicts_about(db, about);
  count_finding({file, line, is_error, reason}, is_new, source_id.has_value());
}

void IngestSession::add_finding_about(const std::string& run, const std::string& file,
                                      const std::string& reason) {
  const bool is_new = sources.add_finding({}, file, 0, true, reason, "", run);
  if (is_new) forget_verdicts_about(db, run);
  count_finding({file, 0, true, reason}, is_new, false);
}

void IngestSession::count_finding(const Finding& finding, bool is_new, bool is_of_source) {
  const auto& [file, line, is_error, reason] = finding;
  if (!is_new) {
    if (is_of_source) return;  // take_known counts those of a source
    summary.known_errors += is_error && known_findings.take(file, line, reason);
    summary.known_warnings += !is_error && known_findings.take(file, line, reason);
    return;
  }
  ++(is_error ? summary.errors : summary.warnings);
  if (summary.findings.size() < IngestSummary::kMaxFindings) summary.findings.push_back(finding);
}

std::string IngestSession::run_named_by(std::string path) const {
  if (!options.run.empty()) return identify_run(options.run + "/x").run_name();
  if (const size_t member = path.find('!'); member != std::string::npos) {
    path = path.substr(0, path.rfind('/', member) + 1) + path.substr(member + 1);
  }
  const RunIdentity identity = identify_run(path);
  return identity.experiment.empty() ? "" : identity.run_name();
}

void IngestSession::count_known_findings(int64_t source_id) {
  const SourceStore::FindingCounts counts = known_findings.take(source_id);
  summary.known_errors += counts.errors;
  summary.known_warnings += counts.warnings;
  for (const auto& [run, reason] : sources.doubts_about_run(source_id)) {
    summary.known_errors += known_findings.take(run, 0, reason);
  }
}

void IngestSession::show_progress(const std::string& current) {
  throw_if_stopped();
  progress.current = current;
  progress.rows = summary.rows;
  if (options.progress) options.progress(progress);
}

void IngestSession::settle() {
  in_transaction([this] {
    for (const std::string& experiment : runs.take_unsettled()) runs.settle(experiment);
  });
}

void IngestSession::judge() {
  show_progress("");
  if (!options.dry_run) greta::judge(db, unjudged_runs(db));
}

}  // namespace greta
