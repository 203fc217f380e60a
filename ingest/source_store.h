#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace greta {

/// Contents that were ingested, where they were found, and what was not taken as it stands. All
/// calls happen inside the caller's transaction. Throws SQLite::Exception.
class SourceStore {
 public:
  explicit SourceStore(SQLite::Database& db) : db_(db) {}

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
  /// Whether a content of so many stored bytes was found at this path; it may be another one now.
  bool any_stored_at(const std::string& path, int64_t raw_bytes);
  int64_t add_source(const SourceKey& key, const std::string& shape, int64_t bytes);
  void finish_source(int64_t source_id, const std::string& sha256, const std::string& shape,
                     int64_t bytes, int64_t lines, int64_t rows, int64_t duplicates,
                     int64_t conflicts);
  void add_location(int64_t source_id, const std::string& path, const std::string& raw_sha256,
                    int64_t raw_bytes);
  /// Whether a source was found at this path (RunIdentity::relative_path) under some root.
  bool has_location(int64_t source_id, const std::string& relative_path);
  /// False when the same finding is there already. `about` names the run that a file without a
  /// source would have belonged to, as far as its path says.
  bool add_finding(std::optional<int64_t> source_id, const std::string& file, int64_t line,
                   bool is_error, const std::string& reason, std::string_view raw,
                   const std::string& about);

 private:
  SQLite::Database& db_;
};

}  // namespace greta
