#include "ingest/known_claim.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace greta {
namespace {

struct Stated {
  std::string key, value;
};

TEST(KnownClaim, AKnownKeyWithAKnownValueFails) {
  const std::vector<Stated> all = {{"verdict", "FAIL"},
                                   {"Result", "failed"},
                                   {"RESULTADO", "FALLO"},
                                   {"Veredicto", "fall\u00f3"},
                                   {"status", "error"},
                                   {"Status / Estado", "FAILED"},
                                   {"**Verdict**", "\u274c FAIL"},
                                   {"final verdict", "FAIL: attn_out"},
                                   {"status", "RUN_FAILED - no file"},
                                   {"verdict", "DRIFT"},
                                   {"verdict", "MISMATCH at layer 3"},
                                   {"verdict", "false"},
                                   {"exit_code", "1"},
                                   {"Exit code", "-11"},
                                   {"exit-code", "139 (SIGSEGV)"},
                                   {"ok", "false"},
                                   {"ok", "no"},
                                   {"passed", "47/48"},
                                   {"pass", "99 of 100"},
                                   {"failed", "3"},
                                   {"Fail", "42 (87.5%)"},
                                   {"failed", "true"}};
  for (const Stated& one : all)
    EXPECT_TRUE(claims_failure(one.key, one.value)) << one.key << ": " << one.value;
}

TEST(KnownClaim, AnyOtherKeyOrValueIsText) {
  const std::vector<Stated> all = {{"verdict", "PASS"},
                                   {"verdict", "PASS/FAIL"},
                                   {"verdict", "no FAIL"},
                                   {"result", ""},
                                   {"result", "failed to reproduce the bug"},
                                   {"status", "COMPLETE"},
                                   {"status", "failures are retried"},
                                   {"exit_code", "0"},
                                   {"exit_code", "none"},
                                   {"ok", "true"},
                                   {"ok", "not known"},
                                   {"passed", "48/48"},
                                   {"passed", "47"},
                                   {"failed", "0"},
                                   {"failed", "no"},
                                   {"failed", "-1"},
                                   {"fail", "42.5"},
                                   {"attn_out", "FAIL"},
                                   {"expected verdict", "FAIL"},
                                   {"on_error", "fail"},
                                   {"max_diff", "nan"},
                                   {"", "FAIL"},
                                   {std::string(1000, 'v'), "FAIL"}};
  for (const Stated& one : all)
    EXPECT_FALSE(claims_failure(one.key, one.value)) << one.key << ": " << one.value;
}

TEST(KnownClaim, ALineStatesOne) {
  for (const char* line :
       {"RESULT: FAIL", "verdict = FAIL", "  - **Status**: FAILED", "3. Resultado: fallo",
        "[GRETA] verdict=FAIL", "[GRETA] RESULT: FAIL", "STATUS=FAILED step=3", "> exit_code: 1",
        "done, exit_code=1", "{\"verdict\":\"FAIL\"}", "{\"ok\":false}", "## Verdict: **FAIL**",
        "verdict = \"FAIL\""}) {
    EXPECT_TRUE(line_claims_failure(line)) << line;
  }
  for (const char* line :
       {"", "FAIL", "TEST FAILED", "Segmentation fault", "exited with code 1", "RESULT: PASS",
        "[GRETA] verdict=PASS failed=0", "Failure is determined in this order:", "a != b",
        "| Verdict | FAIL |", "echo \"RESULT: FAIL\"", "=", ":", "no such file or directory"}) {
    EXPECT_FALSE(line_claims_failure(line)) << line;
  }
}

TEST(KnownClaim, AnyBytesAreReadInLinearTime) {
  for (const char c : {'=', ':', '/', '*', '[', '#', '\xff', '\0', ' '}) {
    const std::string line(1 << 20, c);
    line_claims_failure(line);
    line_claims_failure("verdict" + line);
    claims_failure("verdict", line);
  }
}

}  // namespace
}  // namespace greta
