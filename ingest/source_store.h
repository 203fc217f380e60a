#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "db/run_records.h"
#include "db/statements.h"

namespace greta {

/// Contents that were ingested, where they were found, and what was not taken as it stands. All
/// calls happen inside the caller's transaction. Throws SQLite::Exception.
class SourceStore {
 public:
  explicit SourceStore(SQLite::Database& db) : sql_(db), records_(db) {}

  struct SourceKey {
    int64_t run_id;
    std::string leg, prompt, sha256;
  };
  std::optional<int64_t> find_source(const SourceKey& key);
  /// A source of any run with this content, for files whose path says nothing.
  std::optional<int64_t> find_content(const std::string& sha256);
  /// A source that was once read from a file of these stored bytes, under this run, leg and prompt.
  std::optional<int64_t> find_stored(const SourceKey& key_without_sha,
                                     const std::string& raw_sha256, int64_t raw_bytes);
  bool any_stored_with_size(int64_t raw_bytes);
  /// True if a content of so many stored bytes was found at this path; it may be another one now.
  bool any_stored_at(const std::string& path, int64_t raw_bytes);
  int64_t add_source(const SourceKey& key, const std::string& shape, int64_t bytes);
  void finish_source(int64_t source_id, const std::string& sha256, const std::string& shape,
                     int64_t bytes, int64_t lines, int64_t rows, int64_t duplicates,
                     int64_t conflicts);
  /// False when the path is known, and so is what was read there.
  bool add_location(int64_t source_id, const std::string& path, const std::string& raw_sha256,
                    int64_t raw_bytes);
  int64_t run_of(int64_t source_id);
  /// The first path that the source was found under, "" without one.
  std::string path_of(int64_t source_id);
  /// What was noted in a transaction that was undone.
  void forget() { located_ = {}; }
  /// True if a source was found at this path (RunIdentity::relative_path) under some root.
  bool has_location(int64_t source_id, const std::string& relative_path);
  /// False when the same finding is there already. `about` names the run that a file without a
  /// source would have belonged to, as far as its path says.
  bool add_finding(std::optional<int64_t> source_id, const std::string& file, int64_t line,
                   bool is_error, const std::string& reason, std::string_view raw,
                   const std::string& about);

  struct FindingCounts {
    int64_t errors = 0, warnings = 0;
  };
  /// True if a finding of no source keeps a file of that name and bytes as one of a run.
  bool is_noted(const std::string& run, const std::string& reason, std::string_view name,
                std::string_view raw);
  /// Id of the newest finding, 0 when there is none.
  int64_t last_finding();
  /// Findings up to that id by source; sources without one are left out.
  std::map<int64_t, FindingCounts> count_findings(int64_t last_id);
  /// Id of a finding of no source.
  std::optional<int64_t> find_finding(const std::string& file, int64_t line,
                                      const std::string& reason);
  /// What is wrong with the run of a source as a whole, and with no file of it: the run's name, the
  /// reason.
  std::vector<std::pair<std::string, std::string>> doubts_about_run(int64_t source_id);

 private:
  Statements sql_;
  RunRecords records_;
  /// Of the source last asked about: it may have as many as an archive has empty files.
  struct {
    int64_t source_id = 0;
    std::unordered_set<std::string> relative_paths;
  } located_;
};

/// Findings of earlier ingests, each of which can be taken once.
class KnownFindings {
 public:
  /// Those that are there now.
  explicit KnownFindings(SourceStore& store) : store_(store), last_id_(store.last_finding()) {}

  /// All of a source.
  SourceStore::FindingCounts take(int64_t source_id);
  /// True if there was one such of no source, and it is taken now.
  bool take(const std::string& file, int64_t line, const std::string& reason);

 private:
  SourceStore& store_;
  int64_t last_id_;
  std::optional<std::map<int64_t, SourceStore::FindingCounts>> of_sources_;  // read when asked for
  std::set<int64_t> taken_;
};

}  // namespace greta
