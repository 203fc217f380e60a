#include <algorithm>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "tests/cli/greta_infer/infer_program.h"

namespace greta {
namespace {

class InferRun : public InferProgram {};

TEST_F(InferRun, GreedyTextIsAlwaysTheSame) {
  make_model();
  const Result once =
      sh("$I run --model m.gguf --prompt 'the engine' --max-tokens 24 --ignore-eos");
  EXPECT_EQ(once.status, 0) << once.err;
  EXPECT_GT(once.out.size(), 1u);
  const Result again =
      sh("$I run --model m.gguf --prompt 'the engine' --max-tokens 24 --ignore-eos --threads 1");
  EXPECT_EQ(once.out, again.out);
}

TEST_F(InferRun, ASeedDecidesTheText) {
  make_model();
  const auto text = [&](const std::string& options) {
    const Result result =
        sh("$I run --model m.gguf --prompt 'the engine' --ignore-eos"
           " --max-tokens 24 --temperature 1 " +
           options);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  };
  EXPECT_EQ(text("--seed 3"), text("--seed 3"));
  EXPECT_NE(text("--seed 3"), text("--seed 4"));
  EXPECT_EQ(text("--seed 3 --top-k 1"), text("--seed 4 --top-k 1"));
}

TEST_F(InferRun, FiguresGoToStandardErrorAndTextIsWholeCharacters) {
  make_model();
  const Result result = sh(
      "$I run --model m.gguf --prompt 'the engine' --max-tokens 40 --ignore-eos --temperature 1");
  EXPECT_TRUE(std::regex_search(result.err, std::regex("prompt   [0-9]+ tokens? in .* tokens/s")))
      << result.err;
  EXPECT_TRUE(std::regex_search(result.err, std::regex("decode   39 tokens in .* tokens/s")))
      << result.err;
  EXPECT_TRUE(result.says("40 tokens, --max-tokens reached"));
  EXPECT_EQ(result.out.find("tokens/s"), std::string::npos);
  EXPECT_EQ(sh("iconv -f UTF-8 -t UTF-8 <.out >/dev/null").status, 0);
}

TEST_F(InferRun, ContextThatIsFullEndsTheText) {
  make_model();
  EXPECT_TRUE(sh("$I run --model m.gguf --prompt hi --max-seq-len 16 --ignore-eos")
                  .answers(0, {"context full"}));
}

TEST_F(InferRun, PromptThatNamesAFileWarns) {
  make_model();
  write("p.txt", "the engine\n");
  EXPECT_TRUE(sh("$I run --model m.gguf --prompt p.txt --max-tokens 1")
                  .answers(0, {"warning", "--prompt-file"}));
  const Result file = sh("$I run --model m.gguf --prompt-file p.txt --max-tokens 8 --ignore-eos");
  EXPECT_FALSE(file.says("warning"));
  const Result text = sh("$I run --model m.gguf --prompt 'the engine' --max-tokens 8 --ignore-eos");
  EXPECT_FALSE(text.says("warning"));
  EXPECT_EQ(file.out, text.out);
}

TEST_F(InferRun, APromptMayBeGivenAsTokenIds) {
  make_model();
  const std::string rest = " --max-tokens 8 --ignore-eos --experiment e --db greta.db";
  const Result text = sh("$I run --model m.gguf --prompt 'the engine'" + rest);
  ASSERT_EQ(text.status, 0) << text.err;
  const std::string ids = sh("$I tokenize --model m.gguf --prompt 'the engine'").out;
  std::string commas = ids.substr(0, ids.size() - 1);
  std::ranges::replace(commas, ' ', ',');
  EXPECT_EQ(sh("$I run --model m.gguf --tokens " + commas + rest).out, text.out);
  EXPECT_EQ(sh("$I run --model m.gguf --tokens '" + ids + "'" + rest).out, text.out);
  EXPECT_EQ(query("SELECT count(*), count(DISTINCT token_ids), count(text_sha256) FROM prompt"),
            "3\t1\t1\n");
  for (const auto& [options, part] : std::vector<std::pair<std::string, std::string>>{
           {"--tokens 1,512", "there is no token 512; the model has 0 to 511"},
           {"--tokens=-1", "there is no token -1"},
           {"--tokens 1,x", "token id 'x' is not a whole number"},
           {"--tokens ''", "no tokens"},
           {"--tokens 1 --prompt x", "excludes"},
           {"--tokens 1 --no-bos", "excludes"},
           {"", "run needs --prompt TEXT, --prompt-file FILE or --tokens IDS"}}) {
    EXPECT_TRUE(sh("$I run --model m.gguf " + options).answers(2, {part})) << options;
  }
}

TEST_F(InferRun, PromptsThatDoNotFitAreRefused) {
  make_model();
  EXPECT_TRUE(sh("$I run --model m.gguf --prompt 'one two three four' --max-seq-len 3")
                  .answers(2, {"room for 3"}));
  EXPECT_TRUE(sh("$I run --model m.gguf --prompt '' --no-bos").answers(2, {"no tokens"}));
  EXPECT_EQ(sh("$I run --model m.gguf --prompt-file missing.txt").status, 2);
}

TEST_F(InferRun, WithoutADatabaseNothingIsRecorded) {
  make_model();
  // Nor do variables matter that say what to trace and where.
  ASSERT_EQ(sh("GRETA_DB=greta.db GRETA_TRACE_LAYERS=99 $I run --model m.gguf --prompt hi"
               " --max-tokens 2")
                .status,
            0);
  EXPECT_FALSE(std::filesystem::exists(database()));
}

TEST_F(InferRun, AGenerationCanBeRecorded) {
  make_model();
  const Result result =
      sh("$I run --model m.gguf --prompt hi --max-tokens 4 --ignore-eos"
         " --db greta.db --date 2026-02-07 --layers 0,3 --seed 7");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(result.says("2026-02-07/run"));
  EXPECT_EQ(query("SELECT phase, count(DISTINCT step), group_concat(DISTINCT layer) FROM trace "
                  "WHERE tensor = 'attn_out' GROUP BY phase ORDER BY phase"),
            "decode\t2\t0,3\ndecode0\t1\t0,3\n");
  EXPECT_EQ(query("SELECT verdict, coverage FROM run_verdict"), "NO_EVIDENCE\tundeclared\n");
  EXPECT_EQ(query("SELECT status, seed FROM run"), "complete\t7\n");
  const Result again =
      sh("$I run --model m.gguf --prompt hi --max-tokens 4 --ignore-eos"
         " --db greta.db --date 2026-02-07 --layers 0,3 --seed 7");
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(sh("$G compare 2026-02-07/run 2026-02-07/run#2").status, 0);
}

TEST_F(InferRun, TracingDoesNotChangeTheText) {
  make_model();
  const std::string words =
      "$I run --model m.gguf --prompt 'the engine' --ignore-eos --max-tokens 20 ";
  const Result plain = sh(words);
  const Result traced =
      sh(words + "--db greta.db --layers all --phases prefill_last,prefill,decode0,decode");
  ASSERT_EQ(traced.status, 0) << traced.err;
  EXPECT_EQ(plain.out, traced.out);
  EXPECT_EQ(query("SELECT count(DISTINCT phase) FROM trace"), "4\n");
}

TEST_F(InferRun, TheSeedDocumentsVariableProbesThePromptFirst) {
  make_model();
  const Result result =
      sh("GRETA_TRACE_B3_66=1 GRETA_B3_66_MODE=batch_invariant GRETA_DB=other.db"
         " $I run --model m.gguf --prompt 'the engine' --max-tokens 2");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(result.says(": PASS, "));
  EXPECT_EQ(query("SELECT experiment, mode, verdict, coverage FROM run_verdict", "other.db"),
            "b3_66\tbatch_invariant\tPASS\tcomplete\n");
  EXPECT_EQ(query("SELECT count(DISTINCT pos_id), max(step) FROM trace WHERE phase = 'decode'",
                  "other.db"),
            "8\t9\n");
}

TEST_F(InferRun, TheProbeBeforeItDecodesAsManyTokensAsThereIsRoomFor) {
  make_model();
  const Result result =
      sh("GRETA_TRACE_B3_66=1 GRETA_DB=other.db GRETA_MAX_SEQ_LEN=$(($($I tokenize --model m.gguf"
         " --prompt 'the engine' | wc -w) + 3)) $I run --model m.gguf --prompt 'the engine'"
         " --max-tokens 2");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(query("SELECT count(DISTINCT pos_id) FROM trace WHERE phase = 'decode'", "other.db"),
            "3\n");
}

TEST_F(InferRun, TheHeadChecksOfB313CanBeAskedFor) {
  make_model();
  const Result result =
      sh("GRETA_TRACE_PREFILL_DECODE_DELTA=1 GRETA_TRACE_PREFILL_DECODE_OUT=delta.jsonl"
         " $I run --model m.gguf --prompt 'the engine' --max-tokens 2");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(query("SELECT experiment, count(*) FROM run"), "b3_13\t1\n");
  EXPECT_EQ(query("SELECT cpu_probe_agrees_prefill, cpu_probe_agrees_decode FROM lm_head_delta"),
            "1\t1\n");
  EXPECT_EQ(sh("grep -o '\"phase\":\"[a-z0-9_]*\"' delta.jsonl").out,
            "\"phase\":\"prefill_last\"\n\"phase\":\"decode0\"\n");
}

TEST_F(InferRun, EndsInTroubleWithItsRowsWhenNoLogitIsANumber) {
  make_model();
  const Result run =
      sh("$I run --model m.gguf --prompt a --max-tokens 6 --layers 0 --tensors q_pre_rope"
         " --inject softmax_no_max:step=3");
  EXPECT_EQ(run.status, 2);
  EXPECT_TRUE(run.says("after 3 tokens no logit is a number"));
  EXPECT_EQ(query("SELECT r.status, v.verdict FROM run r JOIN run_verdict v ON v.run = r.name"),
            "complete\tFAIL\n");
  EXPECT_EQ(query("SELECT tensor, count(*) FROM trace GROUP BY tensor"),
            "logits\t1\nq_pre_rope\t3\n");
  EXPECT_EQ(sh("$I run --model m.gguf --prompt a --max-tokens 1 --inject race").status, 2);
}

}  // namespace
}  // namespace greta
