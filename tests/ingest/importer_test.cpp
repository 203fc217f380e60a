#include "ingest/importer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <random>
#include <system_error>
#include <thread>

#include "tests/ingest/ingest_fixture.h"

namespace greta {
namespace {

const std::string kRun = "artifacts_remote/2026-02-07/b3_66/";

struct Importing : testing::Test {
  Folder folder;
  SQLite::Database db = open_for_writing(folder / "g.db");

  IngestSummary take(const std::string& relative = "artifacts_remote", int jobs = 1) {
    return ingest_all(db, {folder / relative}, jobs);
  }
  std::string rows(const std::string& sql) { return text_of(db, sql); }
  int64_t count(const std::string& table, const std::string& where = "1") {
    return number_of(db, "SELECT count(*) FROM " + table + " WHERE " + where);
  }
  /// "error|warning line reason" of every finding.
  std::string findings() {
    return rows("SELECT severity || ' ' || line || ' ' || reason FROM ingest_error ORDER BY id");
  }
};

// ---- identity and idempotence -------------------------------------------------------------------

using Identity = Importing;

TEST_F(Identity, TheSameFileAgainIsKnown) {
  folder.write(kRun + "traces/p0_short_trace.jsonl", small_trace());
  const IngestSummary first = take();
  EXPECT_EQ(first.files, 1);
  EXPECT_EQ(first.new_sources, 1);
  EXPECT_EQ(first.rows, 4);
  const std::string before = dump(db);
  const IngestSummary again = take();
  EXPECT_EQ(again.known_sources, 1);
  EXPECT_EQ(again.new_sources + again.rows + again.duplicates, 0);
  EXPECT_TRUE(same_dump(before, dump(db)));
}

TEST_F(Identity, EqualBytesOfAnotherRunAreAnotherSource) {
  folder.write("artifacts_remote/2026-02-07/b3_66/traces/p0_short_trace.jsonl", small_trace());
  folder.write("artifacts_remote/2026-02-08/b3_66/traces/p0_short_trace.jsonl", small_trace());
  folder.write("artifacts_remote/2026-02-07/b3_66/seed_1/p0_short_trace.jsonl", small_trace());
  EXPECT_EQ(take().new_sources, 3);
  EXPECT_EQ(rows("SELECT run, pairs, pass, fail FROM run_verdict ORDER BY run"),
            "2026-02-07/b3_66|2|1|1\n2026-02-07/b3_66/seed_1|2|1|1\n2026-02-08/b3_66|2|1|1");
}

TEST_F(Identity, EqualBytesOfAnotherLegOrPromptAreAnotherSource) {
  const std::string line =
      std::string(
          R"({"event":"stage_trace","point":"x_in","layer":0,"pos_id":1,"step":0,"hash":1})") +
      "\n";
  folder.write(kRun + "prefill/p0_trace.jsonl", line);
  folder.write(kRun + "decode/p0_trace.jsonl", line);
  folder.write(kRun + "decode/p1_trace.jsonl", line);
  EXPECT_EQ(take().new_sources, 3);
  EXPECT_EQ(rows("SELECT prompt, phase FROM trace ORDER BY prompt, phase"),
            "p0|decode\np0|prefill\np1|decode");
}

TEST_F(Identity, PlainAndGzipOfOneContentAreOneSource) {
  folder.write(kRun + "traces/p0_short_trace.jsonl", small_trace());
  folder.write(kRun + "traces/p0_short_trace.jsonl.gz", gzipped(small_trace()));
  const IngestSummary summary = take();
  EXPECT_EQ(summary.new_sources, 1);
  EXPECT_EQ(summary.known_sources, 1);
  EXPECT_EQ(count("source"), 1);
  EXPECT_EQ(count("source_location"), 2);
  EXPECT_EQ(count("source_location", "raw_sha256 IS NOT NULL"), 2);
}

TEST_F(Identity, AnArchiveMemberAndItsLooseTwinAreOneSource) {
  const std::string member =
      "root/gretacore/artifacts/alignment/2026-02-03/b3_11_readout_consistency.jsonl";
  const std::string line =
      R"({"phase":"prefill_last","step":0,"pos_id":4,"tokens_total":5,"hidden_hash":1})"
      "\n";
  for (const bool archive_first : {true, false}) {
    Folder tree;
    const std::string run = "artifacts_remote/2026-02-03/b3_11/";
    const fs::path loose = tree.write(run + member, line);
    const fs::path archive = tree.write(run + "runs.tgz", gzipped(tarred({{member, line}})));
    SQLite::Database own = open_for_writing(tree / "own.db");
    const IngestSummary summary =
        ingest_all(own, archive_first ? std::vector{archive, loose} : std::vector{loose, archive});
    EXPECT_EQ(summary.new_sources, 1);
    EXPECT_EQ(summary.known_sources, 1);
    EXPECT_EQ(text_of(own,
                      "SELECT count(*), count(DISTINCT source_id), sum(path LIKE "
                      "'%runs.tgz!root/%') FROM source_location"),
              "2|1|1");
    EXPECT_EQ(number_of(own, "SELECT count(*) FROM run"), 1);
  }
}

TEST_F(Identity, AnotherRootIsAnotherLocation) {
  folder.write(kRun + "traces/p0_short_trace.jsonl", small_trace());
  take();
  const std::string before = dump(db, {"source_location"});
  folder.write("backup/of/2026-02-07/b3_66/traces/p0_short_trace.jsonl", small_trace());
  EXPECT_EQ(take("backup").known_sources, 1);
  EXPECT_TRUE(same_dump(before, dump(db, {"source_location"})));
  EXPECT_EQ(count("source_location"), 2);
}

TEST_F(Identity, TwoEmptyFilesAreTwoFindings) {
  folder.write(kRun + "prefill/logits.jsonl.gz", gzipped(""));
  folder.write(kRun + "decode/logits.jsonl.gz", gzipped(""));
  folder.write(kRun + "decode/other.jsonl", "");
  folder.write(kRun + "decode/more.jsonl.gz", "");
  folder.write(kRun + "decode/most.jsonl.gz", "");
  const IngestSummary summary = take();
  EXPECT_EQ(summary.warnings, 3);
  EXPECT_EQ(summary.errors, 2);
  EXPECT_EQ(count("ingest_error"), 5);
  const std::string before = dump(db);
  EXPECT_EQ(take().warnings, 0);
  EXPECT_TRUE(same_dump(before, dump(db)));
  EXPECT_EQ(count("run_verdict", "verdict = 'PASS'"), 0);

  fs::copy(folder / "artifacts_remote", folder / "copy", fs::copy_options::recursive);
  const IngestSummary copy = take("copy");
  EXPECT_EQ(copy.warnings + copy.errors, 0);
  EXPECT_EQ(count("ingest_error"), 5);
}

TEST_F(Identity, DamageOfAKnownContentIsStillAFinding) {
  std::string broken = gzipped(small_trace());
  broken[broken.size() - 8] = static_cast<char>(broken[broken.size() - 8] ^ 1);  // CRC
  folder.write(kRun + "a/p0_short_trace.jsonl", small_trace());
  folder.write(kRun + "a/p0_short_trace.jsonl.gz", broken);
  const IngestSummary summary = take();
  EXPECT_EQ(summary.rows, 4);
  EXPECT_EQ(summary.errors, 1);
  EXPECT_EQ(findings(), "error 0 gzip CRC does not match");
}

TEST_F(Identity, AFileOfUnknownShapeIsListed) {
  folder.write(kRun + "model.bin", std::string("\0\1\2", 3));
  folder.write(kRun + "README", "hello\n");
  const IngestSummary summary = take();
  EXPECT_EQ(summary.files, 2);
  EXPECT_EQ(summary.warnings, 2);
  ASSERT_EQ(summary.findings.size(), 2u);
  EXPECT_TRUE(summary.findings[0].file.ends_with("b3_66/README"));
  EXPECT_EQ(count("source"), 0);
}

TEST_F(Identity, AFileWithoutIdentityMatchesByContent) {
  folder.write(kRun + "traces/p0_short_trace.jsonl", small_trace());
  folder.write("download/trace (1).jsonl", small_trace());
  take();
  const IngestSummary summary = take("download");
  EXPECT_EQ(summary.known_sources, 1);
  EXPECT_EQ(count("run"), 1);
  EXPECT_EQ(count("source_location"), 2);
}

TEST_F(Identity, AFileWithoutIdentityAndUnknownContentHasARunOfItsOwn) {
  folder.write("x/trace.jsonl", small_trace("p0"));
  folder.write("y/trace.jsonl", small_trace("p1"));
  EXPECT_EQ(take("x").rows + take("y").rows, 8);
  EXPECT_EQ(count("run"), 2);
  EXPECT_EQ(count("run", "name GLOB 'undated/trace/*'"), 2);
  const std::string before = dump(db);
  take("x");
  EXPECT_TRUE(same_dump(before, dump(db)));
}

TEST_F(Identity, TheRunCanBeGiven) {
  folder.write("x/prefill/p0_trace.jsonl", small_trace("p0"));
  IngestOptions options;
  options.run = "2026-02-09/b3_90/kv_aligned";
  ingest(db, {folder / "x"}, options);
  EXPECT_EQ(rows("SELECT name, experiment, date, mode FROM run"),
            "2026-02-09/b3_90/kv_aligned|b3_90|2026-02-09|kv_aligned");
  EXPECT_EQ(rows("SELECT leg, prompt FROM source"), "prefill|p0");
}

TEST_F(Identity, ADirectoryNamedLikeAnOption) {
  const std::string metadata =
      R"({"dtype":"bf16","seed":0,"kv_aligned":0,"timestamp":"2026-02-08T03:12:05Z"})";
  folder.write("artifacts_remote/--seeds/b3_67/runs/kv_aligned_0/seed_0/decode/metadata.json",
               metadata);
  folder.write("artifacts_remote/2026-02-08/b3_67/runs/kv_aligned_0/seed_0/decode/metadata.json",
               metadata);
  const IngestSummary summary = take();
  EXPECT_EQ(summary.new_sources, 2);
  EXPECT_EQ(summary.warnings, 1);
  EXPECT_EQ(rows("SELECT name, date, dtype, seed FROM run WHERE seed IS NOT NULL ORDER BY name"),
            "--seeds/b3_67/kv_aligned_0/seed_0|2026-02-08|bf16|0\n2026-02-08/b3_67/kv_aligned_0/"
            "seed_0|2026-02-08|bf16|0");
}

TEST_F(Identity, NamesThatAreNotUtf8) {
  folder.write("artifacts_remote/2026-02-07/b3_66/\xff\xfe/p\xc6_trace.jsonl", small_trace());
  EXPECT_EQ(take().rows, 4);
  EXPECT_EQ(take().known_sources, 1);
}

// ---- archives -----------------------------------------------------------------------------------

using Archives = Importing;

TEST_F(Archives, AMemberThatIsDamagedOfItselfIsAFinding) {
  std::string broken = gzipped(small_trace("p1"));
  broken[broken.size() - 8] = static_cast<char>(broken[broken.size() - 8] ^ 1);
  folder.write(kRun + "runs.tgz", gzipped(tarred({{"decode/logits.jsonl.gz", ""},
                                                  {"a/p1_trace.jsonl.gz", broken},
                                                  {"b/p2_trace.jsonl", small_trace("p2")}})));
  const IngestSummary summary = take();
  EXPECT_EQ(summary.files, 3);
  EXPECT_EQ(summary.rows, 8);
  EXPECT_EQ(summary.errors, 2);
  EXPECT_EQ(findings(), "error 0 not a gzip stream (0 bytes)\nerror 0 gzip CRC does not match");
  const std::string before = dump(db);
  take();
  EXPECT_TRUE(same_dump(before, dump(db)));
}

TEST_F(Archives, ACutArchiveGivesItsWholeMembers) {
  std::string noise(200'000, ' ');
  std::mt19937 random(1);
  for (char& c : noise) c = static_cast<char>('a' + random() % 26);
  const std::string archive =
      gzipped(tarred({{"a/p0_short_trace.jsonl", small_trace()}, {"b/notes.md", noise}}));
  folder.write(kRun + "runs.tgz", archive.substr(0, archive.size() / 2));
  const IngestSummary summary = take();
  EXPECT_EQ(summary.rows, 4);
  EXPECT_EQ(summary.errors, 1);
  EXPECT_NE(findings().find("b/notes.md"), std::string::npos) << findings();
  folder.write(kRun + "runs.tgz", archive);  // fetched again
  EXPECT_EQ(take().new_sources, 1);
  EXPECT_EQ(count("source"), 2);
}

TEST_F(Archives, AnArchiveInAnArchiveIsListed) {
  folder.write(kRun + "runs.tgz",
               gzipped(tarred({{"in.tgz", gzipped(tarred({{"p0_trace.jsonl", small_trace()}}))}})));
  EXPECT_EQ(take().warnings, 1);
  EXPECT_EQ(count("source"), 0);
}

// ---- what sources say about a run ---------------------------------------------------------------

using Facts = Importing;

std::string readout(int pos, int hash) {
  return R"({"phase":"prefill_last","step":0,"pos_id":)" + std::to_string(pos) +
         R"(,"tokens_total":)" + std::to_string(pos + 1) + R"(,"hidden_hash":)" +
         std::to_string(hash) + "}\n";
}
std::string log_of(int prompt_tokens) {
  return "[GRETA_TRACE_D2H] step=0 offset=1\nPrompt: Hi\nGenerated: O\n\nStatistics:\n  Prompt "
         "tokens: " +
         std::to_string(prompt_tokens) + "\n";
}

TEST_F(Facts, ALogNamesTheSegmentOfItsLengthWhicheverComesFirst) {
  const std::string run = "artifacts_remote/2026-02-03/b3_11/";
  const fs::path lines =
      folder.write(run + "b3_11_readout.jsonl", readout(204, 1) + readout(44, 2));
  const fs::path p4 = folder.write(run + "b3_11_p4_sys.log", log_of(205));
  const fs::path p5 = folder.write(run + "b3_11_p5_ba.log", log_of(45));
  for (const auto& order : {std::vector{lines, p4, p5}, {p4, p5, lines}, {p5, lines, p4}}) {
    Folder own;
    SQLite::Database other = open_for_writing(own / "g.db");
    for (const fs::path& path : order) ingest_all(other, {path});
    EXPECT_EQ(text_of(other, "SELECT DISTINCT pos_id, prompt FROM trace ORDER BY pos_id"),
              "44|p5_ba\n204|p4_sys");
    EXPECT_EQ(text_of(other, "SELECT name, n_tokens FROM prompt ORDER BY name"),
              "p4_sys|205\np5_ba|45");
  }
}

TEST_F(Facts, PathBeatsPerfBeatsMetadataBeatsConfigAbove) {
  const std::string run =
      "artifacts_remote/2026-02-09/b3_70/runs/span_32/dtype_fp16/kv_aligned_0/seed_0/decode/";
  folder.write(
      "artifacts_remote/2026-02-09/b3_70/runs/config.json",
      R"({"git_commit":"a6f7107","host":"above","gen_len":1,"prompt_len":1,"timestamp":"2026-02-09T00:00:00Z"})");
  folder.write(run + "metadata.json", R"({"dtype":"bf16","seed":7,"host":"leaf","gen_len":2})");
  folder.write(run + "perf.json", R"({"dtype":"f32","host":"perf","wall_time_sec":41.5})");
  take();
  EXPECT_EQ(rows("SELECT dtype, seed, commit_sha, date, mode FROM run WHERE name LIKE '%seed_0'"),
            "fp16|0|a6f7107|2026-02-09|as_designed");
  EXPECT_EQ(rows("SELECT value, rank FROM attribute WHERE dim = 'dtype' ORDER BY rank"),
            "fp16|0\nf32|1\nbf16|2");
  EXPECT_EQ(rows("SELECT value, rank FROM attribute WHERE dim = 'seed' ORDER BY rank"), "0|0\n7|2");
  EXPECT_EQ(rows("SELECT value FROM attribute WHERE dim = 'host' ORDER BY rank, id"),
            "perf\nabove\nleaf");
  EXPECT_EQ(rows("SELECT name, value, leg FROM run_metric"), "wall_time_sec|41.5|decode");
}

TEST_F(Facts, TheNearestConfigGivesTheCommit) {
  folder.write("artifacts_remote/2026-02-08/b3_67/config.json",
               R"({"git_commit":"4a57383","seed":0})");
  folder.write("artifacts_remote/2026-02-08/b3_67/runs/seed_1/config.json",
               R"({"git_commit":"d47c8f3"})");
  folder.write("artifacts_remote/2026-02-08/b3_67/runs/seed_2/p0_trace.jsonl", small_trace());
  take();
  EXPECT_EQ(
      rows("SELECT name, commit_sha FROM run ORDER BY name"),
      "2026-02-08/b3_67|4a57383\n2026-02-08/b3_67/seed_1|d47c8f3\n2026-02-08/b3_67/seed_2|4a57383");
}

TEST_F(Facts, ADocumentThatComesLaterGivesTheCommit) {
  folder.write(kRun + "traces/p0_short_trace.jsonl", small_trace());
  take();
  EXPECT_EQ(rows("SELECT commit_sha FROM run"), "-");
  folder.write(kRun + "b3_66_analysis.txt", "B3.66 AUDIT\n\nCommit: e09989c\n");
  take();
  EXPECT_EQ(rows("SELECT commit_sha FROM run"), "e09989c");
}

TEST_F(Facts, ASyntheticCommitIsNoCommit) {
  folder.write(kRun + "config.json", R"({"git_commit":"synthetic"})");
  take();
  EXPECT_EQ(rows("SELECT commit_sha, synthetic FROM run"), "-|1");
}

TEST_F(Facts, LinesFencedInADocumentAreRows) {
  folder.write(kRun + "notes.md", "# B3.66 notes\n\n```\n" + small_trace() + "{\"cut\":\n```\n");
  EXPECT_EQ(take().rows, 4);
  EXPECT_EQ(rows("SELECT DISTINCT source_line FROM trace ORDER BY 1"), "4\n5\n6\n7");
  EXPECT_EQ(take().known_sources, 1);
}

// ---- rows ---------------------------------------------------------------------------------------

using Rows = Importing;

TEST_F(Rows, HashesSurviveToTheView) {
  std::string text;
  const std::vector<std::string> hashes = {"0", "9223372036854775807", "9223372036854775808",
                                           "18446744073709551615"};
  for (size_t i = 0; i < hashes.size(); ++i) {
    text += std::string(StageLine{.layer = static_cast<int64_t>(i), .hash = hashes[i]}) + "\n";
  }
  folder.write(kRun + "traces/p0_short_trace.jsonl", text);
  take();
  EXPECT_EQ(rows("SELECT hash FROM trace ORDER BY layer"),
            "0\n9223372036854775807\n9223372036854775808\n18446744073709551615");
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

// ---- large inputs -------------------------------------------------------------------------------

/// A trace of more than 32 MiB, most of it blanks behind its lines, so that it has few of them.
std::string large_trace(size_t bytes = 33u << 20) {
  const std::string blanks(16'000, ' ');
  std::string text;
  text.reserve(bytes + 20'000);
  for (int64_t pos = 0; text.size() <= bytes; ++pos) {
    text +=
        std::string(StageLine{.pos = pos, .n = 3, .more = ",\"sample\":[0.5,1,2]"}) + blanks + "\n";
  }
  return text;
}

using Large = Importing;

TEST_F(Large, WhatDoesNotFitIsStreamedWithTheSameResult) {
  const std::string trace = "\xEF\xBB\xBF" + large_trace();
  const int64_t lines = std::count(trace.begin(), trace.end(), '\n');
  folder.write(kRun + "traces/p0_short_trace.jsonl", trace);
  const IngestSummary first = take("artifacts_remote", 2);
  EXPECT_EQ(first.rows, lines);
  EXPECT_EQ(first.errors + first.warnings, 0);
  EXPECT_EQ(
      rows("SELECT lines, rows, bytes FROM source"),
      std::to_string(lines) + "|" + std::to_string(lines) + "|" + std::to_string(trace.size()));
  const std::string before = dump(db);
  EXPECT_EQ(take("artifacts_remote", 2).known_sources, 1);
  EXPECT_TRUE(same_dump(before, dump(db)));

  const std::string before_gz = dump(db, {"source_location"});

  // The same bytes compressed: only their end tells that they are known.
  folder.write("gz/2026-02-07/b3_66/traces/p0_short_trace.jsonl.gz", gzipped(trace, 1));
  for (int i = 0; i < 2; ++i) {
    const IngestSummary again = take("gz", 2);
    EXPECT_EQ(again.known_sources, 1);
    EXPECT_EQ(again.new_sources + again.rows + again.duplicates, 0);
    EXPECT_EQ(count("source_location"), 2);
    EXPECT_EQ(count("source"), 1);
    EXPECT_EQ(count("trace_row"), lines);
  }
  EXPECT_EQ(check_database(db), std::vector<std::string>());
}

TEST_F(Large, ACompressedOneIsStreamedToo) {
  const std::string trace = large_trace();
  folder.write(kRun + "traces/p0_short_trace.jsonl.gz", gzipped(trace, 1));
  folder.write(kRun + "more/x.jsonl", "");
  EXPECT_EQ(take("artifacts_remote", 1).rows, std::count(trace.begin(), trace.end(), '\n'));
  const std::string before = dump(db);
  EXPECT_EQ(take("artifacts_remote", 2).new_sources, 0);
  EXPECT_TRUE(same_dump(before, dump(db)));
}

TEST_F(Large, AFileWithoutIdentityMatchesByContentToo) {
  const std::string trace = large_trace();
  folder.write(kRun + "traces/p0_short_trace.jsonl", trace);
  folder.write("download/trace.jsonl", trace);
  take();
  EXPECT_EQ(take("download").known_sources, 1);
  EXPECT_EQ(count("run"), 1);
  EXPECT_EQ(count("source_location"), 2);
}

TEST_F(Large, ALineOverTheCapIsAFindingAndTheRestIsRead) {
  const std::string overlong =
      StageLine{.more = ",\"x\":\"" + std::string((32u << 20) + (2u << 20), 'x') + "\""};
  folder.write(kRun + "traces/p0_short_trace.jsonl", std::string(StageLine{}) + "\n" + overlong +
                                                         "\n" + std::string(StageLine{.layer = 1}) +
                                                         "\n");
  const IngestSummary summary = take();
  EXPECT_EQ(summary.rows, 2);
  EXPECT_EQ(summary.errors, 1);
  EXPECT_EQ(rows("SELECT line, length(raw) FROM ingest_error"), "2|1048576");
  EXPECT_EQ(rows("SELECT lines FROM source"), "3");
  EXPECT_EQ(rows("SELECT source_line FROM trace ORDER BY 1"), "1\n3");
}

TEST_F(Large, ADocumentTooLargeIsAnError) {
  folder.write(kRun + "report.md", std::string((32u << 20) + 10, 'x'));
  EXPECT_EQ(take().errors, 1);
  EXPECT_EQ(count("source"), 0);
}

// ---- what is no regular file --------------------------------------------------------------------

using Odd = Importing;

TEST_F(Odd, WhatIsNoRegularFileIsAFindingAndNotOpened) {
  folder.write(kRun + "traces/p0_short_trace.jsonl", small_trace());
  for (const char* name : {"traces/fifo.jsonl", "fifo.tgz", "fifo"}) {
    ASSERT_EQ(mkfifo((folder / (kRun + name)).c_str(), 0600), 0);
  }
  fs::create_symlink("/dev/zero", folder / (kRun + "zero.jsonl"));
  fs::create_symlink("nowhere", folder / (kRun + "dangling.jsonl"));
  const IngestSummary summary = take();
  EXPECT_EQ(summary.rows, 4);
  EXPECT_EQ(summary.errors, 5);
  const std::string before = dump(db);
  EXPECT_EQ(take().errors, 0);  // each is listed already
  EXPECT_TRUE(same_dump(before, dump(db)));
}

TEST_F(Odd, ALinkedDirectoryIsNotPassedOverInSilence) {
  folder.write("elsewhere/p0_short_trace.jsonl", small_trace());
  folder.write(kRun + "notes.md", "# B3.66\n");
  fs::create_directory_symlink(folder / "elsewhere", folder / (kRun + "link"));
  fs::create_directory_symlink(folder / kRun, folder / (kRun + "loop"));
  take();
  EXPECT_EQ(count("source_location", "path LIKE '%/link/%'") +
                count("ingest_error", "file LIKE '%/link'"),
            1);
  EXPECT_EQ(count("ingest_error", "file LIKE '%/loop'"), 1);
}

TEST_F(Odd, AGivenPathThatDoesNotExistIsAnError) {
  EXPECT_THROW(take("nowhere"), std::system_error);
  EXPECT_EQ(count("ingest_error"), 0);
}

/// Runs body in a child process and returns how that ended: its exit status, or 128 + signal.
int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    int status = 99;
    try {
      status = body();
    } catch (...) {
    }
    _exit(status);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_F(Odd, WhatMayNotBeReadIsAFinding) {
  folder.write(kRun + "traces/p0_short_trace.jsonl", small_trace());
  folder.write(kRun + "traces/secret_trace.jsonl", small_trace("p1"));
  folder.write(kRun + "locked/p2_trace.jsonl", small_trace("p2"));
  fs::create_directory(folder / "place");
  for (const fs::path& path : {folder.root(), folder / "place"}) {
    fs::permissions(path, fs::perms::all);
  }
  fs::permissions(folder / (kRun + "traces/secret_trace.jsonl"), fs::perms::none);
  fs::permissions(folder / (kRun + "locked"), fs::perms::none);
  const int status = in_child([&] {
    if (geteuid() == 0 && seteuid(65534) != 0) return 77;  // root may read everything
    SQLite::Database own = open_for_writing(folder / "place/g.db");
    const IngestSummary summary = ingest_all(own, {folder / "artifacts_remote"});
    if (summary.rows != 4) return 1;
    if (number_of(own, "SELECT count(*) FROM ingest_error WHERE file LIKE '%secret_trace.jsonl'") !=
        1)
      return 2;
    if (number_of(own, "SELECT count(*) FROM ingest_error WHERE file LIKE '%locked'") != 1)
      return 3;
    return 0;
  });
  fs::permissions(folder / (kRun + "locked"), fs::perms::all);
  if (status == 77) GTEST_SKIP() << "cannot give up the rights of root";
  EXPECT_EQ(status, 0);
}

// ---- dry runs, threads --------------------------------------------------------------------------

/// Every shape, several runs: what the tests below ingest whole or in part.
void write_tree(const Folder& folder, int runs = 3) {
  for (int i = 0; i < runs; ++i) {
    const std::string run = "artifacts_remote/2026-02-0" + std::to_string(1 + i % 9) + "/b3_" +
                            std::to_string(60 + i) + "/";
    std::string trace;
    for (int64_t pos = 0; pos < 400; ++pos)
      trace += small_trace("p" + std::to_string(pos % 3), pos);
    folder.write(run + "traces/p0_trace.jsonl", trace);
    folder.write(
        run + "traces/p1_trace.jsonl.gz",
        gzipped(std::string(StageLine{.prompt = "s", .n = 3, .more = ",\"sample\":[1,2,3]"}) +
                "\nbad line\n" +
                std::string(StageLine{.prompt = "s", .n = 3, .more = ",\"sample\":[1,2,4]"}) +
                "\n"));
    folder.write(run + "b3_" + std::to_string(60 + i) + "_readout.jsonl",
                 readout(204, i) + readout(44, i + 1));
    folder.write(run + "b3_" + std::to_string(60 + i) + "_p4_sys.log", log_of(205));
    folder.write(run + "config.json",
                 R"({"git_commit":"abc)" + std::to_string(i) + R"(","dtype":"bf16","x":1})");
    folder.write(run + "perf.json", R"({"wall_time_sec":1.5})");
    folder.write(run + "report.md", "# B3.66\n\nRESULT: PASS\n\n| a | b |\n|---|---|\n| 1 | 2 |\n");
    folder.write(run + "table.tsv", "prompt\tlayer\ttensor\tstatus\np0\t0\tattn_out\tFAIL\n");
    folder.write(run + "runs.tgz",
                 gzipped(tarred({{"x/p9_trace.jsonl", small_trace("p9")}, {"../evil", "x"}})));
    folder.write(run + "logits.jsonl.gz", "");
    folder.write(run + "what.bin", "?");
  }
}

TEST_F(Importing, ADryRunSaysTheSameAndLeavesNoTrace) {
  write_tree(folder);
  const std::string before = dump(db);
  IngestOptions options;
  options.dry_run = true;
  const IngestSummary dry = ingest(db, {folder / "artifacts_remote"}, options);
  EXPECT_TRUE(same_dump(before, dump(db)));
  const IngestSummary wet = take();
  EXPECT_EQ(dry.files, wet.files);
  EXPECT_EQ(dry.new_sources, wet.new_sources);
  EXPECT_EQ(dry.rows, wet.rows);
  EXPECT_EQ(dry.duplicates, wet.duplicates);
  EXPECT_EQ(dry.errors, wet.errors);
  EXPECT_EQ(dry.warnings, wet.warnings);
  EXPECT_EQ(dry.log_events, wet.log_events);
  EXPECT_EQ(dry.metrics, wet.metrics);
  EXPECT_EQ(dry.findings.size(), wet.findings.size());
  EXPECT_GT(wet.rows, 0);
}

TEST_F(Importing, ADryRunThatFailsLeavesTheDatabaseUsable) {
  write_tree(folder, 1);
  IngestOptions options;
  options.dry_run = true;
  options.progress = [](const IngestProgress& p) {
    if (p.files_done == 3) throw std::runtime_error("stop");
  };
  EXPECT_THROW(ingest(db, {folder / "artifacts_remote"}, options), std::runtime_error);
  EXPECT_GT(take().rows, 0);
}

TEST_F(Importing, TheNumberOfJobsDoesNotMatter) {
  write_tree(folder);
  const std::string large = large_trace();
  folder.write(kRun + "traces/p0_short_trace.jsonl", large);
  take("artifacts_remote", 1);
  Folder own;
  SQLite::Database other = open_for_writing(own / "g.db");
  ingest_all(other, {folder / "artifacts_remote"}, 2);
  EXPECT_TRUE(same_dump(dump(db), dump(other)));
}

TEST_F(Importing, ProgressEndsWhereItSaid) {
  write_tree(folder, 2);
  IngestProgress last;
  int64_t calls = 0;
  IngestOptions options;
  options.progress = [&](const IngestProgress& p) {
    EXPECT_GE(p.files_done, last.files_done);
    EXPECT_GE(p.bytes_done, last.bytes_done);
    EXPECT_LE(p.bytes_done, p.bytes_total);
    last = p;
    ++calls;
  };
  ingest(db, {folder / "artifacts_remote"}, options);
  EXPECT_EQ(last.files_done, last.files_total);
  EXPECT_EQ(last.bytes_done, last.bytes_total);
  EXPECT_GT(calls, last.files_total);
}

// ---- interruptions ------------------------------------------------------------------------------

struct Interrupted : Importing {
  void SetUp() override {
    write_tree(folder, 4);
    Folder own;
    SQLite::Database other = open_for_writing(own / "g.db");
    ingest_all(other, {folder / "artifacts_remote"});
    undisturbed = dump(other);
  }
  std::string undisturbed;
};

TEST_F(Interrupted, TheNextIngestFinishesWhereverTheFirstStopped) {
  int64_t steps = 0;
  {
    Folder own;
    SQLite::Database other = open_for_writing(own / "g.db");
    IngestOptions options;
    options.progress = [&](const IngestProgress&) { ++steps; };
    ingest(other, {folder / "artifacts_remote"}, options);
  }
  for (int64_t stop = 1; stop <= steps; stop += 7) {
    Folder own;
    SQLite::Database other = open_for_writing(own / "g.db");
    IngestOptions options;
    options.progress = [&, at = int64_t{0}](const IngestProgress&) mutable {
      if (++at == stop) throw std::runtime_error("stop");
    };
    EXPECT_THROW(ingest(other, {folder / "artifacts_remote"}, options), std::runtime_error);
    EXPECT_EQ(check_database(other), std::vector<std::string>());
    ingest_all(other, {folder / "artifacts_remote"});
    EXPECT_TRUE(same_dump(undisturbed, dump(other))) << "stopped at step " << stop;
  }
}

TEST_F(Interrupted, AnIngestOfSomethingElseSettlesWhatWasLeft) {
  IngestOptions options;
  options.progress = [](const IngestProgress& p) {
    if (p.files_done == p.files_total - 1) throw std::runtime_error("stop");
  };
  EXPECT_THROW(ingest(db, {folder / "artifacts_remote"}, options), std::runtime_error);
  folder.write("other/2026-02-07/b3_99/config.json", "{}");
  take("other");
  EXPECT_EQ(count("run", "date IS NULL"), 0) << rows("SELECT name FROM run WHERE date IS NULL");
  EXPECT_EQ(count("run", "tally IS NULL"), 0);
}

TEST_F(Interrupted, AKillAtAnyMomentLosesNothing) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int i = 0; i < 3; ++i) {
    Folder own;
    { SQLite::Database created = open_for_writing(own / "g.db"); }
    const pid_t child = fork();
    if (child == 0) {
      try {
        SQLite::Database other = open_for_writing(own / "g.db");
        ingest_all(other, {folder / "artifacts_remote"}, 2);
      } catch (...) {
        _exit(1);
      }
      _exit(0);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 60'000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    SQLite::Database other = open_for_writing(own / "g.db");
    EXPECT_EQ(check_database(other), std::vector<std::string>());
    ingest_all(other, {folder / "artifacts_remote"}, 2);
    EXPECT_TRUE(same_dump(undisturbed, dump(other)));
  }
}

TEST_F(Interrupted, AFullDiskIsAnErrorAndSpaceLetsItFinish) {
  const int64_t pages = number_of(db, "PRAGMA page_count");
  for (const int64_t more : {5, 20, 40}) {
    db.execAndGet("PRAGMA max_page_count = " + std::to_string(pages + more));
    EXPECT_THROW(take(), SQLite::Exception) << more;
    EXPECT_EQ(check_database(db), std::vector<std::string>());
  }
  db.execAndGet("PRAGMA max_page_count = 1000000");
  take();
  EXPECT_TRUE(same_dump(undisturbed, dump(db)));
}

TEST_F(Interrupted, AFileThatMayNotGrowIsAnError) {
  for (const rlim_t more : {rlim_t{50'000}, rlim_t{400'000}}) {
    Folder own;
    { SQLite::Database created = open_for_writing(own / "g.db"); }
    const int status = in_child([&] {
      signal(SIGXFSZ, SIG_IGN);
      const rlimit limit = {fs::file_size(own / "g.db") + more, RLIM_INFINITY};
      setrlimit(RLIMIT_FSIZE, &limit);
      try {
        SQLite::Database other = open_for_writing(own / "g.db");
        ingest_all(other, {folder / "artifacts_remote"}, 2);
      } catch (const SQLite::Exception&) {
        return 3;
      }
      return 0;
    });
    EXPECT_EQ(status, 3);
    SQLite::Database other = open_for_writing(own / "g.db");
    EXPECT_EQ(check_database(other), std::vector<std::string>());
    ingest_all(other, {folder / "artifacts_remote"});
    EXPECT_TRUE(same_dump(undisturbed, dump(other)));
  }
}

TEST_F(Interrupted, AnotherWriterIsWaitedFor) {
  SQLite::Database other = open_for_writing(folder / "g.db");
  other.exec("BEGIN IMMEDIATE");
  std::thread release([&other] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    other.exec("COMMIT");
  });
  const auto start = std::chrono::steady_clock::now();
  take();
  release.join();
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(150));
  EXPECT_TRUE(same_dump(undisturbed, dump(db)));
}

TEST_F(Interrupted, TwoIngestsAtOnceLoseNothing) {
  Folder other;
  write_tree(other, 2);
  for (int i = 0; i < 2; ++i) {  // runs of their own
    fs::rename(other / ("artifacts_remote/2026-02-0" + std::to_string(1 + i)),
               other / ("artifacts_remote/2026-03-0" + std::to_string(1 + i)));
  }
  const pid_t child = fork();
  if (child == 0) {
    int status = 1;
    try {
      SQLite::Database own = open_for_writing(folder / "g.db");
      ingest_all(own, {other / "artifacts_remote"});
      status = 0;
    } catch (...) {
    }
    _exit(status);
  }
  EXPECT_NO_THROW(take());
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(check_database(db), std::vector<std::string>());
  EXPECT_EQ(count("trace_row"), 6 * (1600 + 2 + 6 + 4));
  EXPECT_EQ(count("sample"), 6 * 2);
}

}  // namespace
}  // namespace greta
