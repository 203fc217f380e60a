#include "common/completion.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "common/temporary_folder.h"

namespace greta {
namespace {

/// A program with a value of every kind.
struct Completion : testing::Test {
  Completion() {
    app.name("my-tool");
    app.add_option("--db", text)->option_text("FILE");
    CLI::App* run = app.add_subcommand("run", "It's a [command]: of some words");
    run->add_option("-o,--out", text, "Where to")->option_text("FILE");
    run->add_flag("-q,--quiet", quiet, "Not a word");
    run->add_option("--gate", text, "Which")->check(CLI::IsMember({"strict", "numeric"}));
    run->add_option("--route", text, "OP=ROUTE")->check(offers({"wo=dot", "wo=gemm", "qkv=dot"}));
    run->add_option("--tensors", text, "Several")->check(offers_list({"attn_out", "logits"}));
    run->add_option("--limit", text, "Any")->option_text("N");
    run->add_option("--suite", text, "A name or a file")
        ->check(offers([] { return std::vector<std::string>{"b3_13"}; }))
        ->option_text("NAME|FILE");
    app.add_subcommand("check", "")->add_option("run", text)->check(offers_answer("names 'a b'"));
  }

  /// What bash offers for the last of these words.
  std::string offered(const std::string& words) {
    std::ofstream(folder / "c") << completion_script(app, "bash");
    std::ofstream(folder / "my-tool")
        << "#!/bin/sh\necho name; for i in \"$@\"; do echo \"$i\"; done\n";
    const std::string command =
        "cd " + folder.path().string() +
        " && chmod +x my-tool && PATH=$PWD:$PATH bash -c '. ./c; COMP_WORDS=(" + words +
        "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _my_tool; printf \"%s,\" \"${COMPREPLY[@]}\"' "
        "2>&1";
    return output_of(command);
  }
  static std::string output_of(const std::string& command) {
    FILE* pipe = popen(command.c_str(), "r");
    std::string output;
    char buffer[4096];
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, n);
    pclose(pipe);
    return output;
  }

  CLI::App app;
  std::string text;
  bool quiet = false;
  TemporaryFolder folder;
};

TEST_F(Completion, OfBashKnowsCommandsOptionsAndValues) {
  EXPECT_EQ(offered("my-tool r"), "run,");
  EXPECT_EQ(offered("my-tool --d"), "--db,");
  EXPECT_EQ(offered("my-tool run --q"), "--quiet,");
  EXPECT_EQ(offered("my-tool run --d"), "--db,") << "the program's own go everywhere";
  EXPECT_EQ(offered("my-tool --db x run --ga"), "--gate,") << "x is no command";
  EXPECT_EQ(offered("my-tool run --gate \"\""), "strict,numeric,");
  EXPECT_EQ(offered("my-tool run --gate n"), "numeric,");
  EXPECT_EQ(offered("my-tool run --limit \"\""), ",") << "anything";
  EXPECT_EQ(offered("my-tool check --gate s"), ",") << "of another command";
}

TEST_F(Completion, OfBashCompletesWhatReadlineTakesApart) {
  EXPECT_EQ(offered("my-tool run --gate = n"), "numeric,");
  EXPECT_EQ(offered("my-tool run --gate ="), "strict,numeric,");
  EXPECT_EQ(offered("my-tool run --route wo = g"), "gemm,");
  EXPECT_EQ(offered("my-tool run --route wo ="), "dot,gemm,");
  EXPECT_EQ(offered("my-tool run --route wo=g"), "wo=gemm,") << "where it is told not to";
  EXPECT_EQ(offered("my-tool --db = x run --ga"), "--gate,");
}

TEST_F(Completion, OfBashCompletesListsFilesAndAnswers) {
  EXPECT_EQ(offered("my-tool run --tensors attn_out,l"), "attn_out,logits,");
  EXPECT_EQ(offered("my-tool run --out my"), "my-tool,");
  EXPECT_EQ(offered("my-tool run -o my"), "my-tool,");
  EXPECT_EQ(offered("my-tool run --suite b"), "b3_13,");
  EXPECT_EQ(offered("my-tool run --suite my"), "my-tool,");
  EXPECT_EQ(offered("my-tool check \"\""), "--format,tsv,names,a\\ b,");
  EXPECT_EQ(offered("my-tool --db y check y"), "y,") << "of the database that is named";
}

TEST_F(Completion, IsNotWhatAnErrorPrints) {
  completion_script(app, "bash");
  try {
    app.parse("my-tool run --route", true);
    FAIL() << "a value is missing";
  } catch (const CLI::ParseError& error) {
    EXPECT_EQ(std::string(error.what()).find("wo="), std::string::npos) << error.what();
  }
}

TEST_F(Completion, ScriptsParse) {
  for (const std::string& shell : completed_shells()) {
    SCOPED_TRACE(shell);
    std::ofstream(folder / "c") << completion_script(app, shell);
    if (std::system(("command -v " + shell + " >/dev/null 2>&1").c_str()) != 0) {
      std::cout << "skipped: " << shell << " is not installed\n";
      continue;
    }
    EXPECT_EQ(output_of(shell + " -n " + (folder / "c").string() + " 2>&1; echo $?"), "0\n");
  }
}

TEST_F(Completion, OfZshAndFishHasWhatBashHas) {
  const std::string zsh = completion_script(app, "zsh"), fish = completion_script(app, "fish");
  const auto has = [](const std::string& script, const std::string& wanted) {
    return script.find(wanted) != std::string::npos;
  };
  EXPECT_EQ(zsh.find("#compdef my-tool\n"), 0u);
  EXPECT_TRUE(has(zsh, "'--gate[Which]:value:(strict numeric)'")) << zsh;
  EXPECT_TRUE(has(zsh, "'run:It'\\''s a [command]: of some words'")) << zsh;
  EXPECT_TRUE(has(zsh, "'--tensors[Several]:value:_values -s , word attn_out logits'")) << zsh;
  EXPECT_TRUE(has(fish, "-n '__fish_seen_subcommand_from run' -l gate -r -f -a 'strict numeric'"))
      << fish;
  EXPECT_TRUE(has(fish, "-l out -s o -r -F -d 'Where to'")) << fish;
  EXPECT_TRUE(has(fish, "'It\\'s a [command]: of some words'")) << fish;
}

}  // namespace
}  // namespace greta
