#include "db/judge.h"
#include "tests/cli/program.h"

namespace greta {
namespace {

class ToleranceCommand : public ProgramTest {
 protected:
  ToleranceCommand() : w(database()) {}

  /// A run within the shipped tolerance, judged.
  void fill() {
    w.run({.name = "r", .experiment = "e", .mode = "as_designed", .dtype = "bf16"});
    w.rounding("attn_out", 1);
    judge_rest(w.db);
  }
  std::string verdict() { return w.rows("SELECT verdict FROM run_verdict"); }
  int64_t kept() { return w.db.execAndGet("SELECT count(*) FROM verdict").getInt64(); }

  Warehouse w;
};

TEST_F(ToleranceCommand, ChangesAVerdictAndBackAndWhatWasKeptIsKeptAgain) {
  fill();
  EXPECT_EQ(verdict(), "PASS");
  const int64_t before = kept();
  Result set = run({"tolerance", "set", "--tensor", "attn_out", "--dtype", "bf16", "1e-6"});
  EXPECT_EQ(set.status, 0) << set.err;
  EXPECT_EQ(set.out,
            "attn_out, bf16: none before, 1e-06 now\n1 kept verdict is worked out again\n");
  EXPECT_EQ(verdict(), "FAIL");
  EXPECT_EQ(kept(), before);
  EXPECT_EQ(run({"gate", "--run", "r"}).status, 1);
  Result reset = run({"tolerance", "reset", "--tensor", "attn_out", "--dtype", "torch.BFloat16"});
  EXPECT_EQ(reset.out,
            "attn_out, bf16: 1e-06 before, none now, as shipped\n1 kept verdict is worked out"
            " again\n");
  EXPECT_EQ(verdict(), "PASS");
  EXPECT_EQ(kept(), before);
}

TEST_F(ToleranceCommand, ListsWhatIsShippedAndWhatIsNot) {
  fill();
  run({"tolerance", "set", "--dtype", "bf16", "0.5"});
  run({"tolerance", "set", "--tensor", "logits", "0"});
  w.db.exec("DELETE FROM tolerance WHERE dtype = 'fp16'");
  std::map<std::string, std::string> states;
  for (const nlohmann::json& row : run({"tolerance", "list", "--format", "json"}).json()) {
    states[std::string(row["tensor"]) + " " + std::string(row["dtype"])] = row["state"];
  }
  EXPECT_EQ(states.at("* bf16"), "changed");
  EXPECT_EQ(states.at("logits *"), "added");
  EXPECT_EQ(states.at("* fp16"), "removed");
  EXPECT_EQ(states.at("* f32"), "shipped");
  EXPECT_EQ(run({"tolerance", "reset", "--all"}).status, 0);
  for (const nlohmann::json& row : run({"tolerance", "list", "--format", "json"}).json()) {
    EXPECT_EQ(row["state"], "shipped") << row;
  }
  EXPECT_TRUE(run({"tolerance", "reset", "--all"}).says("as shipped already"));
  EXPECT_EQ(run({"tolerance", "set", "--dtype", "bf16", "0.03"}).out,
            "any tensor, bf16: 0.03 before, 0.03 now\n");
}

TEST_F(ToleranceCommand, RefusesWhatIsNoDistanceAndNamesTheNearest) {
  fill();
  for (const char* value : {"nan", "inf", "-1", "-inf", "much", "1e999", "", "2.5", "1e308"}) {
    EXPECT_EQ(run({"tolerance", "set", "--dtype", "bf16", "--", value}).status, 2) << value;
  }
  EXPECT_EQ(w.rows("SELECT rel_l2 FROM tolerance WHERE dtype = 'bf16'"), "0.03");
  EXPECT_TRUE(run({"tolerance", "set", "--tensor", "attn_ot", "1e-3"}).answers(2, {"attn_out"}));
  EXPECT_EQ(run({"tolerance", "set", "--dtype", "bf61", "1e-3"}).out,
            "any tensor, bf61: none before, 0.001 now; no run is of this dtype yet\n"
            "1 kept verdict is worked out again\n");
  EXPECT_EQ(run({"tolerance", "reset"}).status, 2);
  EXPECT_EQ(run({"tolerance", "reset", "--all", "--dtype", "bf16"}).status, 2);
  EXPECT_EQ(run({"tolerance"}).status, 2);
}

}  // namespace
}  // namespace greta
