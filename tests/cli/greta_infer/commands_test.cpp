#include <algorithm>

#include "cli/greta_infer/environment.h"
#include "engine/hip/backend.h"
#include "tests/cli/greta_infer/infer_program.h"

namespace greta {
namespace {

class Infer : public InferProgram {};

TEST_F(Infer, VersionNamesTheCommit) {
  const Result result = sh("$I --version");
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out.substr(0, 12), "greta-infer ");
  EXPECT_TRUE(result.says("commit "));
}

TEST_F(Infer, HelpExitsZeroAndUsageErrorsExitTwo) {
  for (const char* words :
       {"--help", "probe --help", "run --help", "synth --help", "info --help"}) {
    EXPECT_EQ(sh(std::string("$I ") + words).status, 0) << words;
  }
  for (const char* words : {"", "nonsense", "probe --nonsense", "synth", "run --model m.gguf"}) {
    const Result result = sh(std::string("$I ") + words);
    EXPECT_EQ(result.status, 2) << words;
    EXPECT_EQ(result.err.substr(0, 13), "greta-infer: ") << words;
  }
}

TEST_F(Infer, EveryVariableIsInHelpAndManual) {
  const Result help = sh("$I --help"), manual = sh("$I manual");
  for (const EnvironmentVariable& variable : environment_variables()) {
    EXPECT_TRUE(help.says(std::string(variable.name))) << variable.name;
    EXPECT_TRUE(manual.says(std::string(variable.name))) << variable.name;
  }
}

/// Whether a text holds ESC, another control character but line end and tab, or one that turns
/// text.
bool acts_on_a_terminal(const std::string& text) {
  return std::any_of(text.begin(), text.end(),
                     [](unsigned char c) {
                       return (c < 0x20 && c != '\n' && c != '\t' && c != '\r') || c == 0x7f;
                     }) ||
         text.find("\u202e") != std::string::npos || text.find("\u009b") != std::string::npos;
}

TEST_F(Infer, NoNameOfAModelOrFileReachesTheTerminalAsItIs) {
  make_model();
  // general.name, of the same length.
  const std::string folder = path("m\x1b[31m\u202e");
  std::filesystem::create_directory(folder);
  ASSERT_EQ(
      sh("sed 's/synth tiny/\x1b[31m\u202e\x7f!/' m.gguf >" + quoted(folder + "/m.gguf")).status,
      0);
  const std::string model = quoted(folder + "/m.gguf"), none = quoted(folder + "/none\n.gguf");
  for (const std::string& command :
       {"info --tensors -m " + model, "info -m " + none,
        "probe -m " + model + " --prompt a --tensors " + quoted("\x1b"),
        "probe -m " + model + " --prompt a --name " + quoted("p\x1b[31m\u202e") + " --db " +
            quoted(folder + "/\x1b.db"),
        "run -n 1 -m " + model + " --prompt " + quoted(folder + "/m.gguf") + " --db " +
            quoted(folder + "/\x1b.db") + " >text",
        "run -m " + none + " --prompt a", "tokenize -m " + model + " -f " + none,
        "synth --out " + model, "synth --out " + quoted(folder + "/new.gguf"), quoted("\x1b[31m"),
        "run " + quoted("--\x1b[31m")}) {
    const Result result = sh("$I " + command);
    EXPECT_NE(result.out + result.err, "") << command;
    EXPECT_FALSE(acts_on_a_terminal(result.out + result.err))
        << command << result.out << result.err;
  }
}

TEST_F(Infer, GeneratedTextActsOnNoTerminalAndIsWholeElsewhere) {
  make_model();
  const std::vector<std::string> words = {"run",           "-m", "m.gguf", "-p", "a", "-n", "400",
                                          "--temperature", "5",  "--seed", "1"};
  std::string command = "$I";
  for (const std::string& word : words) command += " " + word;
  EXPECT_TRUE(acts_on_a_terminal(sh(command).out));
  const Result shown = on_terminal(GRETA_INFER_PROGRAM, words);
  EXPECT_EQ(shown.status, 0);
  EXPECT_NE(shown.out.find("\\x"), std::string::npos);
  std::string text = shown.out;  // but for the progress bar
  for (size_t at; (at = text.find("\r\x1b[K")) != std::string::npos;) text.erase(at, 4);
  EXPECT_FALSE(acts_on_a_terminal(text)) << text;
}

TEST_F(Infer, SynthIsDeterministicAndReplacesNothingUnasked) {
  make_model();
  EXPECT_TRUE(sh("$I synth --out m.gguf").answers(2, {"--force"}));
  ASSERT_EQ(sh("mv m.gguf first.gguf").status, 0);
  make_model();
  EXPECT_EQ(sh("cmp m.gguf first.gguf").status, 0);
  make_model("--type q8_0 --seed 2 --force");
  EXPECT_EQ(sh("cmp -s m.gguf first.gguf").status, 1);
}

TEST_F(Infer, InfoSaysWhatAFileHolds) {
  make_model();
  const Result info = sh("$I info --model m.gguf --tensors");
  EXPECT_EQ(info.status, 0) << info.err;
  for (const char* text : {"4 query, 2 key and value, of 32", "q8_0", "blk.11.ffn_down.weight",
                           "llama.block_count", "greta can run it"}) {
    EXPECT_TRUE(info.says(text)) << text;
  }
}

TEST_F(Infer, InfoSaysArchitectureRopeScalingAndWindow) {
  ASSERT_EQ(sh("$I synth --layers 1 --architecture qwen3 --rope-scaling yarn --rope-factor 8 "
               "--original-context 512 --window 20 --out q.gguf")
                .status,
            0);
  const Result info = sh("$I info --model q.gguf");
  EXPECT_EQ(info.status, 0) << info.err;
  for (const char* text : {"architecture qwen3",
                           "theta 500000, 32 values of a head, i with i + d/2, scaled: yarn, 8 "
                           "times 512 positions",
                           "window       20 positions", "greta can run it"}) {
    EXPECT_TRUE(info.says(text)) << text << "\n" << info.out;
  }
  EXPECT_EQ(sh("$I synth --architecture bert --out b.gguf").status, 2);
}

TEST_F(Infer, InfoSaysWhyAFileCannotRun) {
  make_model();
  // Metadata that contradicts the weights: as many key and value heads as query heads.
  const std::string key = "llama.attention.head_count_kv";
  std::string bytes = read(path("m.gguf"));
  const size_t at = bytes.find(key);
  ASSERT_NE(at, std::string::npos);
  bytes[at + key.size() + 4] = 4;  // behind the value's type
  write("bad.gguf", bytes);
  EXPECT_TRUE(sh("$I info --model bad.gguf").answers(1, {"greta cannot run it"}));
  EXPECT_EQ(sh("$I probe --model bad.gguf").status, 2);
}

TEST_F(Infer, TokenizeTakesTextFileAndLines) {
  make_model();
  const Result text = sh("$I tokenize --model m.gguf --prompt 'the end'");
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out, "\n");
  EXPECT_EQ(sh("printf 'the end\\n' | $I tokenize --model m.gguf").out, text.out);
  EXPECT_EQ(sh("printf 'the end\\n' >p; $I tokenize --model m.gguf --prompt-file p").out, text.out);
  EXPECT_EQ(sh("printf 'the end\\n\\nthe end\\n' | $I tokenize --model m.gguf --lines").out,
            text.out + sh("$I tokenize --model m.gguf --prompt ''").out + text.out);
  EXPECT_LT(sh("$I tokenize --model m.gguf --prompt 'the end' --no-bos").out.size(),
            text.out.size());
}

TEST_F(Infer, TokenizeTakesTheEmptyText) {
  make_model();
  const Result bos = sh("$I tokenize --model m.gguf --prompt ''");
  EXPECT_EQ(bos.status, 0) << bos.err;
  EXPECT_EQ(bos.out, "496\n");
  for (const char* empty : {"--prompt=", "-p ''", "--prompt-file /dev/null", "</dev/null"}) {
    EXPECT_EQ(sh(std::string("$I tokenize --model m.gguf ") + empty).out, bos.out) << empty;
  }
  EXPECT_EQ(sh("$I tokenize --model m.gguf --prompt= --no-bos").out, "\n");
  EXPECT_EQ(sh("$I tokenize --model m.gguf --prompt").status, 2);
}

TEST_F(Infer, AModelThatStatesNoPreTokenizerIsSplitByDefaultWithAWarning) {
  make_model();
  const std::string key = "tokenizer.ggml.pre";
  std::string bytes = read(path("m.gguf"));
  const size_t at = bytes.find(key);
  ASSERT_NE(at, std::string::npos);
  bytes[at + key.size() - 1] = 'X';
  write("old.gguf", bytes);
  const Result old = sh("$I tokenize --model old.gguf --prompt '1234 the end'");
  EXPECT_EQ(old.status, 0) << old.err;
  EXPECT_TRUE(old.says("states no tokenizer.ggml.pre"));
  EXPECT_TRUE(
      sh("$I info --model old.gguf").says("text split as default: the file states nothing"));
  EXPECT_TRUE(sh("$I info --model m.gguf").says("text split as llama-bpe"));
  EXPECT_FALSE(sh("$I tokenize --model m.gguf --prompt 'the end'").says("warning"));

  bytes = read(path("m.gguf"));
  bytes.replace(bytes.find("llama-bpe"), 9, "llama-xyz");
  write("other.gguf", bytes);
  const Result other = sh("$I tokenize --model other.gguf --prompt 'the end'");
  EXPECT_EQ(other.status, 2);
  EXPECT_TRUE(other.says("tokenizer.ggml.pre is 'llama-xyz'; supported: llama-bpe"));
  // Ids need no vocabulary.
  EXPECT_EQ(sh("$I probe --model other.gguf --tokens 1,2,3").status, 0);
}

TEST_F(Infer, CompletionHasTheValuesOfEveryEnumeratedOption) {
  const std::pair<const char*, const char*> cases[] = {
      {"pr", "probe"},
      {"probe --mode kv", "kv_aligned"},
      {"probe --suite b3_13", "b3_13"},
      {"probe --inject rope_pa", "rope_pairing"},
      {"probe --tensors attn_out,logits_topk", "attn_out,logits_topk"},
      {"probe --phases prefill_l", "prefill_last"},
      {"probe --route lm_head = d", "dot"},
      {"probe --backend c", "cpu"},
      {"sweep --format j", "json"},
      {"calibrate --suite b3_13", "b3_13"},
      {"synth --type q5_k_", "q5_k_m"},
      {"completion f", "fish"},
  };
  ASSERT_EQ(sh("$I completion bash >c").status, 0);
  for (const auto& [words, offered] : cases) {
    const Result result =
        sh("PATH=$(dirname \"$I\"):$PATH bash -c '. ./c; COMP_WORDS=(greta-infer " +
           std::string(words) +
           "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _greta_infer; echo ${COMPREPLY[@]}'");
    EXPECT_EQ(result.out, std::string(offered) + "\n") << words << result.err;
  }
}

TEST_F(Infer, AnUnknownCommandIsNamed) {
  EXPECT_TRUE(sh("$I prob").answers(2, {"no command 'prob'; perhaps:\n  probe"}));
}

TEST_F(Infer, ListNamesSuitesFaultsTensorsAndRoutes) {
  const Result list = sh("$I probe --list");
  EXPECT_EQ(list.status, 0) << list.err;
  for (const char* text : {"b3_13", "mask_off_by_one", "attn_scores", "ONLINE", "kv_aligned"}) {
    EXPECT_TRUE(list.says(text)) << text;
  }
}

TEST_F(Infer, BackendThatIsNotThereIsNamed) {
  if (gpu_count() > 0) GTEST_SKIP() << "there is a GPU, and this build has kernels for it";
  make_model();
  EXPECT_TRUE(
      sh("$I run --model m.gguf --prompt x --backend hip").answers(2, {"no GPU", "--backend cpu"}));
}

TEST_F(Infer, WhatKeepsNoRowsIsNoDatabaseAndWhatHoldsNoWeightsNoModel) {
  make_model();
  ASSERT_EQ(sh("mkfifo pipe && mkdir folder").status, 0);
  for (const char* name :
       {"''", ":memory:", "'file:x?mode=memory'", "pipe", "folder", "/dev/null"}) {
    for (const char* command : {"probe -m m.gguf -p x", "run -m m.gguf -p x --max-tokens 1"}) {
      const Result result = sh(std::string("timeout 60 $I ") + command + " --db " + name);
      EXPECT_EQ(result.status, 2) << name << result.err;
      EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    }
  }
  write("text.gguf", "this is no model");
  write("empty.gguf", "");
  for (const char* model :
       {"pipe", "folder", "/dev/null", "text.gguf", "empty.gguf", "missing.gguf"}) {
    for (const char* command : {"probe", "run -p x", "info", "tokenize -p x"}) {
      const Result result = sh(std::string("timeout 20 $I ") + command + " -m " + model);
      EXPECT_EQ(result.status, 2) << command << " " << model << result.err;
      EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    }
  }
  EXPECT_FALSE(std::filesystem::exists(database()));
}

}  // namespace
}  // namespace greta
