#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "db/clickhouse/client.h"

// A warehouse in ClickHouse: one server, or the shards of a cluster.

namespace greta {

/// Version of the tables in db/sql/clickhouse_tables.sql, and of the tolerances that greta ships,
/// by which every verdict of a warehouse is.
inline constexpr int kFleetVersion = 3;

/// A warehouse in ClickHouse: one server, or the shards of a cluster, whose name the tables know.
/// Members throw as clickhouse::Client's do.
class FleetServer {
 public:
  explicit FleetServer(clickhouse::Address address, clickhouse::ClientOptions options)
      : client_(std::move(address), std::move(options)) {}

  /// For questions. Throws clickhouse::Error where there are no tables, or those of others or of
  /// another version.
  void open();
  /// For pushes: makes what is missing, on all servers of the cluster; "" is one server, or what is
  /// there already.
  void create(const std::string& cluster);

  /// Runs a SELECT of tables of this warehouse on every shard by itself; only its rows travel.
  /// `columns` are its columns, as it has them, separated by ", ".
  void select(const std::string& sql, const std::string& columns,
              const std::function<void(clickhouse::RowReader&)>& row,
              const std::vector<clickhouse::ExternalTable>& tables = {});

  /// Sends rows to the shards that their column `shard` says, once.
  void insert(const std::string& table, const std::string& columns, std::string_view rows);

  /// Runs an ALTER of a table on every replica of every shard: "DELETE WHERE ...".
  void alter(const std::string& table, const std::string& what);

  std::string where() const { return client_.address().text(); }
  clickhouse::Client& client() { return client_; }
  /// `database`.name
  std::string table(const std::string& name) const;

 private:
  std::vector<std::string> find();
  std::vector<std::string> statements(const std::string& cluster);

  clickhouse::Client client_;
  std::string cluster_;
};

}  // namespace greta
