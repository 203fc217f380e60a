// Documents that contradict themselves, or the rows of their run, from their bytes to the verdict.
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "tests/ingest/claims_fixture.h"

namespace greta {
namespace {

enum class Result { kNone, kPass, kFail };
enum class Listed { kNoTable, kMatches, kDrift };
enum class Hashes { kNone, kEqual, kDifferent };

/// What a document says of a run, and whether there is a trace that passes.
struct Said {
  Result result;
  Listed listed;
  Hashes hashes;
  bool has_trace;
};

std::string document_of(const Said& said) {
  std::string text = "# B3.99\n\n";
  if (said.result == Result::kPass) text += "**RESULT**: PASS\n\n";
  if (said.result == Result::kFail) text += "**RESULT**: FAIL\n\n";
  if (said.listed == Listed::kNoTable) return text;
  const bool prints = said.hashes != Hashes::kNone;
  const std::string hashes = !prints ? "" : said.hashes == Hashes::kEqual ? " 7 | 7 |" : " 7 | 8 |";
  text += std::string("| PROMPT | LAYER | TENSOR | FIRST_FAIL |") +
          (prints ? " PREFILL_HASH | DECODE_HASH |" : "") + "\n|---|---|---|---|" +
          (prints ? "---|---|" : "") + "\n";
  const char* fail = said.listed == Listed::kDrift ? "ATTN_OUT_DRIFT" : "None";
  text += "| p0 | 0 | x_in | None |" + (prints ? std::string(" 5 | 5 |") : "") + "\n";
  return text + "| p0 | 0 | attn_out | " + fail + " |" + hashes + "\n";
}

bool lists_failure(const Said& said) {
  return said.listed == Listed::kDrift ||
         (said.listed == Listed::kMatches && said.hashes == Hashes::kDifferent);
}

std::vector<Said> all_that_documents_say() {
  std::vector<Said> all;
  for (const bool has_trace : {false, true}) {
    for (const Result result : {Result::kNone, Result::kPass, Result::kFail}) {
      for (const Listed listed : {Listed::kNoTable, Listed::kMatches, Listed::kDrift}) {
        for (const Hashes hashes : {Hashes::kNone, Hashes::kEqual, Hashes::kDifferent}) {
          all.push_back({result, listed, hashes, has_trace});
        }
      }
    }
  }
  return all;
}

TEST_F(Verdict, NoRunPassesBesideADocumentThatSaysOrListsAFailure) {
  const std::vector<Said> all = all_that_documents_say();
  for (size_t i = 0; i < all.size(); ++i) {
    write_run("b3_" + std::to_string(i), "report.md", document_of(all[i]), all[i].has_trace);
  }
  take();
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string run = "b3_" + std::to_string(i);
    SCOPED_TRACE(document_of(all[i]) + (all[i].has_trace ? "and a trace" : ""));
    if (!all[i].has_trace) {
      EXPECT_EQ(of_run(run), lists_failure(all[i]) ? "FAIL" : "NO_EVIDENCE");
    } else if (lists_failure(all[i]) || all[i].result == Result::kFail) {
      EXPECT_EQ(of_run(run, "verdict || ' ' || numeric_verdict"), "INCOMPARABLE INCOMPARABLE");
    } else {
      EXPECT_EQ(of_run(run), "PASS");
    }
  }
}

TEST_F(Verdict, NoRunPassesBesideAClaimOfFailureInAnyShape) {
  const Claim claims[] = {
      {"report.md", "# B3.99\n\nRESULTADO: FALLO\n"},
      {"report.md", "# B3.99\n\nVERDICT = FAIL\n"},
      {"report.md", "# B3.99\n\n| Metric | Value |\n|---|---|\n| Verdict | FAIL |\n"},
      {"report.md", "# B3.99\n\n| Verdict | FAIL |\n"},
      {"report.md", "# B3.99\n\n## Verdict\n\nno pasa\n"},
      {"report.md", "# B3.99\n\n```\nRESULT: FAIL\n```\n"},
      {"report.md", "# B3.99\n\nstatus: failed\n"},
      {"report.md", "# B3.99\n\nNOT OK\n"},
      {"report.md", "# B3.99\n\n{\"verdict\":false}\n"},
      {"report.txt", "ok: false\n"},
      {"report.txt", "exited with code 1\n"},
      {"summary.json", R"({"verdict":false})"},
      {"summary.json", R"({"verdict":"FALLO"})"},
      {"summary.json", R"({"result":{"verdict":"FAIL"}})"},
      {"summary.json", R"({"pass":false})"},
      {"metadata.json", R"({"status":"failed"})"},
      {"config.json", R"({"config":{"outcome":"failed"}})"},
      {"perf.json", R"({"metrics":{"exit_code":1}})"},
      {"other.jsonl", "{\"verdict\":\"FAIL\"}\n"},
      {"other.jsonl", "{\"result\":{\"ok\":false}}\n"},
      {"run.jsonl", R"({"event":"run_start","attributes":{"verdict":"FAIL"}})"
                    "\n"
                    R"({"event":"run_end","status":"complete"})"
                    "\n"},
      {"run.log", "[GRETA] begins\nRESULT: FAIL\n"},
      {"run.log", "[GRETA] verdict=FAIL\n"},
      {"verdict.tsv", "metric\tvalue\nverdict\tFAIL\n"},
      {"verdict.csv", "run,verdict\nb3_99,FAIL\n"},
      {"verdict.csv", "verdict,FAIL\n"},
      {"report.md", "# B3.99\n\n## Outcome\n\nfallo\n"},
  };
  write_claims(claims);
  take();
  expect_no_verdict_beside(claims);
  EXPECT_EQ(rows("SELECT DISTINCT claimed FROM report_conflict"), "FAIL");
}

TEST_F(Verdict, NoRunPassesBesideATableOrAnOutputThatIsOddlyWritten) {
  const std::string columns = "prompt,layer,tensor,status\n";
  const Claim claims[] = {
      {"pairs.csv", "# made by x\n\nprompt,layer,tensor,status\np0,0,attn_out,DRIFT\n"},
      {"pairs.csv", "# RESULT: FAIL\nprompt,layer,tensor,status\np0,0,attn_out,MATCH\n"},
      {"pairs.csv", "prompt,layer,tensor,status\np0,0,attn_out,mis-match\n"},
      {"pairs.csv", "prompt,layer,tensor,status\np0,0,attn_out,non-equal\n"},
      {"pairs.csv", "prompt,layer,tensor,status\np0,0,attn_out,!=\n"},
      {"pairs.csv", "prompt,layer,tensor,status\np0,0,attn_out,\u2260\n"},
      {"job-17.out", "step 1\nRESULT: FAIL\n"},
      {"job-17.err", "exited with code 1\n"},
      {"job-17.OUT", "[GRETA] begins\nRESULT: FAIL\n"},
  };
  write_claims(claims);
  write_run("b3_200", "pairs.csv", columns + "p0,0,attn_out,MATCH,DRIFT\n");
  write_run("b3_201", "pairs.csv", columns + "p0,0,attn_out,MATCH,\n");
  take();
  expect_no_verdict_beside(claims);
  EXPECT_EQ(of_run("b3_200"), "INCOMPLETE");
  EXPECT_EQ(of_run("b3_201"), "PASS");
}

TEST_F(Verdict, NoRunPassesBesideATextOfAnyKindThatClaimsAFailure) {
  const Claim claims[] = {
      {"result.yaml", "verdict: FAIL\n"},
      {"result.yml", "run:\n  attn_out: FAIL\n"},
      {"result.toml", "[run]\nverdict = \"FAIL\"\n"},
      {"result.xml", "<run><verdict>FAIL</verdict></run>\n"},
      {"junit.xml", "<testsuite tests=\"3\" failures=\"1\">\n"},
      {"result.html", "<table><tr><td>Verdict</td><td>FAIL</td></tr></table>\n"},
      {"result.rst", "Verdict\n=======\n\nRESULT: FAIL\n"},
      {"result", "RESULT: FAIL\n"},
      {"verdict", "FAIL\n"},
      {"FAILED", ""},
      {"exit_code.txt", "1\n"},
      {"exit_code", "139"},
      {"status.json", R"({"attn_out":"differs"})"},
      {"pairs.csv", "prompt,layer,tensor,status\rp0,0,x_in,MATCH\rp0,0,attn_out,DRIFT\r"},
      {"report.md", "# B3.99\r\rRESULT: FAIL\r"},
      {"pairs.csv", "prompt,layer,tensor,status\np0,0,attn_out,D R I F T\n"},
      {"report.md",
       "# B3.99\n\n<table>\n<tr>\n<th>Metric</th>\n<th>Value</th>\n</tr>\n<tr>\n<td>Verdict</td>\n"
       "<td><b>FAIL</b></td>\n</tr>\n</table>\n"},
      {"report.md",
       "# B3.99\n\n<TABLE><tr><th>PROMPT</th><th>TENSOR</th><th>FIRST_FAIL</th></tr>\n"
       "<tr><td>p0</td><td>attn_out</td><td>ATTN_OUT_DRIFT</td></tr></TABLE>\n"},
      {"matrix.csv", "prompt,x_in,attn_out\np0,PASS,FAIL\n"},
      {"pairs.csv", "prompt;layer;tensor;status\np0;0;attn_out;DRIFT\n"},
      {"pairs.csv", "prompt\tlayer\ttensor\tstatus\np0\t0\tattn_out\tDRIFT\n"},
      {"pairs.csv", "prompt,layer,tensor,status\np0,0,attn_out,MATCH\nRESULT: FAIL\n"},
      {"pairs.txt", "Pairs of B3.99\n\nprompt,layer,tensor,status\np0,0,attn_out,DRIFT\n\nend\n"},
      {"pairs.dat", "prompt,layer,tensor,status\np0,0,attn_out,DRIFT\n"},
      {"pairs.txt", "TENSOR     STATUS\nx_in       MATCH\nattn_out   DRIFT\n"},
      {"pairs.txt",
       "│ TENSOR │ STATUS │\n├────┼────┤\n"
       "│ attn_out │ DRIFT │\n"},
      {"summary.json", R"({"verdict":"PASS","detail":{"attn_out":"drift"}})"},
      {"report.md", "# B3.99\n\n- attn_out: DRIFT at layer 3\n"},
      {"report.md", "# B3.99\n\nThe run did not pass.\n"},
      {"report.md", "# B3.99\n\n**Verdict:**\n\nthe values differ\n"},
      {"report.rst", "Outcome\n-------\n\nthe values differ\n"},
      {"result.yaml", "verdict:\n  mismatch\n"},
      {"run.log", "[GRETA] begins\nSegmentation fault\n"},
      {"run.log", "[GRETA] begins\n10%\r20%\rRESULT: FAIL\n"},
      {"run.log", "[GRETA] begins\nKilled\n"},
      {"job.err", "Traceback (most recent call last):\n"},
      {"job.err", "CUDA error: out of memory\n"},
      {"end.jsonl", "{\"signal\":\"SIGSEGV\"}\n"},
  };
  const Claim doubts[] = {{"exit_code.json", "1"},
                          {"pairs.csv", "prompt,layer,tensor,status\np0,0,attn_out,MATCH?\n"},
                          {"pairs.csv", "prompt,layer,tensor,status\np0,0,attn_out,skipped\n"}};
  write_claims(claims);
  write_claims(doubts, 200);
  take();
  expect_no_verdict_beside(claims);
  EXPECT_EQ(of_run("b3_200"), "INCOMPLETE");
  EXPECT_EQ(of_run("b3_201"), "INCOMPARABLE");
  EXPECT_EQ(of_run("b3_202"), "INCOMPARABLE");
}

TEST_F(Verdict, WhatIsNoTextOfARunChangesNoVerdict) {
  const Claim claims[] = {
      {"run.sh", "#!/bin/sh\nfail() { echo RESULT: FAIL; exit 1; }\n"},
      {"check.py", "print('RESULT: FAIL')\n"},
      {"probe", "#!/usr/bin/env python3\nprint('RESULT: FAIL')\n"},
      {"dirty.patch", "+RESULT: FAIL\n"},
      {"config.yaml", "on_error: fail\nfail_fast: true\ntimeout: 600\n"},
      {"notes", "nothing of note\n"},
      {"notes.txt", "its columns are:\nprompt, tensor, status\nas told above\n"},
      {"errors.txt", ""},
      {"exit_code.txt", "0\n"}};
  write_claims(claims);
  take();
  expect_all_pass(claims);
}

TEST_F(Verdict, AClaimThatNothingFailedIsNoFailure) {
  const Claim claims[] = {
      {"report.md", "# B3.99\n\nVerdict: PASS (0 failed, no drift)\n\n| FAIL | 0 |\n"},
      {"summary.json", R"({"verdict":"PASS","failed":0,"errors":[],"error":null,"exit_code":0})"},
      {"run.log", "[GRETA] verdict=PASS failed=0\nexited with code 0\n"},
      {"verdict.csv", "run,verdict,failures\nb3_99,PASS,0\n"},
  };
  write_claims(claims);
  take();
  expect_all_pass(claims);
}

TEST_F(Verdict, NoRunPassesBesideWhatAProgramOrATestThatFailedLeaves) {
  const Claim claims[] = {
      {"run.log", "[GRETA] begins\n./engine: model.gguf: No such file or directory\n"},
      {"run.log", "[GRETA] begins\ncannot open model.gguf\n"},
      {"job.err", "bash: line 1: greta-infer: command not found\n"},
      {"job.err", "mkdir: /srv/x: Permission denied\n"},
      {"job.err", "CUDA out of memory\n"},
      {"LastTest.log", "1/3 Test  #1: attn_out ....***Failed    0.01 sec\n"},
      {"ctest.txt", "1/3 Test  #1: attn_out ....***Timeout   1.51 sec\n"},
      {"ctest.txt", "The following:\n\t  1 - attn_out (Failed)\n"},
      {"pytest.txt", "FAILED tests/x.py::test_attn_out\n"},
      {"pytest.txt", "E   AssertionError: Tensor-likes are not close!\n"},
      {"gtest.txt", "[  FAILED  ] Parity.AttnOut (3 ms)\n"},
      {"tap.txt", "1..4\nok 1\nnot ok 3\n"},
      {"junit.xml", "<testcase name=\"attn_out\">\n<failure message=\"x\"/>\n</testcase>\n"},
      {"check.txt", "torch.allclose(a, b) -> False\n"},
      {"check.txt", "np.allclose: False\n"},
      {"check.txt", "assert_close failed\n"},
      {"check.txt", "Mismatched elements: 3 / 4096 (0.1%)\n"},
      {"check.txt", "equal: no\n"},
      {"check.txt", "match=0\n"},
      {"check.txt", "Files prefill.bin and decode.bin differ\n"},
      {"summary.json", R"({"success_rate":0.97})"},
      {"summary.json", R"({"passed":"47/48"})"},
      {"summary.json", R"({"all_close":false})"},
      {"summary.json", R"({"passed":47,"total":48})"},
      {"summary.json", R"({"tests":{"passed":47,"total":48}})"},
      {"pairs.csv", "tensor,max_diff,pass\nattn_out,0.5,F\n"},
      {"job.out", "\033[31mFAILED\033[0m\n"},
      {"job.json", R"({"stdout":"step 1\nRESULT: FAIL\n"})"},
      {"summary.txt", "pass rate 97 %\n"},
      {"summary.txt", "99 of 100 passed\n"},
      {"summary.txt", "7/8 ok\n"},
      {"report.md",
       "# B3.99\n\n| prompt | x_in | attn_out |\n|---|---|---|\n"
       "| p0 | PASS | PASS |\n| p1 | FAIL | PASS |\n"},
      {"report.md",
       "# B3.99\n\n| tensor | p0 | p1 |\n|---|---|---|\n"
       "| x_in | \u2705 | \u2705 |\n| attn_out | \u274c | \u2705 |\n"},
      {"report.html",
       "<table><tr><th>layer</th><th>x_in</th></tr><tr><td>0</td><td>PASS</td></tr>"
       "<tr><td>1</td><td>FAIL</td></tr></table>\n"},
  };
  write_claims(claims);
  take();
  expect_no_verdict_beside(claims);
}

TEST_F(Verdict, WhatAProgramOrATestThatWentWellLeavesIsNoFailure) {
  const Claim claims[] = {
      {"run.log", "[GRETA] begins\nconfig.json: No such file, using defaults\n"},
      {"run.log", "[GRETA] begins\nWARNING: cannot open config.json: No such file or directory\n"},
      {"ctest.txt",
       "1/3 Test  #1: attn_out ....   Passed    0.01 sec\n"
       "100% tests passed, 0 tests failed out of 3\n"},
      {"pytest.txt", "tests/x.py::test_attn_out PASSED [100%]\n==== 3 passed in 0.12s ====\n"},
      {"gtest.txt", "[       OK ] Parity.AttnOut (3 ms)\n[  PASSED  ] 1 test.\n"},
      {"tap.txt", "1..4\nok 1\nok 2\n"},
      {"junit.xml", "<testsuite tests=\"3\" failures=\"0\" errors=\"0\">\n"},
      {"check.txt", "torch.allclose(a, b) -> True\nMismatched elements: 0 / 4096\n"},
      {"summary.json", R"({"success_rate":1.0,"passed":"48/48","min_pass_rate":0.95})"},
      {"results.json", R"({"passed":47,"skipped":1,"total":48})"},
      {"summary.txt", "pass rate 100 %\n100 of 100 passed\n8/8 ok\nstep 3/10 ok\n"},
      {"report.md",
       "# B3.99\n\n| prompt | x_in | attn_out |\n|---|---|---|\n"
       "| p0 | PASS | PASS |\n| p1 | PASS | PASS |\n"},
      {"report.md",
       "# B3.99\n\n| run | verdict |\n|---|---|\n| b3_98 | FAIL |\n"
       "| b3_99 | PASS |\n"},
      {"report.md",
       "# B3.99\n\n| tensor | before | now |\n|---|---|---|\n"
       "| x_in | PASS | PASS |\n| attn_out | FAIL | PASS |\n"},
  };
  write_claims(claims);
  take();
  expect_all_pass(claims);
}

TEST_F(Verdict, WhatADocumentSaysAgainstItselfIsNamedByLine) {
  const auto findings_of = [this](const Said& said) {
    const std::string file = root + "b3_1/report.md";
    folder.write(file, document_of(said));
    forget_findings();
    take();
    return findings();
  };
  EXPECT_EQ(findings_of({Result::kPass, Listed::kDrift, Hashes::kNone, false}),
            "warning 3 says PASS here and lists 1 failing pairs; they count");
  EXPECT_EQ(findings_of({Result::kFail, Listed::kMatches, Hashes::kEqual, false}),
            "warning 3 says FAIL here and lists no pair that fails");
  EXPECT_EQ(findings_of({Result::kNone, Listed::kMatches, Hashes::kDifferent, false}),
            "warning 6 1 rows from here on print hashes that differ and say no failure; they count "
            "as DRIFT");
  EXPECT_EQ(findings_of({Result::kFail, Listed::kDrift, Hashes::kDifferent, false}), "");
  EXPECT_EQ(findings_of({Result::kPass, Listed::kMatches, Hashes::kEqual, false}), "");
  EXPECT_EQ(findings_of({Result::kFail, Listed::kNoTable, Hashes::kNone, false}), "");
}

struct DoubtCase {
  std::string name, file, bytes;
};
TEST_F(Verdict, NoRunPassesBesideHashesThatDifferWhereverTheyArePrinted) {
  const std::string object =
      R"({"tensor":"attn_out","layer":0,"prefill_hash":7,"decode_hash":8,"status":"none"})";
  const std::vector<DoubtCase> cases = {
      {"ATable", "a.tsv", "tensor\tprefill_hash\tdecode_hash\tstatus\nattn_out\t7\t8\tOK\n"},
      {"ATableWithoutNames", "a.csv", "hash_prefill,hash_decode\n7,7\n7,8\n"},
      {"AStatus", "a.tsv", "tensor\tlayer\tstatus\nx_in\t0\tPASS\nattn_out\t0\tDRIFT\n"},
      {"Statuses", "a.md",
       "| PROMPT | TENSOR | FIRST_FAIL |\n|---|---|---|\n| p0 | x_in | None |\n\n"
       "| TENSOR | STATUS |\n|---|---|\n| attn_out | FAIL |\n"},
      {"AFencedLine", "a.md", "# B3.9\n```json\n" + object + "\n```\n"},
      {"FencedLines", "a.md", "```\n" + object + "\n{\"prefill_hash\":1,\"decode_hash\":1}\n```\n"},
      {"AJsonDocument", "a.json", "{\"pairs\":[" + object + "," + object + "]}"},
      {"AJsonLine", "a.jsonl", object + "\n"}};
  for (size_t i = 0; i < cases.size(); ++i) {
    write_run("b3_" + std::to_string(i), cases[i].file, cases[i].bytes);
  }
  take();
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].name);
    const std::string run = "b3_" + std::to_string(i);
    EXPECT_EQ(of_run(run), "INCOMPARABLE");
    EXPECT_EQ(
        rows("SELECT fail > 0, missing FROM report_conflict WHERE run = '2026-02-07/" + run + "'"),
        "1|0");
  }
}

TEST_F(Verdict, PairsOfOneLineAreAllKept) {
  const std::string object = R"({"tensor":"x_in","prefill_hash":1,"decode_hash":2})";
  write_run("b3_1", "a.json", "{\"pairs\":[" + object + "," + object + "," + object + "]}", false);
  EXPECT_EQ(take().report_pairs, 3);
  EXPECT_EQ(
      rows("SELECT line, status, details FROM report_pair"),
      "1|DRIFT|prefill 1, decode 2\n2|DRIFT|prefill 1, decode 2\n3|DRIFT|prefill 1, decode 2");
  EXPECT_EQ(of_run("b3_1", "verdict || ' ' || fail || ' ' || first_fail"), "FAIL 3 X_IN_DRIFT");
}

}  // namespace
}  // namespace greta
