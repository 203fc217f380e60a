#include "db/fleet/server.h"

#include <algorithm>

#include "db/clickhouse/quote.h"
#include "db/fleet/fleet_table.h"
#include "db/schema.h"

namespace greta {
namespace {

using clickhouse::quote_name;
using clickhouse::quote_text;
using clickhouse::RowReader;

constexpr int kInconsistentCluster = 371;

/// All tables of a warehouse, `published` first.
std::vector<std::string> table_names() {
  std::vector<std::string> names{"published"};
  for (const FleetTable& table : fleet_tables()) names.push_back(table.name);
  return names;
}

/// A text with each {KEY} replaced by its value.
std::string filled_in(std::string text,
                      std::initializer_list<std::pair<std::string, std::string>> values) {
  for (const auto& [key, value] : values) {
    const std::string mark = "{" + key + "}";
    for (size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += value.size())
      text.replace(at, mark.size(), value);
  }
  return text;
}

std::vector<std::string> split_statements(const std::string& text) {
  std::vector<std::string> all;
  for (size_t at = 0, end; (end = text.find(";\n", at)) != std::string::npos; at = end + 2)
    all.push_back(text.substr(at, end - at));
  return all;
}

}  // namespace

std::string FleetServer::table(const std::string& name) const {
  return quote_name(client_.address().database) + "." + quote_name(name);
}

/// Names of the tables that are there. Throws where they are not greta's, or of another version.
std::vector<std::string> FleetServer::find() {
  std::vector<std::string> tables;
  client_.select("SELECT name FROM system.tables WHERE database = " +
                     quote_text(client_.address().database) + " ORDER BY name",
                 [&](RowReader& row) { tables.emplace_back(row.text()); });
  if (tables.empty()) return tables;
  if (!std::binary_search(tables.begin(), tables.end(), "greta")) {
    throw clickhouse::Error(where() + " is a database of another purpose (it has a table " +
                            tables.front() +
                            "): name one of greta's, or one that is not there yet");
  }
  uint64_t version = 0;
  client_.select("SELECT version, cluster FROM " + table("greta"), [&](RowReader& row) {
    version = row.u64();
    cluster_ = row.text();
  });
  if (version == kFleetVersion) return tables;
  throw clickhouse::Error(where() + " has tables of version " + std::to_string(version) +
                          ", this program knows " + std::to_string(kFleetVersion) + ": " +
                          (version > kFleetVersion
                               ? "use a newer greta-db"
                               : "push into a new database from the files, then drop the old one"));
}

void FleetServer::open() {
  if (!find().empty()) return;
  throw clickhouse::Error("no warehouse at " + where() +
                          ": create it with `greta-db --db FILE push --to " + where() + "`");
}

void FleetServer::create(const std::string& cluster) {
  const std::vector<std::string> there = find(), wanted = table_names();
  if (there.empty()) {
    cluster_ = cluster;
  } else if (!cluster.empty() && cluster != cluster_) {
    throw clickhouse::Error(
        where() + (cluster_.empty() ? " lies on one server" : " lies on cluster " + cluster_) +
        ", not on cluster " + cluster);
  }
  const bool is_complete = std::all_of(wanted.begin(), wanted.end(), [&](const auto& name) {
    return std::binary_search(there.begin(), there.end(), name);
  });
  if (is_complete && cluster.empty()) return;
  for (const std::string& statement : statements(cluster_)) {
    clickhouse::until_available(client_.retries(), [&] { client_.execute(statement); });
  }
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
  const auto engine = [&](const std::string& name) {
    return is_replicated
               ? "ReplicatedMergeTree(" + quote_text("/greta/{shard}/" + database + "/" + name) +
                     ", '{replica}')"
               : std::string("MergeTree");
  };
  std::vector<std::string> all = split_statements(sql_of_file("db/sql/clickhouse_tables.sql"));
  for (std::string& statement : all) {
    statement = filled_in(statement, {{"on_cluster", on_cluster},
                                      {"version", std::to_string(kFleetVersion)},
                                      {"cluster", quote_text(cluster)},
                                      {"db", quote_name(database)},
                                      {"engine published", engine("published")}});
  }
  const std::string any_table = all.back();
  all.pop_back();
  all.insert(all.begin(),
             "CREATE DATABASE IF NOT EXISTS " + quote_name(database) + " " + on_cluster);
  for (const FleetTable& one : fleet_tables()) {
    all.push_back(filled_in(any_table, {{"table", quote_name(one.name)},
                                        {"columns", one.declaration},
                                        {"key", one.key},
                                        {"engine", engine(one.name)}}));
  }
  for (const std::string& name : table_names()) {
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
                         std::string_view rows) {
  client_.insert(table(cluster_.empty() ? name : "all_" + name), columns, rows);
}

void FleetServer::alter(const std::string& name, const std::string& what) {
  try {
    client_.execute("ALTER TABLE " + table(name) +
                    (cluster_.empty() ? " " : " ON CLUSTER " + quote_name(cluster_) + " ") + what);
  } catch (const clickhouse::Refused& refused) {
    // ClickHouse asks whether tables are what the cluster says they are
    if (refused.code != kInconsistentCluster) throw;
    throw clickhouse::Error(where() + ": cluster " + cluster_ +
                            " says internal_replication of shards whose tables are not replicated:"
                            " no table is changed there until its definition (remote_servers) does"
                            " not");
  }
}

}  // namespace greta
