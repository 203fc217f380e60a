#include "db/database.h"
#include "kernels/simd/isa.h"
#include "tests/cli/greta_infer/infer_program.h"

namespace greta {
namespace {

/// A probe of one prompt with a fault in layer 1.
class InferReplay : public InferProgram {
 protected:
  void probe(const std::string& options = "--inject rope_theta@decode:layer=1") {
    make_model();
    const Result made = sh("$I probe --model m.gguf --prompt 'a b c' --decode-steps 2 " + options);
    ASSERT_LT(made.status, 2) << made.err;
  }
};

TEST_F(InferReplay, FindsTheOperationThatMakesTheDifference) {
  probe();
  const Result replay = sh("$I replay --run default --at 1:q_post_rope");
  EXPECT_EQ(replay.status, 1) << replay.err;
  EXPECT_TRUE(replay.says("replay   q_post_rope of layer 1, prompt prompt, position"));
  EXPECT_TRUE(replay.says("is decode's row but for rounding"));
  EXPECT_TRUE(replay.says("so       the difference arises in this operation"));
}

TEST_F(InferReplay, SaysThatADifferenceComesWithTheInput) {
  probe();
  const Result replay = sh("$I replay --run default --at 1:attn_out --json");
  EXPECT_EQ(replay.status, 0) << replay.err;
  const auto json = replay.json();
  EXPECT_EQ(json.at("conclusion"), "the difference comes with the input");
  EXPECT_EQ(json.at("route"), "TWO_PASS");
  EXPECT_EQ(json.at("as_recorded"), true);
  EXPECT_EQ(json.at("decode").at("beyond_rounding"), true);
  EXPECT_EQ(json.at("alone").at("beyond_rounding"), false);
  EXPECT_EQ(json.at("reproduces_decode"), false);
}

TEST_F(InferReplay, RunsByTheInstructionSetOfTheRun) {
  probe("--inject rope_theta@decode:layer=1 --isa baseline --backend cpu");
  const Result replay = sh("$I replay --run default --at 1:q_post_rope");
  EXPECT_TRUE(replay.says("again    equal, bit for bit (on decode's own input")) << replay.out;
  const Result unknown = sh("$I probe --model m.gguf --prompt a --isa avx1");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_TRUE(unknown.says("no instruction set 'avx1'; it has baseline")) << unknown.err;
  // the best set, which the run would have without --isa
  const std::string best = isa_name(best_isa());
  ASSERT_LT(sh("$I probe --model m.gguf --prompt 'a b c' --backend cpu").status, 2);
  EXPECT_EQ(query("SELECT group_concat(value) FROM attribute WHERE dim = 'isa' ORDER BY run_id"),
            "baseline," + best + "\n");
}

TEST_F(InferReplay, NamesNaN) {
  probe("--inject softmax_no_max@decode:layer=1");
  const Result made = sh("$I replay --run default --at 1:attn_probs");
  EXPECT_TRUE(made.says(", decode's has 1")) << made.out;
  EXPECT_TRUE(made.says(" NaN (in the run, from prefill's row)")) << made.out;
  EXPECT_TRUE(made.says("so       the difference arises in this operation")) << made.out;
  const auto json = sh("$I replay --run default --at 1:wo_out --json").json();
  EXPECT_EQ(json.at("conclusion"), "the difference comes with the input");
  EXPECT_EQ(json.at("prefill").at("nan"), 0);
  EXPECT_GT(json.at("decode").at("nan"), 0);
  EXPECT_EQ(json.at("again").at("nan"), json.at("decode").at("nan"));
  EXPECT_EQ(json.at("again").at("beyond_rounding"), false);
}

TEST_F(InferReplay, HasTheBitsOfARunThatPromisesThem) {
  probe("--mode batch_invariant --inject race@decode:layer=1:step=2");
  const auto json = sh("$I replay --run default --at 1:mlp_out --json").json();
  EXPECT_EQ(json.at("conclusion"), "the difference arises in this operation");
  EXPECT_EQ(json.at("bits_of_decode"), true);
  const int64_t pos = json.at("pos_id");
  EXPECT_EQ(sh("$I replay --run default --at 1:mlp_out --pos " + std::to_string(pos - 1)).status, 0)
      << "before the fault begins";
}

TEST_F(InferReplay, RunsWhatWasComputedTogether) {
  make_model();
  write("s.jsonl",
        "{\"name\": \"a\", \"tokens\": [5, 6, 7]}\n{\"name\": \"b\", \"tokens\": [1, 2]}\n"
        "{\"name\": \"c\", \"tokens\": [9, 8, 7, 6]}\n");
  ASSERT_EQ(sh("$I probe --model m.gguf --suite s.jsonl --sequences 3 --decode-steps 2"
               " --inject rope_theta@decode:layer=1")
                .status,
            1);
  for (const char* prompt : {"a", "b", "c"}) {
    const auto json =
        sh(std::string("$I replay --run s/ --at 1:q_post_rope --json --prompt ") + prompt).json();
    EXPECT_EQ(json.at("prompt"), prompt);
    EXPECT_EQ(json.at("as_recorded"), true);
    EXPECT_EQ(json.at("conclusion"), "the difference arises in this operation");
  }
}

TEST_F(InferReplay, RefusesAnotherModelAndPlacesThatAreNotThere) {
  probe();
  const auto refusal = [&](const std::string& options) {
    const Result replay = sh("$I replay --run default " + options);
    EXPECT_EQ(replay.status, 2) << options;
    EXPECT_EQ(replay.out, "");
    return replay.err;
  };
  EXPECT_NE(refusal("--at 99:attn_out").find("no pair of attn_out in layer 99"), std::string::npos);
  EXPECT_NE(refusal("--at 1:attn_out --pos 0").find("at position 0"), std::string::npos);
  EXPECT_NE(refusal("--at 1:attn_out --prompt other").find("of prompt other"), std::string::npos);
  EXPECT_NE(refusal("--at 1:hidden_state").find("there is no tensor"), std::string::npos);
  EXPECT_NE(refusal("--at one:attn_out").find("layer 'one' is not a whole number"),
            std::string::npos);
  EXPECT_NE(refusal("--at attn_out").find("which layer"), std::string::npos);
  EXPECT_NE(refusal("--at 1:rms_weight").find("no operation makes rms_weight"), std::string::npos);
  EXPECT_NE(sh("$I replay --run nothing --at 1:attn_out").err.find("no run"), std::string::npos);
  make_model("--type q8_0 --seed 9 --force");
  EXPECT_NE(refusal("--at 1:attn_out").find("has the root"), std::string::npos);
  ASSERT_EQ(sh("rm m.gguf").status, 0);
  EXPECT_NE(refusal("--at 1:attn_out").find("m.gguf"), std::string::npos);
}

TEST_F(InferReplay, KnowsTheModelOfAnOlderRunByTheSha256OfItsFile) {
  probe();
  const std::string sha256 = sh("sha256sum m.gguf | cut -d ' ' -f 1 | tr -d '\\n'").out;
  open_for_writing(database())
      .exec("UPDATE attribute SET dim = 'model_sha256', value = '" + sha256 +
            "' WHERE dim = 'model_root'");
  EXPECT_EQ(sh("$I replay --run default --at 1:q_post_rope").status, 1);
  make_model("--type q8_0 --seed 9 --force");
  const Result other = sh("$I replay --run default --at 1:q_post_rope");
  EXPECT_EQ(other.status, 2);
  EXPECT_NE(other.err.find("has the SHA-256 " + sha256), std::string::npos) << other.err;
  open_for_writing(database()).exec("DELETE FROM attribute WHERE dim = 'model_sha256'");
  EXPECT_TRUE(sh("$I replay --run default --at 1:q_post_rope").says("does not say its model_root"));
}

TEST_F(InferReplay, RefusesARunThatDoesNotSayHowItRan) {
  probe();
  open_for_writing(database()).exec("DELETE FROM attribute WHERE dim = 'routes'");
  const Result replay = sh("$I replay --run default --at 1:attn_out");
  EXPECT_EQ(replay.status, 2);
  EXPECT_NE(replay.err.find("does not say its routes"), std::string::npos) << replay.err;
}

TEST_F(InferReplay, SaysNothingOfARunThatComesOutOtherwise) {
  probe();
  open_for_writing(database()).exec("UPDATE trace_row SET hash = hash + 1 WHERE side = 1");
  EXPECT_TRUE(
      sh("$I replay --run default --at 1:q_post_rope").answers(3, {"the run came out otherwise"}));
}

}  // namespace
}  // namespace greta
