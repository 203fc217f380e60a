// What may be asked of a probe: prompts and suites, layers, tensors and phases, flags and
// variables; and mistakes.
#include "tests/cli/greta_infer/infer_program.h"

namespace greta {
namespace {

class InferProbeOptions : public InferProgram {};

TEST_F(InferProbeOptions, OwnPromptsComeAsTextFileOrIds) {
  make_model();
  write("p.txt", "the engine\n");
  ASSERT_EQ(sh("$I probe $Q --model m.gguf --prompt 'the engine' --name a --experiment e").status,
            0);
  ASSERT_EQ(sh("$I probe $Q --model m.gguf --prompt-file p.txt --name b --experiment e").status, 0);
  const Result ids = sh("$I tokenize --model m.gguf --prompt 'the engine'");
  ASSERT_EQ(
      sh("$I probe $Q --model m.gguf --tokens '" + ids.out + "' --name c --experiment e").status,
      0);
  EXPECT_EQ(query("SELECT name FROM prompt ORDER BY id"), "a\nb\nc\n");
  EXPECT_EQ(query("SELECT count(DISTINCT token_ids), count(DISTINCT text_sha256) FROM prompt"),
            "1\t1\n");
  EXPECT_EQ(
      query("SELECT count(DISTINCT hash) FROM trace WHERE tensor = 'logits' AND phase = 'decode0'"),
      "1\n");
}

TEST_F(InferProbeOptions, LayersTensorsAndPhasesAreChosen) {
  make_model();
  ASSERT_EQ(sh("$I probe --model m.gguf --prompt 'a b c' --layers 7,3 --tensors attn_out,logits"
               " --phases prefill_last,prefill,decode0,decode --decode-steps 2")
                .status,
            0);
  EXPECT_EQ(
      query("SELECT tensor, group_concat(DISTINCT layer), count(*) > 0 FROM trace GROUP BY tensor"),
      "attn_out\t3,7\t1\nlogits\t-1\t1\n");
  EXPECT_EQ(
      query("SELECT phase, count(DISTINCT pos_id) > 0 FROM trace GROUP BY phase ORDER BY phase"),
      "decode\t1\ndecode0\t1\nprefill\t1\nprefill_last\t1\n");
  ASSERT_EQ(sh("$I probe --model m.gguf --prompt a --decode-steps 0 --db range.db --layers 9,5-7,6")
                .status,
            0);
  EXPECT_EQ(
      query("SELECT group_concat(layer) FROM (SELECT DISTINCT layer FROM trace WHERE tensor = "
            "'attn_out')",
            "range.db"),
      "5,6,7,9\n");
  EXPECT_EQ(query("SELECT value FROM attribute WHERE dim = 'trace.layers'", "range.db"),
            "5,6,7,9\n");
  ASSERT_EQ(sh("$I probe --model m.gguf $Q --db all.db --layers all --tensors all").status, 0);
  EXPECT_EQ(query("SELECT count(DISTINCT layer) FROM trace WHERE layer >= 0", "all.db"), "12\n");
}

TEST_F(InferProbeOptions, AFlagWinsOverItsVariable) {
  make_model();
  ASSERT_EQ(sh("GRETA_DB=v.db GRETA_B3_66_MODE=kv_aligned GRETA_SEED=1 GRETA_TRACE_LAYERS=1,2"
               " GRETA_MAX_SEQ_LEN=64 $I probe $Q --model m.gguf")
                .status,
            0);
  EXPECT_EQ(query("SELECT mode, seed FROM run", "v.db"), "kv_aligned\t1\n");
  EXPECT_EQ(
      query("SELECT group_concat(DISTINCT layer) FROM trace WHERE tensor = 'attn_out'", "v.db"),
      "1,2\n");
  EXPECT_EQ(query("SELECT value FROM attribute WHERE dim = 'max_seq_len'", "v.db"), "64\n");
  // Values that a flag overrides need not even make sense.
  ASSERT_EQ(
      sh("GRETA_DB=/nowhere/x.db GRETA_B3_66_MODE=none GRETA_SEED=x GRETA_TRACE_LAYERS=99"
         " GRETA_MAX_SEQ_LEN=0 $I probe $Q --model m.gguf --db f.db --mode batch_invariant --seed 2"
         " --layers 3 --max-seq-len 50")
          .status,
      0);
  EXPECT_EQ(query("SELECT mode, seed FROM run", "f.db"), "batch_invariant\t2\n");
  EXPECT_EQ(
      query("SELECT group_concat(DISTINCT layer) FROM trace WHERE tensor = 'attn_out'", "f.db"),
      "3\n");
  EXPECT_EQ(query("SELECT value FROM attribute WHERE dim = 'max_seq_len'", "f.db"), "50\n");
}

TEST_F(InferProbeOptions, MistakesGetOneLineAndNoRun) {
  make_model();
  struct Mistake {
    const char* words;
    const char* says;
  };
  for (const auto& [words, says] : {
           Mistake{"--layers 12", "layers 0 to 11"},
           {"--layers x", "not a whole number"},
           {"--layers 3-", "not a whole number"},
           {"--layers 4-3", "4-3 is empty"},
           {"--layers 8-12", "layers 0 to 11"},
           {"--layers -1", "no layer -1"},
           {"--tensors attn_out,nonsense", "attn_scores"},
           {"--phases decode9", "prefill_last"},
           {"--mode fast", "as_designed"},
           {"--suite b9", "b3_66_v2"},
           {"--inject nothing", "rope_theta"},
           {"--inject rope_theta:layer=12", "layers 0 to 11"},
           {"--route lm_head=fast", "GEMM"},
           {"--prompt 'one two three' --max-seq-len 2", "room for 2"},
           {"--tokens ''", "no tokens"},
           {"--tokens '1 512'", "no token 512"},
           {"--tokens '1 x'", "not a whole number"},
           {"--max-seq-len 8 --decode-steps 8", "no room"},
           {"--prompt 'one two' --max-seq-len 8", "or pass --decode-steps 1"},
           {"--prompt x --inject rope_theta:pos=97",
            "would change nothing: decode is traced up to"},
           {"--prompt x --inject race:step=10", "decode ends with step 9"},
           {"--prompt x --mode kv_aligned --inject kv_wrong_slot", "leaves the K and V rows"},
           {"--prompt x --phases prefill_last --inject race", "decode has no traced row"},
           {"--inject race:step=0", "start at 1"},
           {"--date yesterday", "not a date"},
           {"--date 2026-02-30", "not a date"},
           {"--experiment a/b", "letters"},
           {"--db /nowhere/greta.db", "/nowhere"},
           {"--db .", "greta-infer: "},
           {"--prompt x --prompt-file y", "excludes"},
       }) {
    const Result result = sh(std::string("$I probe --model m.gguf ") + words);
    EXPECT_EQ(result.status, 2) << words << result.out;
    EXPECT_EQ(result.err.substr(0, 13), "greta-infer: ") << words;
    EXPECT_TRUE(result.says(says)) << words << ": " << result.err;
  }
  EXPECT_FALSE(std::filesystem::exists(database()));
}

TEST_F(InferProbeOptions, VariablesThatMakeNoSenseAreNamed) {
  make_model();
  for (const char* variable :
       {"GRETA_SEED=x", "GRETA_SEED=1x", "GRETA_SEED=1.5", "GRETA_SEED=-1",
        "GRETA_SEED=99999999999999999999", "GRETA_MAX_SEQ_LEN=0", "GRETA_TRACE_LAYERS=12",
        "GRETA_B3_66_MODE=fast", "GRETA_INT4_WEIGHTS=maybe", "GRETA_TRACE_RMS_VERIFY=2"}) {
    const Result result = sh(std::string(variable) + " $I probe $Q --model m.gguf");
    EXPECT_EQ(result.status, 2) << variable;
    const std::string name(variable, std::string_view(variable).find('='));
    EXPECT_TRUE(result.says(name));
  }
  EXPECT_EQ(sh("GRETA_DB= GRETA_SEED= GRETA_TRACE_LAYERS= GRETA_TRACE_RMS_VERIFY= $I probe $Q"
               " --model m.gguf --prompt x")
                .status,
            0)
      << "an empty variable is not set";
}

TEST_F(InferProbeOptions, Int4WeightsCanBeInsistedOn) {
  make_model("--type q8_0");
  const auto probe = [&](const std::string& value) {
    return sh("GRETA_INT4_WEIGHTS=" + value + " $I probe $Q --model m.gguf --prompt x");
  };
  for (const char* on : {"1", "on", "true", "yes"}) {
    EXPECT_TRUE(probe(on).answers(2, {"q8_0"})) << on;
  }
  for (const char* off : {"0", "off", "false", "no"}) EXPECT_EQ(probe(off).status, 0) << off;
  for (const char* type : {"q4_0", "iq4_nl"}) {
    make_model(std::string("--force --type ") + type);
    EXPECT_EQ(probe("1").status, 0) << type;
  }
}

TEST_F(InferProbeOptions, TheB313SuiteChecksTheHead) {
  make_model();
  ASSERT_EQ(sh("$I probe --model m.gguf --suite b3_13 --delta-out d.jsonl").status, 0);
  EXPECT_EQ(query("SELECT count(*), min(cpu_probe_agrees_prefill), min(cpu_probe_agrees_decode) "
                  "FROM lm_head_delta"),
            "2\t1\t1\n");
  EXPECT_EQ(query("SELECT count(DISTINCT tensor), min(layer), max(layer) FROM trace"),
            "6\t-1\t-1\n");
  EXPECT_EQ(sh("wc -l <d.jsonl").out, "4\n");
}

TEST_F(InferProbeOptions, TheDefaultSuiteCoversLengthsAsFarAsTheyFit) {
  make_model();
  const Result probe = sh("$I probe --model m.gguf --layers 0 --tensors logits");
  ASSERT_EQ(probe.status, 0) << probe.err;
  EXPECT_EQ(probe.err, "");
  EXPECT_EQ(query("SELECT count(DISTINCT json_array_length(token_ids) % 8),"
                  " max(json_array_length(token_ids)) > 2 * 512 FROM prompt"),
            "8\t1\n");
  const Result small =
      sh("$I probe --model m.gguf --db small.db --layers 0 --tensors logits --max-seq-len 41");
  ASSERT_EQ(small.status, 0) << small.err;
  EXPECT_TRUE(
      small.says("prompt len_43 is left out: 43 tokens and 4 decoded ones do not fit 41 "
                 "positions"))
      << small.err;
  const std::string fits = "(json_array_length(token_ids) + 8 <= 41)";
  const std::string names = "SELECT group_concat(name) FROM (SELECT name FROM prompt WHERE ";
  EXPECT_EQ(query(names + "1 ORDER BY id)", "small.db"), query(names + fits + " ORDER BY id)"));
  EXPECT_EQ(
      query("SELECT group_concat(value) FROM attribute WHERE dim = 'prompt_left_out'", "small.db"),
      query(names + "NOT " + fits + " ORDER BY id)"));
}

TEST_F(InferProbeOptions, ASuiteOfOnesOwnIsAFile) {
  make_model();
  write("my suite.jsonl",
        "{\"name\": \"greeting\", \"text\": \"Hi\"}\n\n"
        "{\"name\": \"ids\", \"tokens\": [5, 6, 7], \"decode_steps\": 2}\n");
  const Result probe =
      sh("$I probe --model m.gguf --suite 'my suite.jsonl' --decode-steps 1"
         " --mode batch_invariant --gate strict --date 2026-02-07");
  ASSERT_EQ(probe.status, 0) << probe.err << probe.out;
  EXPECT_EQ(query("SELECT name FROM run"), "2026-02-07/my_suite/batch_invariant\n");
  EXPECT_EQ(query("SELECT prompt, count(DISTINCT pos_id) FROM trace GROUP BY prompt"),
            "greeting\t2\nids\t3\n");
  EXPECT_EQ(query("SELECT token_ids, text_sha256 IS NULL FROM prompt WHERE name = 'ids'"),
            "[5,6,7]\t1\n");
}

TEST_F(InferProbeOptions, EveryBadLineOfASuiteIsNamedBeforeAnythingRuns) {
  make_model();
  write("s.jsonl",
        "{\"name\": \"a\", \"text\": \"Hi\"}\n"
        "{\"name\": \"a\", \"text\": \"Hi\"}\n"
        "nonsense\n"
        "{\"name\": \"b\", \"tokens\": [512]}\n"
        "{\"name\": \"c\", \"tokens\": [1, 2, 3], \"decode_steps\": 5000}\n");
  const Result probe = sh("$I probe --model m.gguf --suite s.jsonl");
  EXPECT_EQ(probe.status, 2);
  for (const char* part :
       {"s.jsonl:2: the name a is that of line 1", "s.jsonl:3: it is not one JSON object",
        "s.jsonl:4: there is no token 512", "s.jsonl:5: prompt c has 3 tokens",
        "s.jsonl: 4 lines cannot be taken; nothing was run"}) {
    EXPECT_TRUE(probe.says(part)) << part << "\n" << probe.err;
  }
  EXPECT_FALSE(std::filesystem::exists(database()));
  write("empty.jsonl", "\n");
  EXPECT_TRUE(sh("$I probe --model m.gguf --suite empty.jsonl").says("has no prompt"));
}

}  // namespace
}  // namespace greta
