#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <string>

#include "common/sha256.h"
#include "db/check.h"
#include "ingest/importer.h"
#include "tests/ingest/importing.h"

namespace greta {
namespace {

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

/// A file that changes when its first batch of rows was written.
struct Changing : Importing {
  const fs::path file = folder / (kRun + "traces/p0_short_trace.jsonl");
  const std::string trace = large_trace(33u << 20, 3'000);

  IngestSummary take_while(const std::function<void()>& change) {
    folder.write(kRun + "traces/p0_short_trace.jsonl", trace);
    int calls = 0;
    IngestOptions options;
    options.jobs = 1;
    options.progress = [&](const IngestProgress& progress) {
      if (progress.current == file && ++calls == 2) change();  // the first is before it is opened
    };
    return ingest(db, {folder / "artifacts_remote"}, options);
  }
};

TEST_F(Changing, AFileThatGrowsIsTakenAsItWasReadAndNamed) {
  const IngestSummary first = take_while([this] {
    std::ofstream(file, std::ios::app) << std::string(StageLine{.pos = 1'000'000}) << "\n";
  });
  EXPECT_EQ(first.warnings, 1);
  EXPECT_EQ(first.errors, 0);
  ASSERT_EQ(first.findings.size(), 1u);
  EXPECT_TRUE(first.findings[0].file.ends_with("p0_short_trace.jsonl"));
  EXPECT_TRUE(first.findings[0].reason.starts_with("the file grew while it was read: "))
      << first.findings[0].reason;
  EXPECT_EQ(count("trace_row", "pos_id = 1000000"), 1);
  EXPECT_EQ(rows("SELECT bytes FROM source"), std::to_string(fs::file_size(file)));
  EXPECT_EQ(rows("SELECT sha256 FROM source"), Sha256::hex_of(bytes_of(file)));
  EXPECT_EQ(rows("SELECT raw_sha256, raw_bytes FROM source_location"), "-|-");
  expect_every_line_accounted_for(db);

  const IngestSummary again = take();
  EXPECT_EQ(again.known_sources, 1);
  EXPECT_EQ(again.warnings, 0);
  EXPECT_EQ(again.known_warnings, 1);
}

TEST_F(Changing, AFileThatShrinksIsTakenAsFarAsItWentAndNamed) {
  const IngestSummary first = take_while([this] { fs::resize_file(file, 20u << 20); });
  EXPECT_EQ(first.warnings, 1);
  ASSERT_FALSE(first.findings.empty());
  EXPECT_TRUE(first.findings.back().reason.starts_with("the file shrank while it was read: "))
      << first.findings.back().reason;
  EXPECT_EQ(rows("SELECT bytes FROM source"), std::to_string(20u << 20));
  EXPECT_EQ(rows("SELECT sha256 FROM source"), Sha256::hex_of(bytes_of(file)));
  EXPECT_EQ(check_database(db), std::vector<std::string>());
}

TEST_F(Changing, AFileThatBecomesAnotherWhoseContentIsKnownIsNamedToo) {
  folder.write("known/2026-02-07/b3_66/traces/p0_short_trace.jsonl.gz", gzipped(trace, 1));
  take("known");
  const IngestSummary again = take_while(
      [&] { fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(1)); });
  EXPECT_EQ(again.known_sources, 1);
  EXPECT_EQ(again.rows, 0);
  EXPECT_EQ(again.warnings, 1);
  EXPECT_EQ(count("source_location", "raw_sha256 IS NULL AND path NOT GLOB '*.gz'"), 1);
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

}  // namespace
}  // namespace greta
