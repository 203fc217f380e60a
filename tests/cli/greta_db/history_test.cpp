// history, regressions, baseline: what changed from run to run, as the program prints it.
#include "tests/cli/program.h"

namespace greta {
namespace {

class History : public ProgramTest {
 protected:
  static void attribute(Warehouse& warehouse, const std::string& dim, const std::string& value) {
    warehouse.db.exec("INSERT INTO attribute(run_id, dim, value, rank) VALUES (" +
                      std::to_string(warehouse.current_run()) + ", '" + dim + "', '" + value +
                      "', 0)");
  }
};

TEST_F(History, IsInOrderOfDate) {
  Warehouse warehouse(database());
  warehouse.run({.name = "late", .date = "2026-03-01"});
  warehouse.run({.name = "early", .experiment = "f", .date = "2026-01-01"});
  const nlohmann::json rows = run({"history", "--format", "json"}).json();
  EXPECT_EQ(rows[0]["run"], "early");
  for (const char* count : {"pairs", "rounding", "divergent", "nonfinite"}) {
    EXPECT_EQ(rows[0][count], 0) << count;
  }
  EXPECT_EQ(run({"history", "--experiment", "f", "--format", "json"}).json().size(), 1u);
  EXPECT_EQ(run({"history", "--since", "2026-02-01", "--format", "json"}).json()[0]["run"], "late");
}

TEST_F(History, MatrixHasAColumnForEveryLineage) {
  Warehouse warehouse(database());
  const auto add = [&](const std::string& name, const std::string& commit, const char* backend,
                       bool drifts) {
    warehouse.run({.name = name,
                   .experiment = "e",
                   .mode = "as_designed",
                   .date = "2026-01-01",
                   .commit = commit,
                   .status = "complete"});
    attribute(warehouse, "backend", backend);
    drifts ? warehouse.drift("attn_out", 0) : warehouse.match("attn_out", 0);
  };
  add("a", "c1", "cpu", false);
  add("b", "c1", "hip", true);
  add("c", "c2", "cpu", false);
  add("c#2", "c2", "cpu", true);
  const nlohmann::json rows = run({"history", "--matrix", "--format", "json"}).json();
  ASSERT_EQ(rows.size(), 2u);
  const std::string cpu = "e/as_designed/cpu/-/-/-", hip = "e/as_designed/hip/-/-/-";
  EXPECT_EQ(rows[0]["commit"], "c1");
  EXPECT_EQ(rows[0][cpu], "PASS");
  EXPECT_EQ(rows[0][hip].get<std::string>().substr(0, 4), "FAIL");
  EXPECT_EQ(rows[1][cpu].get<std::string>().substr(0, 4), "FAIL");
  EXPECT_TRUE(rows[1][cpu].get<std::string>().ends_with("BROKEN (last of 2)")) << rows[1][cpu];
  EXPECT_TRUE(rows[1][hip].is_null());
}

TEST_F(History, CommitsDecideTheOrderWhereTheyAreKnown) {
  Warehouse warehouse(database());
  const std::string first(40, 'a'), second(40, 'b');
  for (const auto& [sha, ord] : {std::pair{first, "1"}, {second, "2"}}) {
    warehouse.db.exec("INSERT INTO commit_node(sha, ord, committed_at, subject) VALUES ('" + sha +
                      "', " + ord + ", '2026-01-01T00:00:00Z', '')");
  }
  for (const auto& [name, commit, date] : {std::tuple{"new", second, "2026-01-01"},
                                           {"between", std::string(), "2026-01-02"},
                                           {"old", first.substr(0, 9), "2026-01-03"},
                                           {"changed", first + "-dirty", "2026-01-04"}}) {
    warehouse.run({.name = name, .date = date, .commit = commit, .status = "complete"});
    warehouse.match("x_in", 0);
  }
  std::string order;
  for (const auto& row : run({"history", "--format", "json"}).json()) {
    order += row["run"].get<std::string>() + " ";
  }
  EXPECT_EQ(order, "old changed new between ");
  order.clear();
  for (const auto& row : run({"history", "--matrix", "--format", "json"}).json()) {
    order += row["commit"].get<std::string>() + " ";
  }
  EXPECT_TRUE(order.starts_with(first.substr(0, 9) + " " + first + "-dirty " + second)) << order;
}

TEST_F(History, ARunThatEndedBadlyOrHasAFaultIsNoBaseline) {
  Warehouse warehouse(database());
  warehouse.run({.name = "good", .status = "complete"});
  warehouse.match("x_in", 0);
  warehouse.run({.name = "failed", .status = "failed"});
  warehouse.match("x_in", 0);
  warehouse.run({.name = "empty", .status = "complete"});
  warehouse.run({.name = "injected", .status = "complete"});
  warehouse.match("x_in", 0);
  attribute(warehouse, "inject", "rope_theta@decode");
  for (const char* name : {"failed", "empty"}) {
    EXPECT_TRUE(run({"baseline", "set", name}).answers(2, {"did not end well, or has no rows"}))
        << name;
  }
  EXPECT_TRUE(run({"baseline", "set", "injected"}).says("has a fault injected"));
  EXPECT_EQ(run({"baseline", "set", "good"}).status, 0);
  EXPECT_EQ(warehouse.rows("SELECT run, baseline, pinned FROM lineage WHERE pinned"),
            "failed|good|1\nempty|good|1");
  EXPECT_EQ(run({"baseline", "reset", "good"}).status, 0);
  EXPECT_EQ(warehouse.rows("SELECT count(*) FROM pinned_baseline"), "0");
}

}  // namespace
}  // namespace greta
