#include "db/run_process.h"

#include <charconv>
#include <string>

namespace greta {
namespace {

/// Of `meta`.
std::string key_of(int64_t run_id) { return "writer/" + std::to_string(run_id); }

}  // namespace

void note_run_process(SQLite::Database& db, int64_t run_id) {
  const Process process = this_process();
  SQLite::Statement insert(db, "INSERT OR REPLACE INTO meta(key, value) VALUES (?, ?)");
  insert.bind(1, key_of(run_id));
  insert.bind(2, process.host + "\t" + std::to_string(process.pid) + "\t" + process.start);
  insert.exec();
}

void forget_run_process(SQLite::Database& db, int64_t run_id) {
  SQLite::Statement remove(db,
                           "DELETE FROM meta WHERE key = ?1 AND NOT EXISTS"
                           " (SELECT 1 FROM run WHERE id = ?2 AND status = 'running')");
  remove.bind(1, key_of(run_id));
  remove.bind(2, run_id);
  remove.exec();
}

std::optional<Process> process_of_run(SQLite::Database& db, int64_t run_id) {
  SQLite::Statement query(db, "SELECT value FROM meta WHERE key = ?");
  query.bind(1, key_of(run_id));
  if (!query.executeStep()) return std::nullopt;
  const std::string text = query.getColumn(0).getString();
  const size_t pid = text.find('\t'), start = text.find('\t', pid + 1);
  if (pid == std::string::npos || start == std::string::npos) return std::nullopt;
  Process process{text.substr(0, pid), 0, text.substr(start + 1)};
  const auto [end, error] =
      std::from_chars(text.data() + pid + 1, text.data() + start, process.pid);
  if (error != std::errc() || end != text.data() + start || process.pid < 1) return std::nullopt;
  return process;
}

}  // namespace greta
