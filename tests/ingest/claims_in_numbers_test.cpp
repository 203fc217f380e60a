// Numbers, tables and ends of programs that claim a failure beside rows that pass.
#include <gtest/gtest.h>

#include "tests/ingest/claims_fixture.h"

namespace greta {
namespace {

TEST_F(Verdict, NoRunPassesBesideNumbersThatDoNotAgree) {
  const Claim claims[] = {
      {"check.txt", "5 != 7\n"},
      {"check.txt", "assert 5 == 7\n"},
      {"check.txt", "Score: 3/4\n"},
      {"check.txt", "Result: 3 out of 4\n"},
      {"check.txt", "logits: nan\n"},
      {"run.log", "[GRETA] begins\nlogits contains NaN\n"},
      {"check.txt", "max_diff=0.5 tolerance=0.01\n"},
      {"check.txt", "max diff 0.5, tolerance 0.01\n"},
      {"summary.json", R"({"max_diff":0.5,"tolerance":0.01})"},
      {"summary.json", R"({"tolerance":0.01,"metrics":{"max_diff":0.5}})"},
      {"summary.json", R"({"tensors":[{"name":"x_in","max_diff":0.5,"tolerance":0.01}]})"},
      {"other.jsonl", "{\"max_diff\":0.5,\"tolerance\":0.01}\n"},
      {"pairs.csv", "name,max_diff,tolerance\nx_in,0.001,0.01\nattn_out,0.5,0.01\n"},
      {"report.md",
       "# B3.99\n\n| tensor | max diff | tolerance |\n|---|---|---|\n| x_in | 0.001 | 0.01 |\n"
       "| attn_out | 0.5 | 0.01 |\n"},
      {"summary.json", R"({"expected_hash":"0x1f","actual_hash":"0x2f"})"},
      {"hashes.csv", "name,expected,actual\nx_in,5,5\nattn_out,7,8\n"},
      {"report.md",
       "# B3.99\n\n| tensor | expected hash | actual hash |\n|---|---|---|\n| x_in | 5 | 5 |\n"
       "| attn_out | 7 | 8 |\n"},
      {"diff.txt", "--- prefill.txt\n+++ decode.txt\n@@ -1 +1 @@\n-5\n+7\n"},
      {"diff.txt", "3c3\n< 5\n---\n> 7\n"},
      {"report.md", "# B3.99\n\n```\n3c3\n< 5\n---\n> 7\n```\n"},
      {"check.txt", "Parity check: negative\n"},
  };
  write_claims(claims);
  take();
  expect_no_verdict_beside(claims);
}

TEST_F(Verdict, NumbersThatAgreeOrAreOfNothingThatIsHeldAgainstAnotherAreNoFailure) {
  const Claim claims[] = {
      {"check.txt", "assert 5 == 5\nif a != b:\n  x[3] == 5\nn % 2 == 0\n"},
      {"run.log", "[GRETA] begins\nepoch 3/4\nstep 3 out of 4\nresult 3/4: ok\nresult: 4/4\n"},
      {"report.md", "# B3.99\n\nno NaN, nan: 0, nan_count=0. It looks for NaN in the logits.\n"},
      {"check.txt", "max_diff=0.005 tolerance=0.01\nmax diff < 0.01\n"},
      {"check.txt", "max_diff: 0.005\ntolerance: 0.01\n\nmax_diff: 0.5\n"},
      {"check.txt", "expected hash: 5\nactual hash: 5\n==983== 1,688 bytes in 1 blocks\n"},
      {"summary.json", R"({"max_diff":0.005,"tolerance":0.01,"max_diff_index":512})"},
      {"summary.json", R"({"max_abs_diff":0.002,"atol":1e-5,"rtol":1e-3,"limit":10})"},
      {"pairs.csv", "name,max_diff,tolerance\nx_in,0.001,0.01\n"},
      {"summary.json", R"({"expected_hash":"0x1f","actual_hash":"31","expected":1.0,"got":1.001})"},
      {"report.md",
       "# B3.99\n\n```diff\n--- a/config.yaml\n+++ b/config.yaml\n@@ -1 +1 @@\n-seed: 1\n"
       "+seed: 2\n```\n\n> quoted\n"},
      {"report.md",
       "# B3.99\n\n| run | max diff | tolerance |\n|---|---|---|\n| b3_98 | 0.5 | 0.01 |\n"
       "| b3_99 | 0.001 | 0.01 |\n"},
      {"run.log",
       "[GRETA] begins\n| step | loss |\n|---|---|\n| 1 | 0.5 |\n"
       "2026-11-26 12:00:00.1 | INFO     | m:f:12 - fine\n"
       "50%|#####     | 5/10 [00:01<00:01,  3.2it/s]\n"},
      {"report.txt", "\u0440\u0435\u0437\u0443\u043b\u044c\u0442\u0430\u0442: \u043a\u043e\n"},
  };
  write_claims(claims);
  take();
  expect_all_pass(claims);
}

TEST_F(Verdict, NoRunPassesBesideATableAmidItsLogOrWhatTheSystemSaysOfItsEnd) {
  const Claim claims[] = {
      {"run.log", "[GRETA] begins\n| tensor | status |\n| x_in | PASS |\n| attn_out | FAIL |\n"},
      {"run.log",
       "[GRETA] begins\n+---+---+\n| name | result |\n+---+---+\n| attn_out | FAIL |\n+---+---+\n"},
      {"run.log", "[GRETA] begins\ntensor | prefill_hash | decode_hash\nattn_out | 7 | 8\n"},
      {"run.log", "[GRETA] begins\n\u2502 op \u2502 ok \u2502\n\u2502 add \u2502 no \u2502\n"},
      {"run.log", "[GRETA] begins\ntensor    status  diff\nattn_out  FAIL    0.5\n"},
      {"run.log", "[GRETA] begins\n2026-11-26 12:00:00.1 | ERROR    | m:f:12 - kernel launch\n"},
      {"run.log", "[GRETA] begins\nTerminated\n"},
      {"run.log", "[GRETA] begins\nzsh: killed     ./engine\n"},
      {"job.err", "[1]+  Killed                  ./engine\n"},
      {"job.err", "bash: line 1:  1234 Terminated              ./engine\n"},
      {"dmesg.txt", "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"},
      {"dmesg.txt", "[12.5] greta-infer[812]: segfault at 0 ip 00007f3c sp 00007ffd error 4\n"},
      {"job.err", "greta.service: Main process exited, code=killed, status=9/KILL\n"},
      {"job.err", "greta.service: Main process exited, code=dumped, status=11\n"},
      {"check.txt", "F\u0410IL\n"},
      {"check.txt", "attn_out F\u0410ILED\n"},
      {"check.txt", "\uff32\uff45\uff53\uff55\uff4c\uff54\uff1a \uff46\uff41\uff49\uff4c\n"},
      {"check.txt", "RESULT: FA\u200d\u2060IL\n"},
      {"check.txt", "\U0001d405\U0001d400\U0001d408\U0001d40b\n"},
      {"summary.json", "{\"v\u0435rdict\":\"F\u0391IL\"}"},
  };
  write_claims(claims);
  take();
  expect_no_verdict_beside(claims);
}

TEST_F(Verdict, NoRunPassesBesideWhatIsSaidBelowEachOtherOrBesideTheEndOfARun) {
  const Claim claims[] = {
      {"check.txt", "max_diff: 0.5\ntolerance: 0.01\n"},
      {"check.yaml", "check:\n  tolerance: 0.01\n  max_diff: 0.5\n"},
      {"check.txt", "Value of: a == b\n  Actual: false\nExpected: true\n"},
      {"check.txt", "expected hash: 5\nactual hash: 7\n"},
      {"run.log", "[GRETA] begins\nattn_out,FAIL,0.5\n"},
      {"run.log", "[GRETA] begins\nRESULT: FAX\bIL\n"},
      {"dmesg.txt", "[ 12.3] amdgpu 0000:03:00.0: amdgpu: GPU reset begin!\n"},
      {"job.json", R"({"stdout":"3c3\n< 5\n---\n> 7\n"})"},
      {"check.txt", "verdict: \U0001f44e\n"},
      {"check.txt", "status: RED\n"},
      {"end.jsonl",
       "{\"event\":\"run_start\"}\n"
       "{\"event\":\"run_end\",\"status\":\"complete\",\"exit_code\":1}\n"},
      {"end.jsonl",
       "{\"event\":\"run_start\"}\n{\"event\":\"run_end\",\"status\":\"complete\","
       "\"attributes\":{\"exit_code\":1}}\n"},
  };
  write_claims(claims);
  take();
  expect_no_verdict_beside(claims);
}

}  // namespace
}  // namespace greta
