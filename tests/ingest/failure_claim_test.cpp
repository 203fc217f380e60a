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
