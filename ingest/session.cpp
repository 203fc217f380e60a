#include "ingest/session.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "common/hex.h"
#include "common/utc_time.h"
#include "common/utf8.h"
#include "db/judge.h"
#include "db/statements.h"
#include "ingest/run_identity.h"

namespace greta {
namespace {

/// An option among the paths, none of which is relative.
constexpr const char* kFollow = "--follow";

/// A path as text, or where it is none that JSON can hold, {"hex": its bytes}.
nlohmann::json json_of(const std::filesystem::path& path) {
  const std::string& bytes = path.native();
  if (utf8::is_valid(bytes)) return bytes;
  std::string hex;
  append_hex(hex, std::string_view(bytes));
  return {{"hex", hex}};
}

std::string bytes_of_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    unsigned char byte = 0;
    std::from_chars(hex.data() + i, hex.data() + i + 2, byte, 16);
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

std::string text_of(const IngestRequest& request) {
  nlohmann::json given = nlohmann::json::array();
  if (request.follow) given.push_back(kFollow);
  for (const std::filesystem::path& path : request.paths) given.push_back(json_of(path));
  return given.dump();
}

void read_paths(const std::string& text, IngestRequest& request) {
  for (const auto& given : nlohmann::json::parse(text, nullptr, false)) {
    if (given == kFollow) {
      request.follow = true;
    } else if (given.is_string()) {
      request.paths.emplace_back(given.get<std::string>());
    } else if (given.is_object() && given.contains("hex") && given["hex"].is_string()) {
      request.paths.emplace_back(bytes_of_hex(given["hex"].get<std::string>()));
    }
  }
}

}  // namespace

int64_t open_ingest(SQLite::Database& db, const IngestRequest& request) {
  const std::string text = text_of(request);
  const Process process = this_process();
  return in_transaction(db, [&] {
    Statements sql(db);
    sql("INSERT INTO ingest(started_at, host, pid, process, run, paths)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        utc_now(), process.host, process.pid, process.start, request.run, text)
        .exec();
    return db.getLastInsertRowid();
  });
}

void close_ingest(SQLite::Database& db, int64_t id) {
  Statements sql(db);
  SQLite::Statement& runs = sql("SELECT run_id FROM ingest_run WHERE ingest_id = ?", id);
  while (runs.executeStep()) forget_verdict(db, runs.getColumn(0).getInt64());
  sql("DELETE FROM ingest_run WHERE ingest_id = ?", id).exec();
  sql("DELETE FROM ingest WHERE id = ?", id).exec();
}

std::vector<std::string> runs_of_ingest(SQLite::Database& db, int64_t id) {
  std::vector<std::string> names;
  Statements sql(db);
  SQLite::Statement& runs =
      sql("SELECT r.name FROM ingest_run i JOIN run r ON r.id = i.run_id WHERE i.ingest_id = ?"
          " ORDER BY r.id",
          id);
  while (runs.executeStep()) names.push_back(runs.getColumn(0).getString());
  return names;
}

std::vector<OpenIngest> interrupted_ingests(SQLite::Database& db) {
  std::vector<OpenIngest> all;
  SQLite::Statement rows(
      db, "SELECT id, run, paths, started_at, host, pid, process FROM ingest ORDER BY id");
  while (rows.executeStep()) {
    OpenIngest one{.id = rows.getColumn(0).getInt64(),
                   .request = {.paths = {}, .run = rows.getColumn(1).getString()},
                   .started_at = rows.getColumn(3).getString(),
                   .process = {rows.getColumn(4).getString(), rows.getColumn(5).getInt64(),
                               rows.getColumn(6).getString()}};
    if (may_be_running(one.process) && one.process != this_process()) continue;
    read_paths(rows.getColumn(2).getString(), one.request);
    all.push_back(std::move(one));
  }
  return all;
}

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
