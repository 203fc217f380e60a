#pragma once
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "db/clickhouse/client.h"

namespace greta {

/// Version of the tables in queries/clickhouse/tables.sql. Columns that were added since the first
/// tables of a version (rows_sum, differences_sum, records_sum) come with the next push.
inline constexpr int kFleetVersion = 1;

/// A warehouse in ClickHouse: one server, or the shards of a cluster, whose name the tables know.
/// Members throw as clickhouse::Client's do.
class FleetServer {
 public:
  explicit FleetServer(clickhouse::Address address, clickhouse::ClientOptions options)
      : client_(std::move(address), std::move(options)) {}

  /// For questions: throws clickhouse::Error where there are no tables, or those of others or of
  /// another version.
  void open();
  /// For pushes: makes what is missing, on all servers where a cluster is named; `cluster` "" is
  /// one server, or what is there already.
  void create(const std::string& cluster);

  /// The text of queries/clickhouse/NAME.sql with the database, and what is given, filled in.
  std::string query(
      std::string_view name,
      std::initializer_list<std::pair<std::string_view, std::string_view>> values = {}) const;

  /// Runs a SELECT of tables of this warehouse on every shard by itself; only its rows travel.
  /// `columns` are its columns, as it has them, separated by ", ".
  void select(const std::string& sql, const std::string& columns,
              const std::function<void(clickhouse::RowReader&)>& row,
              const std::vector<clickhouse::ExternalTable>& tables = {});

  /// Sends rows to the shards that their column `shard` says.
  void insert(const std::string& table, const std::string& columns,
              const std::function<std::string_view()>& next);

  /// Runs an ALTER of a table on every replica of every shard: "DELETE WHERE ...".
  void alter(const std::string& table, const std::string& what);

  /// Whether `published` says what rows of pushes say: it does where this greta-db has pushed.
  bool has_sums() const { return has_sums_; }

  const std::string& cluster() const { return cluster_; }
  std::string where() const { return client_.address().text(); }
  clickhouse::Client& client() { return client_; }
  /// `database`.name
  std::string table(const std::string& name) const;

 private:
  bool find();
  bool is_greta();
  std::vector<std::string> statements(const std::string& cluster);
  std::vector<std::string> tables_without_sums();
  void add_sums();
  void change(const std::function<void()>& alter);

  clickhouse::Client client_;
  std::string cluster_;
  bool is_complete_ = false;  ///< all tables are on this server
  bool has_sums_ = false;
};

}  // namespace greta
