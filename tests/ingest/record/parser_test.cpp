#include "ingest/record/parser.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace greta {
namespace {

using nlohmann::json;
using Strings = std::vector<std::string>;

/// Lines through one parser, with its symbols resolved.
class Lines {
 public:
  explicit Lines(RecordSource source = {}) : parser(std::move(source)) {}

  Lines& add(const std::string& line) {
    std::string padded = line + std::string(RecordParser::kPaddingBytes, '\0');
    parser.parse({padded.data(), line.size()}, padded.size(), ++line_no_, batch);
    return *this;
  }

  /// A row as text: what it has, in a fixed order. "tensor prompt phase layer step pos ..."
  std::string row(size_t i) const {
    const TraceRow& r = batch.rows.at(i);
    std::string out = batch.names.at(at(r.name_id)) + " " + batch.prompts.at(at(r.prompt_id)).name +
                      " " + batch.phases.at(at(r.phase_id)) + " layer=" + std::to_string(r.layer) +
                      " step=" + std::to_string(r.step) + " pos=" + std::to_string(r.pos_id);
    put(out, "token", r.token_id);
    put(out, "logical", r.logical_tok_idx);
    put(out, "n", r.n);
    if (r.hash) out += " hash=" + std::to_string(*r.hash);
    put(out, "min", r.min);
    put(out, "max", r.max);
    put(out, "mean", r.mean);
    put(out, "abs", r.abs_sum);
    put(out, "nan", r.nan);
    put(out, "inf", r.inf);
    put(out, "nz", r.nz_count);
    if (r.flags != 0) out += " flags=" + std::to_string(r.flags);
    put(out, "ptr", r.ptr);
    put(out, "offset", r.offset_bytes);
    if (!r.sample.empty()) out += " sample=" + std::to_string(r.sample.size());
    if (r.context_id) out += context(batch.contexts.at(at(*r.context_id)));
    return out;
  }
  std::string extra(size_t i) const {
    const TraceRow& r = batch.rows.at(i);
    return r.context_id ? batch.contexts.at(at(*r.context_id)).extra.value_or("") : "";
  }
  std::string readout(size_t i) const {
    const Readout& r = batch.readouts.at(i);
    std::string out = batch.names.at(at(r.name_id)) + " " + batch.prompts.at(at(r.prompt_id)).name +
                      " " + batch.phases.at(at(r.phase_id)) + " step=" + std::to_string(r.step) +
                      " pos=" + std::to_string(r.pos_id);
    put(out, "top1", r.top1_id);
    put(out, "logit1", r.top1_logit);
    put(out, "top2", r.top2_id);
    put(out, "logit2", r.top2_logit);
    put(out, "gap", r.gap);
    put(out, "vocab", r.vocab);
    if (r.route) out += " route=" + *r.route;
    put(out, "cpu", r.cpu_top1_id);
    put(out, "agrees", r.cpu_agrees);
    return out;
  }
  /// "line error|warning reason", one per finding.
  Strings findings() const {
    Strings out;
    for (const LineFinding& f : batch.findings) {
      out.push_back(std::to_string(f.line) + (f.is_error ? " error " : " warning ") + f.reason);
    }
    return out;
  }

  RecordParser parser;
  RecordBatch batch;

 private:
  static size_t at(int64_t i) { return static_cast<size_t>(i); }
  static void put(std::string& out, const char* name, const std::optional<int64_t>& value) {
    if (value) out += std::string(" ") + name + "=" + std::to_string(*value);
  }
  static void put(std::string& out, const char* name, const std::optional<double>& value) {
    char text[40];
    if (value) std::snprintf(text, sizeof text, "%.12g", *value);
    if (value) out += std::string(" ") + name + "=" + text;
  }
  static std::string context(const RowContext& c) {
    std::string out;
    if (c.route) out += " route=" + *c.route;
    if (c.src_kind) out += " kind=" + *c.src_kind;
    if (c.phase_raw) out += " raw=" + *c.phase_raw;
    put(out, "seq_len", c.seq_len);
    put(out, "total", c.tokens_total);
    put(out, "index", c.token_index);
    put(out, "kv_pos", c.kv_pos);
    put(out, "stride", c.stride_elems);
    put(out, "alloc", c.alloc_bytes);
    put(out, "prompt_tokens", c.prompt_tokens);
    put(out, "decode_step", c.decode_step);
    if (c.extra) out += " extra=" + *c.extra;
    return out;
  }

  int64_t line_no_ = 0;
};

std::string row_of(const std::string& line, RecordSource source = {}) {
  Lines lines(std::move(source));
  lines.add(line);
  if (!lines.batch.findings.empty()) return lines.findings().front();
  return lines.batch.rows.size() == 1 ? lines.row(0)
                                      : std::to_string(lines.batch.rows.size()) + " rows";
}

Strings findings_of(const std::string& line, RecordSource source = {}) {
  Lines lines(std::move(source));
  lines.add(line);
  return lines.findings();
}

/// A stage_trace line with these members behind the ones that it must have.
std::string stage(const std::string& more = "") {
  return R"({"event":"stage_trace","prompt_id":"p","phase":"decode0","point":"attn_out","layer":3)" +
         more + "}";
}
const std::string kStage = "attn_out p decode0 layer=3 step=-1 pos=-1";

// ---- shapes -----------------------------------------------------------------------------------

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

// ---- readout segments -------------------------------------------------------------------------

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

// ---- values that are not plain numbers ----------------------------------------------------------

TEST(Record, NonfiniteStatisticsAreKeptAsTextAndFlagged) {
  for (const char* literal :
       {"nan", "-nan", "inf", "-inf", "NaN", "Infinity", "-Infinity", "-nan(ind)", "\"NaN\""}) {
    SCOPED_TRACE(literal);
    Lines lines;
    lines.add(stage(std::string(R"(,"hash":1,"min":)") + literal + R"(,"max":2,"nan":3)"));
    ASSERT_EQ(lines.batch.rows.size(), 1u);
    EXPECT_EQ(lines.findings().size(), 1u);
    EXPECT_FALSE(lines.batch.findings[0].is_error);
    EXPECT_FALSE(lines.batch.rows[0].min);
    EXPECT_EQ(lines.batch.rows[0].max, 2.0);
    EXPECT_EQ(lines.batch.rows[0].nan, 3);
    EXPECT_EQ(lines.batch.rows[0].flags, kFlagNonfiniteStatistic | kFlagRejectedField);
    std::string text = literal;
    std::erase(text, '"');
    EXPECT_EQ(json::parse(lines.extra(0)), (json{{"as_written", {{"min", text}}}}));
  }
}

TEST(Record, OneWarningForALineAndEveryRejectedFieldKept) {
  Lines lines;
  lines.add(stage(R"(,"hash":1,"min":nan,"max":inf,"mean":-nan)"));
  EXPECT_EQ(lines.findings().size(), 1u);
  EXPECT_EQ(json::parse(lines.extra(0)),
            (json{{"as_written", {{"min", "nan"}, {"max", "inf"}, {"mean", "-nan"}}}}));
}

TEST(Record, NonfiniteSampleValuesAreValues) {
  Lines lines;
  lines.add(stage(R"(,"sample":[nan,-inf,inf,NaN,-Infinity,1.5])"));
  EXPECT_EQ(lines.findings(), Strings());
  const TraceRow& row = lines.batch.rows.at(0);
  EXPECT_EQ(row.nan, 2);
  EXPECT_EQ(row.inf, 3);
  EXPECT_EQ(row.min, 1.5);
  EXPECT_TRUE(std::isnan(row.sample[0]));
  EXPECT_EQ(row.sample[1], -INFINITY);
  EXPECT_EQ(row.sample[2], INFINITY);
  EXPECT_TRUE(std::isnan(row.sample[3]));
  EXPECT_EQ(row.sample[4], -INFINITY);
  EXPECT_NE(row.flags & kFlagNonfiniteStatistic, 0);
}

TEST(Record, ASampleOfNothingFiniteHasNoExtremes) {
  Lines lines;
  lines.add(stage(R"(,"sample":[nan,inf])"));
  const TraceRow& row = lines.batch.rows.at(0);
  EXPECT_FALSE(row.min || row.max || row.mean);
  EXPECT_EQ(row.nan, 1);
  EXPECT_EQ(row.inf, 1);
}

TEST(Record, ASampleWithSomethingElseIsRejectedWhole) {
  for (const char* sample : {"[1,\"2\"]", "[1,null]", "[1,[2]]", "[1,true]", "[0.1, -0.2, ...]",
                             "[1,,2]", "[1 2]", "[-]"}) {
    SCOPED_TRACE(sample);
    Lines lines;
    const std::string line = stage(std::string(R"(,"sample":)") + sample);
    lines.add(line);
    EXPECT_TRUE(lines.batch.rows.empty());
    ASSERT_EQ(lines.batch.findings.size(), 1u);
    EXPECT_TRUE(lines.batch.findings[0].is_error);
    EXPECT_EQ(lines.batch.findings[0].raw, line);
  }
}

TEST(Record, HashesAreExactOverTheirWholeRange) {
  for (const char* hash : {"0", "9223372036854775807", "9223372036854775808",
                           "14305319198029099000", "18446744073709551615"}) {
    EXPECT_EQ(row_of(stage(std::string(R"(,"hash":)") + hash)), kStage + " hash=" + hash);
    EXPECT_EQ(row_of(stage(std::string(R"(,"hash":")") + hash + '"')), kStage + " hash=" + hash);
  }
}

TEST(Record, WhatIsNoHashIsAnErrorAndTheRowIsKeptWithoutIt) {
  for (const char* hash :
       {"18446744073709551616", "-1", "1.5e19", "1e3", "\"0x1f\"", "\"\"", "true", "1.0"}) {
    SCOPED_TRACE(hash);
    Lines lines;
    lines.add(stage(std::string(R"(,"hash":)") + hash));
    ASSERT_EQ(lines.batch.rows.size(), 1u);
    EXPECT_FALSE(lines.batch.rows[0].hash);
    ASSERT_EQ(lines.batch.findings.size(), 1u);
    EXPECT_TRUE(lines.batch.findings[0].is_error);
    EXPECT_EQ(lines.batch.rows[0].flags, kFlagRejectedField);
    std::string text = hash;
    std::erase(text, '"');
    EXPECT_EQ(json::parse(lines.extra(0))["as_written"]["hash"], text);
  }
}

TEST(Record, QuotedAndNullFields) {
  EXPECT_EQ(
      row_of(
          R"({"event":"stage_trace","prompt_id":"p","phase":"decode0","point":"attn_out","layer":"3",)"
          R"("token_id":"10","pos_id":"7"})"),
      "attn_out p decode0 layer=3 step=-1 pos=7 token=10 logical=7");
  EXPECT_EQ(row_of(stage(R"(,"token_id":null,"hash":null,"route":null)")), kStage);
}

TEST(Record, HugeNumbers) {
  Lines lines;
  lines.add(stage(R"(,"token_id":99999999999999999999,"min":1e400,"max":-1e-400,"abs_sum":1e308)"));
  ASSERT_EQ(lines.batch.rows.size(), 1u);
  EXPECT_FALSE(lines.batch.rows[0].token_id);
  EXPECT_FALSE(lines.batch.rows[0].min);
  EXPECT_EQ(lines.batch.rows[0].abs_sum, 1e308);
  const json extra = json::parse(lines.extra(0));
  EXPECT_EQ(extra["as_written"]["token_id"], "99999999999999999999");
  EXPECT_EQ(extra["as_written"]["min"], "1e400");
  EXPECT_EQ(row_of(stage(R"(,"sample":[1e39,-1e39])")).find("error"), std::string::npos);
}

// ---- keys beyond what a row can hold ------------------------------------------------------------

TEST(Record, KeysBeyondTheLimitsAreRejectedWithTheLine) {
  const auto line = [](const std::string& field, const std::string& value) {
    const std::string other = field == "layer" ? "" : R"(,"layer":0)";
    return R"({"event":"stage_trace","prompt_id":"p","phase":"decode0","point":"x_in")" + other +
           ",\"" + field + "\":" + value + "}";
  };
  for (const auto& [field, value] :
       std::vector<std::pair<std::string, std::string>>{{"layer", "8190"},
                                                        {"layer", "-2"},
                                                        {"layer", "1.5"},
                                                        {"layer", "\"x\""},
                                                        {"layer", "nan"},
                                                        {"pos_id", "2097151"},
                                                        {"pos_id", "-2"},
                                                        {"pos_id", "99999999999999999999"},
                                                        {"pos_id", "0.5"},
                                                        {"step", "2147483648"},
                                                        {"step", "-2"},
                                                        {"step", "\"\""}}) {
    SCOPED_TRACE(field + " " + value);
    Lines lines;
    lines.add(line(field, value));
    EXPECT_TRUE(lines.batch.rows.empty());
    ASSERT_EQ(lines.batch.findings.size(), 1u);
    EXPECT_TRUE(lines.batch.findings[0].is_error);
    EXPECT_EQ(lines.batch.findings[0].raw, line(field, value));
    EXPECT_NE(lines.batch.findings[0].reason.find(field), std::string::npos);
  }
  for (const auto& [field, value] :
       std::vector<std::pair<std::string, std::string>>{{"layer", "8189"},
                                                        {"layer", "-1"},
                                                        {"pos_id", "2097150"},
                                                        {"pos_id", "-1"},
                                                        {"step", "2147483647"}}) {
    EXPECT_EQ(findings_of(line(field, value)), Strings()) << field << value;
  }
}

TEST(Record, MissingFields) {
  for (const char* line :
       {R"({"event":"stage_trace","layer":0,"phase":"decode0"})",
        R"({"event":"stage_trace","point":"x_in"})",
        R"({"event":"stage_trace","point":null,"layer":0})",
        R"({"event":"stage_trace","point":"x_in","layer":null})",
        R"({"metric":"m","tensor_name":"m","prompt":"p","data":[1]})",
        R"({"step":1,"pos_id":3,"hidden_hash":1})", R"({"step":1,"hidden_hash":1})",
        R"({"step":1,"top1":{"logit":3}})", R"({"step":1,"top1":5})"}) {
    SCOPED_TRACE(line);
    Lines lines;
    lines.add(line);
    EXPECT_TRUE(lines.batch.rows.empty());
    EXPECT_TRUE(lines.batch.readouts.empty());
    ASSERT_EQ(lines.batch.findings.size(), 1u);
    EXPECT_TRUE(lines.batch.findings[0].is_error);
    EXPECT_EQ(lines.batch.findings[0].raw, line);
  }
}

TEST(Record, UnknownEventsAndShapesAreKeptWithAWarning) {
  for (const char* line : {R"({"event":"wo_verify","layer":0})", R"({"event":5})", R"({"a":1})",
                           "{}", R"({"logits":[1,2]})", R"({"sample":[1]})"}) {
    SCOPED_TRACE(line);
    Lines lines;
    lines.add(line);
    EXPECT_TRUE(lines.batch.rows.empty());
    ASSERT_EQ(lines.batch.findings.size(), 1u);
    EXPECT_FALSE(lines.batch.findings[0].is_error);
    EXPECT_EQ(lines.batch.findings[0].raw, line);
  }
}

TEST(Record, WhatIsNotOneObjectIsAnError) {
  for (const std::string& line : Strings{"[1,2]",
                                         "5",
                                         "null",
                                         "\"text\"",
                                         "{",
                                         "}",
                                         "{\"event\"",
                                         "{\"event\":",
                                         "{\"event\":\"stage_trace\"",
                                         stage() + stage(),
                                         stage() + " " + stage(),
                                         stage() + "x",
                                         stage() + "]",
                                         stage() + "}",
                                         "x" + stage(),
                                         "{event:1}",
                                         "{'event':1}",
                                         "{\"a\":1,}",
                                         "{,}",
                                         "{\"a\" 1}",
                                         "{\"a\"}",
                                         "{\"a\":}",
                                         "{:1}",
                                         "{\"a\":1 \"b\":2}"}) {
    SCOPED_TRACE(line);
    Lines lines;
    lines.add(line);
    EXPECT_TRUE(lines.batch.rows.empty());
    ASSERT_EQ(lines.batch.findings.size(), 1u);
    EXPECT_EQ(lines.batch.findings[0].raw, line);
    EXPECT_EQ(lines.batch.findings[0].line, 1);
  }
}

TEST(Record, BytesThatAreNotText) {
  for (const std::string& line :
       Strings{stage(",\"route\":\"\xff\""), stage(",\"route\":\"\xc3\""),
               stage(std::string(",\"route\":\"a\0b\"", 13)), stage(std::string(",\"x\0y\":1", 8)),
               stage(",\"route\":\"a\tb\""), std::string("\0", 1) + "{", "\xff\xfe{"}) {
    Lines lines;
    lines.add(line);
    EXPECT_TRUE(lines.batch.rows.empty()) << line;
    ASSERT_EQ(lines.batch.findings.size(), 1u) << line;
    EXPECT_TRUE(lines.batch.findings[0].is_error);
    EXPECT_EQ(lines.batch.findings[0].raw, line.substr(line.find_first_not_of('\0')));
  }
}

TEST(Record, WhiteSpaceAroundALineIsNothing) {
  Lines lines;
  for (const char* blank : {"", "\r", "  ", "\t\r"}) lines.add(blank);
  EXPECT_EQ(lines.batch.lines, 4);
  EXPECT_EQ(lines.findings(), Strings());
  EXPECT_EQ(row_of(stage() + "\r"), kStage);
  EXPECT_EQ(row_of("  " + stage() + " \t\r"), kStage);
}

TEST(Record, DeepNesting) {
  const auto nested = [](size_t depth) {
    return stage(",\"deep\":" + std::string(depth, '[') + std::string(depth, ']'));
  };
  Lines lines;
  lines.add(nested(200));
  ASSERT_EQ(lines.batch.rows.size(), 1u);
  EXPECT_TRUE(json::accept(lines.extra(0)));
  for (const size_t depth :
       {size_t{1000}, size_t{1023}, size_t{1024}, size_t{2000}, size_t{1'000'000}}) {
    Lines deep;
    deep.add(nested(depth));
    EXPECT_EQ(deep.batch.rows.size() + deep.batch.findings.size(), 1u) << depth;
  }
  Lines open;
  open.add(stage(",\"deep\":" + std::string(100'000, '[')));
  EXPECT_EQ(open.batch.findings.size(), 1u);
}

TEST(Record, SamplesUpToTheLimitOfAFingerprint) {
  std::string values = "0";
  values.reserve(5 << 20);
  for (size_t i = 1; i < (1u << 21); ++i) values += ",1";
  Lines lines;
  lines.add(stage(R"(,"hash":1,"sample":[)" + values + "]"));
  ASSERT_EQ(lines.batch.rows.size(), 1u);
  EXPECT_EQ(lines.batch.rows[0].sample.size(), size_t{1} << 21);
  Lines more;
  more.add(stage(R"(,"hash":1,"sample":[)" + values + ",1]"));
  EXPECT_TRUE(more.batch.rows.empty());
  ASSERT_EQ(more.batch.findings.size(), 1u);
  EXPECT_TRUE(more.batch.findings[0].is_error);
}

TEST(Record, ASampleThatContradictsItsCountIsAWarning) {
  Lines lines;
  lines.add(stage(R"(,"hash":1,"sample_n":64,"sample":[1,2])"));
  EXPECT_EQ(lines.batch.rows.size(), 1u);
  ASSERT_EQ(lines.batch.findings.size(), 1u);
  EXPECT_FALSE(lines.batch.findings[0].is_error);
  EXPECT_EQ(lines.batch.rows[0].sample.size(), 2u);
}

TEST(Record, TwoArraysOfValuesAreAnError) {
  EXPECT_EQ(findings_of(stage(R"(,"sample":[1],"data":[2])")),
            Strings({"1 error two arrays of values"}));
  EXPECT_EQ(findings_of(stage(R"(,"sample":[1],"sample":[1])")).size(), 1u);
}

// ---- nothing is lost ----------------------------------------------------------------------------

TEST(Record, AKeyWrittenTwiceKeepsBothValues) {
  Lines lines;
  lines.add(stage(R"(,"offset_bytes":1,"offset_bytes":2,"other":3,"other":4)"));
  ASSERT_EQ(lines.batch.rows.size(), 1u);
  EXPECT_EQ(
      lines.findings(),
      Strings({"1 warning offset_bytes is written twice with different values; both are kept"}));
  EXPECT_EQ(lines.row(0), kStage + R"( offset=1 extra={"offset_bytes":2,"other":3,"other":4})");
  EXPECT_EQ(row_of(stage(R"(,"offset_bytes":1,"offset_bytes":1)")), kStage + " offset=1");
}

TEST(Record, ExtraIsValidJsonWhateverTheFieldsAre) {
  for (const char* value : {"nan",
                            "-inf",
                            "Infinity",
                            "NaN",
                            "inf",
                            "-nan",
                            "infinity",
                            "01",
                            "1.",
                            ".5",
                            "+1",
                            "-",
                            "1e",
                            "0x1f",
                            "tru",
                            "bare",
                            "\"\\q\"",
                            "\"\\u12\"",
                            "\"\\ud800\"",
                            "[nan]",
                            "{\"a\":nan}",
                            "[1,]",
                            "{\"a\" 1}",
                            "1 2",
                            "1e999",
                            "-0",
                            "\"a\\\"b\"",
                            "\"\\\\\"",
                            "null",
                            "true",
                            "{}",
                            "[]",
                            "\"\"",
                            "\xEF\xBB\xBF"
                            "0.25"}) {
    SCOPED_TRACE(value);
    Lines lines;
    lines.add(stage(std::string(R"(,"hash":1,"foo":)") + value));
    EXPECT_EQ(lines.batch.rows.size() + lines.batch.findings.size(), 1u);
    if (lines.batch.rows.empty()) continue;
    EXPECT_TRUE(json::accept(lines.extra(0))) << lines.extra(0);
    EXPECT_NE(lines.extra(0).find("foo"), std::string::npos);
  }
  Lines nul;
  nul.add(stage(std::string(",\"hash\":1,\"foo\":1\0.5,\"bar\":[1\0,2]", 29)));
  EXPECT_EQ(nul.batch.rows.size() + nul.batch.findings.size(), 1u);
  EXPECT_TRUE(nul.batch.rows.empty() || json::accept(nul.extra(0))) << nul.extra(0);
  for (const char* key : {"\\q", "a\\\"b", "\\u00e9", "\\u12", "a b", ""}) {
    SCOPED_TRACE(key);
    Lines lines;
    lines.add(stage(std::string(",\"hash\":1,\"") + key + "\":1"));
    EXPECT_EQ(lines.batch.rows.size() + lines.batch.findings.size(), 1u);
    if (lines.batch.rows.empty()) continue;
    EXPECT_TRUE(json::accept(lines.extra(0))) << lines.extra(0);
  }
}

/// Every key that some shape knows, but those that tell shapes apart, values and phases.
const Strings kKnownKeys = {"prompt_id",
                            "prompt",
                            "layer",
                            "step",
                            "pos_id",
                            "logical_tok_idx",
                            "token_id",
                            "token_idx",
                            "token_index",
                            "seq_len",
                            "seq_len_used",
                            "tokens_total",
                            "kv_pos",
                            "stride_elems",
                            "alloc_bytes",
                            "prompt_tokens",
                            "decode_step",
                            "sample_n",
                            "n",
                            "ptr",
                            "src_ptr",
                            "offset_bytes",
                            "bytes_offset",
                            "hash",
                            "min",
                            "max",
                            "mean",
                            "abs_sum",
                            "nan",
                            "inf",
                            "nz_count",
                            "route",
                            "src_kind",
                            "src_enum",
                            "hidden_min",
                            "hidden_max",
                            "hidden_mean",
                            "hidden_ptr",
                            "hidden_src_ptr",
                            "hidden_offset",
                            "hidden_offset_bytes",
                            "rms_hash",
                            "rms_min",
                            "rms_max",
                            "rms_mean",
                            "rms_out_ptr",
                            "rms_offset_bytes",
                            "logits_hash",
                            "logits_min",
                            "logits_max",
                            "logits_mean",
                            "logits_ptr",
                            "logits_offset",
                            "logits_offset_bytes",
                            "top1_id",
                            "top1_logit",
                            "top2_id",
                            "top2_logit",
                            "gap",
                            "vocab",
                            "expected_last_index",
                            "logical_last_index",
                            "cpu_probe_top1_id",
                            "something_else"};

struct WholeShape {
  const char* shape;
  std::string start;                   // what makes a line one of this shape
  std::set<std::string> without = {};  // keys that would make it another
};

TEST(Record, NoFieldOfAnyShapeIsLost) {
  const std::vector<WholeShape> shapes = {
      {"stage_trace",
       R"({"event":"stage_trace","phase":"decode0","point":"x_in","metric":"k901","tag":"k902",)"
       R"("hidden_hash":903,"top1":{"id":904},"tensor_name":"k905","lm_head_route":"k906",)"
       R"("cpu_probe_agrees_gpu":"k907","data":"k908")"},
      {"metric",
       R"({"metric":"k901","tensor_name":"k902","phase":"decode0","tag":"k903","hidden_hash":904,)"
       R"("point":"k905","top2":{"id":906},"logits":"k907")"},
      {"readout",
       R"({"hidden_hash":901,"phase":"decode","tag":"k902","point":"k903","top1":{"id":904})"},
      {"delta",
       R"({"hidden_hash":901,"phase":"decode","lm_head_route":"k902","cpu_probe_agrees_gpu":true,"tag":"k903")"},
      {"prefill_decode",
       R"({"hidden_hash":901,"phase":"decode","tag":"k902","point":"k903")",
       {"pos_id"}},
      {"landscape",
       R"({"top1":{"id":901,"logit":902,"text":"k903"},"top2":{"id":904,"logit":905,"text":"k906"},)"
       R"("phase":"k907","tag":"k908","point":"k909","data":[0.25])"},
      {"logits", R"({"logits":[0.25],"phase":"decode0","tag":"k901","point":"k902")"},
      {"layer_trace", R"({"tag":"k901","phase":"decode0","point":"k902")", {"token_idx"}}};
  for (const WholeShape& whole : shapes) {
    SCOPED_TRACE(whole.shape);
    std::string line = whole.start;
    std::vector<std::pair<std::string, std::string>> wanted;
    int next = 1000;
    for (const std::string& key : kKnownKeys) {
      if (whole.without.contains(key)) continue;
      wanted.emplace_back(key, std::to_string(++next));
      line += ",\"" + key + "\":" + wanted.back().second;
    }
    line += "}";
    for (int i = 901; i < 910; ++i) {
      if (whole.start.find(std::to_string(i)) != std::string::npos)
        wanted.emplace_back("", std::to_string(i));
    }
    Lines lines({"", "from the file name", {}});
    lines.add(line);
    ASSERT_EQ(lines.parser.shape(), whole.shape);
    for (const LineFinding& f : lines.batch.findings) EXPECT_FALSE(f.is_error) << f.reason;
    std::string kept;
    for (size_t i = 0; i < lines.batch.rows.size(); ++i) {
      kept += lines.row(i) + "\n";
      EXPECT_TRUE(lines.extra(i).empty() || json::accept(lines.extra(i))) << lines.extra(i);
    }
    for (size_t i = 0; i < lines.batch.readouts.size(); ++i) kept += lines.readout(i) + "\n";
    for (const auto& [key, value] : wanted) {
      EXPECT_NE(kept.find(value), std::string::npos) << key << " " << value << " is lost of\n"
                                                     << kept;
    }
  }
}

TEST(Record, FullBatchesCountWhatIsKeptOfBadLines) {
  Lines lines;
  const std::string bad = stage(",\"x\":\"" + std::string(1 << 20, 'x') + "\"").substr(1);
  int added = 0;
  while (!lines.batch.is_full() && added < 100) lines.add(bad), ++added;
  EXPECT_LT(added, 40);
  Lines wide;
  added = 0;
  while (!wide.batch.is_full() && added < 100) {
    wide.add(stage(",\"x\":\"" + std::to_string(added++) + std::string(1 << 20, 'x') + "\""));
  }
  EXPECT_LT(added, 40);
}

TEST(Record, RecordLinesAreTold) {
  EXPECT_TRUE(is_record_line(R"({"event":"stage_trace"})"));
  EXPECT_TRUE(is_record_line("  {\"hidden_hash\":1}\r"));
  EXPECT_FALSE(is_record_line("{\"a\":1}"));
  EXPECT_FALSE(is_record_line("{\"event\":1"));
  EXPECT_FALSE(is_record_line(""));
}

}  // namespace
}  // namespace greta
