#include "db/fleet/server.h"

#include <algorithm>
#include <stdexcept>

#include "db/clickhouse/quote.h"
#include "db/fleet/fleet_table.h"
#include "db/fleet/sql_files.h"

namespace greta {
namespace {

using clickhouse::quote_name;
using clickhouse::quote_text;
using clickhouse::RowReader;

/// UNKNOWN_TABLE, UNKNOWN_DATABASE, UNKNOWN_IDENTIFIER, NO_SUCH_COLUMN_IN_TABLE.
constexpr int kNotThere[] = {60, 81, 47, 16};
constexpr int kInconsistentCluster = 371;

/// All tables of a warehouse, `published` first.
std::vector<std::string> table_names() {
  std::vector<std::string> names{"published"};
  for (const FleetTable& table : fleet_tables()) names.push_back(table.name);
  return names;
}

using Values = std::initializer_list<std::pair<std::string, std::string>>;

/// A text with each {KEY} replaced by its value.
std::string filled_in(std::string text, const Values& values) {
  for (const auto& [key, value] : values) {
    const std::string mark = "{" + key + "}";
    for (size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += value.size())
      text.replace(at, mark.size(), value);
  }
  return text;
}

/// Statements of a file, without comments.
std::vector<std::string> split_statements(std::string_view text) {
  std::vector<std::string> all;
  std::string one;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line(text.substr(at, end - at));
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
  if (version == kFleetVersion) return true;
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
  const std::vector<std::string> wanted = table_names();
  is_complete_ = std::all_of(wanted.begin(), wanted.end(), [&](const std::string& name) {
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
  std::vector<std::string> all = split_statements(clickhouse_sql_files()[0].text);
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
                         const std::function<std::string_view()>& next) {
  client_.insert(table(cluster_.empty() ? name : "all_" + name), columns, next);
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
