#include "ingest/json_facts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace greta {
namespace {

using Dims = std::map<std::string, std::string>;
using Strings = std::vector<std::string>;

std::string describe(const Dims& dims) {
  std::string out;
  for (const auto& [dim, value] : dims) out += (out.empty() ? "" : ",") + dim + "=" + value;
  return out;
}

// "dim=value" of every attribute.
Strings attributes_of(const std::string& text, const std::string& stem) {
  Strings out;
  for (const Attribute& a : read_json_facts(text, stem).attributes) {
    out.push_back(a.dim + "=" + a.value);
  }
  return out;
}

// "dims leg name=text" of every metric.
Strings metrics_of(const std::string& text, const std::string& stem) {
  Strings out;
  for (const Metric& m : read_json_facts(text, stem).metrics) {
    out.push_back(describe(m.dims) + " " + m.leg + " " + m.name + "=" + m.text);
  }
  return out;
}

Strings claims_of(const std::string& text, const std::string& stem) {
  Strings out;
  for (const ClaimedVerdict& c : read_json_facts(text, stem).claims) {
    out.push_back(describe(c.dims) + " " + c.value);
  }
  return out;
}

TEST(JsonFacts, AKeyWrittenTwiceIsAnError) {
  for (const char* text : {R"({"dtype":"bf16","dtype":"f32"})", R"({"a":{"b":1,"\u0062":2}})"}) {
    const JsonFacts facts = read_json_facts(text, "config");
    EXPECT_TRUE(facts.error.ends_with("is written twice")) << facts.error;
    EXPECT_TRUE(facts.attributes.empty());
  }
}

TEST(JsonFacts, MetadataIsAttributes) {
  const JsonFacts facts = read_json_facts(
      R"({"dtype":"bf16","prompt_len":38,"seed":2,"kv_aligned":0,"mode":"decode",
          "token_span":{"start":38,"count":1},"timestamp":"2026-02-08T03:35:38Z"})",
      "metadata");
  EXPECT_EQ(facts.kind, "metadata");
  EXPECT_EQ(facts.error, "");
  EXPECT_EQ(facts.timestamp, "2026-02-08T03:35:38Z");
  EXPECT_TRUE(facts.metrics.empty());
  ASSERT_EQ(facts.attributes.size(), 8u);
  EXPECT_EQ(facts.attributes[2].dim, "leg");
  EXPECT_EQ(facts.attributes[2].value, "decode");
  EXPECT_EQ(facts.attributes[7].dim, "token_span.start");
}

struct AttributeCase {
  std::string text, stem;
  Strings attributes;
};
TEST(JsonFacts, AttributesAreCanonical) {
  const std::vector<AttributeCase> cases = {
      {R"({"kv":"1"})", "config", {"kv_aligned=1"}},
      {R"({"kv_aligned":true,"span":128.0,"seed":"0"})",
       "config",
       {"kv_aligned=1", "seed=0", "span=128"}},
      {R"({"context":32768,"batch_size":2,"mode":"kv_aligned"})",
       "config",
       {"batch=2", "ctx=32768", "mode=kv_aligned"}},
      {R"({"seeds":[0,1],"kv_aligned":["0","1"],"mode":["prefill"],"v":["x"]})",
       "config",
       {"kv_aligned[]=[\"0\",\"1\"]", "mode[]=[\"prefill\"]", "seed[]=[0,1]", "v[]=[\"x\"]"}},
      {R"({"config":{"matrix":{"contexts":[4096],"seed":0},"git_commit":"a1b2c3d"}})",
       "summary",
       {"commit=a1b2c3d", "ctx[]=[4096]", "seed=0"}},
      {R"({"seed":null,"span":"","mode":null})",
       "config",
       {"invalid.mode=null", "invalid.seed=null", "invalid.span="}},
      {R"({"dir":"C:\\runs\\x","fix":{"a":"b","e":{}}})",
       "summary",
       {"dir=C:\\runs\\x", "fix.a=b", "fix.e={}"}},
      {R"({"git_commit":"synthetic"})", "config", {"synthetic=1"}}};
  for (const AttributeCase& c : cases) {
    SCOPED_TRACE(c.text.substr(0, 80));
    EXPECT_EQ(attributes_of(c.text, c.stem), c.attributes);
  }
}

TEST(JsonFacts, CommitAndTimestampNearestToTheTopWin) {
  const JsonFacts facts = read_json_facts(
      R"({"config":{"git_commit":"a6f7107","timestamp":"2026-02-09T05:26:38Z"},
          "timestamp":"2026-02-09T07:12:15Z"})",
      "summary");
  EXPECT_EQ(facts.timestamp, "2026-02-09T07:12:15Z");
  EXPECT_FALSE(facts.synthetic);
  const JsonFacts synthetic = read_json_facts(R"({"git_commit":"synthetic"})", "config");
  EXPECT_TRUE(synthetic.synthetic);
}

TEST(JsonFacts, PerfMeasuresItsLeg) {
  const std::string text = R"({"span":128,"dtype":"fp16","kv_aligned":0,"seed":0,"mode":"prefill",
      "wall_time_sec":56.028250676,"logits_gz_bytes":19726091})";
  EXPECT_EQ(metrics_of(text, "perf"),
            (Strings{" prefill logits_gz_bytes=19726091", " prefill wall_time_sec=56.028250676"}));
  EXPECT_EQ(read_json_facts(text, "perf").metrics[1].value, 56.028250676);
  EXPECT_EQ(read_json_facts(text, "perf").attributes.size(), 5u);
}

TEST(JsonFacts, ResultsAreMetricsAndClaimsOfTheirRun) {
  const std::string text = R"({"global_verdict":"PASS","verdicts":{"pass_equiv":1},"results":[
      {"span":"128","kv_aligned":"0","verdict":"EXPECTED_DRIFT",
       "metrics":{"max_abs_diff":0.0,"top1":"1.5","status":"OK"},
       "prefill_perf":{"span":128,"kv_aligned":0,"mode":"prefill","wall_time_sec":56.0},
       "decode_perf":{"span":256,"mode":"decode","wall_time_sec":57.5}}]})";
  EXPECT_EQ(claims_of(text, "summary"), (Strings{" PASS", "kv_aligned=0,span=128 EXPECTED_DRIFT"}));
  EXPECT_EQ(
      metrics_of(text, "summary"),
      (Strings{"kv_aligned=0,span=128 decode span=256",
               "kv_aligned=0,span=128 decode wall_time_sec=57.5",
               "kv_aligned=0,span=128  metrics.max_abs_diff=0.0",
               "kv_aligned=0,span=128  metrics.status=OK",
               "kv_aligned=0,span=128  metrics.top1=1.5",
               "kv_aligned=0,span=128 prefill wall_time_sec=56.0", "  verdicts.pass_equiv=1"}));
  const JsonFacts facts = read_json_facts(text, "summary");
  EXPECT_EQ(facts.metrics[2].value, 0.0);
  EXPECT_EQ(facts.metrics[3].value, std::nullopt);
  EXPECT_EQ(facts.metrics[4].value, 1.5) << "a number may be a string";
}

TEST(JsonFacts, NullMeansNothingWasMeasured) {
  const JsonFacts facts = read_json_facts(
      R"({"results":[{"kv":0,"metrics":{"max_abs_diff":null},"verdict":"INCONCLUSIVE"}]})",
      "summary");
  ASSERT_EQ(facts.metrics.size(), 1u);
  EXPECT_EQ(facts.metrics[0].value, std::nullopt);
  EXPECT_EQ(facts.metrics[0].text, "null");
  EXPECT_EQ(facts.metrics[0].dims, (Dims{{"kv_aligned", "0"}}));
}

struct MetricCase {
  std::string text, stem;
  Strings metrics;
};
TEST(JsonFacts, MetricsKnowTheirRun) {
  const std::vector<MetricCase> cases = {
      {R"({"core_results":{"4096":{"prefill_s":22.77,"tok/s":180,"status":"PASS"}}})",
       "summary",
       {"ctx=4096  prefill_s=22.77", "ctx=4096  tok/s=180"}},
      {R"({"span_128_dtype_bf16_decode":{"span":"128","dtype":"bf16","mode":"decode",
                       "wall_time_sec":{"mean":55.5},"sample_count":6}})",
       "perf_summary",
       {"dtype=bf16,span=128 decode sample_count=6",
        "dtype=bf16,span=128 decode wall_time_sec.mean=55.5"}},
      {R"({"span_32_kv_aligned_1_dtype_fp8_e4m3":{"samples":3}})",
       "drift_summary",
       {"dtype=fp8_e4m3,kv_aligned=1,span=32  samples=3"}},
      {R"({"scaling":[{"batch":2,"speedup":0.99}]})", "summary", {"batch=2  scaling.speedup=0.99"}},
      {R"({"results":[{"batch":1,"vram_meta":{"peak_vram_mb":24250,"n":{}}}]})",
       "summary",
       {"batch=1  vram_meta.n={}", "batch=1  vram_meta.peak_vram_mb=24250"}},
      {R"({"results":[{"batch":1,"x":"nan","y":[1,2]}]})",
       "summary",
       {"batch=1  x=nan", "batch=1  y=[1,2]"}},
      {R"({"expected_pairs":6,"layer_analyzed":32})", "summary", {"  expected_pairs=6"}}};
  for (const MetricCase& c : cases) {
    SCOPED_TRACE(c.text.substr(0, 80));
    EXPECT_EQ(metrics_of(c.text, c.stem), c.metrics);
  }
}

TEST(JsonFacts, VerdictsHiddenInAStatusAreClaims) {
  EXPECT_EQ(
      claims_of(R"({"core_results":{"4096":{"status":"PASS"}},"status":"COMPLETED"})", "summary"),
      (Strings{"ctx=4096 PASS"}));
  EXPECT_EQ(claims_of(R"({"global_verdict":"PASS_GUARDRAIL - all met"})", "summary"),
            (Strings{" PASS_GUARDRAIL"}));
}

TEST(JsonFacts, FewerThatPassedThanThereWereAreAFailureOfTheirRun) {
  EXPECT_EQ(claims_of(R"({"passed":47,"total":48})", "summary"), Strings{" FAIL"});
  EXPECT_EQ(claims_of(R"({"tests":{"passed":47,"total":48}})", "summary"), Strings{" FAIL"});
  EXPECT_EQ(claims_of(R"({"results":[{"seed":1,"passed":47,"total":48}]})", "summary"),
            Strings{"seed=1 FAIL"});
  EXPECT_EQ(claims_of(R"({"passed":48,"total":48})", "summary"), Strings{});
}

TEST(JsonFacts, OfAnyOtherDocumentOnlyKnownKeysAreRead) {
  const std::string text =
      R"({"foo":1,"seed":2,"verdict":"PASS","results":[{"seed":3,"status":"failed"}]})";
  EXPECT_EQ(metrics_of(text, "foo"), Strings{});
  EXPECT_EQ(attributes_of(text, "foo"), Strings{});
  EXPECT_EQ(claims_of(text, "foo"), (Strings{" FAIL", " PASS"}));
  EXPECT_EQ(metrics_of(text, "foo_summary"), Strings{"  foo=1"});
}

struct KindCase {
  std::string stem, kind;
};
TEST(JsonFacts, KindsComeFromTheStem) {
  const std::vector<KindCase> cases = {{"metadata", "metadata"},
                                       {"perf_summary", "perf_summary"},
                                       {"b_drift_summary", "drift_summary"},
                                       {"X_SUMMARY", "summary"},
                                       {"", "other"},
                                       {"superconfig", "other"}};
  for (const KindCase& c : cases) {
    SCOPED_TRACE(c.stem.substr(0, 80));
    EXPECT_EQ(read_json_facts("{}", c.stem).kind, c.kind);
  }
}

struct ErrorCase {
  std::string text, part;
};
TEST(JsonFacts, ErrorsSayWhatAndWhere) {
  const std::vector<ErrorCase> cases = {
      {"", "no JSON in 0 bytes"},
      {" \n", "no JSON in 2 bytes"},
      {"[]", "top level is array"},
      {" 42", "top level is number, not an object"},
      {"null", "top level is null"},
      {R"({"kv_aligned": [0, 1)", "not valid JSON at byte"},
      {R"({"a":NaN})", "not valid JSON at byte 5"},
      {"{\"a\":1} x", "not valid JSON"},
      {"{\"a\":1e999}", "not valid JSON"},
      {"{\"a\":\"\xc6\"}", "not valid JSON"},
      {std::string("{\"a\0\":1}", 9), "not valid JSON at byte 3"},
      {std::string(1 << 20, '['), "deeper than 64"},
      {"{\"a\":" + std::string(1 << 20, '['), "deeper than 64"},
      {"{\"a\":\"" + std::string(1 << 20, 'x'), "not valid JSON"}};
  for (const ErrorCase& c : cases) {
    SCOPED_TRACE(c.text.substr(0, 80));
    const JsonFacts facts = read_json_facts(c.text, "summary");
    EXPECT_NE(facts.error.find(c.part), std::string::npos) << facts.error;
    EXPECT_EQ(facts.error.find('\n'), std::string::npos);
    EXPECT_LT(facts.error.size(), 400u);
    EXPECT_TRUE(facts.attributes.empty() && facts.metrics.empty() && facts.claims.empty());
  }
}

TEST(JsonFacts, BracketsInStringsDoNotNest) {
  const std::string text = "{\"a\":\"" + std::string(200, '[') + "\\\"[\"}";
  EXPECT_EQ(read_json_facts(text, "config").error, "");
}

TEST(JsonFactsHostile, LongNamesAndValuesDoNotMultiply) {
  std::string leaves;
  for (int i = 0; i < 50000; ++i) leaves += ",\"k" + std::to_string(i) + "\":1";
  const std::string name(1 << 19, 'n');
  const JsonFacts wide = read_json_facts("{\"" + name + "\":{\"a\":1" + leaves + "}}", "summary");
  EXPECT_EQ(wide.error, "");
  EXPECT_EQ(wide.attributes.size(), 1u) << "kept whole, as JSON text";
  EXPECT_GT(wide.attributes[0].value.size(), leaves.size() / 2);
  const JsonFacts long_dim =
      read_json_facts("{\"results\":[{\"span\":\"" + name + "\"" + leaves + "}]}", "summary");
  EXPECT_EQ(long_dim.metrics.size(), 50001u);
  EXPECT_TRUE(long_dim.metrics[0].dims.empty());
  const JsonFacts flat = read_json_facts("{\"a\":1" + leaves + "}", "config");
  EXPECT_EQ(flat.attributes.size(), 50001u);
}

}  // namespace
}  // namespace greta
