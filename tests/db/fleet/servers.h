// Two real ClickHouse servers, one of which also speaks TLS, and a ZooKeeper, on ports of their own
// of the loopback, with all that they write in a temporary folder.
#pragma once
#include <sys/types.h>

#include <array>
#include <string>

#include "common/temporary_folder.h"
#include "db/clickhouse/client.h"

namespace greta {

/// Neighbouring ports of the loopback that nobody else is given while it lives: below those that a
/// system takes for connections, which would take one while its server is down.
class PortBlock {
 public:
  PortBlock();  ///< throws std::runtime_error when there are none
  ~PortBlock();
  PortBlock(const PortBlock&) = delete;
  PortBlock& operator=(const PortBlock&) = delete;

  /// The next one; std::logic_error after the last.
  int take();

 private:
  static constexpr int kFirst = 12'000, kEnd = 32'000, kPorts = 16;
  bool are_free() const;

  int first_ = 0, taken_ = 0;
  int owner_ = -1;  ///< bound to the first port: whose block this is
};

class FleetServers {
 public:
  /// Why there are none here: "" when there can be.
  static std::string why_not();

  FleetServers();
  ~FleetServers();
  FleetServers(const FleetServers&) = delete;
  FleetServers& operator=(const FleetServers&) = delete;

  static constexpr const char* kCluster = "pair";       // a shard on each server
  static constexpr const char* kReplicas = "replicas";  // one shard, a replica on each
  // as kCluster, but says that what lies on it is replicated
  static constexpr const char* kMisdeclared = "misdeclared";
  static constexpr const char* kPassword = "it's \\ a 'secret'";

  /// Of the first server, or the second: of user `default`, who needs no password.
  std::string address(const std::string& database, int server = 0,
                      const std::string& user = "default") const;
  std::string tls_address(const std::string& database) const;
  std::string certificate() const { return (folder_ / "server.crt").string(); }

  /// Asks one of them; throws as a client does.
  uint64_t number(const std::string& sql, int server = 0) const;
  void execute(const std::string& sql, int server = 0) const;
  /// The same on both shards, added up.
  uint64_t sum(const std::string& sql) const { return number(sql, 0) + number(sql, 1); }

  void kill_server(int server);  ///< as a power cut would
  void start_server(int server);
  /// One that cannot write a file of more bytes: as on a disk that is full.
  void start_server(int server, uint64_t most_bytes);
  void kill_zookeeper();
  void start_zookeeper();
  std::string folder(int server) const {
    return (folder_ / ("server" + std::to_string(server))).string();
  }

 private:
  struct Ports {
    int http = 0, tcp = 0, interserver = 0, https = 0;
  };
  void write_config(int server);
  void make_certificate();
  void tell_of_end(int server);

  TemporaryFolder folder_;
  PortBlock block_;
  std::array<Ports, 2> ports_;
  int zookeeper_port_ = 0;
  std::array<pid_t, 2> servers_{};
  pid_t zookeeper_ = 0;
};

}  // namespace greta
