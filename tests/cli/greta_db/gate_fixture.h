#pragma once
#include "tests/cli/program.h"

namespace greta {

/// Runs of one lineage, as a pipeline leaves them: each is held against the one before it.
class GateCommand : public ProgramTest {
 protected:
  GateCommand() : w(database()) {}

  /// A run of the lineage, dated so and of that commit.
  int64_t of_commit(const std::string& name, const std::string& commit, const std::string& date) {
    return w.run(
        {.name = name, .experiment = "ci", .mode = "as_designed", .date = date, .commit = commit});
  }
  /// base and good compute the same, bad has attn_out of layer 1 beyond rounding.
  void fill() {
    of_commit("base", "aaaaaaa", "2026-01-01");
    healthy();
    of_commit("good", "bbbbbbb", "2026-01-02");
    healthy();
    of_commit("bad", "ccccccc", "2026-01-03");
    w.match("x_in", 0);
    w.rounding("attn_out", 0);
    w.divergent("attn_out", 1);
    w.match("mlp_out", 1);
  }
  void healthy() {
    w.match("x_in", 0);
    w.rounding("attn_out", 0);
    w.match("attn_out", 1);
    w.match("mlp_out", 1);
  }
  Result waive(const std::string& tensor, const std::string& layer = "1") {
    return run({"waive", "--tensor", tensor, "--layer", layer, "--until", "2999-12-31", "--reason",
                "known since the new kernel"});
  }

  Warehouse w;
};

}  // namespace greta
