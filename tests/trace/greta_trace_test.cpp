// What programs that call the C API can rely on.
#include "include/greta_trace.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <limits>
#include <thread>

#include "tests/trace/trace_fixture.h"

extern "C" int c11_program_of_greta_trace(const char* path);

namespace greta {
namespace {

using Trace = TraceFixture;

TEST_F(Trace, AProgramInC11WritesARun) {
  EXPECT_EQ(c11_program_of_greta_trace(file.c_str()), 0) << greta_error_text();
  EXPECT_EQ(ask("SELECT name, status FROM run"), "2026-11-24/c11|complete");
}

TEST_F(Trace, RowsAreWhatWasGiven) {
  ASSERT_NO_FATAL_FAILURE(open());
  greta_run_info info = rollout_in_full();
  const char* facts[] = {"engine", "ours", "engine", "theirs", nullptr};
  info.run = "nightly/7";
  info.attributes = facts;
  info.sample_values = 2;
  ASSERT_EQ(begin(info), GRETA_OK) << greta_error_text();
  EXPECT_STREQ(greta_run_name(run), "nightly/7");
  ASSERT_NO_FATAL_FAILURE(add_prompt("p0"));
  greta_row full = row_in_full(3);
  full.prompt = "p0";
  full.extra = "{\n\"b\":1}";
  ASSERT_EQ(add(full), GRETA_OK) << greta_error_text();
  EXPECT_EQ(greta_run_add_attribute(run, "late", "fact"), GRETA_OK);
  end();
  EXPECT_EQ(
      ask("SELECT run, experiment, mode, commit_sha, date, prompt, phase, step, pos_id, layer, "
          "tensor, token_id, logical_tok_idx, n, min, max, mean, abs_sum, nan, inf, nz_count, "
          "route, extra, seq_len FROM trace"),
      "nightly/7|rollout|eager|abc|2026-11-24|p0|decode|2|17|3|attn_out|7|9|4|1.0|4.0|2.5|"
      "10.0|0|0|4|flash|{\"b\":1}|-");
  EXPECT_EQ(ask("SELECT dim, value FROM attribute WHERE dim IN ('backend', 'engine', 'model', "
                "'late', 'seed', 'dtype', 'trace_rows') ORDER BY dim, value"),
            "backend|cuda\ndtype|f32\nengine|ours\nengine|theirs\nlate|fact\nmodel|llama\nseed|-3\n"
            "trace_rows|1");
  EXPECT_EQ(ask("SELECT name, n_tokens, token_ids FROM prompt"), "p0|2|[7,8]");
  EXPECT_EQ(ask("SELECT n FROM sample"), "2");
  EXPECT_EQ(ask("SELECT n, derived, sum_sq FROM sketch"), "4|0|30.0");
  EXPECT_EQ(ask("SELECT status, hash_algo, seed FROM run"), "complete|greta-1|-3");
}

TEST_F(Trace, PrefillAndDecodeOfOneRunAreJudged) {
  ASSERT_NO_FATAL_FAILURE(begin());
  add(row(GRETA_PREFILL_LAST));
  add(row(GRETA_DECODE0));
  end();
  EXPECT_EQ(ask("SELECT run, verdict FROM run_verdict"), "2026-11-24/rollout|PASS");
  EXPECT_EQ(ask("SELECT prompt, status, scope, compared_n FROM pair"), "prompt|MATCH|full|4");
}

TEST_F(Trace, APlanThatIsNotMetIsIncomplete) {
  ASSERT_NO_FATAL_FAILURE(begin());
  add(row(GRETA_PREFILL_LAST));
  add(row(GRETA_DECODE0));
  const greta_planned planned[] = {{GRETA_SIDE_PREFILL, 0, "attn_out"},
                                   {GRETA_SIDE_DECODE, 1, "my own"}};
  EXPECT_EQ(greta_run_add_plan(run, nullptr, planned, 2), GRETA_OK) << greta_error_text();
  end();
  EXPECT_EQ(ask("SELECT verdict, coverage FROM run_verdict"), "INCOMPLETE|unmet");
}

TEST_F(Trace, ARunThatFailedOrWasLeftIsIncomplete) {
  for (const bool is_left : {false, true}) {
    ASSERT_NO_FATAL_FAILURE(begin());
    add(row(GRETA_PREFILL_LAST));
    add(row(GRETA_DECODE0));
    if (!is_left) end(GRETA_FAILED);
    EXPECT_EQ(greta_trace_close(trace), GRETA_OK);
    trace = nullptr;
  }
  EXPECT_EQ(ask("SELECT r.name, v.verdict, r.status FROM run_verdict v JOIN run r ON r.id = "
                "v.run_id ORDER BY r.id"),
            "2026-11-24/rollout|INCOMPLETE|failed\n2026-11-24/rollout#2|INCOMPLETE|failed");
}

TEST_F(Trace, AllThatIsFlushedIsThereForOthers) {
  ASSERT_NO_FATAL_FAILURE(begin());
  add(row());
  ASSERT_EQ(greta_run_flush(run), GRETA_OK);
  EXPECT_EQ(ask("SELECT count(*) FROM trace_row"), "1");
  EXPECT_EQ(ask("SELECT status FROM run"), "running");
  end();
}

TEST_F(Trace, NonfiniteValuesAndNoValuesAreRows) {
  ASSERT_NO_FATAL_FAILURE(begin());
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  values = {std::nanf(""), kInfinite, -kInfinite};
  EXPECT_EQ(add(row(GRETA_PREFILL_LAST, 0)), GRETA_OK);
  EXPECT_EQ(add(row(GRETA_DECODE0, 0)), GRETA_OK);
  values.clear();
  EXPECT_EQ(add(row(GRETA_PREFILL_LAST, 1)), GRETA_OK) << greta_error_text();
  EXPECT_EQ(add(row(GRETA_DECODE0, 1)), GRETA_OK);
  end();
  EXPECT_EQ(ask("SELECT layer, n, hash IS NULL, min, nan, inf FROM trace ORDER BY layer, phase"),
            "0|3|0|-|1|2\n0|3|0|-|1|2\n1|0|1|-|0|0\n1|0|1|-|0|0");
  EXPECT_EQ(ask("SELECT layer, status FROM pair ORDER BY layer"), "0|NONFINITE\n1|INCOMPARABLE");
}

TEST_F(Trace, PositionsInOneCallAreRowsOneByOne) {
  ASSERT_NO_FATAL_FAILURE(begin());
  const float matrix[] = {1, 2, -1, 3, 4, -1, 5, 6, -1};  // rows of two, three apart
  const int32_t ids[] = {10, 11, 12};
  const greta_row first = row(GRETA_PREFILL, 0, 100);
  EXPECT_EQ(greta_run_add_positions(run, &first, GRETA_F32, matrix, 3, 2, 12, ids), GRETA_OK)
      << greta_error_text();
  const float alone[] = {3, 4};
  greta_row same = row(GRETA_DECODE, 0, 101);
  same.token_id = 11;
  EXPECT_EQ(greta_run_add_values(run, &same, GRETA_F32, alone, 2), GRETA_OK);
  end();
  EXPECT_EQ(ask("SELECT pos_id, token_id, logical_tok_idx, mean FROM trace WHERE phase = 'prefill' "
                "ORDER BY pos_id"),
            "100|10|100|1.5\n101|11|101|3.5\n102|12|102|5.5");
  EXPECT_EQ(ask("SELECT pos_id, status FROM pair ORDER BY pos_id"),
            "100|PREFILL_ONLY\n101|MATCH\n102|PREFILL_ONLY");
}

TEST_F(Trace, WhatCannotBeTakenIsRefusedAndTheRunGoesOn) {
  ASSERT_NO_FATAL_FAILURE(begin());
  const auto refused = [&](greta_row bad, const std::string& why) {
    EXPECT_EQ(add(bad), GRETA_ERROR_ARGUMENT) << why;
    EXPECT_NE(std::string(greta_error_text()).find(why), std::string::npos) << greta_error_text();
  };
  const auto with = [](auto change) {
    greta_row bad = row();
    change(bad);
    return bad;
  };
  refused(with([](greta_row& r) { r.size = 0; }), "row.size is not set");
  refused(with([](greta_row& r) { r.tensor = nullptr; }), "tensor is missing");
  refused(with([](greta_row& r) { r.tensor = "a\nb"; }), "tensor has control characters");
  refused(with([](greta_row& r) { r.tensor = "\xff"; }), "tensor is not UTF-8");
  refused(with([](greta_row& r) { r.phase = 0; }), "phase is not set");
  refused(with([](greta_row& r) { r.phase = 5; }), "phase 5 is not from 1 to 4");
  refused(with([](greta_row& r) { r.layer = GRETA_UNSET; }), "layer is not set");
  refused(with([](greta_row& r) { r.layer = 8190; }), "layer 8190");
  refused(with([](greta_row& r) { r.pos_id = GRETA_UNSET; }), "pos_id is not set");
  refused(with([](greta_row& r) { r.pos_id = int64_t{1} << 21; }), "pos_id 2097152");
  refused(with([](greta_row& r) { r.step = -2; }), "step -2");
  refused(with([](greta_row& r) { r.token_id = int64_t{1} << 31; }), "token_id 2147483648");
  refused(with([](greta_row& r) { r.prompt = "none"; }), "the run has no prompt none");
  refused(with([](greta_row& r) { r.extra = "[1]"; }), "extra is not a JSON object");
  refused(with([](greta_row& r) { r.extra = R"({"a":{"b":1,"\u0062":2}})"; }),
          "extra is not taken: \"b\" is written twice");
  const std::string deep = R"({"a":)" + std::string(30'000, '[') + std::string(30'000, ']') + "}";
  refused(with([&](greta_row& r) { r.extra = deep.c_str(); }),
          "extra is not taken: JSON nested deeper than 64");
  greta_row good = row();
  EXPECT_EQ(greta_run_add_values(run, &good, static_cast<greta_dtype>(0), values.data(), 1),
            GRETA_ERROR_ARGUMENT);
  EXPECT_EQ(greta_run_add_values(run, &good, GRETA_F32, nullptr, 1), GRETA_ERROR_ARGUMENT);
  EXPECT_EQ(greta_run_add_values(run, &good, GRETA_F32, values.data(), SIZE_MAX),
            GRETA_ERROR_ARGUMENT);
  EXPECT_EQ(greta_run_add_positions(run, &good, GRETA_F32, values.data(), SIZE_MAX, 0, 0, nullptr),
            GRETA_ERROR_ARGUMENT);
  EXPECT_EQ(greta_run_add_values(nullptr, &good, GRETA_F32, values.data(), 1),
            GRETA_ERROR_ARGUMENT);
  good.extra = R"({"a":{"b":1},"c":[{"b":2},{"b":3}]})";
  EXPECT_EQ(add(good), GRETA_OK);
  EXPECT_STREQ(greta_error_text(), "");
  end_refused();
  EXPECT_EQ(ask("SELECT count(*) FROM trace_row"), "1");
  EXPECT_EQ(ask("SELECT count(*) FROM prompt"), "1");
}

TEST_F(Trace, ARowOfALongerStructureIsTakenWhereItsRestSaysNothing) {
  ASSERT_NO_FATAL_FAILURE(begin());
  struct Newer {
    greta_row row;
    const char* later;
  } newer{row(), nullptr};
  newer.row.size = sizeof newer;
  EXPECT_EQ(add(newer.row), GRETA_OK) << greta_error_text();
  newer.later = "something";
  EXPECT_EQ(add(newer.row), GRETA_ERROR_ARGUMENT);
  end_refused();
}

TEST_F(Trace, WhichPromptIsMeantIsNeverGuessed) {
  ASSERT_NO_FATAL_FAILURE(begin());
  greta_prompt prompt = GRETA_PROMPT_INIT;
  for (const char* name : {"a", "b"}) {
    prompt.name = name;
    ASSERT_EQ(greta_run_add_prompt(run, &prompt), GRETA_OK);
  }
  EXPECT_EQ(greta_run_add_prompt(run, &prompt), GRETA_ERROR_ARGUMENT);
  EXPECT_EQ(add(row()), GRETA_ERROR_ARGUMENT);
  EXPECT_STREQ(greta_error_text(), "prompt is NULL, and the run has several");
  end_refused();
}

TEST_F(Trace, InfinitiesOfAMaskAreNoFault) {
  ASSERT_NO_FATAL_FAILURE(begin());
  values = {1, -INFINITY, -INFINITY, 2};
  greta_row scores = row();
  scores.tensor = "attn_scores";
  EXPECT_EQ(add(scores), GRETA_OK);
  scores.tensor = "my_scores";
  EXPECT_EQ(add(scores), GRETA_OK);
  scores.extra = R"({"masked":true})";
  scores.layer = 1;
  EXPECT_EQ(add(scores), GRETA_OK);
  for (const char* odd : {R"({"masked":3})", R"({"masked":"2"})", R"({"masked":-1})"}) {
    scores.extra = odd;
    EXPECT_EQ(add(scores), GRETA_ERROR_ARGUMENT) << odd;
  }
  end_refused();
  EXPECT_EQ(ask("SELECT tensor, inf, extra FROM trace ORDER BY layer, tensor"),
            "attn_scores|0|{\"masked\":2}\nmy_scores|2|-\nmy_scores|0|{\"masked\":2}");
}

TEST_F(Trace, AHashThatStandsStillIsRefused) {
  ASSERT_NO_FATAL_FAILURE(begin());
  greta_status status = GRETA_OK;
  for (int32_t layer = 0; layer < 8; ++layer) {
    values[0] = static_cast<float>(-layer);
    greta_fingerprint print = GRETA_FINGERPRINT_INIT;
    ASSERT_EQ(greta_fingerprint_values(GRETA_F32, values.data(), values.size(), &print), GRETA_OK);
    print.hash = 7;
    const greta_row where = row(GRETA_PREFILL, layer);
    EXPECT_EQ(status, GRETA_OK) << layer;
    status = greta_run_add_fingerprint(run, &where, &print);
  }
  EXPECT_EQ(status, GRETA_ERROR_ARGUMENT);
  end_refused();
}

TEST_F(Trace, ASketchThatWasNeverFilledIsRefused) {
  ASSERT_NO_FATAL_FAILURE(begin());
  greta_fingerprint print = GRETA_FINGERPRINT_INIT;
  ASSERT_EQ(greta_fingerprint_values(GRETA_F32, values.data(), values.size(), &print), GRETA_OK);
  const greta_row where = row();
  EXPECT_EQ(greta_run_add_fingerprint(run, &where, &print), GRETA_OK);
  std::fill(std::begin(print.sketch), std::end(print.sketch), 0.0);
  EXPECT_EQ(greta_run_add_fingerprint(run, &where, &print), GRETA_ERROR_ARGUMENT);
  EXPECT_STREQ(greta_error_text(), "a sketch that was never filled");
  end_refused();
}

TEST_F(Trace, ADtypeThatNoToleranceKnowsIsRefused) {
  ASSERT_NO_FATAL_FAILURE(open());
  greta_run_info info = rollout();
  info.dtype = "q3_odd";
  EXPECT_EQ(begin(info), GRETA_ERROR_ARGUMENT);
  EXPECT_NE(std::string(greta_error_text()).find("`greta-db tolerance set --dtype q3_odd"),
            std::string::npos)
      << greta_error_text();
  info.dtype = "torch.bfloat16";
  EXPECT_EQ(begin(info), GRETA_OK) << greta_error_text();
  add(row());
  end();
  EXPECT_EQ(ask("SELECT value FROM attribute WHERE dim = 'dtype'"), "bf16");
}

TEST_F(Trace, ARunThatLacksWhatWasRefusedEndsAsFailedAndNeverPasses) {
  ASSERT_NO_FATAL_FAILURE(open());
  const auto verdict = [&](auto refuse) {
    EXPECT_EQ(begin(rollout()), GRETA_OK);
    const std::string name = greta_run_name(run);
    EXPECT_EQ(add(row(GRETA_PREFILL_LAST)), GRETA_OK);
    EXPECT_EQ(add(row(GRETA_DECODE0)), GRETA_OK);
    refuse();
    const greta_status status = greta_run_end(run, GRETA_COMPLETE);
    return std::to_string(status) + " " +
           ask("SELECT verdict || ' ' || numeric_verdict FROM run_verdict WHERE run = '" + name +
               "'");
  };
  greta_row bad = row();
  bad.layer = 8190;
  const greta_fingerprint none = GRETA_FINGERPRINT_INIT;
  const greta_planned planned[] = {{7, 0, "attn_out"}};
  EXPECT_EQ(verdict([] {}), "0 PASS PASS");
  EXPECT_EQ(verdict([&] { add(bad); }), "9 INCOMPLETE INCOMPLETE");
  EXPECT_NE(std::string(greta_error_text()).find("the first because layer 8190"), std::string::npos)
      << greta_error_text();
  EXPECT_EQ(verdict([&] {
              greta_run_add_positions(run, &bad, GRETA_F32, values.data(), 2, 2, 8, nullptr);
            }),
            "9 INCOMPLETE INCOMPLETE");
  EXPECT_EQ(verdict([&] { greta_run_add_fingerprint(run, &bad, &none); }),
            "9 INCOMPLETE INCOMPLETE");
  EXPECT_EQ(verdict([&] { greta_run_add_plan(run, nullptr, planned, 1); }),
            "9 INCOMPLETE INCOMPLETE");
  // what is no row leaves no hole
  EXPECT_EQ(verdict([&] { greta_run_add_attribute(run, nullptr, nullptr); }), "0 PASS PASS");
  EXPECT_EQ(ask("SELECT count(*) FROM run WHERE status = 'failed'"), "4");
}

TEST_F(Trace, RunsThatCannotBeginSayWhy) {
  ASSERT_NO_FATAL_FAILURE(begin());
  greta_run* other = run;
  const auto status_of = [&](auto change) {
    greta_run_info info = rollout();
    change(info);
    return greta_run_begin(trace, &info, &other);
  };
  const std::string taken = greta_run_name(run);
  EXPECT_EQ(status_of([&](greta_run_info& i) { i.run = taken.c_str(); }), GRETA_ERROR_EXISTS);
  EXPECT_EQ(other, nullptr);
  EXPECT_EQ(status_of([](greta_run_info& i) { i.experiment = nullptr; }), GRETA_ERROR_ARGUMENT);
  EXPECT_EQ(status_of([](greta_run_info& i) { i.experiment = "a b"; }), GRETA_ERROR_ARGUMENT);
  EXPECT_EQ(status_of([](greta_run_info& i) { i.run = "ours", i.experiment = "a b"; }),
            GRETA_ERROR_ARGUMENT);
  EXPECT_EQ(status_of([](greta_run_info& i) { i.run = "ours", i.mode = "a b"; }),
            GRETA_ERROR_ARGUMENT);
  EXPECT_EQ(status_of([](greta_run_info& i) { i.date = "2026-13-01"; }), GRETA_ERROR_ARGUMENT);
  EXPECT_EQ(status_of([](greta_run_info& i) { i.model_sha256 = "12"; }), GRETA_ERROR_ARGUMENT);
  EXPECT_EQ(status_of([](greta_run_info& i) { i.sample_values = 257; }), GRETA_ERROR_ARGUMENT);
  const char* own[] = {"trace_rows", "0", nullptr};
  EXPECT_EQ(status_of([&](greta_run_info& i) { i.attributes = own; }), GRETA_ERROR_ARGUMENT);
  end();
  EXPECT_EQ(ask("SELECT count(*) FROM run"), "1");
}

TEST_F(Trace, TargetsThatCannotBeOpenedSayWhy) {
  const auto status_of = [&](const std::string& path, greta_kind kind) {
    const greta_status status = greta_trace_open(path.c_str(), kind, &trace);
    EXPECT_EQ(trace, nullptr);
    EXPECT_STRNE(greta_error_text(), "");
    return status;
  };
  EXPECT_EQ(status_of(folder.write("text", "no database at all"), GRETA_DATABASE),
            GRETA_ERROR_FORMAT);
  EXPECT_EQ(status_of(folder / "no" / "folder.db", GRETA_DATABASE), GRETA_ERROR_IO);
  EXPECT_EQ(status_of(folder.path(), GRETA_DATABASE), GRETA_ERROR_FORMAT);
  EXPECT_EQ(status_of(":memory:", GRETA_DATABASE), GRETA_ERROR_FORMAT);
  EXPECT_EQ(status_of("", GRETA_DATABASE), GRETA_ERROR_ARGUMENT);
  EXPECT_EQ(status_of(folder / "text", GRETA_JSONL), GRETA_ERROR_EXISTS);
  EXPECT_EQ(status_of(folder / "x", static_cast<greta_kind>(3)), GRETA_ERROR_ARGUMENT);
  EXPECT_EQ(greta_trace_open(nullptr, GRETA_DATABASE, &trace), GRETA_ERROR_ARGUMENT);
  const std::string none = folder / "none";
  EXPECT_EQ(greta_trace_open(none.c_str(), GRETA_DATABASE, nullptr), GRETA_ERROR_ARGUMENT);
  EXPECT_FALSE(std::filesystem::exists(none));
}

TEST_F(Trace, NullHandlesDoNothing) {
  EXPECT_EQ(greta_trace_close(nullptr), GRETA_OK);
  EXPECT_EQ(greta_run_end(nullptr, GRETA_COMPLETE), GRETA_OK);
  EXPECT_STREQ(greta_run_name(nullptr), "");
  EXPECT_EQ(greta_run_flush(nullptr), GRETA_ERROR_ARGUMENT);
  EXPECT_EQ(greta_abi_version(), static_cast<uint32_t>(GRETA_TRACE_ABI_VERSION));
  EXPECT_STREQ(greta_status_text(GRETA_OK), "no error");
}

TEST_F(Trace, ADiskThatIsFullEndsTheRunAndEveryCallSaysSo) {
  ASSERT_NO_FATAL_FAILURE(open("/dev/full", GRETA_JSONL));
  const greta_run_info info = rollout();
  EXPECT_EQ(greta_run_begin(trace, &info, &run), GRETA_ERROR_IO);
  EXPECT_NE(std::string(greta_error_text()).find("/dev/full"), std::string::npos);
}

TEST_F(Trace, APipeThatNobodyReadsIsAnErrorAndNoSignal) {
  const std::string pipe = (folder / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread reader([&] { std::ifstream(pipe).get(); });
  ASSERT_NO_FATAL_FAILURE(open(pipe, GRETA_JSONL));
  ASSERT_EQ(begin(rollout()), GRETA_OK) << greta_error_text();
  reader.join();
  add(row());
  EXPECT_EQ(greta_run_flush(run), GRETA_ERROR_IO);
  EXPECT_EQ(add(row()), GRETA_ERROR_IO);
  EXPECT_EQ(greta_run_end(run, GRETA_COMPLETE), GRETA_ERROR_IO);
}

TEST_F(Trace, AFileThatWasDeletedWhileItWasWrittenIsNoSuccess) {
  for (const greta_kind kind : {GRETA_DATABASE, GRETA_JSONL}) {
    ASSERT_NO_FATAL_FAILURE(open(file, kind));
    ASSERT_EQ(begin(rollout()), GRETA_OK) << greta_error_text();
    ASSERT_EQ(add(row()), GRETA_OK);
    std::filesystem::remove(file);
    EXPECT_EQ(greta_run_end(run, GRETA_COMPLETE), GRETA_ERROR_IO) << kind;
    EXPECT_NE(std::string(greta_error_text()).find(file), std::string::npos) << greta_error_text();
    greta_trace_close(trace);
  }
}

TEST_F(Trace, ADatabaseThatWasReplacedWhileItWasWrittenEndsTheRun) {
  ASSERT_NO_FATAL_FAILURE(begin());
  std::filesystem::rename(file, file + ".old");
  std::ofstream(file) << "another";
  add(row());
  EXPECT_EQ(greta_run_flush(run), GRETA_ERROR_IO);
  EXPECT_EQ(add(row()), GRETA_ERROR_IO);
  EXPECT_NE(std::string(greta_error_text()).find("leave it in its place"), std::string::npos)
      << greta_error_text();
}

TEST_F(Trace, HandlesThatAreGoneOrOfTheOtherKindAreRefused) {
  ASSERT_NO_FATAL_FAILURE(begin());
  greta_run* ended = run;
  EXPECT_EQ(greta_run_flush(reinterpret_cast<greta_run*>(trace)), GRETA_ERROR_ARGUMENT);
  EXPECT_EQ(greta_trace_close(reinterpret_cast<greta_trace*>(run)), GRETA_ERROR_ARGUMENT);
  float never = 0;
  EXPECT_EQ(greta_run_flush(reinterpret_cast<greta_run*>(&never)), GRETA_ERROR_ARGUMENT);
  EXPECT_STREQ(greta_run_name(reinterpret_cast<greta_run*>(trace)), "");
  end();
  run = ended;
  EXPECT_EQ(add(row()), GRETA_ERROR_STATE);
  EXPECT_EQ(greta_run_flush(run), GRETA_ERROR_STATE);
  EXPECT_EQ(greta_run_end(run, GRETA_COMPLETE), GRETA_ERROR_STATE);
  EXPECT_STREQ(greta_run_name(run), "");
  ASSERT_EQ(begin(rollout()), GRETA_OK);
  EXPECT_NE(run, ended);
  EXPECT_EQ(greta_trace_close(trace), GRETA_OK);
  EXPECT_EQ(add(row()), GRETA_ERROR_STATE);
  EXPECT_EQ(greta_run_end(run, GRETA_COMPLETE), GRETA_ERROR_STATE);
  EXPECT_EQ(begin(rollout()), GRETA_ERROR_STATE);
  EXPECT_EQ(greta_trace_close(trace), GRETA_ERROR_STATE);
  EXPECT_EQ(ask("SELECT name, status FROM run ORDER BY id"),
            "2026-11-24/rollout|complete\n2026-11-24/rollout#2|failed");
}

TEST_F(Trace, RowsBesideTheEndAreWrittenOrRefused) {
  ASSERT_NO_FATAL_FAILURE(begin());
  std::atomic<int> taken = 0;
  std::atomic<bool> refused = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      greta_status status = GRETA_OK;
      for (int i = 0; status == GRETA_OK; ++i) {
        status = add(row(GRETA_PREFILL, t, i));
        if (status == GRETA_OK) ++taken;
      }
      EXPECT_EQ(status, GRETA_ERROR_STATE) << greta_error_text();
      refused = true;
    });
  }
  while (taken < 100) std::this_thread::yield();
  greta_run* ending = run;
  EXPECT_EQ(greta_run_end(ending, GRETA_COMPLETE), GRETA_OK) << greta_error_text();
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(refused);
  EXPECT_EQ(ask("SELECT count(*) FROM trace_row"), std::to_string(taken));
}

/// What `body` returns in a child of fork().
template <class Body>
int in_child(Body&& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_F(Trace, AChildOfForkHasNoneOfTheHandles) {
  ASSERT_NO_FATAL_FAILURE(begin());
  add(row());
  EXPECT_EQ(in_child([&] {
              alarm(20);
              if (greta_run_flush(run) != GRETA_ERROR_STATE) return 1;
              if (greta_run_end(run, GRETA_COMPLETE) != GRETA_ERROR_STATE) return 2;
              if (greta_trace_close(trace) != GRETA_ERROR_STATE) return 3;
              greta_trace* own = nullptr;
              if (greta_trace_open(file.c_str(), GRETA_DATABASE, &own) != GRETA_ERROR_STATE)
                return 4;
              const std::string lines = folder / "rows.jsonl";
              const greta_run_info info = rollout();
              if (greta_trace_open(lines.c_str(), GRETA_JSONL, &own) != GRETA_OK) return 5;
              if (own == trace || greta_run_begin(own, &info, &run) != GRETA_OK) return 6;
              if (add(row()) != GRETA_OK) return 7;
              return greta_run_end(run, GRETA_COMPLETE) == GRETA_OK ? 0 : 8;
            }),
            0);
  end();
  EXPECT_EQ(ask("SELECT status, (SELECT count(*) FROM trace_row) FROM run"), "complete|1");
}

TEST_F(Trace, ALimitOnTheSizeOfFilesIsAnErrorAndNoSignal) {
  for (const greta_kind kind : {GRETA_DATABASE, GRETA_JSONL}) {
    const std::string path = folder / ("limited" + std::to_string(kind));
    if (kind == GRETA_DATABASE) open_for_writing(path);
    EXPECT_EQ(in_child([&] {
                const rlimit limit{512u << 10, 512u << 10};
                if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
                const greta_run_info info = rollout();
                if (greta_trace_open(path.c_str(), kind, &trace) != GRETA_OK) return 2;
                if (greta_run_begin(trace, &info, &run) != GRETA_OK) return 3;
                greta_status status = GRETA_OK;
                for (int64_t i = 0; status == GRETA_OK && i < 100'000; ++i) {
                  status = add(row(GRETA_PREFILL, 0, i));
                }
                if (status != GRETA_ERROR_IO) return 4;
                return greta_run_end(run, GRETA_COMPLETE) == GRETA_ERROR_IO ? 0 : 5;
              }),
              0);
  }
}

TEST_F(Trace, AFileOfJsonLinesHasOneRun) {
  ASSERT_NO_FATAL_FAILURE(open(folder / "rows.jsonl", GRETA_JSONL));
  ASSERT_EQ(begin(rollout()), GRETA_OK);
  end();
  EXPECT_EQ(begin(rollout()), GRETA_ERROR_STATE);
}

TEST_F(Trace, FingerprintsThatNoValuesHaveAreRefused) {
  ASSERT_NO_FATAL_FAILURE(begin());
  greta_fingerprint good = GRETA_FINGERPRINT_INIT;
  ASSERT_EQ(greta_fingerprint_values(GRETA_F32, values.data(), values.size(), &good), GRETA_OK);
  const greta_row at = row();
  EXPECT_EQ(greta_run_add_fingerprint(run, &at, &good), GRETA_OK) << greta_error_text();
  const auto refused = [&](auto change) {
    greta_fingerprint bad = good;
    change(bad);
    EXPECT_EQ(greta_run_add_fingerprint(run, &at, &bad), GRETA_ERROR_ARGUMENT);
  };
  refused([](greta_fingerprint& f) { f.size = 1; });
  refused([](greta_fingerprint& f) { f.n = (uint64_t{1} << 31) + 1; });
  refused([](greta_fingerprint& f) { f.n = 3; });
  refused([](greta_fingerprint& f) { f.nan = UINT64_MAX; });
  refused([](greta_fingerprint& f) { f.min = 5; });
  refused([](greta_fingerprint& f) { f.mean = std::nan(""); });
  refused([](greta_fingerprint& f) { f.abs_sum = -1; });
  refused([](greta_fingerprint& f) { f.sketch[31] = std::numeric_limits<double>::infinity(); });
  refused([](greta_fingerprint& f) { f.nz_count = 0; });
  end_refused();
  EXPECT_EQ(ask("SELECT count(*) FROM trace_row"), "1");
}

TEST_F(Trace, ManyThreadsAddToOneRunAndNothingIsLost) {
  ASSERT_NO_FATAL_FAILURE(begin());
  constexpr int kThreads = 4, kRows = 500;
  for (int t = 0; t < kThreads; ++t) {
    greta_prompt prompt = GRETA_PROMPT_INIT;
    const std::string name = "p" + std::to_string(t);
    prompt.name = name.c_str();
    ASSERT_EQ(greta_run_add_prompt(run, &prompt), GRETA_OK);
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      const std::string own = "p" + std::to_string(t), tensor = "tensor" + std::to_string(t);
      for (int i = 0; i < kRows; ++i) {
        greta_row r = row(GRETA_PREFILL, 0, i);
        r.prompt = own.c_str();
        r.tensor = i % 2 == 0 ? tensor.c_str() : "shared name";
        EXPECT_EQ(add(r), GRETA_OK) << greta_error_text();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  end();
  EXPECT_EQ(ask("SELECT prompt, count(*) FROM trace GROUP BY prompt"),
            "p0|500\np1|500\np2|500\np3|500");
}

// Each opens the file: were the locks of the other lost by that, the log would go under its feet.
TEST_F(Trace, SeveralRunsOfOneProcessShareAFile) {
  ASSERT_NO_FATAL_FAILURE(begin());
  add(row());
  greta_trace* second = nullptr;
  greta_run* beside = nullptr;
  const greta_run_info info = rollout();
  ASSERT_EQ(greta_trace_open(file.c_str(), GRETA_DATABASE, &second), GRETA_OK);
  ASSERT_EQ(greta_run_begin(second, &info, &beside), GRETA_OK);
  EXPECT_STREQ(greta_run_name(beside), "2026-11-24/rollout#2");
  greta_row r = row();
  EXPECT_EQ(greta_run_add_values(beside, &r, GRETA_F32, values.data(), 4), GRETA_OK);
  EXPECT_EQ(greta_run_end(beside, GRETA_COMPLETE), GRETA_OK);
  EXPECT_EQ(greta_trace_close(second), GRETA_OK);
  // Another program that closes the file takes it for the last to have it open, if locks were lost.
  const std::string lines =
      folder.write("rows.jsonl",
                   R"({"event":"run_start","format":"greta-rows-1","experiment":"e","run":"beside"}
{"event":"row","phase":"prefill","layer":0,"tensor":"x","pos_id":0,"values":[1]}
{"event":"run_end","status":"complete","rows":1})");
  const std::string ingest = "'" GRETA_DB_PROGRAM "' --db '" + file + "' ingest -q '" + lines + "'";
  ASSERT_EQ(std::system(ingest.c_str()), 0);
  EXPECT_TRUE(std::filesystem::exists(file + "-wal"));
  add(row(GRETA_PREFILL, 1));
  end();
  EXPECT_EQ(ask("SELECT run, count(*) FROM trace GROUP BY run"),
            "2026-11-24/rollout|2\n2026-11-24/rollout#2|1\nbeside|1");
}

}  // namespace
}  // namespace greta
