#include "common/completion.h"

#include <gtest/gtest.h>

namespace greta {
namespace {

struct Program {
  CLI::App app;
  std::string file;
  bool quiet = false;

  Program() {
    app.add_option("--db", file);
    CLI::App* run = app.add_subcommand("run", "");
    run->add_option("-o,--out", file);
    run->add_flag("-q,--quiet", quiet);
    app.add_subcommand("check", "");
  }
};

TEST(Completion, ListsCommandsAndLongOptions) {
  Program program;
  EXPECT_EQ(command_words(program.app), "run check");
  EXPECT_EQ(option_words(program.app), "--help --db");
  EXPECT_EQ(bash_option_cases(program.app),
            "    run) options='--help --out --quiet' ;;\n    check) options='--help' ;;\n");
}

TEST(Completion, FillsEveryPlaceOfAName) {
  EXPECT_EQ(fill_script("@A@ @B@ @A@ @C@", {{"A", "x"}, {"B", "@A@"}}), "x @A@ x @C@");
}

}  // namespace
}  // namespace greta
