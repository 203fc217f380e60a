#include "ingest/open_ingest.h"

#include <nlohmann/json.hpp>

#include "common/utc_time.h"
#include "db/statements.h"
#include "db/transaction.h"

namespace greta {

std::vector<std::filesystem::path> absolute_paths(std::vector<std::filesystem::path> paths) {
  for (std::filesystem::path& path : paths) path = std::filesystem::absolute(path);
  return paths;
}

int64_t open_ingest(SQLite::Database& db, const std::vector<std::filesystem::path>& paths,
                    const std::string& run) {
  nlohmann::json absolute = nlohmann::json::array();
  for (const std::filesystem::path& path : absolute_paths(paths)) absolute.push_back(path.string());
  const std::string text = absolute.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const Process process = this_process();
  return in_transaction(db, [&] {
    Statements sql(db);
    sql("INSERT INTO ingest(started_at, host, pid, process, run, paths)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        utc_now(), process.host, process.pid, process.start, run, text)
        .exec();
    return db.getLastInsertRowid();
  });
}

void close_ingest(SQLite::Database& db, int64_t id) {
  Statements sql(db);
  sql("DELETE FROM ingest_run WHERE ingest_id = ?", id).exec();
  sql("DELETE FROM ingest WHERE id = ?", id).exec();
}

std::vector<OpenIngest> interrupted_ingests(SQLite::Database& db) {
  std::vector<OpenIngest> all;
  SQLite::Statement rows(
      db, "SELECT id, run, paths, started_at, host, pid, process FROM ingest ORDER BY id");
  while (rows.executeStep()) {
    OpenIngest one{.id = rows.getColumn(0).getInt64(),
                   .run = rows.getColumn(1).getString(),
                   .paths = {},
                   .started_at = rows.getColumn(3).getString(),
                   .process = {rows.getColumn(4).getString(), rows.getColumn(5).getInt64(),
                               rows.getColumn(6).getString()}};
    if (may_be_running(one.process) && one.process != this_process()) continue;
    const auto paths = nlohmann::json::parse(rows.getColumn(2).getString(), nullptr, false);
    for (const auto& path : paths) {
      if (path.is_string()) one.paths.emplace_back(path.get<std::string>());
    }
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace greta
