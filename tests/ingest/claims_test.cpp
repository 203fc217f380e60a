// Documents that contradict themselves, or the rows of their run, from their bytes to the verdict.
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "tests/ingest/importing.h"

namespace greta {

inline std::string passing_row(const char* phase, const char* tensor) {
  return std::string(R"({"event":"stage_trace","phase":")") + phase +
         R"(","prompt_id":"p0","pos_id":3,"step":0,"layer":0,"point":")" + tensor +
         R"(","hash_algo":"greta-1","n":4,"hash":1})"
         "\n";
}

/// A file beside a trace that passes.
struct Claim {
  const char* file;
  const char* text;
};

struct Verdict : Importing {
  const std::string root = "artifacts_remote/2026-02-07/";

  /// A run of that name with a document, and a trace that passes if one is asked for.
  void write_run(const std::string& run, const std::string& file, const std::string& document,
                 bool has_trace = true) {
    folder.write(root + run + "/" + file, document);
    if (!has_trace) return;
    folder.write(root + run + "/traces/p0_trace.jsonl",
                 passing_row("prefill_last", "attn_out") + passing_row("decode0", "attn_out"));
  }
  std::string of_run(const std::string& run, const std::string& column = "verdict") {
    return rows("SELECT " + column + " FROM run_verdict WHERE run = ?", "2026-02-07/" + run);
  }

  /// Each in a run of its own: b3_100, b3_101 and so on, or from `first` on.
  void write_claims(std::span<const Claim> claims, size_t first = 100) {
    for (size_t i = 0; i < claims.size(); ++i)
      write_run("b3_" + std::to_string(first + i), claims[i].file, claims[i].text);
  }
  void expect_no_verdict_beside(std::span<const Claim> claims) {
    for (size_t i = 0; i < claims.size(); ++i) {
      SCOPED_TRACE(std::string(claims[i].file) + ": " + claims[i].text);
      EXPECT_EQ(of_run("b3_" + std::to_string(100 + i), "verdict || ' ' || numeric_verdict"),
                "INCOMPARABLE INCOMPARABLE");
    }
  }
  void expect_all_pass(std::span<const Claim> claims) {
    for (size_t i = 0; i < claims.size(); ++i) {
      SCOPED_TRACE(std::string(claims[i].file) + ": " + claims[i].text);
      EXPECT_EQ(of_run("b3_" + std::to_string(100 + i)), "PASS");
    }
  }
};

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

TEST_F(Verdict, NoRunPassesBesideAKnownKeyThatSaysFailInAnyShape) {
  const Claim claims[] = {
      {"report.md", "# B3.99\n\nRESULTADO: FALLO\n"},
      {"report.md", "# B3.99\n\nVERDICT = FAIL\n"},
      {"report.md", "# B3.99\n\n| Metric | Value |\n|---|---|\n| Verdict | FAIL |\n"},
      {"report.md", "# B3.99\n\n## Verdict\n\nfailed\n"},
      {"report.md", "# B3.99\n\n```\nRESULT: FAIL\n```\n"},
      {"report.md", "# B3.99\r\rRESULT: FAIL\r"},
      {"report.md", "# B3.99\n\nstatus: failed\n"},
      {"report.md", "# B3.99\n\n{\"verdict\":false}\n"},
      {"report.txt", "ok: false\n"},
      {"result.yaml", "verdict: FAIL\n"},
      {"result", "RESULT: FAIL\n"},
      {"summary.json", R"({"verdict":false})"},
      {"summary.json", R"({"verdict":"FALLO"})"},
      {"summary.json", R"({"result":{"verdict":"FAIL"}})"},
      {"summary.json", R"({"pass":false})"},
      {"summary.json", R"({"tests":{"passed":47,"total":48}})"},
      {"metadata.json", R"({"status":"failed"})"},
      {"perf.json", R"({"metrics":{"exit_code":1}})"},
      {"other.json", R"({"checks":[{"ok":false}]})"},
      {"other.jsonl", "{\"verdict\":\"FAIL\"}\n"},
      {"other.jsonl", "{\"result\":{\"ok\":false}}\n"},
      {"run.jsonl", R"({"event":"run_start","attributes":{"verdict":"FAIL"}})"
                    "\n"
                    R"({"event":"run_end","status":"complete"})"
                    "\n"},
      {"end.jsonl",
       "{\"event\":\"run_start\"}\n"
       "{\"event\":\"run_end\",\"status\":\"complete\",\"exit_code\":1}\n"},
      {"run.log", "[GRETA] begins\nRESULT: FAIL\n"},
      {"run.log", "[GRETA] begins\n10%\r20%\rRESULT: FAIL\n"},
      {"run.log", "[GRETA] verdict=FAIL\n"},
      {"job-17.OUT", "step 1\nexit_code=1\n"},
      {"verdict.tsv", "metric\tvalue\nverdict\tFAIL\n"},
      {"verdict.csv", "run,verdict\nb3_99,FAIL\n"},
      {"verdict.csv", "verdict,FAIL\n"},
      {"pairs.csv", "# RESULT: FAIL\nprompt,layer,tensor,status\np0,0,attn_out,MATCH\n"},
      {"pairs.csv", "prompt,layer,tensor,status\np0,0,attn_out,MATCH\nRESULT: FAIL\n"},
  };
  write_claims(claims);
  take();
  expect_no_verdict_beside(claims);
  EXPECT_EQ(rows("SELECT DISTINCT claimed FROM report_conflict"), "FAIL");
}

TEST_F(Verdict, NoRunPassesBesideATableThatListsADrift) {
  const std::string columns = "prompt,layer,tensor,status\n";
  const Claim claims[] = {
      {"pairs.csv", "# made by x\n\nprompt,layer,tensor,status\np0,0,attn_out,DRIFT\n"},
      {"pairs.csv", "prompt,layer,tensor,status\np0,0,attn_out,mis-match\n"},
      {"pairs.csv", "prompt,layer,tensor,status\np0,0,attn_out,non-equal\n"},
      {"pairs.csv", "prompt,layer,tensor,status\np0,0,attn_out,!=\n"},
      {"pairs.csv", "prompt,layer,tensor,status\np0,0,attn_out,\u2260\n"},
      {"pairs.csv", "prompt,layer,tensor,status\rp0,0,x_in,MATCH\rp0,0,attn_out,DRIFT\r"},
      {"pairs.csv", "prompt,layer,tensor,status\np0,0,attn_out,MATCH?\n"},
      {"pairs.csv", "prompt,layer,tensor,status\np0,0,attn_out,skipped\n"},
      {"report.md", "# B3.99\n\n| tensor | status |\n|---|---|\n| attn_out | FAIL |\n"},
      {"pairs.tsv", "tensor\tprefill_hash\tdecode_hash\nattn_out\t7\t8\n"},
      {"pairs.tsv", "tensor\tprefill_hash\tdecode_hash\tstatus\nattn_out\t7\t8\tOK\n"},
      {"pairs.csv", "hash_prefill,hash_decode\n7,7\n7,8\n"},
      {"report.md",
       "| PROMPT | TENSOR | FIRST_FAIL |\n|---|---|---|\n| p0 | x_in | None |\n\n"
       "| TENSOR | STATUS |\n|---|---|\n| attn_out | FAIL |\n"},
  };
  write_claims(claims);
  write_run("b3_200", "pairs.csv", columns + "p0,0,attn_out,MATCH,DRIFT\n");
  write_run("b3_201", "pairs.csv", columns + "p0,0,attn_out,MATCH,\n");
  write_run("b3_202", "exit_code.json", "1");
  take();
  expect_no_verdict_beside(claims);
  EXPECT_EQ(of_run("b3_200"), "INCOMPLETE");
  EXPECT_EQ(of_run("b3_201"), "PASS");
  EXPECT_EQ(of_run("b3_202"), "INCOMPLETE");
}

TEST_F(Verdict, ATextThatStatesNothingIsStoredAndCounted) {
  const Claim texts[] = {
      {"notes.md", "# all bad\n\nThe run did not pass.\n"},
      {"engine.log", "begins\nSegmentation fault\n"},
      {"run.log", "[GRETA] begins\nKilled\n"},
      {"job.err", "Traceback (most recent call last):\n"},
      {"exit_code.txt", "1\n"},
      {"result.xml", "<run><verdict>FAIL</verdict></run>\n"},
      {"config.yaml", "on_error: fail\ntimeout: 600\n"},
      {"notes", "nothing of note\n"},
      {"foo.json", R"({"foo":1})"},
      {"table.csv", "a,b\n1,2\n"},
  };
  write_claims(texts);
  write_run("b3_300", "a.md", "nothing\n");
  for (const char* name : {"b", "c.log", "d.json", "e/../f.txt"})
    folder.write(root + "b3_300/" + name, name == std::string("d.json") ? "{}" : "nothing\n");
  take();
  for (size_t i = 0; i < std::size(texts); ++i) {
    EXPECT_EQ(of_run("b3_" + std::to_string(100 + i), "verdict || '; ' || unjudged_texts"),
              "PASS; 1 text beside it was not judged: " + std::string(texts[i].file));
  }
  EXPECT_EQ(of_run("b3_300", "unjudged_texts"),
            "5 texts beside it were not judged: a.md, b, c.log and 2 more");
  EXPECT_EQ(rows("SELECT CAST(raw AS TEXT) FROM ingest_error WHERE file LIKE '%/foo.json'"),
            R"({"foo":1})");
  EXPECT_EQ(rows("SELECT unjudged_texts FROM gate WHERE run = '2026-02-07/b3_300'"),
            of_run("b3_300", "unjudged_texts"));
}

TEST_F(Verdict, ATextThatStatesNothingMakesNoRun) {
  for (const char* file : {"x/foo.json", "x/foo.jsonl", "x/notes.md", "x/engine.log", "x/a.csv"})
    folder.write(
        file, std::string(file).find("json") == std::string::npos ? "a: b\n1\n" : "{\"foo\": 1}\n");
  for (const char* file : {"b3_400/foo.json", "b3_401/foo.jsonl"})
    folder.write(root + file, "{\"foo\": 1}\n");
  EXPECT_EQ(take("x").taken, 0);
  const IngestSummary named = take();
  EXPECT_EQ(named.taken, 0);
  EXPECT_EQ(named.new_sources, 0);
  EXPECT_EQ(count("run") + count("source") + count("run_metric"), 0);
  EXPECT_EQ(count("ingest_error", "severity = 'warning' AND length(raw) > 0"), 7);
  EXPECT_EQ(take().known_warnings, 2);
}

TEST_F(Verdict, ATextIsBesideARunThatComesLaterAndIsKeptAsItWasLast) {
  folder.write(root + "b3_1/notes.md", "first\n");
  take();
  folder.write(root + "b3_1/notes.md", "second\n");
  write_run("b3_1", "notes.md", "second\n");
  take();
  EXPECT_EQ(of_run("b3_1", "verdict || '; ' || unjudged_texts"),
            "PASS; 1 text beside it was not judged: notes.md");
  EXPECT_EQ(rows("SELECT CAST(raw AS TEXT) FROM ingest_error"), "second\n");
}

TEST_F(Verdict, AProgramIsNoTextOfARun) {
  const Claim programs[] = {{"run.sh", "#!/bin/sh\nfail() { echo RESULT: FAIL; exit 1; }\n"},
                            {"check.py", "print('RESULT: FAIL')\n"},
                            {"probe", "#!/usr/bin/env python3\nprint('RESULT: FAIL')\n"},
                            {"dirty.patch", "+RESULT: FAIL\n"}};
  write_claims(programs);
  take();
  expect_all_pass(programs);
  EXPECT_EQ(rows("SELECT count(unjudged_texts) FROM run_verdict"), "0");
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

}  // namespace
}  // namespace greta
