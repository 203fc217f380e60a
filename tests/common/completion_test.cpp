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
    app.add_subcommand("check", "")->add_option("run", text)->check(offers_rows("SELECT name"));
  }

  /// Candidates for the last of these words.
  std::string offered(const std::vector<std::string>& words) {
    const auto ask = [](const std::string& database, const std::string& sql) {
      return std::vector<std::string>{database, sql, "a b", "two\nlines"};
    };
    return completions(app, words, ask);
  }

  /// What bash makes of them, when the program answers with `lines`.
  std::string shown(const std::string& words, const std::string& lines) {
    std::ofstream(folder / "c") << completion_script("my-tool", "bash");
    std::ofstream(folder / "my-tool") << "#!/bin/sh\nprintf '%b' '" + lines + "'\n";
    return output_of("cd " + folder.path().string() +
                     " && chmod +x my-tool && PATH=$PWD:$PATH bash -c '. ./c; COMP_WORDS=(" +
                     words +
                     "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _my_tool; printf \"%s,\" "
                     "\"${COMPREPLY[@]}\"' 2>&1");
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

TEST_F(Completion, KnowsCommandsOptionsAndValues) {
  const std::string asked = "SELECT name";
  const struct {
    std::vector<std::string> words;
    std::string lines;
  } cases[] = {
      {{"my-tool", "r"}, "run\tIt's a [command]: of some words\n"},
      {{"my-tool", ""}, "run\tIt's a [command]: of some words\ncheck\n"},
      {{"my-tool", "run", "--q"}, "--quiet\tNot a word\n"},
      {{"my-tool", "run", "--d"}, "--db\n"},  // the program's own go everywhere
      {{"my-tool", "--db", "run", "run", "--ga"}, "--gate\tWhich\n"},  // the first is no command
      {{"my-tool", "run", "--gate", ""}, "strict\nnumeric\n"},
      {{"my-tool", "run", "--gate", "n"}, "numeric\n"},
      {{"my-tool", "run", "--gate=n"}, "--gate=numeric\n"},
      {{"my-tool", "run", "--limit", ""}, ""},
      {{"my-tool", "check", "--gate", "s"}, ""},  // of another command
      {{"my-tool", "run", "--route", "wo=g"}, "wo=gemm\n"},
      {{"my-tool", "run", "--tensors", "attn_out,l"}, "attn_out,logits\n:nospace\n"},
      {{"my-tool", "run", "-o", "x"}, ":files\n"},
      {{"my-tool", "run", "--suite", "b"}, "b3_13\n:files\n"},
      {{"my-tool", "check", "a"}, "a b\n"},  // no name of two lines
      {{"my-tool", "--db", "y", "check", "y"}, "y\n"},
      {{"my-tool", "--db=y", "check", "y"}, "y\n"},
      {{"my-tool", "check", "S"}, asked + "\n"},
      {{}, ""},
  };
  for (const auto& [words, lines] : cases) {
    EXPECT_EQ(offered(words), lines) << testing::PrintToString(words);
  }
}

TEST_F(Completion, OfBashCompletesWhatReadlineTakesApart) {
  EXPECT_EQ(shown("my-tool run --gate = n", "--gate=numeric\n"), "numeric,");
  EXPECT_EQ(shown("my-tool run --gate =", "--gate=strict\n--gate=numeric\n"), "strict,numeric,");
  EXPECT_EQ(shown("my-tool run --route wo = g", "wo=gemm\n"), "gemm,");
  EXPECT_EQ(shown("my-tool run --route wo=g", "wo=gemm\n"), "wo=gemm,")
      << "where it is told not to";
  EXPECT_EQ(shown("my-tool run --gat", "--gate\tWhich\n"), "--gate,") << "no description";
  EXPECT_EQ(shown("my-tool check a", "a b\n"), "a\\ b,");
  EXPECT_EQ(shown("my-tool run --out my", ":files\n"), "my-tool,");
  EXPECT_EQ(shown("my-tool run --out=my", ":files\n"), "my-tool,");
}

TEST_F(Completion, IsNotWhatAnErrorPrints) {
  offered({"my-tool", "run", "--route", ""});
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
    std::ofstream(folder / "c") << completion_script("my-tool", shell);
    if (std::system(("command -v " + shell + " >/dev/null 2>&1").c_str()) != 0) {
      std::cout << "skipped: " << shell << " is not installed\n";
      continue;
    }
    EXPECT_EQ(output_of(shell + " -n " + (folder / "c").string() + " 2>&1; echo $?"), "0\n");
  }
}

TEST_F(Completion, TheManualSpellsWhatRoffWouldRead) {
  app.description("A tool");
  const std::string page = manual_page(app, {{"", "\nNOTES\n.Not a request, and 'none\n"},
                                             {"run", "\nBy hand:\n  my-tool run \\n-x\n"}});
  for (const char* part :
       {".TH MY-TOOL 1\n", "my\\-tool \\- A tool\n", ".SS run\nIt's a [command]: of some words.\n",
        "\\fB\\-o,\\-\\-out\\fR \\fIFILE\\fR\nWhere to\n",
        "By hand:\n.RS 4\n.EX\nmy\\-tool run \\en\\-x\n.EE\n.RE\n",
        ".SH NOTES\n\\&.Not a request"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part << "\n" << page;
  }
  add_manual(app, {{"run", "More of it."}});
  EXPECT_NE(app.get_subcommand("run")->help().find("More of it."), std::string::npos);
}

}  // namespace
}  // namespace greta
