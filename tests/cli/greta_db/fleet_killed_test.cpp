// A push whose client, server or ZooKeeper is killed at any moment.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <chrono>
#include <random>
#include <string>
#include <thread>

#include "common/environment.h"
#include "tests/cli/greta_db/fleet_fixture.h"

extern char** environ;

namespace greta {
namespace {

/// kill -9 at any moment of a push, then the push again.
class FleetKilled : public FleetTest {
 protected:
  static constexpr size_t kRuns = 300;

  static int rounds() {
    const std::string given = environment_variable("GRETA_FLEET_KILLS");
    return given.empty() ? 2 : std::stoi(given);
  }

  pid_t begin_push(const std::string& at) {
    const std::vector<std::string> words{GRETA_DB_PROGRAM, "--db", database(), "push",
                                         "--to",           at,     "all"};
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (const int file : {1, 2})
      posix_spawn_file_actions_addopen(&actions, file, "/dev/null", O_WRONLY, 0);
    pid_t child = 0;
    if (posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ) != 0) child = 0;
    posix_spawn_file_actions_destroy(&actions);
    return child;
  }

  /// Whatever is there of a run is all of it.
  void expect_nothing_half(const std::string& at) {
    EXPECT_EQ(run({"--db", at, "fleet", "check"}).status, 0);
  }

  /// `harm` is done at a moment of a push to a cluster, which takes as long as one before it.
  template <class Harm, class Mend>
  void at_random_moments(const std::string& name, const std::string& cluster, Harm harm,
                         Mend mend) {
    is_replicated_ = cluster == FleetServers::kReplicas;
    tell_random_runs(database(), 1, kRuns);
    const std::string first = servers().address(name + "0");
    expect_pushed(first, database(), "--run run1 --cluster " + cluster);
    const auto begun = std::chrono::steady_clock::now();
    expect_pushed(first, database());
    const std::chrono::milliseconds moments = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - begun);
    const std::string content = content_of(name + "0");
    std::mt19937 random(7);
    for (int i = 1; i <= rounds(); ++i) {
      const std::string base = name + std::to_string(i), at = servers().address(base);
      SCOPED_TRACE(base);
      expect_pushed(at, database(), "--run run1 --cluster " + cluster);
      const pid_t push = begin_push(at);
      ASSERT_GT(push, 0);
      std::this_thread::sleep_for(
          std::chrono::milliseconds(random() % static_cast<unsigned>(moments.count())));
      harm(push);
      const bool is_mended_meanwhile = i % 2 == 0;
      if (is_mended_meanwhile) mend();
      waitpid(push, nullptr, 0);
      if (!is_mended_meanwhile) mend();
      expect_nothing_half(at);
      expect_pushed(at, database());
      expect_clean(at);
      expect_same("greta.db", at, "runs --format csv");
      EXPECT_EQ(content_of(base), content);
      EXPECT_EQ(run({"--db", at, "fleet", "sweep", "--older-than", "0"}).status, 0);
      // what was published when its server was killed may be published again, as the same push
      EXPECT_EQ(all("SELECT uniqExact(push) FROM " + base + ".trace_row"),
                all("SELECT uniqExactIf(push, counts[1] > 0) FROM " + base + ".published"));
    }
  }

  /// Of what is published: how many rows, and their hashes.
  std::string content_of(const std::string& base) {
    const std::string pushes = " WHERE push IN (SELECT push FROM " + base + ".published)";
    return std::to_string(all("SELECT count() FROM " + base + ".trace_row" + pushes)) + " " +
           std::to_string(
               all("SELECT toUInt64(sum(ifNull(hash, 0))) FROM " + base + ".trace_row" + pushes)) +
           " " + std::to_string(all("SELECT count() FROM " + base + ".record" + pushes));
  }

  /// A number of all rows: of both shards, or of a replica.
  uint64_t all(const std::string& sql) const {
    return is_replicated_ ? servers().number(sql) : servers().sum(sql);
  }

 private:
  bool is_replicated_ = false;
};

TEST_F(FleetKilled, AClientKilledAtAnyMomentLeavesNothingHalf) {
  at_random_moments(
      "client", FleetServers::kCluster, [](pid_t push) { kill(push, SIGKILL); }, [] {});
}

TEST_F(FleetKilled, AServerKilledAtAnyMomentLeavesNothingHalf) {
  at_random_moments(
      "server", FleetServers::kCluster, [](pid_t) { servers().kill_server(1); },
      [] { servers().start_server(1); });
}

TEST_F(FleetKilled, AZooKeeperKilledAtAnyMomentLeavesNothingHalf) {
  at_random_moments(
      "keeper", FleetServers::kReplicas, [](pid_t) { servers().kill_zookeeper(); },
      [] { servers().start_zookeeper(); });
}

}  // namespace
}  // namespace greta
