#include "ingest/source_content.h"

#include <string>

#include "db/check.h"
#include "tests/ingest/importing.h"

namespace greta {
namespace {

using Rows = Importing;

TEST_F(Rows, HashesSurviveToTheView) {
  std::string text;
  const std::vector<std::string> hashes = {"1", "9223372036854775807", "9223372036854775808",
                                           "18446744073709551615"};
  for (size_t i = 0; i < hashes.size(); ++i) {
    text += std::string(StageLine{.layer = static_cast<int64_t>(i), .hash = hashes[i]}) + "\n";
  }
  folder.write(kRun + "traces/p0_short_trace.jsonl", text);
  take();
  EXPECT_EQ(rows("SELECT hash FROM trace ORDER BY layer"),
            "1\n9223372036854775807\n9223372036854775808\n18446744073709551615");
}

TEST_F(Rows, RepeatsAreCountedAndConflictsKept) {
  const std::string other = StageLine{.hash = "12"};
  const std::string trace = std::string(StageLine{}) + "\n" + std::string(StageLine{}) + "\n" +
                            other + "\n" + other + "\n";
  folder.write(kRun + "traces/p0_short_trace.jsonl", trace);
  const IngestSummary summary = take();
  EXPECT_EQ(summary.rows, 2);
  EXPECT_EQ(summary.duplicates, 2);
  EXPECT_EQ(summary.conflicts, 1);
  EXPECT_EQ(rows("SELECT hash, occurrence, seen FROM trace ORDER BY occurrence"), "11|0|2\n12|1|2");
  EXPECT_EQ(findings(), "warning 3 a row with this key but other content is there; both are kept");
  EXPECT_EQ(rows("SELECT lines, rows, duplicates, conflicts FROM source"), "4|4|2|1");
}

TEST_F(Rows, ADifferentReadoutOfAConflictIsNotLost) {
  const auto line = [](int hash, int top1) {
    return R"({"phase":"decode","step":1,"pos_id":5,"hidden_hash":1,"logits_hash":)" +
           std::to_string(hash) + R"(,"top1_id":)" + std::to_string(top1) + "}\n";
  };
  folder.write("artifacts_remote/2026-02-03/b3_11/readout/a.jsonl",
               readout(4, 1) + line(1, 79) + line(2, 96965));
  EXPECT_EQ(take().conflicts, 1);
  EXPECT_GT(count("ingest_error", "reason LIKE '%96965%'") + count("readout", "top1_id = 96965") +
                count("row_context", "extra LIKE '%96965%'"),
            0);
}

TEST_F(Rows, AFileThatGrowsIsFinishedLater) {
  const std::string trace = small_trace();
  const fs::path file =
      folder.write(kRun + "traces/p0_short_trace.jsonl", trace.substr(0, trace.size() - 30));
  const IngestSummary early = take();
  EXPECT_EQ(early.rows, 3);
  EXPECT_EQ(early.errors, 1);
  EXPECT_EQ(early.findings.at(0).line, 4);
  folder.write(kRun + "traces/p0_short_trace.jsonl", trace);
  const IngestSummary late = take();
  EXPECT_EQ(late.rows, 1);
  EXPECT_EQ(late.duplicates, 3);
  EXPECT_EQ(late.errors, 0);
  EXPECT_EQ(count("trace_row"), 4);
  EXPECT_EQ(rows("SELECT pairs, pass, fail, missing FROM run_verdict"), "2|1|1|0");
}

TEST_F(Rows, EveryKindOfLineIsAccountedFor) {
  folder.write(kRun + "traces/p0_short_trace.jsonl",
               "\xEF\xBB\xBF" + small_trace() + "\r\n\n{\"event\":\"wo_verify\"}\r\n[1]\n" +
                   std::string(StageLine{}) + std::string(StageLine{}) + "\n" +
                   small_trace("p1").substr(0, 500));
  take();
  expect_every_line_accounted_for(db);
  EXPECT_EQ(check_database(db), std::vector<std::string>());
}

TEST_F(Rows, LinesThatGaveNoRowAreCappedAndCountedExactly) {
  std::string text;
  for (int i = 0; i < 2500; ++i) {
    text += "bad " + std::to_string(i) + "\n";
    if (i % 1000 == 999) text += std::string(StageLine{.pos = i}) + "\n";
  }
  folder.write(kRun + "traces/p0_trace.jsonl", text);
  EXPECT_EQ(take().rows, 2);
  EXPECT_EQ(count("ingest_error", "raw IS NOT NULL"), 1000);
  EXPECT_EQ(rows("SELECT line, severity, reason FROM ingest_error WHERE raw IS NULL"),
            "1002|error|1500 lines from here on gave no row either; the 1000 before them are kept");
}

TEST_F(Rows, WarningsOfRowsAreNotCapped) {
  std::string text;
  for (int i = 0; i < 1500; ++i)
    text += std::string(StageLine{.pos = i, .more = R"(,"min":nan)"}) + "\n";
  folder.write(kRun + "traces/p0_trace.jsonl", text);
  EXPECT_EQ(take().rows, 1500);
  EXPECT_EQ(count("ingest_error", "raw IS NOT NULL"), 1500);
}

TEST_F(Rows, RowsKeepTheirContextHoweverManyThereAre) {
  std::string text;
  auto add = [&text, line = int64_t{0}](int route) mutable {
    const std::string name = std::to_string(route);
    text +=
        std::string(StageLine{.pos = ++line, .hash = name, .more = ",\"route\":\"" + name + "\""}) +
        "\n";
  };
  for (int i = 1; i <= 100'100; ++i) {
    add(i);
    if (i % 9'000 == 0) add(1);
  }
  folder.write(kRun + "traces/p0_trace.jsonl", text);
  EXPECT_EQ(take().rows, 100'100 + 11);
  EXPECT_EQ(count("trace", "route IS NOT hash"), 0);
  EXPECT_EQ(count("trace", "route = '1'"), 12);
}

TEST_F(Rows, AFileThatNamesTooMuchKeepsItsFirstAndTheRestAsText) {
  std::string text;
  for (int i = 0; i < 4010; ++i)
    text += std::string(StageLine{.point = "t" + std::to_string(i)}) + "\n";
  text += std::string(StageLine{.point = "t5", .layer = 1}) + "\n";
  text += std::string(StageLine{.point = std::string(1025, 'x')}) + "\n";
  folder.write(kRun + "traces/p0_trace.jsonl", text);
  EXPECT_EQ(take().rows, 4001);
  EXPECT_EQ(count("ingest_error", "severity = 'error' AND CAST(raw AS TEXT) LIKE '{\"event\"%'"),
            11);
}

TEST_F(Rows, ColumnsWrittenTwiceAreNamedAndJudgeNothing) {
  folder.write(kRun + "t.tsv",
               "prompt\tlayer\ttensor\tfirst_fail\tfirst_fail\np0\t0\tx\t-\tX_DRIFT\n");
  EXPECT_EQ(take().report_pairs, 0);
  EXPECT_EQ(rows("SELECT severity, line, reason FROM ingest_error"),
            "warning|1|columns written twice, so that the table judges nothing: first_fail");
  EXPECT_EQ(rows("SELECT json_extract(cells, '$.\"first_fail (2)\"') FROM document_row"),
            "X_DRIFT");
}

TEST_F(Rows, ARowThatIsTooWideIsCutWithAFinding) {
  folder.write(kRun + "t.tsv", "a\tb\n" + std::string(5000, '\t') + "\n1\t2\n");
  take();
  EXPECT_EQ(count("document_row"), 2);
  EXPECT_EQ(rows("SELECT severity, line FROM ingest_error"), "error|2");
}

TEST_F(Rows, ARunThatBringsTooManyNamesNeverCrowdsOutAnother) {
  for (int file = 0; file < 6; ++file) {
    std::string text;
    for (int i = 0; i < 900; ++i) {
      text +=
          std::string(StageLine{.point = "t" + std::to_string(file) + "_" + std::to_string(i)}) +
          "\n";
    }
    folder.write(kRun + "traces/p" + std::to_string(file) + "_trace.jsonl", text);
  }
  folder.write("artifacts_remote/2026-02-08/b3_99/traces/p0_trace.jsonl",
               std::string(StageLine{.point = "our_own"}) + "\n" +
                   std::string(StageLine{.phase = "decode0", .point = "our_own", .step = 1}) +
                   "\n");
  const IngestSummary summary = take();
  const int64_t stored = count("trace_row");
  EXPECT_GT(stored, 3'900);
  EXPECT_LT(stored, 4'300);
  EXPECT_EQ(count("trace", "tensor = 'our_own'"), 2);
  EXPECT_EQ(summary.errors, 5'402 - stored);
  EXPECT_EQ(count("ingest_error", "severity = 'error' AND line > 0 AND raw IS NOT NULL"),
            5'402 - stored);
  EXPECT_EQ(count("ingest_error", "severity = 'warning' AND reason LIKE 'run %brings more%'"), 2);
}

TEST_F(Rows, LinesFencedInADocumentAreRows) {
  folder.write(kRun + "notes.md", "# B3.66 notes\n\n```\n" + small_trace() + "{\"cut\":\n```\n");
  EXPECT_EQ(take().rows, 4);
  EXPECT_EQ(rows("SELECT DISTINCT source_line FROM trace ORDER BY 1"), "4\n5\n6\n7");
  EXPECT_EQ(take().known_sources, 1);
}

TEST_F(Rows, LinesAmidALogOrATextAreRowsThatOnlyItStates) {
  const std::string lines = std::string(StageLine{.more = ",\"max\":nan"}) + "\n" +
                            std::string(StageLine{.phase = "decode0", .step = 1}) + "\n";
  folder.write(kRun + "run.log", "[GRETA_TRACE_D2H] step=0\n" + lines + "Generated: O\n");
  folder.write("artifacts_remote/2026-02-08/b3_67/notes.txt",
               "B3.67\n\n" + lines + "Date: today\n");
  take();
  EXPECT_EQ(rows("SELECT count(*), sum(flags & 8 <> 0), sum(flags & 1) FROM trace_row"), "4|4|2");
  EXPECT_EQ(rows("SELECT verdict, first_fail FROM run_verdict"),
            "FAIL|ATTN_OUT_DRIFT\nFAIL|ATTN_OUT_DRIFT");
  EXPECT_EQ(count("log_event"), 1);
}

TEST_F(Rows, ALineThatALogBreaksOffIsKeptAsAnError) {
  const std::string line = StageLine{};
  folder.write(kRun + "run.log", "[GRETA_TRACE_D2H] step=0\n" + line.substr(0, 60) + "\n");
  EXPECT_EQ(take().errors, 1);
  EXPECT_EQ(rows("SELECT line, CAST(raw AS TEXT) FROM ingest_error"), "2|" + line.substr(0, 60));
}

TEST_F(Rows, ATextOfNothingButTraceLinesIsATraceWhateverItsName) {
  for (const char* name : {"traces/p0_trace.log", "traces/p1_trace.txt"}) {
    folder.write(kRun + name, small_trace(name, 37));
  }
  EXPECT_EQ(take().errors, 0);
  EXPECT_EQ(rows("SELECT count(*), sum(flags & 8) FROM trace_row"), "8|0");
}

TEST_F(Rows, BinaryContentUnderTheNameOfATextIsNamed) {
  const std::string bytes("result: PASS,\n1,\0\nSTATUS=1\n", 27);
  for (const char* name : {"t.csv", "t.tsv", "d.md", "l.log"})
    folder.write(kRun + name, bytes + name);
  take();
  EXPECT_EQ(count("ingest_error", "severity = 'warning' AND reason LIKE 'binary content%'"), 4);
}

}  // namespace
}  // namespace greta
