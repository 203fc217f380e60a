#include "ingest/source_store.h"

#include "ingest/run_identity.h"

namespace greta {
namespace {

/// Of a source_location.path.
std::string relative_path_of(std::string path) {
  if (size_t bang = path.find('!'); bang != std::string::npos) path[bang] = '/';
  return identify_run(path).relative_path;
}

}  // namespace

std::optional<int64_t> SourceStore::find_source(const SourceKey& key) {
  return sql_.find_id(
      "SELECT id FROM source WHERE run_id = ? AND leg = ? AND prompt = ? AND sha256 = ?",
      key.run_id, key.leg, key.prompt, key.sha256);
}

std::optional<int64_t> SourceStore::find_content(const std::string& sha256) {
  return sql_.find_id("SELECT id FROM source WHERE sha256 = ? ORDER BY id LIMIT 1", sha256);
}

std::optional<int64_t> SourceStore::find_stored(const SourceKey& key, const std::string& raw_sha256,
                                                int64_t raw_bytes) {
  return sql_.find_id(
      "SELECT s.id FROM source_location l JOIN source s ON s.id = l.source_id"
      " WHERE l.raw_bytes = ? AND l.raw_sha256 = ? AND s.run_id = ? AND s.leg = ? AND s.prompt = ?",
      raw_bytes, raw_sha256, key.run_id, key.leg, key.prompt);
}

bool SourceStore::any_stored_with_size(int64_t raw_bytes) {
  return sql_.find_id("SELECT 1 FROM source_location WHERE raw_bytes = ? LIMIT 1", raw_bytes)
      .has_value();
}

bool SourceStore::any_stored_at(const std::string& path, int64_t raw_bytes) {
  return sql_
      .find_id("SELECT 1 FROM source_location WHERE raw_bytes = ? AND path = ? LIMIT 1", raw_bytes,
               path)
      .has_value();
}

int64_t SourceStore::add_source(const SourceKey& key, const std::string& shape, int64_t bytes) {
  return records_.add_source({key.run_id, key.leg, key.prompt, key.sha256, shape, bytes});
}

void SourceStore::finish_source(int64_t source_id, const std::string& sha256,
                                const std::string& shape, int64_t bytes, int64_t lines,
                                int64_t rows, int64_t duplicates, int64_t conflicts) {
  sql_(
      "UPDATE source SET sha256 = ?, shape = ?, bytes = ?, lines = ?, rows = ?, duplicates = ?,"
      " conflicts = ? WHERE id = ?",
      sha256, shape, bytes, lines, rows, duplicates, conflicts, source_id)
      .exec();
}

bool SourceStore::add_location(int64_t source_id, const std::string& path,
                               const std::string& raw_sha256, int64_t raw_bytes) {
  SQLite::Statement& s = sql_(
      "INSERT INTO source_location VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
      " raw_sha256 = coalesce(excluded.raw_sha256, raw_sha256),"
      " raw_bytes = coalesce(excluded.raw_bytes, raw_bytes)"
      " WHERE excluded.raw_sha256 <> ifnull(raw_sha256, '')"
      " OR excluded.raw_bytes <> ifnull(raw_bytes, -1)");
  s.bind(1, source_id);
  s.bind(2, path);
  if (!raw_sha256.empty()) {
    s.bind(3, raw_sha256);
    s.bind(4, raw_bytes);
  }
  const bool is_new = s.exec() > 0;
  if (located_.source_id == source_id) located_.relative_paths.insert(relative_path_of(path));
  return is_new;
}

int64_t SourceStore::run_of(int64_t source_id) {
  return sql_.find_id("SELECT run_id FROM source WHERE id = ?", source_id).value_or(0);
}

std::string SourceStore::path_of(int64_t source_id) {
  SQLite::Statement& path =
      sql_("SELECT ifnull(min(path), '') FROM source_location WHERE source_id = ?", source_id);
  path.executeStep();
  std::string first = path.getColumn(0).getString();
  path.reset();
  return first;
}

bool SourceStore::has_location(int64_t source_id, const std::string& relative_path) {
  if (located_.source_id != source_id) {
    located_ = {source_id, {}};
    SQLite::Statement& paths =
        sql_("SELECT path FROM source_location WHERE source_id = ?", source_id);
    while (paths.executeStep()) {
      located_.relative_paths.insert(relative_path_of(paths.getColumn(0).getString()));
    }
  }
  return located_.relative_paths.contains(relative_path);
}

bool SourceStore::add_finding(std::optional<int64_t> source_id, const std::string& file,
                              int64_t line, bool is_error, const std::string& reason,
                              std::string_view raw, const std::string& about) {
  SQLite::Statement& s = sql_(
      "INSERT INTO ingest_error(source_id, file, line, severity, reason, raw, about)"
      " VALUES (?, ?, ?, ?, ?, ?, nullif(?, ''))"
      " ON CONFLICT (file, line, reason, ifnull(source_id, 0)) DO UPDATE SET raw = excluded.raw"
      " WHERE raw IS NOT excluded.raw");
  bind_value(s, 1, source_id);
  s.bind(2, file);
  s.bind(3, line);
  s.bind(4, is_error ? "error" : "warning");
  s.bind(5, reason);
  if (!raw.empty()) s.bind(6, raw.data(), static_cast<int>(raw.size()));
  s.bind(7, about);
  return s.exec() == 1;
}

bool SourceStore::is_noted(const std::string& run, const std::string& reason, std::string_view name,
                           std::string_view raw) {
  SQLite::Statement& s = sql_(
      "SELECT 1 FROM ingest_error WHERE severity = 'warning' AND about = ?1 AND reason = ?2"
      " AND substr(file, -1 - length(?3)) IN ('/' || ?3, '!' || ?3) AND raw IS ?4");
  s.bind(1, run);
  s.bind(2, reason);
  s.bind(3, std::string(name));
  if (!raw.empty()) s.bind(4, raw.data(), static_cast<int>(raw.size()));
  const bool is_there = s.executeStep();
  s.reset();
  return is_there;
}

int64_t SourceStore::last_finding() {
  return sql_.find_id("SELECT max(id) FROM ingest_error").value_or(0);
}

std::map<int64_t, SourceStore::FindingCounts> SourceStore::count_findings(int64_t last_id) {
  SQLite::Statement& query = sql_(
      "SELECT source_id, sum(severity = 'error'), sum(severity = 'warning') FROM ingest_error"
      " WHERE source_id IS NOT NULL AND id <= ? GROUP BY source_id",
      last_id);
  std::map<int64_t, FindingCounts> counts;
  while (query.executeStep()) {
    counts[query.getColumn(0).getInt64()] = {query.getColumn(1).getInt64(),
                                             query.getColumn(2).getInt64()};
  }
  return counts;
}

std::optional<int64_t> SourceStore::find_finding(const std::string& file, int64_t line,
                                                 const std::string& reason) {
  return sql_.find_id(
      "SELECT id FROM ingest_error WHERE file = ? AND line = ? AND reason = ?"
      " AND ifnull(source_id, 0) = 0",
      file, line, reason);
}

std::vector<std::pair<std::string, std::string>> SourceStore::doubts_about_run(int64_t source_id) {
  SQLite::Statement& doubts = sql_(
      "SELECT e.file, e.reason FROM source s JOIN run r ON r.id = s.run_id"
      " JOIN ingest_error e ON e.about = r.name AND e.file = r.name WHERE s.id = ?"
      " AND e.severity = 'error' AND e.source_id IS NULL",
      source_id);
  std::vector<std::pair<std::string, std::string>> all;
  while (doubts.executeStep()) {
    all.emplace_back(doubts.getColumn(0).getString(), doubts.getColumn(1).getString());
  }
  return all;
}

SourceStore::FindingCounts KnownFindings::take(int64_t source_id) {
  if (!of_sources_) of_sources_ = store_.count_findings(last_id_);
  const auto found = of_sources_->extract(source_id);
  return found ? found.mapped() : SourceStore::FindingCounts{};
}

bool KnownFindings::take(const std::string& file, int64_t line, const std::string& reason) {
  const std::optional<int64_t> id = store_.find_finding(file, line, reason);
  return id && *id <= last_id_ && taken_.insert(*id).second;
}

}  // namespace greta
