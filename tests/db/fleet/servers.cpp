#include "tests/db/fleet/servers.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "common/child_process.h"
#include "tests/file_bytes.h"

namespace greta {
namespace {

constexpr const char* kServer = "/usr/sbin/clickhouse-server";
constexpr const char* kZooKeeper = "/usr/share/java/zookeeper.jar";
constexpr const char* kJava = "/usr/bin/java";

sockaddr_in loopback(int port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(static_cast<uint16_t>(port));
  return at;
}

/// A socket bound to a port of the loopback; -1 when somebody has it.
int bound(int port) {
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (file < 0) throw std::runtime_error("no socket");
  const sockaddr_in at = loopback(port);
  if (bind(file, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0) return file;
  close(file);
  return -1;
}

bool listens(int port) {
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in at = loopback(port);
  const bool is_there = connect(file, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0;
  close(file);
  return is_there;
}

/// Waits until that is so of a process, however long it takes.
template <class Condition>
void wait_until(Condition is_so, pid_t process, const std::string& what) {
  while (!is_so()) {
    if (waitpid(process, nullptr, WNOHANG) == process)
      throw std::runtime_error(what + " ended at once");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

/// Whether a ZooKeeper serves: it listens before it does, and closes what connects until then, or
/// never answers it.
bool zookeeper_serves(int port) {
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval a_while{1, 0};
  setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &a_while, sizeof a_while);
  const sockaddr_in at = loopback(port);
  std::string said;
  if (connect(file, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0 &&
      send(file, "srvr", 4, MSG_NOSIGNAL) == 4) {
    char buffer[4096];
    for (ssize_t n; (n = recv(file, buffer, sizeof buffer, 0)) > 0;)
      said.append(buffer, static_cast<size_t>(n));
  }
  close(file);
  return said.find("Mode: standalone") != std::string::npos;
}

/// Ends with the test, however that ends.
pid_t start(const std::vector<std::string>& words, const std::string& output,
            uint64_t most_bytes = 0) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  setpgid(0, 0);
  if (most_bytes > 0) {
    const rlimit limit{most_bytes, most_bytes};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  const int log = open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, 0);
  dup2(log, 1);
  dup2(log, 2);
  execv(argv[0], argv.data());
  _exit(127);
}

void end(pid_t& process) {
  if (process <= 0) return;
  kill(process, SIGKILL);
  waitpid(process, nullptr, 0);
  process = 0;
}

constexpr const char* kUsers = R"(<yandex>
<profiles><default/>
  <reader><readonly>2</readonly></reader>
  <blind><readonly>1</readonly><skip_unavailable_shards>1</skip_unavailable_shards></blind>
</profiles>
<users>
  <default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default>
  <guarded><password>it's \ a 'secret'</password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></guarded>
  <reader><password></password><networks><ip>127.0.0.1</ip></networks><profile>reader</profile><quota>default</quota></reader>
  <blind><password></password><networks><ip>127.0.0.1</ip></networks><profile>blind</profile><quota>default</quota></blind>
</users>
<quotas><default/></quotas>
</yandex>
)";

}  // namespace

std::string FleetServers::why_not() {
  for (const char* file : {kServer, kZooKeeper, kJava}) {
    if (!std::filesystem::exists(file))
      return std::string(file) + " is not there: install clickhouse-server and zookeeper";
  }
  return "";
}

PortBlock::PortBlock() {
  std::random_device random;
  for (int i = 0; i < 1000; ++i) {
    first_ = kFirst + static_cast<int>(random() % ((kEnd - kFirst) / kPorts)) * kPorts;
    owner_ = bound(first_);
    if (owner_ >= 0 && are_free()) return;
    if (owner_ >= 0) close(owner_);
  }
  throw std::runtime_error("no free ports");
}

PortBlock::~PortBlock() { close(owner_); }

bool PortBlock::are_free() const {
  for (int i = 1; i < kPorts; ++i) {
    const int file = bound(first_ + i);
    if (file < 0) return false;
    close(file);
  }
  return true;
}

int PortBlock::take() {
  if (++taken_ == kPorts) throw std::logic_error("more ports than a block has");
  return first_ + taken_;
}

FleetServers::FleetServers() {
  zookeeper_port_ = block_.take();
  for (Ports& ports : ports_) ports = {block_.take(), block_.take(), block_.take(), block_.take()};
  folder_.write("zookeeper/zoo.cfg",
                "tickTime=500\ndataDir=" + (folder_ / "zookeeper").string() +
                    "\nclientPort=" + std::to_string(zookeeper_port_) +
                    "\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n");
  make_certificate();
  start_zookeeper();
  for (const int server : {0, 1}) {
    write_config(server);
    start_server(server);
  }
}

FleetServers::~FleetServers() {
  for (const int server : {0, 1}) tell_of_end(server);
  for (pid_t& server : servers_) end(server);
  end(zookeeper_);
}

/// Of a server that ended though nobody ended it: how, and what it said.
void FleetServers::tell_of_end(int server) {
  pid_t& process = servers_[static_cast<size_t>(server)];
  int status = 0;
  if (process <= 0 || waitpid(process, &status, WNOHANG) != process) return;
  process = 0;
  std::cerr << "clickhouse-server " << server << " ended by itself, wait status " << status << "\n";
  for (const char* name : {"/output", "/errors"}) {
    std::ifstream file(folder(server) + name);
    std::cerr << name << ":\n" << file.rdbuf() << "\n";
  }
}

void FleetServers::make_certificate() {
  output_of(
      {.command = {"openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                   "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                   "-keyout", (folder_ / "server.key").string(), "-out", certificate()}});
}

void FleetServers::write_config(int server) {
  const Ports& own = ports_[static_cast<size_t>(server)];
  const std::string name = "server" + std::to_string(server);
  const auto replica = [&](int i) {
    return "<replica><host>127.0.0.1</host><port>" +
           std::to_string(ports_[static_cast<size_t>(i)].tcp) + "</port></replica>";
  };
  const std::string shard = "<shard>",
                    replicated = "<shard><internal_replication>true</internal_replication>";
  const std::string config =
      "<yandex><logger><level>debug</level><log>" + folder(server) + "/log</log><errorlog>" +
      folder(server) + "/errors</errorlog></logger><http_port>" + std::to_string(own.http) +
      "</http_port><https_port>" + std::to_string(own.https) + "</https_port><tcp_port>" +
      std::to_string(own.tcp) + "</tcp_port><interserver_http_port>" +
      std::to_string(own.interserver) +
      "</interserver_http_port><interserver_http_host>127.0.0.1</interserver_http_host>"
      "<listen_host>127.0.0.1</listen_host><openSSL><server><certificateFile>" +
      certificate() + "</certificateFile><privateKeyFile>" + (folder_ / "server.key").string() +
      "</privateKeyFile><verificationMode>none</verificationMode><cacheSessions>true"
      "</cacheSessions></server></openSSL><path>" +
      folder(server) + "/data/</path><tmp_path>" + folder(server) +
      "/tmp/</tmp_path><users_config>users.xml</users_config><default_profile>default"
      "</default_profile><default_database>default</default_database><mark_cache_size>67108864"
      "</mark_cache_size><timezone>UTC</timezone><remote_servers><pair>" +
      shard + replica(0) + "</shard>" + shard + replica(1) + "</shard></pair><misdeclared>" +
      replicated + replica(0) + "</shard>" + replicated + replica(1) +
      "</shard></misdeclared><replicas>" + replicated + replica(0) + replica(1) +
      "</shard></replicas></remote_servers><zookeeper><node><host>127.0.0.1</host><port>" +
      std::to_string(zookeeper_port_) +
      "</port></node><session_timeout_ms>4000</session_timeout_ms></zookeeper>"
      // of cluster pair both are the first of their shard; of replicas the paths are told apart by
      // {replica}, and the shard is the same
      "<macros><shard>0</shard><replica>r" +
      std::to_string(server) +
      "</replica></macros><distributed_ddl><path>/clickhouse/ddl</path></distributed_ddl>"
      "</yandex>\n";
  folder_.write(name + "/config.xml", config);
  folder_.write(name + "/users.xml", kUsers);
  for (const char* part : {"/data", "/tmp"})
    std::filesystem::create_directories(folder(server) + part);
}

void FleetServers::start_server(int server) { start_server(server, 0); }

void FleetServers::start_server(int server, uint64_t most_bytes) {
  const auto i = static_cast<size_t>(server);
  const std::string log = folder(server) + "/log";
  std::filesystem::remove(log);
  std::vector<std::string> words{kServer, "--config-file=" + folder(server) + "/config.xml"};
  if (most_bytes > 0) words.insert(words.end(), {"--", "--logger.level=warning"});
  servers_[i] = start(words, folder(server) + "/output", most_bytes);
  const Ports& own = ports_[i];
  wait_until(
      [&] {
        return listens(own.http) && listens(own.https) && listens(own.tcp) &&
               listens(own.interserver);
      },
      servers_[i], "clickhouse-server");
  if (most_bytes > 0) return;  // its log has no room for that
  // A statement ON CLUSTER ends 18.16 by a null pointer until what works these off has been at
  // ZooKeeper, which no port and no table tells.
  wait_until([&] { return bytes_of(log).find("DDLWorker: Processing tasks") != std::string::npos; },
             servers_[i], "clickhouse-server");
}

void FleetServers::kill_server(int server) { end(servers_[static_cast<size_t>(server)]); }

void FleetServers::start_zookeeper() {
  // it lives for seconds, which an optimising compiler and threads that collect garbage do not pay
  // for
  zookeeper_ = start({kJava, "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp",
                      std::string(kZooKeeper) + ":/usr/share/java/*",
                      "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                      (folder_ / "zookeeper/zoo.cfg").string()},
                     (folder_ / "zookeeper/output").string());
  wait_until([this] { return zookeeper_serves(zookeeper_port_); }, zookeeper_, "ZooKeeper");
}

void FleetServers::kill_zookeeper() { end(zookeeper_); }

std::string FleetServers::address(const std::string& database, int server,
                                  const std::string& user) const {
  return "clickhouse://" + user +
         "@127.0.0.1:" + std::to_string(ports_[static_cast<size_t>(server)].http) + "/" + database;
}

std::string FleetServers::tls_address(const std::string& database) const {
  return "clickhouses://localhost:" + std::to_string(ports_[0].https) + "/" + database;
}

uint64_t FleetServers::number(const std::string& sql, int server) const {
  clickhouse::Client client(clickhouse::parse_address(address("default", server)), {});
  return client.number(sql);
}

void FleetServers::execute(const std::string& sql, int server) const {
  clickhouse::Client client(clickhouse::parse_address(address("default", server)), {});
  client.execute(sql);
}

}  // namespace greta
