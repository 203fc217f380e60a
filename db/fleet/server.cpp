#include "db/fleet/server.h"

#include <algorithm>
#include <stdexcept>

#include "db/clickhouse/quote.h"
#include "db/fleet/sql_files.h"

namespace greta {
namespace {

using clickhouse::quote_name;
using clickhouse::quote_text;
using clickhouse::RowReader;

constexpr const char* kTables[] = {"published", "trace_row", "difference", "record"};
/// UNKNOWN_TABLE, UNKNOWN_DATABASE, UNKNOWN_IDENTIFIER, NO_SUCH_COLUMN_IN_TABLE.
constexpr int kNotThere[] = {60, 81, 47, 16};
constexpr int kInconsistentCluster = 371;

std::string_view text_of(std::string_view name) {
  const std::string path = "queries/clickhouse/" + std::string(name) + ".sql";
  for (const SqlFile& file : clickhouse_sql_files()) {
    if (file.path == path) return file.text;
  }
  throw std::logic_error("no " + path);
}

/// Those of a file, without comments.
std::vector<std::string> split_statements(const std::string& text) {
  std::vector<std::string> all;
  std::string one;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    at = end + 1;
    if (const size_t comment = line.find("--"); comment != std::string::npos) line.resize(comment);
    while (!line.empty() && line.back() == ' ') line.pop_back();
    if (line.empty()) continue;
    const bool ends = line.back() == ';';
    if (ends) line.pop_back();
    one += line + "\n";
    if (ends) all.push_back(std::exchange(one, ""));
  }
  return all;
}

}  // namespace

std::string FleetServer::table(const std::string& name) const {
  return quote_name(client_.address().database) + "." + quote_name(name);
}

std::string FleetServer::query(
    std::string_view name,
    std::initializer_list<std::pair<std::string_view, std::string_view>> values) const {
  std::string sql(text_of(name));
  const std::string database = quote_name(client_.address().database);
  const auto replace = [&sql](const std::string& what, std::string_view by) {
    for (size_t at = 0; (at = sql.find(what, at)) != std::string::npos; at += by.size())
      sql.replace(at, what.size(), by);
  };
  for (const auto& [key, value] : values) replace("{" + std::string(key) + "}", value);
  replace("{db}", database);
  return sql;
}

/// What the view `greta` says; false where there is none.
bool FleetServer::is_greta() {
  std::string purpose;
  uint64_t version = 0;
  try {
    client_.select("SELECT purpose, version, cluster FROM " + table("greta"), [&](RowReader& row) {
      purpose = row.text();
      version = row.u64();
      cluster_ = row.text();
    });
  } catch (const clickhouse::Refused& refused) {
    const auto known = std::find(std::begin(kNotThere), std::end(kNotThere), refused.code);
    if (known == std::end(kNotThere)) throw;
  }
  if (purpose != "greta") return false;
  if (version == kFleetVersion) {
    has_sums_ = tables_without_sums().empty();
    return true;
  }
  throw clickhouse::Error(where() + " has tables of version " + std::to_string(version) +
                          ", this program knows " + std::to_string(kFleetVersion) + ": " +
                          (version > kFleetVersion
                               ? "use a newer greta-db"
                               : "push into a new database from the files, then drop the old one"));
}

/// False when there is no database, or an empty one.
bool FleetServer::find() {
  const std::string database = quote_text(client_.address().database);
  std::vector<std::string> tables;
  client_.select("SELECT name FROM system.tables WHERE database = " + database + " ORDER BY name",
                 [&](RowReader& row) { tables.emplace_back(row.text()); });
  if (tables.empty()) return false;
  is_complete_ = std::all_of(std::begin(kTables), std::end(kTables), [&](const char* name) {
    return std::binary_search(tables.begin(), tables.end(), name);
  });
  if (is_greta()) return true;
  throw clickhouse::Error(where() + " is a database of another purpose (it has a table " +
                          tables.front() + "): name one of greta's, or one that is not there yet");
}

void FleetServer::open() {
  if (is_greta()) return;
  if (!find()) {
    throw clickhouse::Error("no warehouse at " + where() +
                            ": create it with `greta-db --db FILE push --to " + where() + "`");
  }
}

void FleetServer::create(const std::string& cluster) {
  const bool is_there = find();
  if (is_there && !cluster.empty() && cluster != cluster_) {
    throw clickhouse::Error(
        where() + (cluster_.empty() ? " lies on one server" : " lies on cluster " + cluster_) +
        ", not on cluster " + cluster);
  }
  if (!is_there) cluster_ = cluster;
  if (!is_there || !is_complete_ || !cluster.empty())
    for (const std::string& statement : statements(cluster_)) client_.ensure(statement);
  add_sums();
}

/// Of those that want them.
std::vector<std::string> FleetServer::tables_without_sums() {
  std::vector<std::string> lacking{"published"};
  if (!cluster_.empty()) lacking.emplace_back("all_published");
  client_.select("SELECT table FROM system.columns WHERE name = 'records_sum' AND database = " +
                     quote_text(client_.address().database),
                 [&](RowReader& row) { std::erase(lacking, row.text()); });
  return lacking;
}

/// To the tables of an earlier greta-db, whose pushes have 0 there.
void FleetServer::add_sums() {
  const std::string on_cluster = cluster_.empty() ? "" : " ON CLUSTER " + quote_name(cluster_);
  for (const std::string& name : tables_without_sums()) {
    const std::string add = "ALTER TABLE " + table(name) + on_cluster +
                            " ADD COLUMN rows_sum UInt64, ADD COLUMN differences_sum UInt64,"
                            " ADD COLUMN records_sum UInt64";
    try {
      change([&] { client_.ensure(add); });
    } catch (const clickhouse::Refused&) {
      // another push may have been first
      const std::vector<std::string> lacking = tables_without_sums();
      if (std::find(lacking.begin(), lacking.end(), name) != lacking.end()) throw;
    }
  }
  has_sums_ = true;
}

std::vector<std::string> FleetServer::statements(const std::string& cluster) {
  const std::string& database = client_.address().database;
  bool is_replicated = false;
  if (!cluster.empty()) {
    uint64_t hosts = 0, shards = 0;
    client_.select(
        "SELECT toUInt64(count()), toUInt64(uniqExact(shard_num)) FROM system.clusters WHERE"
        " cluster = " +
            quote_text(cluster),
        [&](RowReader& row) {
          hosts = row.u64();
          shards = row.u64();
        });
    if (shards == 0)
      throw clickhouse::Error(where() + " knows no cluster " + cluster + " (system.clusters)");
    is_replicated = hosts > shards;
  }
  const std::string on_cluster = cluster.empty() ? "" : "ON CLUSTER " + quote_name(cluster);
  std::string sql = query("tables", {{"on_cluster", on_cluster},
                                     {"version", std::to_string(kFleetVersion)},
                                     {"cluster", quote_text(cluster)}});
  for (const std::string name : kTables) {
    const std::string mark = "{engine " + name + "}";
    const std::string engine =
        is_replicated ? "ReplicatedMergeTree(" +
                            quote_text("/greta/{shard}/" + database + "/" + name) + ", '{replica}')"
                      : "MergeTree";
    sql.replace(sql.find(mark), mark.size(), engine);
  }
  std::vector<std::string> all = split_statements(sql);
  all.insert(all.begin(),
             "CREATE DATABASE IF NOT EXISTS " + quote_name(database) + " " + on_cluster);
  for (const std::string name : kTables) {
    if (cluster.empty()) break;
    all.push_back("CREATE TABLE IF NOT EXISTS " + table("all_" + name) + " " + on_cluster + " AS " +
                  table(name) + " ENGINE = Distributed(" + quote_name(cluster) + ", " +
                  quote_name(database) + ", " + quote_name(name) + ", shard)");
  }
  return all;
}

void FleetServer::select(const std::string& sql, const std::string& columns,
                         const std::function<void(RowReader&)>& row,
                         const std::vector<clickhouse::ExternalTable>& tables) {
  if (cluster_.empty()) return client_.select(sql, row, tables);
  // Each shard works the right side of the join out for itself, of its own tables.
  client_.select("SELECT " + columns + " FROM cluster(" + quote_text(cluster_) +
                     ", system, one) ALL INNER JOIN (SELECT toUInt8(0) AS dummy, " + columns +
                     " FROM (" + sql + ")) USING dummy",
                 row, tables);
}

void FleetServer::insert(const std::string& name, const std::string& columns,
                         const std::function<std::string_view()>& next) {
  client_.insert(table(cluster_.empty() ? name : "all_" + name), columns, next);
}

void FleetServer::alter(const std::string& name, const std::string& what) {
  change([&] {
    client_.execute("ALTER TABLE " + table(name) +
                    (cluster_.empty() ? " " : " ON CLUSTER " + quote_name(cluster_) + " ") + what);
  });
}

/// An ALTER, on which ClickHouse asks whether tables are what the cluster says they are.
void FleetServer::change(const std::function<void()>& alter) {
  try {
    alter();
  } catch (const clickhouse::Refused& refused) {
    if (refused.code != kInconsistentCluster) throw;
    throw clickhouse::Error(where() + ": cluster " + cluster_ +
                            " says internal_replication of shards whose tables are not replicated:"
                            " no table is changed there until its definition (remote_servers) does"
                            " not");
  }
}

}  // namespace greta
