#include "ingest/source_store.h"

#include <string>

#include "tests/ingest/importing.h"

namespace greta {
namespace {

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
    TemporaryFolder tree;
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

TEST_F(Identity, EveryEmptyFileOfAnArchiveIsFoundAndNamedOnce) {
  std::vector<MadeEntry> members;
  for (int i = 0; i < 300; ++i) members.push_back({"d" + std::to_string(i) + ".jsonl"});
  folder.write(kRun + "a.tar", tarred(members));
  const IngestSummary summary = take();
  EXPECT_EQ(summary.files, 300);
  EXPECT_EQ(summary.warnings, 300);
  EXPECT_EQ(count("source"), 1);
  EXPECT_EQ(count("source_location"), 300);
  const std::string before = dump(db);
  EXPECT_EQ(take().warnings, 0);
  EXPECT_TRUE(same_dump(before, dump(db)));
}

TEST_F(Identity, NamesThatAreNotUtf8) {
  folder.write("artifacts_remote/2026-02-07/b3_66/\xff\xfe/p\xc6_trace.jsonl", small_trace());
  EXPECT_EQ(take().rows, 4);
  EXPECT_EQ(take().known_sources, 1);
}

}  // namespace
}  // namespace greta
