#include "engine/probe/suite.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "tests/engine/engine_fixture.h"

namespace greta {
namespace {

TEST(SuiteOfLengths, HasThemInAnyVocabulary) {
  for (const int64_t vocab : {512, 32000}) {
    SynthShape shape = small_shape();
    shape.vocab = vocab;
    const TestModel model(shape, "q8_0");
    const auto tokenizer = Tokenizer::load(model.file());
    std::multiset<size_t> lengths;
    for (const SuitePrompt& prompt : find_suite("default").prompts) {
      lengths.insert(prompt_tokens(prompt, *tokenizer).size());
    }
    EXPECT_EQ(lengths, (std::multiset<size_t>{1, 2, 3, 5, 6, 7, 13, 16, 17, 32, 33, 43, 97, 129,
                                              300, 1030}));
  }
}

TEST(SuiteOfLengths, LeavesTheOldSuitesAsTheyAre) {
  std::vector<std::pair<std::string_view, int64_t>> prompts;
  for (const SuitePrompt& prompt : find_suite("b3_66_v2").prompts) {
    prompts.emplace_back(prompt.name, prompt.n_tokens);
  }
  using Prompts = std::vector<std::pair<std::string_view, int64_t>>;
  EXPECT_EQ(prompts, (Prompts{{"p0_short", 0}, {"p6_len_16", 16}, {"p6_len_32", 32}}));
}

TEST(PromptsToRunAgain, AreTheShortestThatHaveSeveralTokens) {
  using Numbers = std::vector<size_t>;
  const std::pair<std::vector<int64_t>, Numbers> cases[] = {
      {{}, {}},
      {{7}, {}},
      {{20, 10}, {1}},
      {{1, 20}, {1}},
      {{1, 1}, {0}},
      {{16, 2, 32}, {1}},
      {{100, 5, 1, 3, 4, 2}, {1 + 2, 4, 5}},  // 2, 3 and 4 of 115 tokens
      {{100, 5, 1, 3, 90, 2}, {1, 3, 5}},
      {{8, 8, 8, 8}, {0}}};
  for (const auto& [lengths, numbers] : cases) {
    EXPECT_EQ(prompts_to_run_again(lengths), numbers) << testing::PrintToString(lengths);
  }
}

class SuiteFileTest : public testing::Test {
 protected:
  SuiteFile read(const std::string& text) const {
    const auto path = folder_ / "s.jsonl";
    std::ofstream(path, std::ios::binary) << text;
    SuiteFile suite = read_suite_file(path, 100);
    for (std::string& mistake : suite.mistakes) {  // without the folder
      EXPECT_TRUE(mistake.starts_with(path.string())) << mistake;
      mistake = mistake.substr(path.string().size());
    }
    return suite;
  }
  /// The one mistake of a line, between two that are fine.
  std::string mistake(const std::string& line) const {
    const SuiteFile suite = read("{\"name\": \"a\", \"text\": \"x\"}\n" + line +
                                 "\n{\"name\": \"z\", \"tokens\": [1]}");
    EXPECT_EQ(suite.prompts.size(), 2u) << line;
    return suite.mistakes.size() == 1 ? suite.mistakes[0] : "none";
  }

  TemporaryFolder folder_;
};

TEST_F(SuiteFileTest, HasPromptsAsTextOrIds) {
  const SuiteFile suite = read(
      "{\"name\": \"a b\", \"text\": \"Hi \\u00e9\"}\r\n"
      "\n  \n"
      "{\"tokens\": [0, 99], \"name\": \"ids\", \"decode_steps\": 3}");
  EXPECT_TRUE(suite.mistakes.empty());
  ASSERT_EQ(suite.prompts.size(), 2u);
  EXPECT_EQ(suite.prompts[0].name, "a b");
  EXPECT_EQ(suite.prompts[0].text, "Hi é");
  EXPECT_EQ(suite.prompts[0].decode_steps, std::nullopt);
  EXPECT_EQ(suite.prompts[0].line, 1);
  EXPECT_EQ(suite.prompts[1].text, std::nullopt);
  EXPECT_EQ(suite.prompts[1].tokens, (std::vector<int32_t>{0, 99}));
  EXPECT_EQ(suite.prompts[1].decode_steps, 3);
  EXPECT_EQ(suite.prompts[1].line, 4);
}

TEST_F(SuiteFileTest, NamesLineAndReasonOfEveryMistake) {
  struct Case {
    const char *line, *says;
  };
  for (const auto& [line, says] : {
           Case{"x", ":2: it is not one JSON object"},
           {"[1]", ":2: it is not one JSON object"},
           {"{\"name\": \"b\", \"text\": \"x\"} {}", ":2: it is not one JSON object"},
           {"{\"name\": \"b\", \"text\": \"\xff\"}", ":2: it is not one JSON object"},
           {"{\"text\": \"x\"}", ":2: a prompt needs a \"name\""},
           {"{\"name\": \"\", \"text\": \"x\"}", ":2: a prompt needs a \"name\""},
           {"{\"name\": 7, \"text\": \"x\"}", ":2: \"name\" must be a text"},
           {"{\"name\": \"b\"}", ":2: a prompt is either \"text\" or \"tokens\""},
           {"{\"name\": \"b\", \"text\": \"x\", \"tokens\": [1]}",
            ":2: a prompt is either \"text\" or \"tokens\""},
           {"{\"name\": \"b\", \"text\": null}", ":2: \"text\" must be a text"},
           {"{\"name\": \"b\", \"tokens\": []}", ":2: \"tokens\" must be a list of ids"},
           {"{\"name\": \"b\", \"tokens\": 5}", ":2: \"tokens\" must be a list of ids"},
           {"{\"name\": \"b\", \"tokens\": [1, 100]}",
            ":2: there is no token 100; it must be a whole number from 0 to 99"},
           {"{\"name\": \"b\", \"tokens\": [-1]}",
            ":2: there is no token -1; it must be a whole number from 0 to 99"},
           {"{\"name\": \"b\", \"tokens\": [1.5]}",
            ":2: there is no token 1.5; it must be a whole number from 0 to 99"},
           {"{\"name\": \"b\", \"tokens\": [1e99]}",
            ":2: there is no token 1e+99; it must be a whole number from 0 to 99"},
           {"{\"name\": \"b\", \"tokens\": [18446744073709551616]}",
            ":2: there is no token 1.8446744073709552e+19; it must be a whole number from 0 to 99"},
           {"{\"name\": \"b\", \"text\": \"x\", \"decode_steps\": -2}",
            ":2: decode_steps is -2; it must be a whole number from 0 to 2097149"},
           {"{\"name\": \"b\", \"text\": \"x\", \"decode_step\": 2}",
            ":2: \"decode_step\" is none of name, text, tokens and decode_steps"},
           {"{\"name\": \"a\", \"text\": \"y\"}", ":2: the name a is that of line 1"},
       }) {
    EXPECT_EQ(mistake(line), says) << line;
  }
}

TEST_F(SuiteFileTest, ThatCannotBeReadIsRefused) {
  EXPECT_THROW(read_suite_file(folder_ / "nowhere", 100), std::invalid_argument);
  EXPECT_THROW(read_suite_file(folder_ / ".", 100), std::invalid_argument);
}

}  // namespace
}  // namespace greta
