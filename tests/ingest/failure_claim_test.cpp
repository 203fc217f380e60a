// Which texts claim that something failed: words, languages and shapes.
#include "ingest/failure_claim.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace greta {
namespace {

TEST(FailureClaim, AFailureCountsInAnyWordsLanguageAndShape) {
  for (const char* line : {
           "RESULT: FAIL",
           "RESULTADO: FALLO",
           "resultado : falló",
           "VERDICT = FAIL",
           "Verdict -> failed",
           "verdict\tFAIL",
           "| Verdict | FAIL |",
           "|VERDICT|**no match**|",
           "Veredicto global: NO PASA",
           "Ergebnis: fehlgeschlagen",
           "Résultat : échec",
           "Esito: fallito",
           "Resultado: não passou",
           "status: failed",
           "Status: NOT OK",
           "status=error",
           "ok: false",
           "pass = no",
           "PASSED: 0",
           "all match: false",
           "failed: 3",
           "n_errors=2",
           "FAIL: attn_out differs",
           "error: could not open the cache",
           "first_fail: L0 attn_out",
           "mismatches: 1",
           "exit code: 1",
           "Exit-Code = 139",
           "returncode: -11",
           "rc=2",
           "the program exited with code 1",
           "exit status 2",
           "The verdict is FAIL",
           "El veredicto final es fallo",
           "Segmentation fault (core dumped)",
           "TEST FAILED",
           "NOT OK",
           "[  FAILED  ] 3 TESTS",
           "not ok 4 - attn_out",
           "RESULT: \u274c",
           "RESULT: F\u200bAIL",
           "\uff32\uff25\uff33\uff35\uff2c\uff34\uff1a RESULT: \uff26\uff21\uff29\uff2c",
           "{\"verdict\": \"FAIL\"}",
           "step=3 verdict=PASS, later verdict=FAIL",
       }) {
    EXPECT_TRUE(line_claims_failure(line)) << line;
  }
}

TEST(FailureClaim, WhatSaysThatNothingFailedIsNone) {
  for (const char* line : {
           "",
           "RESULT: PASS",
           "RESULTADO: PASA, sin fallos",
           "Verdict: PASS (0 failed)",
           "Verdict: PASS, no drift, no errors",
           "Verdict: PASS/FAIL",
           "Result: PASS or FAIL",
           "status: ok",
           "Status: complete",
           "errors: 0",
           "errors: none",
           "failed = 0",
           "fail: 0 (0.0 %)",
           "error: null",
           "first_fail: none",
           "max_error: 1",
           "rel_error: 0.25",
           "fail_on_error: true",
           "exit code: 0",
           "exited with code 0",
           "pass: 48",
           "match: true",
           "Failure modes of the cache",
           "what a FAIL means: see below",
           "12:30:01 prefill done",
           "loading weights from fail_model.gguf",
       }) {
    EXPECT_FALSE(line_claims_failure(line)) << line;
  }
}

TEST(FailureClaim, ACrashALevelOfALogAndASummaryOfTestsAreClaims) {
  for (const char* line : {
           "Segmentation fault",
           "./run.sh: line 3: 12345 Segmentation fault      (core dumped) ./engine",
           "Killed",
           "./run.sh: line 3: 12345 Killed                  ./engine",
           "Aborted",
           "Failed",
           "core dumped",
           "Assertion `x == 0' failed.",
           "engine: f.cpp:12: int main(): Assertion `x == 0' failed.",
           "{\"signal\":\"SIGSEGV\"}",
           "signal: 11",
           "Bus error",
           "out of memory",
           "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
           "terminate called after throwing an instance of 'std::bad_alloc'",
           "Traceback (most recent call last):",
           "CUDA error at f.cu:12",
           "HIP error 700",
           "hipErrorNoBinaryForGpu: Unable to find code object",
           "Memory access fault by GPU node-1 on address 0x7f",
           "E0212 12:30:01.512345 17 engine.cc:12] kernel launch",
           "2026-01-01 12:00:00,123 - greta - ERROR - tensor",
           "[ERROR] could not write",
           "[error] could not write",
           "12:30:01 FATAL no device",
           "FAILED tests/test_x.py::test_y - assert 1 == 2",
           "==== 3 failed, 97 passed in 0.12s ====",
           "97% tests passed, 3 tests failed out of 100",
           "Final verdict FAIL",
           "status: timeout",
           "status: killed",
           "status: cancelled",
           "job 17 cancelled at 12:30 due to time limit",
           "attn_out: FAIL",
           "RESULT: F A I L",
           "attn_out: DRIFT at layer 3",
           "attn_out   DRIFT",
           "The run did not pass.",
           "The hashes don't match",
           "Outcome: regression",
           "allclose: False",
           "make: *** [Makefile:12: run] Error 1",
           "WARNING: nan detected in layer 3",
           "command exited with 1",
           "PARITY BROKEN",
           "DRIFT DETECTED in attn_out",
           "verdict = \"FAIL\"",
           "<verdict>FAIL</verdict>",
           "<b>Verdict</b> <i>FAIL</i>",
           "<testsuite name=\"x\" tests=\"3\" failures=\"1\" errors=\"0\">",
       }) {
    EXPECT_TRUE(line_claims_failure(line)) << line;
  }
  EXPECT_TRUE(
      line_claims_failure(std::string(5000, '.') + " RESULT: FAIL " + std::string(900, '.')));
}

TEST(FailureClaim, WhatCountsOrDeniesCrashesAndErrorsIsNone) {
  for (const char* line : {
           "0 failed, 97 passed",
           "100% tests passed, 0 tests failed out of 100",
           "no error",
           "no errors were found",
           "without a segmentation fault",
           "to avoid out of memory, the batch is 1",
           "CUDA error: no error",
           "HIP error: hipSuccess",
           "hipError_t err = hipMemcpyAsync(dst, src, bytes, kind, stream);",
           "fail-fast enabled",
           "fail_fast=true",
           "<testsuite name=\"x\" tests=\"3\" failures=\"0\" errors=\"0\">",
           "ERROR count: 0",
           "FAIL_COUNT: 0",
           "FAIL | PASS | MISSING",
           "48 PASS, 0 FAIL",
           "signal: none",
           "memory: 4 GiB, free memory 2 GiB",
           "time limit: 600 s",
           "timeout: 600",
           "max_error > 0.5",
           "log_level=ERROR",
           "DRIFT: 0",
           "attn_out: DRIFT/MATCH",
           "TENSOR   PASS  FAIL",
           "if the hashes do not match, see below",
           "expected: DRIFT",
           "max_drift: 0.5",
           "regressions: 0",
       }) {
    EXPECT_FALSE(line_claims_failure(line)) << line;
  }
}

TEST(FailureClaim, AFileIsCalledWhatItsFirstLineSays) {
  EXPECT_EQ(claim_of_name("a/exit_code.txt", "1\n"), "exit_code: 1");
  EXPECT_EQ(claim_of_name("a/run.rc", "139"), ".rc: 139");
  EXPECT_EQ(claim_of_name("a/verdict",
                          "\xEF\xBB\xBF"
                          "FAIL\nsee the log\n"),
            "verdict: FAIL");
  EXPECT_EQ(claim_of_name("a/errors.txt", "3\n"), "errors: 3");
  EXPECT_EQ(claim_of_name("a/FAILED", ""), "FAILED");
  EXPECT_EQ(claim_of_name("a/exit_code.txt", "0\n"), "");
  EXPECT_EQ(claim_of_name("a/status.txt", "PASS, 0 failed\n"), "");
  EXPECT_EQ(claim_of_name("a/errors.txt", ""), "");
  EXPECT_EQ(claim_of_name("a/failures.txt", "none"), "");
  EXPECT_EQ(claim_of_name("a/failure_report.txt", "The cache\nis well\n"), "");
  EXPECT_EQ(claim_of_name("a/results.json", R"({"error_rel":0.1})"), "");
}

TEST(FailureClaim, AnyDepthOfJsonIsLookedThrough) {
  const auto claims_of = [](const char* text) {
    std::vector<std::string> claims;
    for_each_failure("", nlohmann::json::parse(text),
                     [&](const std::string& claim) { claims.push_back(claim); });
    return claims;
  };
  using All = std::vector<std::string>;
  EXPECT_EQ(claims_of(R"({"verdict":false})"), All{"verdict: false"});
  EXPECT_EQ(claims_of(R"({"result":{"verdict":"FAIL"}})"), All{"verdict: FAIL"});
  EXPECT_EQ(claims_of(R"({"result":{"attn_out":"FAIL"}})"), All{"result: FAIL"});
  EXPECT_EQ(claims_of(R"({"a":[{"b":[{"passed":false}]}]})"), All{"passed: false"});
  EXPECT_EQ(claims_of(R"({"failures":["attn_out"],"exitCode":1})"),
            (All{"exitCode: 1", "failures: attn_out"}));
  EXPECT_EQ(claims_of(R"({"attn_out":"FAIL","log_level":"ERROR"})"), All{"attn_out: FAIL"});
  EXPECT_EQ(claims_of(R"({"stderr":"x\nSegmentation fault (core dumped)\n"})"),
            All{"stderr: x\nSegmentation fault (core dumped)\n"});
  EXPECT_EQ(claims_of(R"({"prompt":"What is a segmentation fault?"})"), All{});
  EXPECT_EQ(claims_of(R"({"verdict":"PASS","result":{"kv_aligned":false},"errors":[],"failed":0,
                          "error":null,"max_error":1,"ok":true,"exit_code":0})"),
            All{});
}

TEST(FailureClaim, AnyBytesAreRead) {
  for (const std::string& bytes :
       {std::string(100'000, ':'), std::string(100'000, '='), std::string("verdict:\xff\xfe fail"),
        std::string("\xe2\x80"), std::string(3, '\0'), std::string(100'000, 'a') + ": fail"}) {
    line_claims_failure(bytes);
    claims_failure(bytes, bytes);
  }
}

}  // namespace
}  // namespace greta
