// Runs of one layer, in the order of days or commits, and what changed between them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "db/judge.h"
#include "tests/queries/warehouse.h"

namespace greta {

class Change : public ::testing::Test {
 protected:
  /// A run of one layer's rows, whose values both sides share but for decode's attn_out.
  struct Values {
    float x_out = 1, attn_out = 1, decoded_attn_out = 1;
  };
  int64_t add_run(const std::string& day, const Values& values, const std::string& commit = "",
                  const std::string& mode = "as_designed") {
    const int64_t id = w_.run({.name = "2026-01-" + day + "/e/" + mode,
                               .mode = mode,
                               .dtype = "f32",
                               .date = "2026-01-" + day,
                               .commit = commit.empty() ? std::nullopt : std::optional(commit),
                               .status = "complete"});
    const auto valued = [](Row row, float value) {
      row.hash = static_cast<uint64_t>(value * 1e6f);
      return row.sketched({value, 2, 3, 4}).token(7);
    };
    w_.add(valued(prefill("attn_out", 0), values.attn_out),
           valued(decode("attn_out", 0), values.decoded_attn_out),
           valued(prefill("x_out", 1), values.x_out), valued(decode("x_out", 1), values.x_out));
    w_.plan_what_is_there();
    return id;
  }
  void attribute(int64_t run, const std::string& dim, const std::string& value) {
    w_.db.exec("INSERT INTO attribute(run_id, dim, value, rank) VALUES (" + std::to_string(run) +
               ", '" + dim + "', '" + value + "', 0)");
  }
  /// c0 ← c1 ← c2 ← ..., and a branch b1 ← b2 from c0.
  void add_commits() {
    const char* const kCommits[][2] = {{"c000000", ""},        {"c100000", "c000000"},
                                       {"b100000", "c000000"}, {"b200000", "b100000"},
                                       {"c200000", "c100000"}, {"c300000", "c200000"}};
    int ord = 0;
    for (const auto& [sha, parent] : kCommits) {
      w_.db.exec("INSERT INTO commit_node VALUES ('" + std::string(sha) + "', " +
                 std::to_string(ord++) + ", '2026-01-01T00:00:00Z', 's')");
      if (*parent == '\0') continue;
      w_.db.exec("INSERT INTO commit_parent VALUES ('" + std::string(sha) + "', 0, '" +
                 std::string(parent) + "')");
    }
  }
  void judge_all() { w_.judge(); }
  /// Asked as things are, judged or not.
  std::string kept(const std::string& sql) { return w_.kept(sql); }
  std::string ask(const std::string& sql) { return w_.rows(sql); }

  Warehouse w_;
};

}  // namespace greta
