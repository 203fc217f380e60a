#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "ingest/record/line_reader.h"
#include "tests/ingest/record/record_lines.h"

namespace greta {
namespace {

using nlohmann::json;

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

TEST(Record, ALineThatSaysTwoThingsOfARowIsQuarantined) {
  for (const std::string& more : Strings{R"("hash":1,"hash":2)",
                                         R"("hash":1,"hash":1)",
                                         R"("hash":1,"h\u0061sh":2)",
                                         R"("h\u0061sh":1,"hash":2)",
                                         R"("h\u0061sh":1,"\u0068ash":2)",
                                         R"("hash":1,"hash":null)",
                                         R"("hash":null,"hash":1)",
                                         R"("hash":1,"hash":[2])",
                                         R"("nan":3,"nan":0)",
                                         R"("nan":0,"n\u0061n":3)",
                                         R"("inf":3,"inf":0)",
                                         R"("sample_n":1,"sample_n":2)",
                                         R"("n":1,"n":2)",
                                         R"("token_id":1,"token_id":2)",
                                         R"("min":1,"min":2)",
                                         R"("pos_id":1,"pos_id":2)",
                                         R"("step":0,"step":1)",
                                         R"("layer":1)",
                                         R"("phase":"prefill_last")",
                                         R"("point":"x")",
                                         R"("event":"stage_trace")",
                                         R"("prompt_id":"q")",
                                         R"("hash_algo":"fnv-256","hash_algo":"greta-1")",
                                         R"("sample":[1],"sample":[2])",
                                         R"("sample":[1],"sample":null)",
                                         R"("sketch":[1],"sketch":[2])",
                                         R"("extra":{},"extra":{"a":1})"}) {
    const std::string line = stage("," + more);
    EXPECT_TRUE(is_refused(line));
    EXPECT_TRUE(findings_of(line).front().ends_with("is written twice")) << line;
  }
}

TEST(Record, AnEventOrAChoiceThatSaysTwoThingsIsQuarantined) {
  for (const std::string& line :
       Strings{R"({"event":"run_end","status":"failed","status":"complete"})",
               R"({"event":"run_end","status":"failed","st\u0061tus":"complete"})",
               R"({"event":"run_end","status":"complete","rows":3,"rows":2})",
               R"({"event":"run_start","attributes":{"dtype":"f32","dtype":"f16"}})",
               R"({"step":0,"top1":{"id":1,"id":2,"logit":1}})",
               R"({"step":0,"top1":{"id":1,"logit":1},"top2":{"id":1,"logit":1,"logit":2}})"}) {
    EXPECT_TRUE(is_refused(line));
  }
}

TEST(Record, AnEscapedKeyIsTheKeyThatItSpells) {
  EXPECT_EQ(row_of(stage(R"(,"h\u0061sh":5,"\u006ean":3)")), kStage + " hash=5 nan=3");
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
const char* const kKnownKeys =
    "prompt_id prompt layer step pos_id logical_tok_idx token_id token_idx token_index "
    "seq_len seq_len_used tokens_total kv_pos stride_elems alloc_bytes prompt_tokens "
    "decode_step sample_n n ptr src_ptr offset_bytes bytes_offset hash min max mean abs_sum "
    "nan inf nz_count route src_kind src_enum hidden_min hidden_max hidden_mean hidden_ptr "
    "hidden_src_ptr hidden_offset hidden_offset_bytes rms_hash rms_min rms_max rms_mean "
    "rms_out_ptr rms_offset_bytes logits_hash logits_min logits_max logits_mean logits_ptr "
    "logits_offset logits_offset_bytes top1_id top1_logit top2_id top2_logit gap vocab "
    "expected_last_index logical_last_index cpu_probe_top1_id something_else ";

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
       R"("phase":"decode0","tag":"k908","point":"k909","data":[0.25])"},
      {"logits", R"({"logits":[0.25],"phase":"decode0","tag":"k901","point":"k902")"},
      {"layer_trace", R"({"tag":"k901","phase":"decode0","point":"k902")", {"token_idx"}}};
  for (const WholeShape& whole : shapes) {
    SCOPED_TRACE(whole.shape);
    std::string line = whole.start;
    std::vector<std::pair<std::string, std::string>> wanted;
    int next = 1000;
    std::istringstream keys(kKnownKeys);
    for (std::string key; keys >> key;) {
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

}  // namespace
}  // namespace greta
