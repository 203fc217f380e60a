#include "ingest/record/shapes.h"

#include <functional>
#include <nlohmann/json.hpp>

#include "tests/ingest/record/record_lines.h"

namespace greta {
namespace {

TEST(Record, StageTraceWithEveryField) {
  Lines lines;
  lines.add(
      R"({"event":"stage_trace","prompt_id":"p0_short","phase":"decode0","point":"x_in","layer":4,"step":1,)"
      R"("pos_id":28,"seq_len":1,"tokens_total":29,"token_index":0,"stride_elems":4096,"sample_n":3,)"
      R"("ptr":131131265515520,"offset_bytes":64,"hash":16998914491285390227,"min":-0.5,"max":2,"mean":0.5,)"
      R"("abs_sum":2.5,"nan":0,"inf":0,"nz_count":2,"src_kind":"cache","route":"MFMA","token_index_used":7,)"
      R"("offset_bytes":64,"alloc_bytes":8192,"prompt_tokens":28,"kv_pos":28,"decode_step":0,"token_id":108,)"
      R"("sample":[-0.5,0,2]})");
  EXPECT_EQ(lines.findings(), Strings());
  EXPECT_EQ(lines.parser.shape(), "stage_trace");
  ASSERT_EQ(lines.batch.rows.size(), 1u);
  EXPECT_EQ(lines.row(0),
            "x_in p0_short decode0 layer=4 step=1 pos=28 token=108 logical=28 n=3 "
            "hash=16998914491285390227 "
            "min=-0.5 max=2 mean=0.5 abs=2.5 nan=0 inf=0 nz=2 ptr=131131265515520 offset=64 "
            "sample=3 route=MFMA "
            "kind=cache seq_len=1 total=29 index=0 kv_pos=28 stride=4096 alloc=8192 "
            "prompt_tokens=28 decode_step=0 "
            R"(extra={"token_index_used":7})");
  EXPECT_EQ(
      std::vector<float>(lines.batch.rows[0].sample.begin(), lines.batch.rows[0].sample.end()),
      (std::vector<float>{-0.5f, 0, 2}));
  ASSERT_NE(lines.batch.rows[0].sketch, nullptr);
  EXPECT_EQ(lines.batch.rows[0].sketch->n, 3);
  EXPECT_TRUE(lines.batch.rows[0].sketch->derived);
  EXPECT_DOUBLE_EQ(lines.batch.rows[0].sketch->sum_sq, 4.25);
}

TEST(Record, StatisticsAreDerivedFromASampleOnlyWhenTheLineHasNone) {
  EXPECT_EQ(row_of(stage(R"(,"sample":[1,-3,0,0])")),
            kStage + " n=4 min=-3 max=1 mean=-0.5 abs=4 nan=0 inf=0 nz=2 flags=2 sample=4");
  EXPECT_EQ(row_of(stage(R"(,"hash":5,"sample":[1,-3])")), kStage + " hash=5 sample=2");
  EXPECT_EQ(row_of(stage(R"(,"max":1,"sample":[1,-3])")), kStage + " max=1 sample=2");
}

TEST(Record, AnEmptySampleIsARow) {
  const std::string row = row_of(stage(R"(,"sample":[])"));
  EXPECT_TRUE(row.starts_with(kStage)) << row;
  EXPECT_EQ(row_of(stage(R"(,"hash":1,"sample":[])")).substr(0, kStage.size()), kStage);
}

TEST(Record, PromptAndPhaseComeFromTheSourceWhenTheLineHasNone) {
  const std::string line =
      R"({"event":"stage_trace","point":"q_proj","layer":0,"pos_id":1,"step":0})";
  EXPECT_EQ(row_of(line, {"decode", "p6", {}}), "q_proj p6 decode layer=0 step=0 pos=1 logical=1");
  EXPECT_EQ(row_of(line, {"", "p6", {}}), "q_proj p6 unknown layer=0 step=0 pos=1 logical=1");
}

struct SpeltPhase {
  const char *written, *meant;
};

TEST(Record, APhaseIsReadHoweverItIsSpelt) {
  for (const auto& [written, meant] :
       std::vector<SpeltPhase>{{"Prefill_Last", "prefill_last"},
                               {"PREFILL", "prefill"},
                               {"prefill-last", "prefill_last"},
                               {"PrefillLast", "prefill_last"},
                               {"pre-fill", "prefill"},
                               {" prefill ", "prefill"},
                               {"decode-0", "decode0"},
                               {"DECODE0", "decode0"},
                               {"decode_0", "decode0"},
                               {"Decode 0", "decode0"},
                               {"decode00", "decode0"},
                               {"DECODE", "decode"},
                               {"decode1", "decode"},
                               {"decode_17", "decode"},
                               {"decod\\u00650", "decode0"},
                               {"Prefill-Chunk 3", "prefill_chunk_3"},
                               {"decode_first", "decode_first"},
                               {"repeat_prefill", "repeat_prefill"},
                               {"Repeat-Decode", "repeat_decode"}}) {
    for (const std::string& shape :
         Strings{R"({"event":"stage_trace","point":"x","layer":0,"step":5,"phase":")",
                 R"({"metric":"x","layer":0,"phase":")", R"({"logits":[1],"token_idx":1,"phase":")",
                 R"({"tag":"x","layer":0,"step":5,"phase":")",
                 R"({"hidden_hash":1,"pos_id":1,"step":5,"phase":")",
                 R"({"hidden_hash":1,"token_index":1,"step":5,"phase":")",
                 R"({"top1":{"id":1},"step":5,"phase":")",
                 R"({"event":"readout","pos_id":1,"step":5,"phase":")"}) {
      SCOPED_TRACE(shape + written);
      Lines lines;
      lines.add(shape + written + "\"}");
      EXPECT_EQ(lines.findings(), Strings());
      ASSERT_EQ(lines.batch.phases.size(), 1u);
      const bool is_whole =
          lines.batch.phases[0] == "prefill_last" && std::string(meant) == "prefill";
      EXPECT_TRUE(lines.batch.phases[0] == meant || is_whole) << lines.batch.phases[0];
      EXPECT_NE(lines.batch.rows.size() + lines.batch.readouts.size(), 0u);
    }
  }
}

TEST(Record, APhaseThatCannotBeReadIsQuarantinedInEveryShape) {
  for (const char* phase :
       {"\"warmup\"", "\"unknown\"", "\"\"", "\" \"", "5", "true", "[\"decode0\"]", "{}",
        "\"decode/0\"", "\"d\u00e9code0\"", "\"xdecode0\"", "\"predecode\""}) {
    for (const std::string& shape :
         Strings{R"({"event":"stage_trace","point":"x","layer":0,"phase":)",
                 R"({"metric":"x","layer":0,"phase":)", R"({"logits":[1],"token_idx":1,"phase":)",
                 R"({"tag":"x","layer":0,"phase":)", R"({"hidden_hash":1,"pos_id":1,"phase":)",
                 R"({"hidden_hash":1,"token_index":1,"phase":)", R"({"top1":{"id":1},"phase":)",
                 R"({"event":"readout","pos_id":1,"phase":)"}) {
      EXPECT_TRUE(is_refused(shape + phase + "}", {"decode", "p", {}}));
    }
  }
}

TEST(Record, TheLinesPhaseBeatsTheDirectory) {
  Lines lines({"decode", "p", {}});
  lines.add(
      R"({"event":"stage_trace","prompt_id":"p","phase":"prefill_last","point":"x_in","layer":0,"pos_id":1})");
  EXPECT_TRUE(lines.parser.phase_conflict());
  EXPECT_EQ(lines.row(0), "x_in p prefill_last layer=0 step=-1 pos=1 logical=1");
  Lines agreeing({"prefill", "p", {}});
  agreeing.add(
      R"({"event":"stage_trace","prompt_id":"p","phase":"prefill_last","point":"x_in","layer":0,"pos_id":1})");
  EXPECT_FALSE(agreeing.parser.phase_conflict());
}

TEST(Record, Metric) {
  Lines lines;
  lines.add(
      R"({"metric": "rms_in", "exp": "E0", "prompt": "p0_short", "layer": 0, "phase": "prefill_last", )"
      R"("logical_tok_idx": 2, "pos_id": 2, "step": 0, "tensor_name": "rms_in", "src_ptr": "0x70e436200000", )"
      R"("src_enum": "X", "src_reason": "why", "bytes_offset": 8, "bytes_size": 256, "seq_len_used": 3, )"
      R"("data": [1, -0, 3]})");
  EXPECT_EQ(lines.findings(), Strings());
  EXPECT_EQ(lines.parser.shape(), "metric");
  EXPECT_EQ(lines.row(0),
            "rms_in p0_short prefill_last layer=0 step=0 pos=2 logical=2 n=3 min=-0 max=3 "
            "mean=1.33333333333 abs=4 "
            "nan=0 inf=0 nz=2 flags=2 ptr=124125462921216 offset=8 sample=3 kind=X seq_len=3 "
            R"(extra={"exp":"E0","src_reason":"why","bytes_size":256})");
}

TEST(Record, MetricWithoutPositionTakesTheLogicalOne) {
  EXPECT_EQ(
      row_of(
          R"({"metric":"rms_weight","prompt":"p","layer":0,"phase":"decode0","logical_tok_idx":4,)"
          R"("tensor_name":"rms_weight","epsilon":1e-5,"data":[2]})"),
      "rms_weight p decode0 layer=0 step=-1 pos=4 logical=4 n=1 min=2 max=2 mean=2 abs=2 nan=0 "
      "inf=0 nz=1 "
      R"(flags=2 sample=1 extra={"epsilon":1e-5})");
}

TEST(Record, TheStepOfAMetricDecidesItsPhase) {
  const auto line = [](int step) {
    return R"({"metric":"m","tensor_name":"m","prompt":"p","layer":0,"phase":"decode0","pos_id":9,"step":)" +
           std::to_string(step) + "}";
  };
  EXPECT_EQ(row_of(line(1)), "m p decode0 layer=0 step=1 pos=9");
  EXPECT_EQ(row_of(line(2)), "m p decode layer=0 step=2 pos=9 raw=decode0");
}

const std::string kReadout =
    R"("tokens_total":206,"seq_len":1,"pos_id":205,"token_index":205,"expected_last_index":204,)"
    R"("hidden_token_index_used":0,"readout_mismatch":true,"hidden_src_ptr":1000,"hidden_alloc_bytes":4096,)"
    R"("hidden_offset_bytes":10,"hidden_hash":12423339041135058718,"hidden_min":-1.5,"hidden_max":5.5,)"
    R"("hidden_mean":3.5,"rms_in_ptr":1000,"rms_out_ptr":2000,"lm_in_ptr":2000,"rms_offset_bytes":20,)"
    R"("rms_hash":6402361988135106224,"rms_min":-7,"rms_max":3,"rms_mean":2,"logits_offset_bytes":30,)"
    R"("logits_ptr":3000,"logits_hash":9223372036854775808,"logits_min":-13,"logits_max":12,"logits_mean":-0.5,)"
    R"("top1_id":79,"top1_logit":12,"top2_id":18,"top2_logit":11.25,"gap":0.75,"vocab":128256)";

TEST(Record, ReadoutIsThreeRows) {
  Lines lines;
  lines.add(R"({"phase":"decode","step":1,)" + kReadout + "}");
  EXPECT_EQ(lines.findings(), Strings());
  EXPECT_EQ(lines.parser.shape(), "readout");
  ASSERT_EQ(lines.batch.rows.size(), 3u);
  const std::string key = " seg0 decode0 layer=-1 step=1 pos=205 logical=204 n=256";
  const std::string context = " raw=decode seq_len=1 total=206 index=205";
  EXPECT_EQ(lines.row(0),
            "hidden" + key +
                " hash=12423339041135058718 min=-1.5 max=5.5 mean=3.5 ptr=1000 offset=10" +
                context + R"( extra={"hidden_token_index_used":0,"hidden_alloc_bytes":4096})");
  EXPECT_EQ(lines.row(1), "rms" + key +
                              " hash=6402361988135106224 min=-7 max=3 mean=2 ptr=2000 offset=20" +
                              context + R"( extra={"rms_in_ptr":1000})");
  EXPECT_EQ(lines.row(2),
            "logits" + key +
                " hash=9223372036854775808 min=-13 max=12 mean=-0.5 ptr=3000 offset=30" + context +
                R"( extra={"readout_mismatch":true,"lm_in_ptr":2000})");
  ASSERT_EQ(lines.batch.readouts.size(), 1u);
  EXPECT_EQ(lines.readout(0),
            "logits seg0 decode0 step=1 pos=205 top1=79 logit1=12 top2=18 logit2=11.25 gap=0.75 "
            "vocab=128256");
}

TEST(Record, ReadoutPhasesByStep) {
  Lines lines;
  for (const auto& [phase, step] : std::vector<std::pair<std::string, int>>{
           {"prefill_last", 0}, {"decode", 1}, {"decode", 2}}) {
    lines.add(R"({"phase":")" + phase + R"(","step":)" + std::to_string(step) +
              R"(,"pos_id":5,"hidden_hash":1})");
  }
  EXPECT_TRUE(lines.row(0).starts_with("hidden seg0 prefill_last layer=-1 step=0 pos=5"))
      << lines.row(0);
  EXPECT_TRUE(lines.row(3).starts_with("hidden seg0 decode0 layer=-1 step=1 pos=5"))
      << lines.row(3);
  EXPECT_TRUE(lines.row(6).starts_with("hidden seg0 decode layer=-1 step=2 pos=5")) << lines.row(6);
}

TEST(Record, SecondReadoutFormatPrefersTheLogicalIndex) {
  Lines lines;
  lines.add(
      R"({"phase":"prefill_last","step":0,"readout_buffer_kind":"chunk","used_index":3,"logical_last_index":44,)" +
      kReadout + "}");
  EXPECT_NE(lines.row(0).find(" logical=44 "), std::string::npos);
  for (const char* field : {R"("readout_buffer_kind":"chunk")", R"("used_index":3)"}) {
    EXPECT_NE(lines.extra(2).find(field), std::string::npos) << lines.extra(2);
  }
}

TEST(Record, DeltaRecordsTheRouteAndTheProbe) {
  Lines lines;
  lines.add(
      R"({"phase":"prefill_last","step":0,"pos_id":204,"tokens_total":205,"hidden_hash":1,"rms_hash":2,)"
      R"("rms_sumsq":3.5,"rms_eps":1e-5,"logits_hash":4,"lm_head_route":"MFMA","lm_head_quant":1,"top1_id":79,)"
      R"("top1_logit":12.5,"gap":0.9936,"cpu_probe_top1_id":96965,"cpu_probe_top1_logit":14.5,)"
      R"("cpu_probe_agrees_gpu":false})");
  EXPECT_EQ(lines.findings(), Strings());
  EXPECT_EQ(lines.parser.shape(), "delta");
  EXPECT_EQ(lines.readout(0),
            "logits seg0 prefill_last step=0 pos=204 top1=79 logit1=12.5 gap=0.9936 route=MFMA "
            "cpu=96965 agrees=0");
  EXPECT_NE(lines.row(2).find(" logical=204 n=256 hash=4 route=MFMA"), std::string::npos)
      << lines.row(2);
  EXPECT_EQ(lines.extra(1), R"({"rms_sumsq":3.5,"rms_eps":1e-5})");
  EXPECT_EQ(lines.extra(2), R"({"lm_head_quant":1,"cpu_probe_top1_logit":14.5})");
}

TEST(Record, PrefillDecodeIsTwoRows) {
  Lines lines({"", "p2_hi", {}});
  lines.add(
      R"({"phase":"prefill","step":0,"token_index":28,"hidden_offset":5,"hidden_ptr":7,"hidden_hash":1,)"
      R"("hidden_min":-3,"hidden_max":4,"hidden_mean":0,"logits_offset":0,"logits_ptr":9,"logits_hash":2,)"
      R"("logits_min":1.5,"logits_max":2.5,"logits_mean":2,"vocab":128256})");
  EXPECT_EQ(lines.findings(), Strings());
  EXPECT_EQ(lines.parser.shape(), "prefill_decode");
  ASSERT_EQ(lines.batch.rows.size(), 2u);
  EXPECT_EQ(lines.row(0),
            "hidden p2_hi prefill_last layer=-1 step=0 pos=28 logical=28 n=256 hash=1 min=-3 max=4 "
            "mean=0 ptr=7 "
            "offset=5 raw=prefill index=28");
  EXPECT_EQ(lines.row(1),
            "logits p2_hi prefill_last layer=-1 step=0 pos=28 logical=28 n=256 hash=2 min=1.5 "
            "max=2.5 mean=2 ptr=9 "
            R"(offset=0 raw=prefill index=28 extra={"vocab":128256})");
  lines.add(R"({"phase":"decode","step":1,"token_index":29,"hidden_hash":1,"logits_hash":2})");
  lines.add(R"({"phase":"decode","step":2,"token_index":30,"hidden_hash":1,"logits_hash":2})");
  EXPECT_TRUE(lines.row(2).starts_with("hidden p2_hi decode0 layer=-1 step=1 pos=29"))
      << lines.row(2);
  EXPECT_TRUE(lines.row(4).starts_with("hidden p2_hi decode layer=-1 step=2 pos=30"))
      << lines.row(4);
}

TEST(Record, LandscapeIsOneRowAndItsChoices) {
  Lines lines({"", "p0", {}});
  for (int step = 0; step < 3; ++step) {
    lines.add(
        R"({"step":)" + std::to_string(step) +
        R"(,"top1":{"id":96965,"logit":9.5},"top2":{"id":79,"logit":9},"gap":0.5,"entropy_topk":1.25,)"
        R"("top5":[{"id":96965,"logit":9.5},{"id":79,"logit":9}]})");
  }
  EXPECT_EQ(lines.findings(), Strings());
  EXPECT_EQ(lines.parser.shape(), "landscape");
  const std::string extra =
      R"( extra={"entropy_topk":1.25,"top5":[{"id":96965,"logit":9.5},{"id":79,"logit":9}]})";
  EXPECT_EQ(lines.row(0), "logits_topk p0 prefill_last layer=-1 step=0 pos=-1" + extra);
  EXPECT_EQ(lines.row(1), "logits_topk p0 decode0 layer=-1 step=1 pos=-1" + extra);
  EXPECT_EQ(lines.row(2), "logits_topk p0 decode layer=-1 step=2 pos=-1" + extra);
  EXPECT_EQ(lines.readout(1),
            "logits_topk p0 decode0 step=1 pos=-1 top1=96965 logit1=9.5 top2=79 logit2=9 gap=0.5");
}

TEST(Record, AChoiceWhoseLogitIsNotFiniteMakesTheRowSo) {
  for (const char* logit : {"nan", "-nan", "NaN", "-Infinity", "inf", "1e400", "null", "\"nan\""}) {
    for (const char* key : {"top1", "top2"}) {
      SCOPED_TRACE(std::string(key) + " " + logit);
      const std::string choice = R"({"id":5,"logit":)" + std::string(logit) + "}";
      Lines lines({"", "p0", {}});
      lines.add(R"({"step":0,)" +
                std::string(key == std::string("top2") ? R"("top1":{"id":7,"logit":9},)" : "") +
                "\"" + key + "\":" + choice + "}");
      ASSERT_EQ(lines.batch.rows.size(), 1u);
      EXPECT_NE(lines.batch.rows[0].flags & kFlagNonfiniteStatistic, 0);
      EXPECT_EQ(nlohmann::json::parse(lines.extra(0))["as_written"][key], choice);
      EXPECT_EQ(lines.findings().size(), 1u);
      ASSERT_EQ(lines.batch.readouts.size(), 1u);
      const Readout& out = lines.batch.readouts[0];
      EXPECT_EQ(key == std::string("top1") ? out.top1_id : out.top2_id, 5);
      EXPECT_FALSE(key == std::string("top1") ? out.top1_logit : out.top2_logit);
    }
  }
  Lines none;
  none.add(R"({"step":0,"top1":{"id":null,"logit":nan}})");
  EXPECT_NE(none.batch.rows.at(0).flags & kFlagNonfiniteStatistic, 0);
  EXPECT_EQ(findings_of(R"({"step":0,"top1":{"id":"nan, \" nan"}})"),
            Strings{"1 error top1 is not an object with an id"});
}

TEST(Record, LogitsAndLayerTrace) {
  EXPECT_EQ(row_of(R"({"token_idx":38,"token_id":116,"logits":[1,2,-3]})", {"prefill", "p0", {}}),
            "logits p0 prefill layer=-1 step=-1 pos=38 token=116 logical=38 n=3 min=-3 max=2 "
            "mean=0 abs=6 nan=0 inf=0 "
            "nz=3 flags=2 sample=3");
  const auto layer = [](int step) {
    return R"({"step":)" + std::to_string(step) +
           R"(,"layer":2,"tag":"attn_out","n":4096,"hash":18446744073709551615,)"
           R"("min":-1,"max":1,"mean":0})";
  };
  const std::string rest = " pos=-1 n=4096 hash=18446744073709551615 min=-1 max=1 mean=0";
  EXPECT_EQ(row_of(layer(0), {"", "p", {}}), "attn_out p prefill_last layer=2 step=0" + rest);
  EXPECT_EQ(row_of(layer(1), {"", "p", {}}), "attn_out p decode0 layer=2 step=1" + rest);
  EXPECT_EQ(row_of(layer(2), {"", "p", {}}), "attn_out p decode layer=2 step=2" + rest);
}

std::string opening(int pos, int hash) {
  return R"({"phase":"prefill_last","step":0,"pos_id":)" + std::to_string(pos) +
         R"(,"tokens_total":)" + std::to_string(pos + 1) + R"(,"hidden_hash":)" +
         std::to_string(hash) + "}";
}
std::string following(int pos) {
  return R"({"phase":"decode","step":1,"pos_id":)" + std::to_string(pos) + R"(,"hidden_hash":9})";
}

TEST(Record, APrefillLineOpensTheNextPrompt) {
  Lines lines;
  lines.add(opening(204, 1)).add(following(205)).add(opening(44, 2)).add(following(45));
  ASSERT_EQ(lines.batch.prompts.size(), 2u);
  EXPECT_EQ(lines.batch.prompts[0].name, "seg0");
  EXPECT_EQ(lines.batch.prompts[0].n_tokens, 205);
  EXPECT_EQ(lines.batch.prompts[1].name, "seg1");
  EXPECT_EQ(lines.batch.prompts[1].n_tokens, 45);
  EXPECT_TRUE(lines.batch.prompts[1].is_segment);
  EXPECT_TRUE(lines.row(3).starts_with("hidden seg0 decode0")) << lines.row(3);
  EXPECT_TRUE(lines.row(9).starts_with("hidden seg1 decode0")) << lines.row(9);
}

TEST(Record, ARepeatedOpeningReturnsToItsPrompt) {
  Lines lines;
  lines.add(opening(204, 1))
      .add(opening(44, 2))
      .add(opening(204, 1))
      .add(following(205))
      .add(opening(9, 3));
  ASSERT_EQ(lines.batch.prompts.size(), 3u);
  EXPECT_TRUE(lines.row(9).starts_with("hidden seg0 decode0")) << lines.row(9);
  EXPECT_TRUE(lines.row(12).starts_with("hidden seg2 prefill_last")) << lines.row(12);
}

TEST(Record, LinesBeforeAnyOpeningHaveASegmentOfTheirOwn) {
  Lines lines;
  lines.add(following(5)).add(opening(44, 2));
  ASSERT_EQ(lines.batch.prompts.size(), 2u);
  EXPECT_EQ(lines.batch.prompts[0].n_tokens, std::nullopt);
  EXPECT_EQ(lines.batch.prompts[1].name, "seg1");
}

TEST(Record, SegmentsTakeTheNamesOfTheDocument) {
  Lines lines({"", "", {"p4_sys", "p5_ba"}});
  lines.add(opening(204, 1)).add(opening(44, 2)).add(opening(7, 3));
  ASSERT_EQ(lines.batch.prompts.size(), 3u);
  EXPECT_EQ(lines.batch.prompts[0].name, "p4_sys");
  EXPECT_FALSE(lines.batch.prompts[0].is_segment);
  EXPECT_EQ(lines.batch.prompts[1].name, "p5_ba");
  EXPECT_EQ(lines.batch.prompts[2].name, "seg2");
}

TEST(Record, ASampleOfAMaskedRowMayBeInfinite) {
  const auto flags = [](const std::string& more) {
    Lines lines;
    lines.add(stage(R"(,"hash":7,"hash_algo":"greta-1","n":4,"min":0,"max":1,"inf":0,"nan":0)"
                    R"(,"sample":[0,-Infinity])" +
                    more));
    return lines.batch.rows.at(0).flags;
  };
  EXPECT_EQ(flags(R"(,"extra":{"masked":3})") & kFlagNonfiniteStatistic, 0);
  EXPECT_NE(flags("") & kFlagNonfiniteStatistic, 0);
}

/// Number of rows taken of 24 that state one hash.
size_t taken_of_one_hash(const std::function<std::string(int layer)>& statistics) {
  Lines lines;
  for (int i = 0; i < 24; ++i) {
    lines.add(R"({"event":"stage_trace","prompt_id":"p","phase":"decode0","point":"attn_out",)"
              R"("pos_id":)" +
              std::to_string(i) + R"(,"layer":)" + std::to_string(i % 4) + R"(,"hash":7,)" +
              statistics(i % 4) + "}");
  }
  return lines.batch.rows.size();
}

TEST(Record, AnEarlierHashThatStandsStillIsRefused) {
  const auto with = [](const std::string& fixed, bool has_sample) {
    return [fixed, has_sample](int layer) {
      const std::string x = std::to_string(layer + 1);
      return R"("min":0,"max":)" + x + fixed +
             (has_sample ? R"(,"sample":[0,)" + x + "]" : R"(,"sample":[0,0])");
    };
  };
  EXPECT_EQ(taken_of_one_hash(with(R"(,"n":32)", false)), 7u);
  EXPECT_EQ(taken_of_one_hash(with("", true)), 7u);
  EXPECT_EQ(taken_of_one_hash(with(R"(,"n":4096)", true)), 7u);
  EXPECT_EQ(taken_of_one_hash(with("", false)), 24u) << "its first values may be equal";
  EXPECT_EQ(taken_of_one_hash(with(R"(,"n":4096)", false)), 24u);
  EXPECT_EQ(taken_of_one_hash([](int) { return R"("n":32,"min":0,"max":1)"; }), 24u);
}

}  // namespace
}  // namespace greta
