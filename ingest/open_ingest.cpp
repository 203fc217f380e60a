#include "ingest/open_ingest.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

#include "common/hex.h"
#include "common/utc_time.h"
#include "common/utf8.h"
#include "db/judge.h"
#include "db/statements.h"
#include "db/transaction.h"

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

}  // namespace greta
