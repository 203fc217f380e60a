// Accidents of an honest user: what must not pass, and what must not be refused.
#include "tests/cli/program.h"

namespace greta {
namespace {

/// A run in the row format: pairs of equal rows, and what a test adds or leaves out.
class Told {
 public:
  explicit Told(const std::string& run, const std::string& more = "",
                const std::string& experiment = "e") {
    start_ = R"({"event":"run_start","format":"greta-rows-1","experiment":")" + experiment +
             R"(","run":")" + run + "\"" + (more.empty() ? "" : "," + more) + "}";
  }
  Told& row(const std::string& phase, int layer, const std::string& tensor,
            const std::string& values, const std::string& prompt = "p0",
            const std::string& pos = "3") {
    return line(R"({"event":"row","prompt":")" + prompt + R"(","phase":")" + phase +
                R"(","layer":)" + std::to_string(layer) + R"(,"tensor":")" + tensor +
                R"(","pos_id":)" + pos + R"(,"values":[)" + values + "]}");
  }
  Told& both(int layer, const std::string& tensor, const std::string& prefill,
             const std::string& decode = "", const std::string& prompt = "p0") {
    row("prefill_last", layer, tensor, prefill, prompt);
    return row("decode0", layer, tensor, decode.empty() ? prefill : decode, prompt);
  }
  Told& line(const std::string& text) {
    lines_ += text + "\n";
    n_ += text.find(R"("event":"row")") != std::string::npos;
    return *this;
  }
  std::string text() const {
    return start_ + "\n" + lines_ + R"({"event":"run_end","status":"complete","rows":)" +
           std::to_string(n_) + "}\n";
  }

 private:
  std::string start_, lines_;
  int n_ = 0;
};

struct Accident : ProgramTest {
  /// The exit status of the ingest.
  int add(const Told& told) {
    write("rows", told.text());
    return shell("$G ingest -q - <rows").status;
  }
  int gate(const std::string& run) { return this->run({"gate", "--run", run}).status; }
};

TEST_F(Accident, AGateAnswersForNoOtherRun) {
  add(Told("ci-10").both(0, "attn_out", "1,2"));
  EXPECT_EQ(gate("ci-10"), 0);
  for (const char* words :
       {"gate --run ci-1", "gate --run e", "forget --yes --run ci-1", "forget --yes --run e",
        "baseline set ci-1", "baseline set e", "gate --run ci-10 --baseline ci-1",
        "gate --experiment ci-10", "forget --yes --experiment ci-10"}) {
    EXPECT_EQ(shell(std::string("$G ") + words).status, 2) << words;
  }
  EXPECT_EQ(shell("$G gate --experiment e").status, 0);
  EXPECT_TRUE(run({"gate", "--run", "e"}).says("--experiment 'e' means all runs"));
  // where asking is harmless a part will do, and a run named like an experiment hides none of it
  EXPECT_EQ(shell("$G firstfail --run ci-1").status, 0);
  add(Told("e").both(0, "attn_out", "1,NaN"));
  EXPECT_EQ(shell("$G firstfail --run e --format tsv | wc -l").out, "3\n");
}

TEST_F(Accident, ATracePointWithoutAPairIsIncomplete) {
  // no run is held against another
  const auto alone = [](const char* name) { return Told(name, "", name); };
  const auto add_and_gate = [&](const char* name, Told told) {
    add(told.both(0, "attn_out", "1,2"));
    return gate(name);
  };
  EXPECT_EQ(add_and_gate("whole", alone("whole")), 0);
  EXPECT_EQ(add_and_gate("stopped", alone("stopped").row("prefill", 1, "attn_out", "1,2")), 3);
  EXPECT_TRUE(run({"gate", "--run", "stopped"})
                  .says("1 trace point of prompt p0 has no pair, first attn_out of layer 1"));
  EXPECT_EQ(add_and_gate("one_side", alone("one_side").row("decode", 0, "mlp_out", "1,2")), 3);
  EXPECT_EQ(add_and_gate("prompt", alone("prompt").row("prefill", 0, "attn_out", "1,2", "p1")), 3);
  EXPECT_EQ(
      add_and_gate("nowhere", alone("nowhere").row("prefill", 0, "q_proj", "1,2", "p0", "null")),
      3);
  // a position that only one side has is no place without a pair
  EXPECT_EQ(
      add_and_gate("further", alone("further").row("decode", 0, "attn_out", "1,2", "p0", "4")), 0);
}

TEST_F(Accident, RunsThatAreNotWholeAreNotEqual) {
  const auto both = [](const char* name) { return Told(name).both(0, "attn_out", "1,2"); };
  add(both("a"));
  add(both("quarantined").line(R"({"event":"row","phase":"none"})"));
  add(both("unmet").line(
      R"({"event":"run_prompt","prompt":"p0","plan":[{"side":"decode","layer":7,"points":["x_in"]}]})"));
  add(both("bare").line(R"({"event":"run_prompt","prompt":"p9","token_ids":[1]})"));
  for (const char* other : {"quarantined", "unmet", "bare"}) {
    EXPECT_EQ(run({"compare", "a", other}).status, 3) << other;
    EXPECT_EQ(run({"compare", other, "a"}).status, 3) << other;
  }
  EXPECT_TRUE(run({"compare", "a", "bare"}).says("bare: prompt p9 has no rows"));
}

TEST_F(Accident, FieldsOfARowClaimNothing) {
  Told told("told");
  for (const char* phase : {"prefill_last", "decode0"}) {
    told.line(std::string(R"({"event":"row","phase":")") + phase +
              R"(","layer":0,"tensor":"attn_out","pos_id":3,"values":[1,2],)"
              R"("extra":{"status":"FAIL","ok":false,"exit_code":1}})");
  }
  add(told);
  EXPECT_EQ(gate("told"), 0);
}

TEST_F(Accident, SpellingsDoNotChangeTheQuestion) {
  // 0.5 %: beyond the tolerance of f32, within that of f16
  for (const char* dtype : {"f32", "float32", "torch.float32", "F32", "float"}) {
    add(Told(dtype, std::string(R"("dtype":")") + dtype + "\"")
            .both(0, "attn_out", "100,1", "100.5,1"));
    EXPECT_EQ(gate(dtype), 1) << dtype;
  }
  add(Told("odd", R"("dtype":"q3_odd")").both(0, "attn_out", "100,1", "100.5,1"));
  EXPECT_EQ(run({"firstfail", "--run", "odd", "--format", "json"}).json()[0]["numeric_verdict"],
            "INCOMPARABLE")
      << "no tolerance knows it";
  EXPECT_EQ(gate("odd"), 1) << "where nothing measures a difference the strict verdict counts";
}

TEST_F(Accident, ARunWithoutABaselineSaysWhatItDiffersIn) {
  const auto add_and_gate = [&](const std::string& name, const std::string& more) {
    add(Told(name, more).both(0, "attn_out", "1,2"));
    return run({"gate", "--run", name});
  };
  EXPECT_EQ(add_and_gate("one", R"("date":"2026-11-20","model":"m","mode":"eager")").status, 0);
  EXPECT_TRUE(add_and_gate("other", R"("date":"2026-11-21","model":"n","mode":"eager")")
                  .answers(0, {"it differs from 1 run in model: m"}));
  const Result seed =
      add_and_gate("seed", R"("date":"2026-11-21","model":"m","mode":"eager","seed":2)");
  EXPECT_EQ(seed.status, 0) << seed.out;
  EXPECT_TRUE(seed.says("in seed: not stated"));
  EXPECT_EQ(add_and_gate("unsaid", R"("date":"2026-11-21","mode":"eager")").status, 3);
  // another mode is another lineage
  const Result mode = add_and_gate("mode", R"("date":"2026-11-21","model":"m","mode":"graph")");
  EXPECT_EQ(mode.status, 0) << mode.out;
  EXPECT_TRUE(mode.says("it differs from 1 run in mode: eager"));
}

TEST_F(Accident, SpellingsBeginNoOtherLineage) {
  const auto add_and_gate = [&](const std::string& name, const std::string& model,
                                const std::string& dtype, const std::string& kv_cache,
                                const char* values) {
    add(Told(name, R"("model":")" + model + R"(","backend":"cuda","dtype":")" + dtype +
                       R"(","attributes":{"kv_cache":")" + kv_cache + R"("})")
            .both(0, "attn_out", values));
    return gate(name);
  };
  EXPECT_EQ(add_and_gate("one", "llama", "f16", "bf16", "1,2"), 0);
  EXPECT_EQ(run({"baseline", "set", "one"}).status, 0);
  EXPECT_EQ(add_and_gate("model", "Llama", "f16", "bf16", "3,4"), 1);
  EXPECT_EQ(add_and_gate("blank", "llama ", "f16", "bf16", "3,4"), 1);
  EXPECT_EQ(add_and_gate("fp16", "llama", "fp16", "bf16", "3,4"), 1);
  EXPECT_EQ(add_and_gate("half", "llama", "torch.half", "bf16", "3,4"), 1);
  EXPECT_EQ(add_and_gate("kv_cache", "llama", "f16", "torch.bfloat16", "3,4"), 1);
}

TEST_F(Accident, CommitsThatAreNoShaAreNotOne) {
  int n = 0;
  for (const auto& [first, second] : {std::pair{"build-1", "build-12"},
                                      {"unknown", "unknown"},
                                      {"0000000", "0000000"},
                                      {"abcdef1", "abcdef1+"}}) {
    const std::string experiment = "e" + std::to_string(++n);
    const auto run_of = [&](const std::string& run, const char* commit, const char* values) {
      add(Told(run + experiment, std::string(R"("commit":")") + commit + R"(")", experiment)
              .both(0, "attn_out", values));
      return gate(run + experiment);
    };
    EXPECT_EQ(run_of("a", first, "1,2"), 0);
    EXPECT_EQ(run_of("b", second, "3,4"), 1) << second;
  }
}

TEST_F(Accident, ARunThatIsNotWholeIsNoBaseline) {
  add(Told("lost", R"("date":"2026-11-20")")
          .both(0, "attn_out", "1,2")
          .line(R"({"event":"row","phase":"none"})"));
  EXPECT_TRUE(run({"baseline", "set", "lost"}).answers(2, {"run lost is not whole"}));
  add(Told("next", R"("date":"2026-11-21")").both(0, "attn_out", "1,2"));
  EXPECT_TRUE(run({"gate", "--run", "next"}).answers(3, {"it is not whole"}));
  add(Told("third", R"("date":"2026-11-22")").both(0, "attn_out", "1,2"));
  EXPECT_EQ(gate("third"), 0);
}

TEST_F(Accident, WhatWasChangedInACheckoutIsHeldAgainstIt) {
  const std::string sha(40, 'a');
  add(Told("clean", R"("date":"2026-11-20","commit":")" + sha + "\"").both(0, "attn_out", "1,2"));
  for (const size_t digits : {40u, 12u, 7u}) {
    const std::string name = "dirty" + std::to_string(digits);
    add(Told(name, R"("date":"2026-11-21","commit":")" + sha.substr(0, digits) + "-dirty\"")
            .both(0, "attn_out", "3,4"));
    EXPECT_EQ(gate(name), 1) << name;
  }
  add(Told("again", R"("date":"2026-11-21","commit":")" + sha + "\"").both(0, "attn_out", "1,2"));
  EXPECT_EQ(gate("again"), 1) << "held against the dirty one, which came before it";
}

TEST_F(Accident, RunsOfADayAreInTheOrderOfTheirIngest) {
  add(Told("build-9", R"("date":"2026-11-20")").both(0, "attn_out", "1,2"));
  add(Told("fix", R"("date":"2026-11-20")").both(0, "attn_out", "3,4"));
  EXPECT_EQ(gate("build-9"), 0);
  EXPECT_EQ(gate("fix"), 1);
}

TEST_F(Accident, TwoRunsOfOneNameStayTwo) {
  add(Told("ci-1").row("prefill_last", 0, "attn_out", "1,2"));
  EXPECT_EQ(gate("ci-1"), 1);
  write("rows", Told("ci-1").row("decode0", 0, "attn_out", "1,2").text());
  shell("$G --db other.db ingest -q - <rows");
  EXPECT_EQ(run({"merge", "other.db"}).status, 0);
  EXPECT_EQ(gate("ci-1"), 1);
  EXPECT_EQ(gate("ci-1#2"), 3);
  EXPECT_EQ(run({"merge", "other.db"}).status, 0);
  EXPECT_EQ(shell("$G runs --format tsv | wc -l").out, "3\n") << "merged again, nothing is new";
}

TEST_F(Accident, SamplesThatDifferBesideEqualHashesAreAConflict) {
  const auto stated = [](const char* phase, const char* sample) {
    return std::string(R"({"event":"row","phase":")") + phase +
           R"(","layer":0,"tensor":"x_out","pos_id":3,"n":3,"hash":7,"min":0,"max":9,"mean":3,)"
           R"("abs_sum":9,"nan":0,"inf":0,"nz_count":3,"sample":[)" +
           sample + "]}";
  };
  add(Told("r").line(stated("prefill_last", "1,2")).line(stated("decode0", "1,3")));
  EXPECT_EQ(gate("r"), 1);
  EXPECT_TRUE(run({"firstfail", "--run", "r"}).says("EVIDENCE_CONFLICT"));
}

TEST_F(Accident, SketchesThatStandStillAreAConflict) {
  std::string zeros;
  for (int i = 0; i < 30; ++i) zeros += ",0";
  const auto lines = [&](const char* name, const std::string& sample) {
    const auto stated = [&](const std::string& phase, const std::string& hash,
                            const std::string& values) {
      return R"({"event":"row","phase":")" + phase + R"(","hash":)" + hash +
             R"(,"layer":0,"tensor":"x_out","pos_id":3,"n":3,"min":0,"max":9,"mean":5,)"
             R"("abs_sum":15,"nan":0,"inf":0,"nz_count":3,"sum_sq":117,"sketch":[9,6)" +
             zeros + R"(],"sample":[)" + values + "]}";
    };
    return Told(name, "", name)
        .line(stated("prefill_last", "7", "9,6"))
        .line(stated("decode0", "8", sample));
  };
  add(lines("still", "6,9"));
  EXPECT_EQ(gate("still"), 1);
  EXPECT_TRUE(run({"firstfail", "--run", "still"}).says("EVIDENCE_CONFLICT"));
  add(lines("rounded", "9.000001,6"));  // less than a sketch has to show
  EXPECT_EQ(gate("rounded"), 0);
}

TEST_F(Accident, ASketchThatWasNeverFilledMeasuresNothing) {
  std::string zeros = "0";
  for (int i = 1; i < 32; ++i) zeros += ",0";
  const auto stated = [&](const std::string& phase, const std::string& hash) {
    return R"({"event":"row","phase":")" + phase + R"(","hash":)" + hash +
           R"(,"layer":0,"tensor":"x_out","pos_id":3,"n":3,"min":0,"max":9,"mean":5,"abs_sum":15,)"
           R"("nan":0,"inf":0,"nz_count":3,"sum_sq":117,"sketch":[)" +
           zeros + "]}";
  };
  add(Told("other", "", "other").line(stated("prefill_last", "7")).line(stated("decode0", "8")));
  EXPECT_EQ(gate("other"), 1);
  EXPECT_TRUE(
      run({"query", "ingest_errors"}).says("a sketch that is not taken: it was never filled"));
  add(Told("equal", "", "equal").line(stated("prefill_last", "7")).line(stated("decode0", "7")));
  EXPECT_EQ(gate("equal"), 0) << "the row is taken without it";
}

TEST_F(Accident, AHashThatStandsStillIsNoEvidence) {
  const auto stated = [](const std::string& phase, int layer, const std::string& max) {
    return R"({"event":"row","phase":")" + phase + R"(","layer":)" + std::to_string(layer) +
           R"(,"tensor":"x_out","pos_id":3,"n":3,"hash":7,"min":0,"max":)" + max +
           R"(,"mean":3,"abs_sum":9,"nan":0,"inf":0,"nz_count":3})";
  };
  Told still("still", "", "still"), printed("printed", "", "printed");
  for (int layer = 0; layer < 9; ++layer) {
    const std::string max = std::to_string(3 + layer / 2);
    still.line(stated("prefill_last", layer, max)).line(stated("decode0", layer, max));
    printed.line(stated("prefill_last", layer, layer % 2 == 0 ? "4" : "4.0000001"));
    printed.line(stated("decode0", layer, layer % 2 == 0 ? "4" : "4.0000001"));
  }
  add(still);
  EXPECT_EQ(gate("still"), 3);
  EXPECT_TRUE(run({"query", "ingest_errors"}).says("a hash that stands still"));
  EXPECT_EQ(add(printed), 0);
  EXPECT_EQ(gate("printed"), 0);
}

TEST_F(Accident, PrefillLastIsAtTheEndOfThePrompt) {
  const auto with_tokens = [](const char* name, const char* ids) {
    return Told(name, "", name)
        .both(0, "attn_out", "1,2")
        .line(std::string(R"({"event":"run_prompt","prompt":"p0","token_ids":[)") + ids + "]}");
  };
  add(with_tokens("longer", "1,2,3,4,5,6"));
  EXPECT_EQ(gate("longer"), 3);
  EXPECT_TRUE(run({"firstfail", "--run", "longer"})
                  .says("prefill_last of prompt p0 is at position 3, and its last is 5"));
  add(with_tokens("shorter", "1,2"));
  EXPECT_EQ(gate("shorter"), 3);
  // the prompt and what was decoded after it, in one prefill
  add(with_tokens("right", "1,2,3,4")
          .row("prefill_last", 0, "attn_out", "5,6", "p0", "4")
          .row("decode", 0, "attn_out", "5,6", "p0", "4"));
  EXPECT_EQ(gate("right"), 0);
}

TEST_F(Accident, RowsAtNoPositionAreCounted) {
  add(Told("r")
          .both(0, "attn_out", "1,2")
          .row("prefill", 0, "attn_out", "1,2", "p0", "null")
          .row("decode", 0, "attn_out", "9,2", "p0", "null"));
  EXPECT_TRUE(
      run({"firstfail", "--run", "r"}).says("2 rows at no position, compared with nothing"));
  EXPECT_TRUE(run({"gate", "--run", "r"}).says("2 at no position, compared with nothing"));
}

TEST_F(Accident, ARunIsInjectedWhereItSaysWhichFault) {
  const auto day = [&](int n, const std::string& inject, const char* values) {
    const std::string name = "r" + std::to_string(n);
    add(Told(name, R"("date":"2026-11-0)" + std::to_string(n) + R"(","attributes":{"inject":")" +
                       inject + R"("})")
            .both(0, "attn_out", values));
    return gate(name);
  };
  EXPECT_EQ(day(1, "none", "1,2"), 0);
  EXPECT_EQ(day(2, "off", "1,2"), 0);
  EXPECT_EQ(day(3, "", "3,4"), 1) << "held against the one before it";
  EXPECT_EQ(day(4, "rope_theta@decode:layer=2", "5,6"), 0) << "compared with nothing";
}

TEST_F(Accident, HonestRowsAreTaken) {
  EXPECT_EQ(add(Told("late")
                    .both(0, "attn_out", "1,2")
                    .line(R"({"event":"run_prompt","prompt":"p0","token_ids":[1,2,3,4]})")),
            0);
  EXPECT_EQ(gate("late"), 0);
  const char* starts[] = {R"("attributes":{"batch":4,"fast":true,"of":[1,"two",{"a":[2]}]})",
                          R"("started_at":"2026-11-24T13:00:00+01:00")", R"("seed":"42")",
                          R"("seed":42.0)", R"("date":"2026-11-24T13:00:00Z")"};
  int n = 0;
  for (const char* start : starts) {
    const std::string name = "start" + std::to_string(++n);
    EXPECT_EQ(add(Told(name, start).both(0, "attn_out", "1,2")), 0) << start;
    EXPECT_EQ(gate(name), 0) << start;
  }
  EXPECT_EQ(shell("sqlite3 greta.db \"SELECT started_at FROM run WHERE name = 'start2'\"").out,
            "2026-11-24T12:00:00Z\n");
  write("rows", Told("odd", R"("mode":"torch compile")").both(0, "attn_out", "1,2").text());
  const Result odd = shell("$G ingest -q - <rows");
  EXPECT_TRUE(odd.says("mode torch compile"));
  EXPECT_FALSE(odd.says("safetensors")) << "which files are read is not what is wrong";
}

TEST_F(Accident, RowsThatAreGoneHaveAPlace) {
  add(Told("r1", R"("date":"2026-11-01")").both(0, "attn_out", "1,2").both(1, "mlp_out", "1,2"));
  add(Told("r2", R"("date":"2026-11-02")").both(0, "attn_out", "1,2"));
  EXPECT_EQ(gate("r2"), 1);
  const Result found = run({"regressions", "--format", "json"});
  ASSERT_EQ(found.json().size(), 1U) << found.out;
  EXPECT_EQ(found.json()[0]["layer"], 1);
  EXPECT_EQ(found.json()[0]["tensor"], "mlp_out");
  EXPECT_TRUE(run({"compare", "r1", "r2"}).says("first difference: ONLY_A at layer 1, mlp_out"));
  // a value that differs is named before what is gone, wherever that is
  add(Told("r3", R"("date":"2026-11-03")").both(1, "mlp_out", "3,4"));
  EXPECT_TRUE(
      run({"compare", "r1", "r3"}).says("first difference: DRIFT DIVERGENT at layer 1, mlp_out"));
}

TEST_F(Accident, APinMakesOneRegressionOfOneChange) {
  for (int day = 1; day < 9; ++day) {
    const std::string name = "r" + std::to_string(day);
    add(Told(name, R"("date":"2026-11-0)" + std::to_string(day) + R"(","commit":")" +
                       std::string(40, static_cast<char>('0' + day)) + "\"")
            .both(0, "attn_out", day < 4 ? "1,2" : "3,4"));
  }
  EXPECT_EQ(run({"baseline", "set", "r2"}).status, 0);
  const Result found = run({"regressions", "--format", "tsv"});
  EXPECT_EQ(std::count(found.out.begin(), found.out.end(), '\n'), 2) << found.out;
  EXPECT_TRUE(found.says("r4") && found.says("r3"));
}

}  // namespace
}  // namespace greta
