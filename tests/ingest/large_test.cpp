#include <string>

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

}  // namespace
}  // namespace greta
