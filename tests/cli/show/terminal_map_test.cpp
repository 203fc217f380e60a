// firstfail --map.
#include <sstream>

#include "cli/output/output.h"
#include "tests/cli/program.h"

namespace greta {
namespace {

class FirstFailMap : public ProgramTest {};

TEST_F(FirstFailMap, ShowsEveryLayerAndTracePointInLetters) {
  {
    Warehouse w(database());
    w.run({.name = "r"});
    w.match("x_in", 0);
    w.rounding("attn_out", 0);
    w.divergent("attn_out", 1);
    w.drift("mlp_out", 1);
    w.add(prefill("x_in", 1, 1));
    w.add(prefill("mlp_out", 2, 1).nans(1), decode("mlp_out", 2, 2));
  }
  const Result result = run({"--db", database(), "firstfail", "--run", "r", "--map"});
  EXPECT_NE(result.out.find("prompt p0\n"
                            "      a b c\n"
                            "0     . r -\n"
                            "1     M D ?\n"
                            "2     - - N\n"),
            std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find("\n. equal   r within rounding   D beyond rounding   "),
            std::string::npos);
  EXPECT_NE(result.out.find("a x_in   b attn_out   c mlp_out"), std::string::npos) << result.out;
}

TEST_F(FirstFailMap, EqualLayersInARowAreOneLine) {
  {
    Warehouse w(database());
    for (int layer = 0; layer < 120; ++layer) {
      if (layer == 40) {
        w.divergent("attn_out", layer);
      } else if (layer != 50) {  // which nothing traced
        w.match("attn_out", layer);
      }
      if (layer == 45 || layer == 56) continue;  // one point was not traced
      w.match("x_in", layer);
    }
    w.match("logits", -1);
  }
  const Result result = run({"--db", database(), "firstfail", "--run", "r", "--map"});
  EXPECT_NE(result.out.find("prompt p0\n"
                            "       a b c\n"
                            "0-39   . .\n"
                            "40     . D\n"
                            "41-44  . .\n"
                            "45     - .\n"
                            "46-49  . .\n"
                            "50     . -\n"
                            "51-55  . .\n"
                            "56     - .\n"
                            "57-119 . .\n"
                            "head       .\n"),
            std::string::npos)
      << result.out;
}

TEST_F(FirstFailMap, FitsEightyColumns) {
  {
    Warehouse w(database());
    for (int i = 0; i < 60; ++i) {
      w.use_prompt("prompt_" + std::to_string(i));
      w.match("some_tensor_of_a_long_name_" + std::to_string(i % 50), i);
    }
  }
  const Result result = run({"--db", database(), "firstfail", "--run", "r", "--map"});
  std::istringstream lines(result.out.substr(result.out.find("\nprompt ")));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), 80U) << line;
}

TEST_F(FirstFailMap, IsNoFormat) {
  Warehouse(database()).match("x_in", 0);
  EXPECT_TRUE(run({"--db", database(), "--format", "json", "firstfail", "--map"})
                  .answers(2, {"--map is a picture"}));
}

}  // namespace
}  // namespace greta
