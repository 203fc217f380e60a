// What a probe finds and records, mode by mode.
#include "tests/cli/greta_infer/infer_program.h"

namespace greta {
namespace {

class InferProbe : public InferProgram {};

TEST_F(InferProbe, AsDesignedDiffersByRoundingOnly) {
  make_model();
  const Result probe = sh("$I probe $Q --model m.gguf");
  ASSERT_EQ(probe.status, 0) << probe.err;
  EXPECT_TRUE(probe.says("greta-db --db 'greta.db' firstfail"));
  EXPECT_TRUE(
      probe.says("verdict  PASS (rounding only; bitwise equal: no, as expected in"
                 " as_designed), 339 pairs"));
  EXPECT_TRUE(probe.says("; strict FAIL at layer 0, "));
  EXPECT_EQ(query("SELECT mode, verdict, strict_verdict, numeric_verdict, coverage, divergent"
                  " FROM run_verdict"),
            "as_designed\tPASS\tFAIL\tPASS\tcomplete\t0\n");
}

TEST_F(InferProbe, ExitStatusFollowsTheVerdict) {
  make_model();
  EXPECT_EQ(sh("$I probe $Q --model m.gguf").status, 0);
  EXPECT_EQ(sh("$I probe $Q --model m.gguf --inject rope_theta@decode:layer=1").status, 1);
  EXPECT_EQ(sh("$I probe $Q --model m.gguf --mode batch_invariant"
               " --inject fp16_accumulate@decode:layer=1")
                .status,
            1);
  EXPECT_EQ(sh("$I probe $Q --model m.gguf --phases decode0").status, 3);
  const Result strict = sh("$I probe $Q --model m.gguf --gate strict");
  EXPECT_EQ(strict.status, 1);
  EXPECT_TRUE(strict.says("exit     1, by --gate strict"));
  EXPECT_EQ(sh("$I probe $Q --model m.gguf --gate numeric").status, 0);
  EXPECT_EQ(sh("$I probe $Q --model m.gguf --gate strict --phases decode0").status, 3);
}

TEST_F(InferProbe, AFaultIsTheFirstFailAtItsTensorAndLayer) {
  make_model();
  EXPECT_EQ(sh("$I probe $Q --model m.gguf --mode batch_invariant"
               " --inject rope_pos_off_by_one@decode:layer=2 --gate numeric")
                .status,
            1);
  EXPECT_EQ(query("SELECT layer, tensor, numeric_layer, numeric_tensor FROM run_verdict"),
            "2\tq_post_rope\t2\tq_post_rope\n");
  EXPECT_EQ(query("SELECT value FROM attribute WHERE dim = 'inject'"),
            "rope_pos_off_by_one@decode:layer=2:magnitude=1\n");
}

TEST_F(InferProbe, WhatIsKeptBetweenPromptsIsFoundInEveryMode) {
  make_model();
  const std::string kept = " --inject rope_theta_kept@both:layer=1";
  for (const std::string mode : {"as_designed", "kv_aligned", "batch_invariant"}) {
    const std::string probe = "$I probe --suite b3_66 --model m.gguf --layers 1 --mode " + mode;
    EXPECT_EQ(sh(probe).status, 0) << mode;
    EXPECT_EQ(sh(probe + kept).status, 1) << mode;
    EXPECT_EQ(sh(probe + kept + " --repeats 0").status, 2) << mode;
    EXPECT_EQ(sh(probe + kept + " --tokens 5,6,7").status, 2) << mode;
  }
  EXPECT_EQ(query("SELECT DISTINCT p.value, d.finding, d.tensor, d.layer, d.prompt FROM run r"
                  " JOIN attribute p ON p.run_id = r.id AND p.dim = 'ran_again'"
                  " LEFT JOIN diagnosis d ON d.run_id = r.id AND d.ord < 10 ORDER BY 2"),
            "[\"p0_short\"]\t\t\t\t\n[\"p0_short\"]\tSTATE\tq_post_rope\t1\tp0_short\n");
}

TEST_F(InferProbe, AFaultBetweenTracedLayersIsFoundThere) {
  make_model();
  const Result coarse =
      sh("$I probe --model m.gguf --inject rope_pos_off_by_one@decode:layer=6 --layers 0,1,2,4,8");
  EXPECT_TRUE(coarse.says("at layer 6, q_post_rope"));
  EXPECT_TRUE(coarse.says("ORIGIN: between q_pre_rope and q_post_rope of layer 6"));
}

TEST_F(InferProbe, TheTypeOfTheCacheIsRecordedAndReplayed) {
  make_model();
  ASSERT_EQ(sh("$I probe $Q --model m.gguf --mode batch_invariant --kv-cache f16 --gate strict"
               " --run-name half")
                .status,
            0);
  EXPECT_EQ(query("SELECT value FROM attribute WHERE dim = 'kv_cache'"), "f16\n");
  EXPECT_EQ(query("SELECT dtype FROM run"), "f32\n");
  EXPECT_EQ(sh("$I replay --run half --at 1:attn_out --model m.gguf").status, 0);
  EXPECT_EQ(sh("$I probe $Q --model m.gguf --kv-cache q8_0").status, 2);
}

TEST_F(InferProbe, AForcedRouteIsRecordedPerRow) {
  make_model();
  ASSERT_EQ(sh("$I probe $Q --model m.gguf --route lm_head=dot --route qkv=gemm@decode").status, 0);
  EXPECT_EQ(query("SELECT DISTINCT route FROM trace WHERE tensor = 'logits'"), "DOT\n");
  EXPECT_EQ(query("SELECT DISTINCT route FROM trace WHERE tensor = 'q_pre_rope'"), "GEMM\n");
  EXPECT_EQ(sh("$I probe $Q --model m.gguf --route lm_head=mfma").status, 2);
}

TEST_F(InferProbe, TheRecordSaysWhatRanOnWhat) {
  make_model();
  ASSERT_EQ(
      sh("HSA_ENABLE_SDMA=0 $I probe $Q --model m.gguf --threads 2 --seed 5 --sample 3").status, 0);
  const auto attribute = [&](const std::string& dim) {
    return query("SELECT value FROM attribute WHERE dim = '" + dim + "'");
  };
  EXPECT_EQ(attribute("model_root").size(), 65u);
  EXPECT_EQ(attribute("model_sha256"), "") << "nobody asked for it";
  EXPECT_EQ(attribute("model_file"), "m.gguf\n");
  EXPECT_EQ(attribute("model_bytes"), sh("stat -c %s m.gguf").out);
  EXPECT_EQ(attribute("env.HSA_ENABLE_SDMA"), "0\n");
  EXPECT_EQ(attribute("host"), sh("hostname").out);
  EXPECT_EQ(attribute("backend"), "cpu\n");
  EXPECT_EQ(attribute("threads"), "2\n");
  EXPECT_EQ(attribute("seed"), "5\n");
  EXPECT_EQ(attribute("n_layers"), "12\n");
  EXPECT_EQ(attribute("trace.layers"), "0,1,2,4,8\n");
  EXPECT_EQ(attribute("trace.sample"), "3\n");
  for (const char* dim : {"greta", "dirty", "device", "model", "weights", "routes", "context"}) {
    EXPECT_GT(attribute(dim).size(), 1u) << dim;
  }
  EXPECT_EQ(query("SELECT status, dtype, finished_at >= started_at FROM run"),
            "complete\tf32\t1\n");
  EXPECT_EQ(
      query("SELECT count(*), min(length(text_sha256)), min(json_array_length(token_ids)) > 0 "
            "FROM prompt"),
      "3\t64\t1\n");
}

TEST_F(InferProbe, ARunSaysTheRootOfItsModelAndTheSha256OfItsFileWhenAsked) {
  make_model();
  const auto probe = [&](const std::string& name, const std::string& options) {
    EXPECT_EQ(sh("$I probe --tokens '1 2' --decode-steps 0 --layers 0 --model m.gguf "
                 "--run-name " +
                 name + " " + options)
                  .status,
              0);
    return query(
        "SELECT dim, value FROM attribute a JOIN run r ON r.id = a.run_id WHERE r.name = '" + name +
        "' AND dim IN ('model_root', 'model_sha256') ORDER BY dim");
  };
  const std::string root = probe("a", "--threads 1");
  EXPECT_TRUE(sh("$I info --model m.gguf --root").says("root         " + root.substr(11, 64)));
  const std::string sha256 = "model_sha256\t" + sh("sha256sum m.gguf | cut -d ' ' -f 1").out;
  ASSERT_EQ(sh("touch -d '+1 hour' m.gguf").status, 0);  // as of a file that may still change
  EXPECT_EQ(probe("b", "--model-sha256"), root + sha256);

  // As of a file that nobody changed for a while.
  ASSERT_EQ(sh("touch -d '-1 hour' m.gguf; sleep 2.1").status, 0);
  EXPECT_EQ(probe("c", ""), root);
  EXPECT_EQ(sh("ls .cache/greta/models | wc -l").out, "1\n");
  EXPECT_EQ(probe("d", "--model-sha256"), root + sha256) << "what is not kept is worked out";
  EXPECT_EQ(probe("e", ""), root + sha256) << "and kept from then on";
  // One bit of a weight, with the time that the file had before.
  ASSERT_EQ(sh("touch -r m.gguf then && printf '\\377' | dd of=m.gguf bs=1 seek=300000 "
               "conv=notrunc 2>/dev/null && touch -r then m.gguf")
                .status,
            0);
  EXPECT_NE(probe("f", ""), root);
  EXPECT_EQ(query("SELECT DISTINCT why_not FROM diff_verdict WHERE run_a = 'a' AND run_b = 'f'"),
            "another model\n");
  ASSERT_EQ(sh("rm -r .cache && : > .cache").status, 0);  // no folder can be there
  EXPECT_EQ(probe("g", "").substr(0, 11), "model_root\t");
}

TEST_F(InferProbe, SaysWhereTheTimeWent) {
  make_model();
  const std::string probe = "$I probe --tokens '1 2' --decode-steps 0 --model m.gguf --timings ";
  const Result text = sh(probe);
  ASSERT_EQ(text.status, 0) << text.err;
  for (const char* stage : {"program", "file", "device", "weights", "prompts", "memory",
                            "first prompt", "identity", "record", "verdict", "all"}) {
    EXPECT_NE(text.out.find("time     " + std::string(stage) + " "), std::string::npos) << stage;
  }
  const auto times = sh(probe + "--json").json().at("times");
  EXPECT_GE(times.at("weights").get<double>(), 0);
  EXPECT_GT(times.at("first prompt").get<double>(), 0);
  EXPECT_TRUE(sh(probe + "--no-db").says("time     all"));
}

TEST_F(InferProbe, WithoutADatabaseThereIsNoVerdict) {
  make_model();
  EXPECT_TRUE(sh("$I probe $Q --model m.gguf --no-db").answers(0, {"no verdict"}));
  EXPECT_FALSE(std::filesystem::exists(database()));
  EXPECT_EQ(sh("$I probe $Q --model m.gguf --no-db --gate strict").status, 2);
}

TEST_F(InferProbe, JsonLinesGiveTheSameVerdictWhenIngested) {
  make_model();
  const std::string sql =
      "SELECT verdict, strict_verdict, numeric_verdict, pairs, pass, first_fail,"
      " strict_first_fail, strict_layer, strict_tensor, strict_prompt, rounding FROM run_verdict";
  for (const char* mode : {"as_designed", "kv_aligned", "batch_invariant"}) {
    ASSERT_EQ(sh(std::string("rm -rf *.db out; $I probe $Q --model m.gguf --date 2026-02-07"
                             " --trace-jsonl out --mode ") +
                 mode)
                  .status,
              0);
    const Result ingested = sh("$G --db copy.db ingest --quiet out");
    ASSERT_EQ(ingested.status, 0) << ingested.err;
    EXPECT_EQ(query(sql), query(sql, "copy.db")) << mode;
    EXPECT_EQ(query("SELECT name FROM run"), query("SELECT name FROM run", "copy.db")) << mode;
  }
}

// The probe lasts seconds; each round kills it at another moment.
TEST_F(InferProbe, AKilledProbeIsIncomplete) {
  make_model("--type f32");
  int round = 0;
  for (const char* moment : {"0.02", "0.15", "0.4"}) {
    const std::string db = "killed" + std::to_string(++round) + ".db";
    const Result killed =
        sh("$I probe --suite b3_66_v2 --model m.gguf --mode batch_invariant --db " + db +
           " --prompt hi --decode-steps 1900 --layers all --phases all & p=$!;"
           " until $G --db " +
           db +
           " query 'SELECT name FROM run' 2>/dev/null | grep -q b3_66_v2;"
           " do sleep 0.01; done; sleep " +
           moment + "; kill -9 $p; wait $p; echo \"status $?\"");
    ASSERT_TRUE(killed.says("status 137")) << killed.out << killed.err;
    EXPECT_EQ(query("SELECT status FROM run", db), "running\n");
    EXPECT_EQ(query("SELECT verdict, numeric_verdict FROM run_verdict", db),
              "INCOMPLETE\tINCOMPLETE\n");
    EXPECT_EQ(sh("$G --db " + db + " check").status, 0) << moment;
    ASSERT_EQ(
        sh("$I probe $Q --model m.gguf --mode batch_invariant --gate strict --db " + db).status, 0);
  }
}

TEST_F(InferProbe, TheNameOfAKilledProbeCanBeUsedAgain) {
  make_model("--type f32");
  const std::string probe = "$I probe --model m.gguf --run-name ci --tokens '1 2' ";
  const Result killed =
      sh("$I probe --model m.gguf --run-name ci --prompt hi --decode-steps 1900 --layers all"
         " --phases all & p=$!; until $G query 'SELECT name FROM run' 2>/dev/null | grep -q ci;"
         " do sleep 0.01; done; " +
         probe + "--replace-failed; echo \"status $?\"; kill -9 $p; wait $p; true");
  EXPECT_TRUE(killed.says("status 2"));  // its process lives
  EXPECT_TRUE(killed.says("the database has a run ci already\n"));
  EXPECT_TRUE(
      sh(probe).answers(2, {"the database has a run ci already; it failed, or its process is gone:"
                            " --replace-failed replaces it"}));
  EXPECT_EQ(sh(probe + "--replace-failed").status, 0);
  EXPECT_EQ(query("SELECT name, status FROM run"), "ci\tcomplete\n");
  EXPECT_EQ(sh(probe + "--replace-failed").status, 2);
  EXPECT_EQ(sh("$I probe --model m.gguf --tokens '1 2' --replace-failed").status, 2);  // of which?
  EXPECT_EQ(sh("$I run --model m.gguf --tokens '1 2' --max-tokens 1 --run-name ci").status, 2);
  EXPECT_EQ(sh("$I run --model m.gguf --tokens '1 2' --max-tokens 1 --run-name more").status, 0);
  EXPECT_EQ(query("SELECT name FROM run"), "ci\nmore\n");
}

}  // namespace
}  // namespace greta
