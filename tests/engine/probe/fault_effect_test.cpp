#include "engine/probe/fault_effect.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tests/engine/probe/probe_fixture.h"

namespace greta {
namespace {

using Places = std::map<std::tuple<Phase, int64_t, int, TracePoint>, uint64_t>;

Places hashes(const MemorySink& sink) {
  Places places;
  for (const TraceRecord& row : sink.records) {
    places[{row.phase, row.pos_id, row.layer, row.point}] = row.fingerprint.hash;
  }
  return places;
}

/// A model as small as heads allow.
SynthShape tiny_shape(int64_t n_heads, int64_t n_kv_heads, int64_t rope_dim, int64_t window) {
  return {.name = "tiny",
          .n_layers = 2,
          .dim = 32,
          .n_heads = n_heads,
          .n_kv_heads = n_kv_heads,
          .head_dim = 8,
          .rope_dim = rope_dim,
          .ffn_dim = 64,
          .vocab = 512,
          .context = 32,
          .window = window};
}

/// Every fault of the catalogue in every direction, on both sides, as its text.
std::vector<std::string> all_faults() {
  std::vector<std::string> texts;
  for (const FaultInfo& info : fault_catalogue()) {
    for (const char* side : {"@decode", "@prefill", "@both"}) {
      const std::string text = std::string(info.name) + side;
      texts.push_back(text);
      if (info.both_ways) {
        texts.push_back(text + ":magnitude=" + std::to_string(-info.default_magnitude));
      }
    }
  }
  return texts;
}

/// What is traced, by name.
std::map<std::string, TraceSelection> selections() {
  std::map<std::string, TraceSelection> all;
  all["all"] = {};
  all["decode0"].phases = {Phase::kDecode0};
  all["prefill_last"].phases = {Phase::kPrefillLast};
  all["layer 0"].layers = {0};
  all["layer 0"].points = {TracePoint::kAttnNormOut, TracePoint::kAttnOut};
  return all;
}

/// A model with its clean probes.
class Lab {
 public:
  Lab(int64_t n_heads, int64_t n_kv_heads, int64_t rope_dim, int64_t window)
      : model_(tiny_shape(n_heads, n_kv_heads, rope_dim, window)), engine_(model_, 1) {}

  /// Expects that the fault is refused or changes a traced row, and of a whole trace that it is
  /// refused only where it changes none. Returns whether it was refused.
  bool expect_effect_or_refusal(const std::string& fault, ProbeOptions with, int64_t n_prompt,
                                const Places& clean) {
    const FaultSet faults({parse_fault(fault)});
    FaultScene scene = probe_scene(n_prompt, with.decode_steps, with.forward.mode, with.selection);
    scene.after_longer = true;  // as run_probe has it
    const std::string why =
        why_without_effect(faults.all(), 0, model_.config(), with.selection, {&scene, 1});
    with.forward.faults = faults;
    const bool differs = rows(with, n_prompt) != clean;
    // What is refused may still be told by logits that are not finite, or by other tokens.
    const bool told = with.decode_steps > 0 || !with.selection.points.empty();
    EXPECT_TRUE(why.empty() ? differs : !differs || told)
        << fault << " in " << mode_name(with.forward.mode) << ", " << n_prompt << " tokens and "
        << with.decode_steps << " decoded: " << why;
    return !why.empty();
  }

  Places rows(const ProbeOptions& with, int64_t n_prompt) const {
    return hashes(run_probe(engine_, with, model_.tokens(n_prompt)));
  }
  const TestEngine& engine() const { return engine_; }

 private:
  TestModel model_;
  TestEngine engine_;
};

/// Query heads, KV heads, values that RoPE turns, window.
class FaultEffect : public testing::TestWithParam<std::tuple<int, int, int, int>> {};

TEST_P(FaultEffect, IsSeenOrTheFaultIsRefused) {
  const auto [n_heads, n_kv_heads, rope_dim, window] = GetParam();
  Lab lab(n_heads, n_kv_heads, rope_dim, window);
  int refused = 0, ran = 0;
  for (const auto& [name, selection] : selections()) {
    SCOPED_TRACE(name);
    for (const Mode mode : {Mode::kAsDesigned, Mode::kKvAligned, Mode::kBatchInvariant}) {
      for (const auto& [n_prompt, n_steps] : {std::pair{1, 0}, {2, 0}, {5, 0}, {1, 2}, {3, 2}}) {
        ProbeOptions with{.forward = lab.engine().options(mode), .selection = selection};
        with.decode_steps = n_steps;
        const Places clean = lab.rows(with, n_prompt);
        for (const std::string& fault : all_faults()) {
          const bool head = fault.starts_with("lm_head_route");
          for (const char* where : {"", ":layer=0", ":layer=1"}) {
            if (head && *where != '\0') continue;
            ++ran;
            refused += lab.expect_effect_or_refusal(fault + where, with, n_prompt, clean);
          }
        }
      }
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, ran);
}

TEST_P(FaultEffect, BeginsAtItsOnset) {
  const auto [n_heads, n_kv_heads, rope_dim, window] = GetParam();
  Lab lab(n_heads, n_kv_heads, rope_dim, window);
  for (const Mode mode : {Mode::kAsDesigned, Mode::kKvAligned, Mode::kBatchInvariant}) {
    ProbeOptions with{.forward = lab.engine().options(mode), .selection = {}};
    with.decode_steps = 2;
    const Places clean = lab.rows(with, 4);
    for (const char* fault :
         {"rope_pos_off_by_one", "quant_scale", "kv_wrong_slot", "race", "k_cache_spoiled"}) {
      for (const char* onset :
           {"@decode:step=1", "@decode:step=3", "@decode:step=4", "@both:pos=5", "@both:pos=6",
            "@prefill:pos=2", "@decode:length=4", "@decode:length=5", "@prefill:length=5"}) {
        lab.expect_effect_or_refusal(std::string(fault) + onset, with, 4, clean);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, FaultEffect,
                         testing::Values(std::tuple{4, 2, 8, 0}, std::tuple{4, 1, 8, 0},
                                         std::tuple{2, 2, 8, 0}, std::tuple{4, 2, 2, 0},
                                         std::tuple{4, 2, 8, 3}),
                         [](const auto& param) { return "Model" + std::to_string(param.index); });

std::string refusal(const std::vector<const char*>& texts, std::vector<FaultScene> scenes,
                    const TraceSelection& selection = {}) {
  const TestModel model(tiny_shape(4, 1, 8, 0));
  std::vector<Fault> faults;
  for (const char* text : texts) faults.push_back(parse_fault(text));
  try {
    refuse_faults_without_effect(FaultSet(faults), model.config(), selection, scenes);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(FaultRefusal, SaysWhichFaultAndWhy) {
  const FaultScene one = probe_scene(1, 0, Mode::kKvAligned, {});
  const FaultScene long_one = probe_scene(9, 0, Mode::kAsDesigned, {});
  EXPECT_EQ(refusal({"gqa_head_mapping"}, {one}),
            "fault gqa_head_mapping@decode:magnitude=1 would change nothing: the model has 1 KV "
            "head");
  EXPECT_NE(refusal({"rope_theta"}, {one}).find("position 0"), std::string::npos);
  EXPECT_NE(refusal({"rope_theta:magnitude=1"}, {long_one}).find("a factor of 1"),
            std::string::npos);
  EXPECT_NE(refusal({"rope_theta_kept"}, {long_one}).find("no longer prompt runs before this one"),
            std::string::npos);
  EXPECT_NE(refusal({"stale_kv_tail"}, {one}).find("kv_aligned"), std::string::npos);
  EXPECT_NE(refusal({"k_cache_spoiled"}, {one}).find("no row before its own"), std::string::npos);
  EXPECT_NE(refusal({"k_cache_spoiled@prefill"}, {one}).find("no row before its own"),
            std::string::npos);
  EXPECT_NE(refusal({"k_cache_spoiled:magnitude=1"}, {long_one}).find("a factor of 1"),
            std::string::npos);
  EXPECT_NE(refusal({"race:layer=2"}, {one}).find("layers 0 to 1"), std::string::npos);
  EXPECT_NE(refusal({"race:pos=9"}, {long_one}).find("up to position 8"), std::string::npos);
  EXPECT_NE(refusal({"race:step=2"}, {long_one}).find("ends with step 1"), std::string::npos);
  EXPECT_NE(refusal({"race:length=10"}, {one, long_one}).find("9 tokens, as in all other prompts"),
            std::string::npos);
  EXPECT_NE(refusal({"race", "race:layer=1"}, {one}).find("race@decode:magnitude=16 is in force"),
            std::string::npos);
  EXPECT_EQ(refusal({"race:layer=1", "race"}, {one}), "");
  // One prompt that shows it is enough.
  EXPECT_EQ(refusal({"rope_theta"}, {one, long_one}), "");
  TraceSelection early;
  early.points = {TracePoint::kQPreRope, TracePoint::kRmsWeight};
  early.layers = {0};
  EXPECT_NE(refusal({"rope_theta"}, {long_one}, early).find("nothing is traced that it changes"),
            std::string::npos);
  early.layers = {};
  EXPECT_EQ(refusal({"rope_theta:layer=0"}, {long_one}, early), "");
  EXPECT_NE(refusal({"rope_theta:layer=1"}, {long_one}, early).find("position 8 nothing is traced"),
            std::string::npos);
}

TEST(FaultRefusal, OfAGenerationGoesByTheTokensThatAreDecoded) {
  EXPECT_NE(refusal({"race"}, {generation_scene(4, 0)}), "");
  EXPECT_EQ(refusal({"race"}, {generation_scene(4, 1)}), "");
  EXPECT_NE(refusal({"race:step=2"}, {generation_scene(4, 1)}), "");
  EXPECT_EQ(refusal({"race@prefill"}, {generation_scene(4, 0)}), "");
  EXPECT_EQ(refusal({"race:pos=5"}, {generation_scene(4, 2)}), "");
}

}  // namespace
}  // namespace greta
