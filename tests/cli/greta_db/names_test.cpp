#include "tests/cli/program.h"

namespace greta {
namespace {

class NamesCommand : public ProgramTest {
 protected:
  NamesCommand() : w(database()) {}

  Warehouse w;
};

TEST_F(NamesCommand, AddsARuleBeforeTheShippedOnesAndTakesItAway) {
  const auto rules = run({"names", "list", "--format", "json"}).json();
  ASSERT_GT(rules.size(), 40u);
  EXPECT_EQ(rules[0]["tensor"], "embed_out");
  EXPECT_EQ(run({"names", "add", R"(blocks\.(\d+)\.proj)", "wo_out"}).status, 0);
  EXPECT_EQ(run({"names", "list", "--format", "json"}).json()[0]["pattern"],
            R"(blocks\.(\d+)\.proj)");
  EXPECT_EQ(run({"names", "add", R"(blocks\.(\d+)\.proj)", "x_out"}).status, 2) << "it is there";
  EXPECT_EQ(w.rows("SELECT tensor, rule_set FROM name_rule WHERE ord = 0"), "wo_out|own");
  EXPECT_EQ(run({"names", "remove", R"(blocks\.(\d+)\.proj)"}).status, 0);
  EXPECT_EQ(run({"names", "remove", R"(blocks\.(\d+)\.proj)"}).status, 2);
}

TEST_F(NamesCommand, RefusesWhatIsNoPatternOrNoTracePoint) {
  const Result pattern = run({"names", "add", "a(b", "wo_out"});
  EXPECT_EQ(pattern.status, 2);
  EXPECT_TRUE(pattern.says("no pattern"));
  EXPECT_TRUE(run({"names", "add", "ab", "wo_ot"}).answers(2, {"wo_out"}));
  EXPECT_EQ(run({"names"}).status, 2);
}

}  // namespace
}  // namespace greta
