// Which texts claim that something failed: words, languages and shapes.
#include "ingest/failure_claim.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace greta {
namespace {

void expect_claims(std::initializer_list<const char*> lines, bool claims) {
  for (const char* line : lines) EXPECT_EQ(line_claims_failure(line), claims) << line;
}

TEST(FailureClaim, AFailureCountsInAnyWordsLanguageAndShape) {
  expect_claims({"RESULT: FAIL",
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
                 "step=3 verdict=PASS, later verdict=FAIL"},
                true);
}

TEST(FailureClaim, WhatSaysThatNothingFailedIsNone) {
  expect_claims({"",
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
                 "loading weights from fail_model.gguf"},
                false);
}

TEST(FailureClaim, ACrashALevelOfALogAndASummaryOfTestsAreClaims) {
  expect_claims({"Segmentation fault",
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
                 "<testsuite name=\"x\" tests=\"3\" failures=\"1\" errors=\"0\">"},
                true);
  EXPECT_TRUE(
      line_claims_failure(std::string(5000, '.') + " RESULT: FAIL " + std::string(900, '.')));
}

TEST(FailureClaim, WhatCountsOrDeniesCrashesAndErrorsIsNone) {
  expect_claims({"0 failed, 97 passed",
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
                 "regressions: 0"},
                false);
}

TEST(FailureClaim, WhatWasRefusedOrNotThereIsAClaim) {
  expect_claims(
      {
          "./engine: model.gguf: No such file or directory",
          "fopen: Permission denied",
          "greta: model.gguf: Is a directory",
          "write: No space left on device.",
          "Error: No such file or directory (os error 2)",
          "user@host: Permission denied (publickey,password).",
          "engine: error while loading shared libraries: libx.so: cannot open shared object file: "
          "No "
          "such file or directory",
          "./run.sh: line 3: greta-infer: command not found",
          "sh: 1: greta-infer: not found",
          "Failed to open model: models/greta-v1.gguf",
          "llama_model_load: error loading model: failed to open GGUF file",
          "12:30:01 cannot open model.gguf",
          "engine: could not allocate 3 GiB",
          "unable to load the model",
      },
      true);
  expect_claims(
      {
          "config.json: No such file or directory, using defaults",
          "warning: cache.bin: No such file or directory",
          "[warn] cannot open config.json, falling back",
          "could not find a tuned kernel; using the default",
          "tuned kernel: not found",
          "CUDA error: Success",
          "files that cannot open are left out",
          "failed to start: 0",
      },
      false);
}

TEST(FailureClaim, ATestThatFailedIsOneByItsOwnLine) {
  expect_claims(
      {
          "1/3 Test  #1: attn_out .........***Failed    0.01 sec",
          "1/3 Test  #1: attn_out .........***Timeout   1.51 sec",
          "1/3 Test  #1: attn_out .........***Exception: SegFault  0.21 sec",
          "  1 - attn_out (Failed)",
          "  2 - attn_out (Timeout)",
          "tests/x.py::test_attn_out FAILED      [ 50%]",
          "tests/x.py::test_attn_out FAILED [ 50%]",
          "test_attn_out (tests.Parity) ... FAIL",
          "test attn_out ... FAILED",
          "--- FAIL: TestAttnOut (0.00s)",
          "  1 failing",
          "\u2715 attn_out",
          "attn_out \u274c",
          "attn_out FAIL",
          "attn_out - FAIL",
          "attn_out [FAIL]",
          "<failure message=\"x\">",
          "<failure/>",
          "<error type=\"AssertionError\">",
          "State=FAILED",
          "State: TIMEOUT",
          "Status - failed",
          "RESULT \u2014 FAIL",
          "assert_close failed",
          "Binary files a/x and b/x differ",
          "prefill and decode differ",
          "First divergence at layer 3",
          "max diff 0.5 exceeds the tolerance 1e-3",
          "expected 5 but got 7",
          "==17== ERROR SUMMARY: 3 errors from 3 contexts",
      },
      true);
  expect_claims(
      {
          "1/3 Test  #1: attn_out .........   Passed    0.01 sec",
          "test attn_out ... ok",
          "loading... errors: 0",
          "the case of an error (see below)",
          "<failure>0</failure>",
          "<error/>",
          "State=COMPLETED ExitCode=0:0",
          "save_state: false",
          "no hashes differ",
          "which hashes differ",
          "0 elements differ",
          "No divergence at layer 3",
          "0.5 must not exceed the tolerance",
          "expected 5, got 5",
          "expected shape 3, got 3",
          "ERROR SUMMARY: 0 errors from 0 contexts",
          "\u2705 attn_out",
          "\u2705 pass  \u274c fail",
      },
      false);
}

TEST(FailureClaim, ColoursAreNoPartOfWhatIsSaid) {
  expect_claims(
      {
          "\033[31mFAIL\033[0m attn_out",
          "\033[1;31mFAILED\033[0m",
          "RESULT: \033[31mF\033[0mAIL",
      },
      true);
  expect_claims({"\033[32mPASS\033[0m attn_out", "\033[", "\033[31", "\033", "\b\b"}, false);
  // taken away once: what is left may be one again, and no line costs more for it
  std::string nested;
  for (int i = 0; i < 200'000; ++i) nested += '\033';
  for (int i = 0; i < 200'000; ++i) nested += "[m";
  EXPECT_FALSE(line_claims_failure(nested));
}

TEST(FailureClaim, WhatIsOutOfToleranceOrElsewhereIsAClaim) {
  expect_claims(
      {
          "terminated by signal 9",
          "Command terminated by signal 9",
          "Command exited with non-zero status 1",
          "prefill.bin decode.bin differ: byte 12, line 1",
          "attn_out: not within tolerance",
          "attn_out: out of tolerance",
          "within_tolerance: false",
          "outside tolerance: 3 of 48",
          "parity: broken",
          "the tokens diverge after step 12",
          "prefill=123 decode=124 MISMATCH at layer 3",
          "17 greta FAILED 1:0",
          "47 PASS, FAIL 1",
          "*** buffer overflow detected ***: terminated",
          "free(): invalid pointer",
          "error: no kernel image is available for execution on the device",
          "has_nan: true",
      },
      true);
  expect_claims(
      {
          "error: no errors were found",
          "error: not set",
          "error: none",
          "errors: no problem was found anywhere",
          "outside tolerance: 0",
          "0 outside tolerance",
          "all within tolerance",
          "within_tolerance: true",
          "has_nan: false",
          "nan_check: true",
          "no non-zero exit status",
          "If prefill and decode differ, the cache is wrong",
          "Tests failed: none",
          "47 PASS, FAIL 0",
          "expected FAIL 3",
          "no tokens diverge after step 12",
          "CUDA error checking is on",
          "ls: cannot access 'core*': No such file or directory (expected)",
      },
      false);
}

TEST(FailureClaim, LessThanAllIsAClaim) {
  expect_claims(
      {
          "success_rate: 0.97",
          "Success rate = 97%",
          "pass rate 97 %",
          "pass rate of 97.5%",
          "99 of 100 passed",
          "99 out of 100 tests passed",
          "7/8 ok",
          "47 / 48 pairs match",
          "47/48 (97.9%) passed",
          "PASS 47/48",
          "passed: 47/48",
          "Tests passed: 47 of 48",
          "97% passed",
          "97% of the tests passed",
          "match: 0.97",
          "Mismatched elements: 3 / 4096 (0.1%)",
          "failed_tests = 2",
          "torch.allclose(a, b) -> False",
          "torch.equal(a, f(b)) = False",
          "np.allclose: False",
          "all_close=False",
          "bit_exact: no",
          "Do they match? no",
          "equal: no",
          "match=0",
          "nan_count: 3",
          "pass = F",
      },
      true);
  expect_claims(
      {
          "success_rate: 1.0",
          "success_rate: 1",
          "pass rate 100 %",
          "pass rate >= 0.95",
          "pass rate > 0.95",
          "min_pass_rate: 0.95",
          "required pass rate 0.95",
          "100 of 100 passed",
          "8/8 ok",
          "48 / 48 pairs match",
          "step 3/10 ok",
          "test 3/10: ok",
          "[3/10] ok",
          "[ 97%] done",
          "pass 2/3",
          "passed in 0.97 s",
          "passed: 48",
          "2026/11/26 passed",
          "Mismatched elements: 0 / 4096",
          "failed_tests = 0",
          "torch.allclose(a, b) -> True",
          "top1_agreement: 0.97",
          "tokens per second: 0.97",
          "nan_count: 0",
          R"({"left_nan":[[0,3]],"right_nan":[["=",3]]})",
          "max_nan: 3",
      },
      false);
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
  EXPECT_EQ(claims_of(R"({"stdout":"step 1\nRESULT: FAIL\n"})"),
            All{"stdout: step 1\nRESULT: FAIL\n"});
  EXPECT_EQ(claims_of(R"({"passed":47,"total":48})"), All{"passed: 47, total: 48"});
  EXPECT_EQ(claims_of(R"({"passed":47,"skipped":1,"total":48})"), All{});
  EXPECT_EQ(claims_of(R"({"nan_count":3,"has_nan":true,"nan_check":true})"),
            (All{"has_nan: true", "nan_count: 3"}));
  EXPECT_EQ(claims_of(R"({"error":"no kernel image is available for the device"})"),
            All{"error: no kernel image is available for the device"});
  EXPECT_EQ(claims_of(R"({"stdout":"step 1\nRESULT: PASS\n"})"), All{});
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
