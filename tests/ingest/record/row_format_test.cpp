// Lines of the row format (docs/traces.md): what is as the page says is taken to the bit, and
// nothing else is.
#include "ingest/record/line_reader.h"
#include "kernels/fingerprint/fingerprint.h"
#include "tests/ingest/record/record_lines.h"

namespace greta {
namespace {

const std::string kRowsStart =
    R"({"event":"run_start","format":"greta-rows-1","experiment":"rollout"})";

std::string a_row(const std::string& but = "", const std::string& with = "") {
  std::string line =
      R"({"event":"row","phase":"decode0","layer":3,"tensor":"attn_out","pos_id":17,"values":[1,2.5]})";
  if (but.empty()) return line;
  const size_t at = line.find(but);
  EXPECT_NE(at, std::string::npos) << but;
  return line.replace(at, but.size(), with);
}

/// A row that states its fingerprint.
std::string stated_row(const std::string& but = "", const std::string& with = "") {
  const std::string statistics =
      R"("n":2,"hash":"18446744073709551615","min":1,"max":2.5,"mean":1.75,"abs_sum":3.5,)"
      R"("nan":0,"inf":0,"nz_count":2)";
  std::string line = a_row(R"("values":[1,2.5])", statistics);
  if (but.empty()) return line;
  const size_t at = line.find(but);
  EXPECT_NE(at, std::string::npos) << but;
  return line.replace(at, but.size(), with);
}

/// What is said of this line behind a run_start; nothing of it is taken then.
std::string refusal_of_row(const std::string& line) {
  Lines lines;
  lines.add(kRowsStart).add(line);
  EXPECT_TRUE(lines.batch.rows.empty()) << line;
  EXPECT_EQ(lines.batch.findings.size(), 1u) << line;
  if (lines.batch.findings.empty()) return "";
  EXPECT_EQ(lines.batch.findings[0].raw, line);
  EXPECT_EQ(lines.batch.findings[0].line, 2);
  EXPECT_TRUE(lines.batch.findings[0].is_error);
  return lines.batch.findings[0].reason;
}

TEST(RowFormat, ValuesBecomeTheFingerprintOfAllOfThem) {
  Lines lines;
  lines.add(kRowsStart).add(a_row());
  ASSERT_EQ(lines.batch.rows.size(), 1u) << lines.findings().front();
  const TraceRow& row = lines.batch.rows[0];
  const std::vector<float> values{1, 2.5};
  const Fingerprint print = fingerprint(values);
  EXPECT_EQ(lines.row(0), "attn_out prompt decode0 layer=3 step=-1 pos=17 logical=17 n=2 hash=" +
                              std::to_string(print.hash) +
                              " min=1 max=2.5 mean=1.75 abs=3.5 nan=0 inf=0 nz=2");
  ASSERT_NE(row.sketch, nullptr);
  EXPECT_EQ(row.sketch->bucket, print.sketch);
  EXPECT_FALSE(row.sketch->derived);
  EXPECT_TRUE(row.sample.empty());
  EXPECT_EQ(lines.batch.hash_algo, "greta-1");
  EXPECT_EQ(lines.parser.shape(), "row");
}

TEST(RowFormat, ValuesThatAreNotFiniteAreCounted) {
  Lines lines;
  lines.add(kRowsStart).add(a_row("1,2.5", "NaN,-Infinity,Infinity,2"));
  ASSERT_EQ(lines.batch.rows.size(), 1u) << lines.findings().front();
  EXPECT_EQ(*lines.batch.rows[0].nan, 1);
  EXPECT_EQ(*lines.batch.rows[0].inf, 2);
  EXPECT_EQ(lines.batch.rows[0].flags, 0);
}

TEST(RowFormat, InfinitiesOfAMaskAreNoFault) {
  const auto taken = [](const std::string& tensor, const std::string& values,
                        const std::string& more = "") {
    Lines lines;
    lines.add(kRowsStart)
        .add(R"({"event":"row","phase":"decode0","layer":3,"pos_id":17,"tensor":")" + tensor +
             R"(","values":[)" + values + "]" + more + "}");
    if (lines.batch.rows.empty()) return lines.findings().front();
    const std::string text = lines.row(0);
    const size_t extra = text.find(" extra=");
    return "inf=" + std::to_string(*lines.batch.rows[0].inf) +
           (extra == text.npos ? "" : text.substr(extra));
  };
  const std::string two = "1,-Infinity,-Infinity,2", masked = R"(inf=0 extra={"masked":2})";
  EXPECT_EQ(taken("attn_scores", two), masked);
  EXPECT_EQ(taken("attn_scores", two, R"(,"masked":null)"), masked);
  EXPECT_EQ(taken("attn_scores", two, R"(,"masked":false)"), "inf=2");
  EXPECT_EQ(taken("attn_scores", "1,-Infinity,Infinity,2"), "inf=2") << "no mask has +inf";
  EXPECT_EQ(taken("attn_scores", "-Infinity,-Infinity"), "inf=2") << "nothing is left of it";
  EXPECT_EQ(taken("attn_probs", two), "inf=2");
  EXPECT_EQ(taken("attn_probs", two, R"(,"masked":true)"), masked);
  EXPECT_EQ(taken("attn_probs", two, R"(,"masked":2)"), masked);
  EXPECT_EQ(taken("attn_probs", two, R"(,"masked":1)"), R"(inf=1 extra={"masked":1})");
  EXPECT_EQ(taken("attn_probs", "1,NaN,-Infinity,2", R"(,"masked":true,"extra":{"a":1})"),
            R"(inf=0 extra={"a":1,"masked":1})");
  const std::string refused = "masked is true, false or a number of its infinities";
  for (const char* odd : {"3", "-1", "1.5", "\"true\""}) {
    const std::string said = taken("attn_probs", two, std::string(R"(,"masked":)") + odd);
    EXPECT_NE(said.find(refused), said.npos) << odd << ": " << said;
  }
}

TEST(RowFormat, NoValuesAreARowWithoutAHash) {
  Lines lines;
  lines.add(kRowsStart).add(a_row("1,2.5", ""));
  ASSERT_EQ(lines.batch.rows.size(), 1u) << lines.findings().front();
  EXPECT_EQ(*lines.batch.rows[0].n, 0);
  EXPECT_FALSE(lines.batch.rows[0].hash);
  EXPECT_EQ(lines.batch.rows[0].sketch, nullptr);
  EXPECT_EQ(lines.batch.rows[0].flags, 0);
}

TEST(RowFormat, AFingerprintIsTakenAsItIsStated) {
  Lines lines;
  lines.add(kRowsStart)
      .add(R"({"event":"run_prompt","prompt":"p\"0","token_ids":[1,2]})")
      .add(
          stated_row(R"("phase")",
                     R"("prompt":"p\"0","step":2,"token_id":7,"logical_tok_idx":9,"route":"flash",)"
                     R"("extra":{"a":[1]},"sample":[1],"phase")"));
  ASSERT_EQ(lines.batch.rows.size(), 1u) << lines.findings().front();
  EXPECT_EQ(lines.row(0),
            "attn_out p\"0 decode0 layer=3 step=2 pos=17 token=7 logical=9 n=2"
            " hash=18446744073709551615 min=1 max=2.5 mean=1.75 abs=3.5 nan=0 inf=0 nz=2"
            " sample=1 route=flash extra={\"a\":[1]}")
      << lines.row(0);
}

TEST(RowFormat, WhatItDoesNotDefineIsRefusedByName) {
  const std::pair<std::string, std::string> cases[] = {
      {a_row("decode0", "prefil"),
       "phase \"prefil\" is none of prefill_last, prefill, decode0, decode"},
      {a_row("decode0", "Decode0"),
       "phase \"Decode0\" is none of prefill_last, prefill, decode0, decode"},
      {a_row(R"("phase":"decode0",)"), "a row without phase"},
      {a_row(R"("tensor")", R"("tensr")"),
       "unknown field \"tensr\"; tensor is one; extra takes what has no field of its own"},
      {a_row(R"("tensor":"attn_out",)"), "a row without tensor"},
      {a_row(R"("attn_out")", R"("")"), "a row without tensor"},
      {a_row(R"("attn_out")", "7"), "tensor is not a text"},
      {a_row(R"("layer":3,)"), "a row without layer"},
      {a_row(R"("layer":3)", R"("layer":"3")"), "layer \"3\" is not an integer from -1 to 8189"},
      {a_row(R"("layer":3)", R"("layer":3.5)"), "layer 3.5 is not an integer from -1 to 8189"},
      {a_row(R"("layer":3)", R"("layer":9223372036854775808)"),
       "layer 9223372036854775808 is not an integer from -1 to 8189"},
      {a_row(R"("layer":3)", R"("layer":3,"layer":3)"), "layer is written twice"},
      {a_row(R"("tensor")", R"("tensor":"x","tensor")"), "tensor is written twice"},
      {a_row(R"("pos_id":17,)"), "a row without pos_id"},
      {a_row("17", "-1"), "pos_id -1 is not an integer from 0 to 2097150"},
      {a_row(R"("phase")", R"("token_id":-1,"phase")"),
       "token_id -1 is not an integer from 0 to 2147483647"},
      {a_row(R"("phase")", R"("extra":[1],"phase")"),
       "extra is not a JSON object of at most 64 KiB"},
      {a_row("1,2.5", "1,x"), "a value of values is not a number"},
      {a_row("1,2.5", "1,\"2\""), "a value of values is not a number"},
      {a_row("1,2.5", "1,1e39"), "value 1 is beyond f32"},
      {a_row("[1,2.5]", "1"), "values is no array"},
      {a_row(R"("values")", R"("n":2,"values")"), "values, and n, which follows from them"},
      {a_row(R"("values")", R"("data")"),
       "unknown field \"data\"; extra takes what has no field of its own"},
      {a_row(R"(,"values":[1,2.5])"), "a row without n"},
      {stated_row(R"("n":2)", R"("n":1)"),
       "no values have this fingerprint: nz_count contradicts n, nan and inf"},
      {stated_row(R"("min":1)", R"("min":3)"), "no values have this fingerprint: min and max"},
      {stated_row(R"("nan":0,)"), "a row without nan"},
      {stated_row(R"("nan":0)", R"("nan":null)"),
       "nan null is not an integer from 0 to 2147483648"},
      {stated_row("18446744073709551615", "18446744073709551616"), "hash is not a 64-bit integer"},
      {stated_row("18446744073709551615", "0"),
       "no values have this fingerprint: a hash that nobody worked out"},
      {stated_row(R"("nan")", R"("sum_sq":1,"nan")"), "sketch and sum_sq belong together"},
      {stated_row(R"("nan")", R"("sum_sq":1,"sketch":[1],"nan")"), "a sketch is 32 numbers"},
      {stated_row(R"("nan")", R"("sketch":7,"nan")"), "sketch or sample is no array"},
      {stated_row(R"("nan")", R"("sample":[1,2,3],"nan")"),
       "a sample of more values than the row, or than 256"},
      {R"({"event":"stage_trace","point":"x","layer":0})",
       "event \"stage_trace\" is none of run_start, run_attributes, run_prompt, row, run_end"},
      {R"({"event":"run_prompt","prompt_id":"p0"})", "unknown field \"prompt_id\""},
      {R"({"event":"run_prompt","prompt":"p0","token_ids":[1],"n_tokens":2})",
       "n_tokens is not the number of token_ids"},
      {R"({"event":"run_end","status":"complete"})", "run_end without rows, their number"},
      {R"({"event":"run_end","status":"done","rows":0})", "status is neither complete nor failed"},
      {R"({"event":"run_end","status":"complete","rows":0,"finished_at":"2026-02-30T00:00:00Z"})",
       "finished_at 2026-02-30T00:00:00Z is not a time as 2026-02-07T12:00:00Z"},
      {kRowsStart, "a second run_start: a content has one run"},
  };
  for (const auto& [line, why] : cases) EXPECT_EQ(refusal_of_row(line), why) << line;
}

TEST(RowFormat, WhatIsNotFiniteIsARowHoweverItIsPrinted) {
  for (const char* spelled : {"NaN", "null", "Infinity", "-Infinity"}) {
    const std::string text = spelled;
    for (const std::string& line :
         {stated_row(R"("min":1)", "\"min\":" + text),
          stated_row(R"("mean":1.75)", "\"mean\":" + text),
          stated_row(R"("max":2.5)", "\"max\":" + text), a_row("1,2.5", "1," + text)}) {
      Lines lines;
      lines.add(kRowsStart).add(line);
      ASSERT_EQ(lines.batch.rows.size(), 1u) << line << lines.findings().front();
      const TraceRow& row = lines.batch.rows[0];
      EXPECT_TRUE(row.nan.value_or(0) + row.inf.value_or(0) > 0 ||
                  (row.flags & kFlagNonfiniteStatistic) != 0)
          << line;
    }
  }
  // a sum that overflows is not a value that does
  Lines lines;
  lines.add(kRowsStart).add(stated_row(R"("abs_sum":3.5)", R"("abs_sum":Infinity)"));
  ASSERT_EQ(lines.batch.rows.size(), 1u) << lines.findings().front();
  EXPECT_EQ(lines.batch.rows[0].flags & kFlagNonfiniteStatistic, 0);
  EXPECT_FALSE(lines.batch.rows[0].abs_sum.has_value());
}

/// The only row that comes of this line, and what is said of it.
struct TakenRow {
  explicit TakenRow(const std::string& line) {
    lines.add(kRowsStart).add(line);
    EXPECT_EQ(lines.batch.rows.size(), 1u) << line << " " << lines.findings().front();
    lines.batch.rows.resize(1);
  }
  const TraceRow& row() const { return lines.batch.rows[0]; }
  bool is_nonfinite() const {
    return row().nan.value_or(0) + row().inf.value_or(0) > 0 ||
           (row().flags & kFlagNonfiniteStatistic) != 0;
  }
  Lines lines;
};

std::string sketch_of_two(const std::string& first = "1") {
  std::string text = "[" + first;
  for (int i = 1; i < 32; ++i) text += ",0";
  return text + "]";
}

TEST(RowFormat, ARowOfNothingFiniteIsTaken) {
  for (const std::string spelled : {"NaN", "null", "Infinity"}) {
    for (const char* counts : {R"("nan":2,"inf":0)", R"("nan":0,"inf":2)", R"("nan":1,"inf":1)"}) {
      const std::string line = a_row(R"("values":[1,2.5])",
                                     R"("n":2,"hash":7,"min":)" + spelled + ",\"max\":" + spelled +
                                         ",\"mean\":" + spelled + ",\"abs_sum\":" + spelled + "," +
                                         counts + R"(,"nz_count":2)");
      const TakenRow taken(line);
      EXPECT_TRUE(taken.is_nonfinite()) << line;
      EXPECT_FALSE(taken.row().min || taken.row().mean || taken.row().abs_sum) << line;
    }
  }
  EXPECT_EQ(refusal_of_row(stated_row(R"("nan":0)", R"("nan":3)")),
            "no values have this fingerprint: nan and inf are more than n");
}

TEST(RowFormat, ExtraKeepsWhatIsNotFiniteAsText) {
  const TakenRow taken(a_row(
      R"("phase")", R"("extra":{"a":NaN,"b":[-Infinity,{"c":Infinity}],"d":"is NaN"},"phase")"));
  EXPECT_EQ(taken.lines.extra(0), R"({"a":"NaN","b":["-Infinity",{"c":"Infinity"}],"d":"is NaN"})");
  EXPECT_FALSE(taken.is_nonfinite());
  EXPECT_EQ(refusal_of_row(a_row(R"("phase")", R"("extra":{"a":Nan1},"phase")")),
            "extra is not a JSON object of at most 64 KiB");
}

TEST(RowFormat, ASketchThatNaNHasSpoiltIsLeftOut) {
  for (const std::string spelled : {"NaN", "null", "Infinity"}) {
    for (const std::string& sketch : {"\"sum_sq\":" + spelled + ",\"sketch\":" + sketch_of_two(),
                                      "\"sum_sq\":1,\"sketch\":" + sketch_of_two(spelled),
                                      "\"sum_sq\":" + spelled + R"(,"sketch":null)"}) {
      const std::string nan = R"("nan":1,"inf":0,"nz_count":2,)" + sketch;
      const TakenRow taken(stated_row(R"("nan":0,"inf":0,"nz_count":2)", nan));
      EXPECT_TRUE(taken.is_nonfinite()) << sketch;
      EXPECT_EQ(taken.row().sketch, nullptr) << sketch;
      if (sketch == R"("sum_sq":null,"sketch":null)") continue;  // says nothing
      refusal_of_row(stated_row(R"("nz_count":2)", R"("nz_count":2,)" + sketch));
    }
  }
  refusal_of_row(stated_row(R"("nan":0)", R"("nan":1,"sum_sq":NaN,"sketch":[NaN])"));
}

TEST(RowFormat, ASampleThatIsNotFiniteIsOfSuchARow) {
  for (const char* spelled : {"NaN", "null", "Infinity"}) {
    const std::string sample = std::string(R"("sample":[1,)") + spelled + R"(],"nan")";
    EXPECT_TRUE(TakenRow(stated_row(R"("nan")", sample)).is_nonfinite()) << spelled;
    const std::string row = stated_row(R"("nan")", sample);
    const size_t n = row.find(R"("nan":0,"inf":0)");
    const auto counted = [&](const char* counts) {
      return TakenRow(std::string(row).replace(n, 15, counts)).is_nonfinite();
    };
    EXPECT_FALSE(counted(R"("masked":1,"nan":0,"inf":1)")) << spelled;
    EXPECT_TRUE(counted(R"("extra":{"masked":1},"nan":0,"inf":0)")) << spelled;
  }
}

TEST(RowFormat, ASampleDoesNotContradictItsRow) {
  const auto with_sample = [](const std::string& sample) {
    return stated_row(R"("nan")", R"("sample":)" + sample + R"(,"nan")");
  };
  for (const char* sample : {"[1,2.5]", "[0.96,2.54]", "[]", "[1]", "[2,2]"}) {
    EXPECT_EQ(TakenRow(with_sample(sample)).lines.findings(), Strings{}) << sample;
  }
  const std::string outside =
      "a row that contradicts itself: its sample has a value outside of its min and max";
  for (const char* sample : {"[1e9]", "[1,-3]", "[0.8]", "[1,2.7]"}) {
    EXPECT_EQ(refusal_of_row(with_sample(sample)), outside) << sample;
  }
  const std::string zeros =
      R"("n":2,"hash":7,"min":0,"max":2,"mean":1,"abs_sum":2,"nan":0,"inf":0,)";
  const auto of_zeros = [&zeros](const std::string& sample) {
    return a_row(R"("values":[1,2.5])", zeros + R"("nz_count":1,"sample":)" + sample);
  };
  EXPECT_EQ(refusal_of_row(of_zeros("[0,-0.0]")),
            "a row that contradicts itself: its sample is all of it and 0, its nz_count is not");
  EXPECT_EQ(TakenRow(of_zeros("[0]")).lines.findings(), Strings{});
  EXPECT_EQ(TakenRow(of_zeros("[0,2]")).lines.findings(), Strings{});
}

TEST(RowFormat, ANullFieldOfARowIsAsAbsent) {
  for (const std::string& line :
       {stated_row(R"("nan")", R"("sample":null,"nan")"),
        stated_row(R"("nan")", R"("sum_sq":null,"sketch":null,"nan")"),
        stated_row(R"("nan")", R"("values":null,"nan")"),
        a_row(
            R"("phase")",
            R"("n":null,"hash":null,"min":null,"sum_sq":null,"sketch":null,"sample":null,"phase")"),
        a_row(R"("phase")",
              R"("prompt":null,"step":null,"token_id":null,"route":null,"extra":null,"phase")")}) {
    EXPECT_FALSE(TakenRow(line).is_nonfinite()) << line;
  }
  EXPECT_EQ(refusal_of_row(a_row("[1,2.5]", "null")), "a row without n");
  EXPECT_EQ(refusal_of_row(stated_row(R"("nan")", R"("sketch":null,"sum_sq":1,"nan")")),
            "sketch and sum_sq belong together");
}

TEST(RowFormat, OneNumberHasManySpellings) {
  const std::string plain = R"("hash":"18446744073709551615")";
  for (const std::string& line :
       {stated_row(plain, R"("hash":"-1")"), stated_row(plain, R"("hash":-1)"),
        stated_row(plain, R"("hash":"0xffffffffffffffff")"), stated_row("3,", "3.0,")}) {
    Lines lines;
    lines.add(kRowsStart).add(line);
    ASSERT_EQ(lines.batch.rows.size(), 1u) << line << lines.findings().front();
    EXPECT_EQ(lines.batch.rows[0].hash, UINT64_MAX) << line;
    EXPECT_EQ(lines.batch.rows[0].layer, 3) << line;
  }
}

TEST(RowFormat, AStartThatSaysSomethingElseBeginsNothing) {
  const auto said_of = [](const std::string& but, const std::string& with) {
    std::string line = kRowsStart;
    const size_t at = line.find(but);
    line.replace(at, but.size(), with);
    Lines lines;
    lines.add(line).add(a_row());
    EXPECT_TRUE(lines.batch.rows.empty() && lines.batch.events.empty());
    EXPECT_EQ(lines.batch.findings.size(), 2u);
    EXPECT_EQ(lines.findings().back(),
              "2 error a row before run_start, which says the format and the run");
    return lines.findings().front();
  };
  EXPECT_EQ(said_of("greta-rows-1", "greta-rows-2"),
            "1 error format greta-rows-2 is not greta-rows-1, which this greta-db reads");
  EXPECT_EQ(said_of(R"(,"experiment":"rollout")", ""), "1 error run_start without experiment");
  EXPECT_EQ(said_of("rollout", "a b"),
            "1 error experiment a b: use letters, digits, '_', '-' and '.', not '.' at the front");
  EXPECT_EQ(said_of(R"("experiment")", R"("experimnt")"), "1 error unknown field \"experimnt\"");
  EXPECT_EQ(said_of(R"("experiment")", R"("date":"2026-2-7","experiment")"),
            "1 error date is no day as YYYY-MM-DD");
  EXPECT_EQ(said_of(R"("experiment")", R"("date":"2026-02-30","experiment")"),
            "1 error date is no day as YYYY-MM-DD");
  EXPECT_EQ(said_of(R"("experiment")", R"("started_at":"2026-02-07T99:00:00Z","experiment")"),
            "1 error started_at 2026-02-07T99:00:00Z is not a time as 2026-02-07T12:00:00Z");
  EXPECT_EQ(said_of(R"("experiment")", R"("seed":1.5,"experiment")"),
            "1 error seed is not a 64-bit integer");
  EXPECT_EQ(said_of(R"("experiment")", R"("seed":18446744073709551616,"experiment")"),
            "1 error seed is not a 64-bit integer");
  EXPECT_EQ(said_of(R"("experiment")", R"("attributes":{"trace_rows":"0"},"experiment")"),
            "1 error attribute trace_rows: run_start has a field of that name");
  EXPECT_EQ(said_of(R"("experiment")", R"("model_sha256":"ab","experiment")"),
            "1 error model_sha256 is not 64 hexadecimal digits");
}

TEST(RowFormat, WhatIsNullIsAsAbsent) {
  Lines lines;
  lines.add(R"({"event":"run_start","format":"greta-rows-1","experiment":"rollout","run":null,)"
            R"("date":null,"mode":null,"seed":null,"attributes":null})");
  lines.add(R"({"event":"run_prompt","prompt":"a","n_tokens":null,"token_ids":null,"plan":null})");
  lines.add(a_row()).add(R"({"event":"run_end","status":"complete","rows":1})");
  lines.parser.finish(lines.batch);
  EXPECT_EQ(lines.findings(), Strings{});
  EXPECT_EQ(lines.batch.rows.size(), 1u);
}

TEST(RowFormat, TheEndCountsTheRowsAndIsTheLast) {
  Lines lines;
  lines.add(kRowsStart).add(a_row()).add(a_row("decode0", "x"));
  lines.add(R"({"event":"run_end","status":"complete","rows":1})").add(a_row());
  lines.parser.finish(lines.batch);
  EXPECT_EQ(lines.findings(),
            (Strings{"3 error phase \"x\" is none of prefill_last, prefill, decode0, decode",
                     "4 error run_end says 1 rows, and 2 came", "5 error a line behind run_end"}));
  EXPECT_EQ(lines.batch.rows.size(), 1u);
}

TEST(RowFormat, AContentThatIsCutSaysSo) {
  Lines lines;
  lines.add(kRowsStart).add(a_row());
  lines.parser.finish(lines.batch);
  EXPECT_EQ(lines.findings(), Strings{"0 error it ends before run_end: its run is INCOMPLETE"});
}

TEST(RowFormat, WhichPromptIsMeantIsNeverGuessed) {
  const auto prompt = [](const std::string& name) {
    return R"({"event":"run_prompt","prompt":")" + name + "\"}";
  };
  Lines one;
  one.add(kRowsStart).add(prompt("a")).add(a_row());
  EXPECT_EQ(one.batch.prompts.at(0).name, "a");
  Lines two;
  two.add(kRowsStart).add(prompt("a")).add(prompt("b")).add(a_row());
  EXPECT_EQ(two.findings(), Strings{"4 error a row without prompt, and the run has several"});
}

TEST(RowFormat, LinesOfEarlierExportsKeepTheirRules) {
  Lines lines;
  lines.add(R"({"event":"run_start","experiment":"b3_66","other":1})");
  lines.add(stage(R"(,"values":[1],"format":"x","tensor":"y")"));
  ASSERT_EQ(lines.batch.rows.size(), 1u);
  EXPECT_TRUE(lines.batch.findings.empty());
  EXPECT_EQ(lines.extra(0), R"({"values":[1],"format":"x","tensor":"y"})");
}

TEST(RowFormat, WhatAContentIsCalledIsInItsFirstLine) {
  const auto start = row_format_start("\xEF\xBB\xBF\n" + kRowsStart + "\r\n" + a_row());
  ASSERT_TRUE(start);
  EXPECT_EQ(start->experiment, "rollout");
  EXPECT_FALSE(row_format_start(a_row() + "\n" + kRowsStart));
  EXPECT_FALSE(row_format_start(R"({"event":"run_start","experiment":"b3_66"})"));
  EXPECT_FALSE(row_format_start(""));
}

}  // namespace
}  // namespace greta
