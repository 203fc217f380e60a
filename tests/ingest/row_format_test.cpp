// Contents in the row format: which run they are, and what comes through a pipe.

#include <thread>

#include "ingest/importer.h"
#include "tests/ingest/importing.h"

namespace greta {
namespace {

std::string rows_start(const std::string& more = "") {
  return R"({"event":"run_start","format":"greta-rows-1","experiment":"b3_66_v2","date":"2026-11-24")" +
         more + "}\n";
}
std::string a_row_of(const std::string& phase, int pos, const std::string& value = "1") {
  return R"({"event":"row","phase":")" + phase + R"(","layer":0,"tensor":"attn_out","pos_id":)" +
         std::to_string(pos) + R"(,"values":[)" + value + "]}\n";
}
std::string rows_end(int rows) {
  return R"({"event":"run_end","status":"complete","rows":)" + std::to_string(rows) + "}\n";
}
const std::string kTwoRows = a_row_of("prefill_last", 5) + a_row_of("decode0", 5);

struct RowContents : Importing {
  IngestSummary take_file(const std::string& name, const std::string& lines) {
    folder.write(name, lines);
    return take(name);
  }
};

TEST_F(RowContents, RunStartSaysWhichRunItIsAndNotThePath) {
  take_file(
      "artifacts_remote/2026-02-07/b3_99/run.jsonl",
      rows_start(R"(,"mode":"eager","commit":"abc","dtype":"bf16","model":"m","backend":"cuda")"
                 R"(,"seed":-7,"started_at":"2026-11-24T01:02:03Z")") +
          kTwoRows + rows_end(2));
  EXPECT_EQ(findings(), "");
  EXPECT_EQ(rows("SELECT name, experiment, family, variant, date, mode, commit_sha, dtype, seed, "
                 "status, started_at, hash_algo FROM run"),
            "2026-11-24/b3_66_v2/eager|b3_66_v2|b3_66|v2|2026-11-24|eager|abc|bf16|-7|complete|"
            "2026-11-24T01:02:03Z|greta-1");
  EXPECT_EQ(rows("SELECT verdict FROM run_verdict"), "PASS");
  EXPECT_EQ(rows("SELECT value FROM attribute WHERE dim IN ('model', 'backend') ORDER BY 1"),
            "cuda\nm");
}

TEST_F(RowContents, ARunWhosePromptIsAnnouncedAsTwoDoesNotPass) {
  const auto prompt = [](const std::string& of) {
    return R"({"event":"run_prompt","prompt":"p0",)" + of + "}\n";
  };
  const std::string is = prompt(R"("token_ids":[1,2,3,4,5,6])");
  for (const std::string& other :
       {prompt(R"("token_ids":[1,2,3,4,5,7])"), prompt(R"("n_tokens":7)")}) {
    for (const std::string& both : {is + other, other + is}) {
      take_file("run.jsonl", rows_start() + both + kTwoRows + rows_end(2));
      EXPECT_EQ(take("run.jsonl").known_errors, 1) << "once more the same";
      EXPECT_EQ(
          rows("SELECT verdict, numeric_verdict FROM run_verdict ORDER BY run_id DESC LIMIT 1"),
          "INCOMPLETE|INCOMPLETE")
          << both;
    }
  }
  take_file("run.jsonl",
            rows_start() + is + is + prompt(R"("n_tokens":6)") + kTwoRows + rows_end(2));
  EXPECT_EQ(rows("SELECT verdict FROM run_verdict ORDER BY run_id DESC LIMIT 1"), "PASS");
}

TEST_F(RowContents, ASeedBeyondTheColumnKeepsItsBits) {
  take_file("run.jsonl", rows_start(R"(,"seed":18446744073709551615)") + kTwoRows + rows_end(2));
  EXPECT_EQ(rows("SELECT seed FROM run"), "-1");
  EXPECT_EQ(rows("SELECT value FROM attribute WHERE dim = 'seed'"), "18446744073709551615");
}

TEST_F(RowContents, ALineThatComesTwiceIsOneRow) {
  const std::string again = a_row_of("decode0", 5);
  take_file("run.jsonl", rows_start() + kTwoRows + again + again + rows_end(4));
  EXPECT_EQ(findings(), "");
  EXPECT_EQ(rows("SELECT verdict FROM run_verdict"), "PASS");
  take_file("less.jsonl", rows_start() + kTwoRows + again + rows_end(4));
  take_file("more.jsonl", rows_start() + kTwoRows + again + rows_end(2));
  EXPECT_EQ(rows("SELECT DISTINCT verdict FROM run_verdict WHERE run_id > 1"), "INCOMPLETE");
}

TEST_F(RowContents, TwoRunsOfOneNameStayTwo) {
  take_file("a/rows.jsonl", rows_start() + kTwoRows + rows_end(2));
  take_file("b/rows.jsonl", rows_start() + kTwoRows + a_row_of("prefill", 1) + rows_end(3));
  const IngestSummary again = take_file("c/rows.jsonl", rows_start() + kTwoRows + rows_end(2));
  EXPECT_EQ(again.known_sources, 1);  // the same content is the same run
  EXPECT_EQ(rows("SELECT run, count(*) FROM trace GROUP BY run"),
            "2026-11-24/b3_66_v2|2\n2026-11-24/b3_66_v2#2|3");
}

TEST_F(RowContents, ANameThatIsStatedIsTakenOnce) {
  take_file("a/rows.jsonl", rows_start(R"(,"run":"nightly/7")") + kTwoRows + rows_end(2));
  const IngestSummary other = take_file(
      "b/rows.jsonl", rows_start(R"(,"run":"nightly/7")") + a_row_of("prefill", 1) + rows_end(1));
  EXPECT_EQ(other.errors, 1);
  EXPECT_EQ(findings(), "error 1 the database has a run nightly/7 already; not ingested");
  EXPECT_EQ(rows("SELECT run, count(*) FROM trace GROUP BY run"), "nightly/7|2");
}

TEST_F(RowContents, ALargeContentIsKnownAgain) {
  std::string lines = rows_start();
  const std::string blanks(16'000, ' ');
  int count = 0;
  for (; lines.size() <= (33u << 20); ++count) {
    lines += a_row_of("prefill", count);
    lines.insert(lines.size() - 1, blanks);
  }
  lines += rows_end(count);
  EXPECT_EQ(take_file("a/rows.jsonl", lines).rows, count);
  EXPECT_EQ(take_file("b/rows.jsonl", lines).known_sources, 1);
  EXPECT_EQ(Importing::count("run"), 1);
}

TEST_F(RowContents, AMistakeLeavesTheRunIncomplete) {
  const IngestSummary summary =
      take_file("a/rows.jsonl", rows_start() + kTwoRows + a_row_of("prefil", 1) + rows_end(3));
  EXPECT_EQ(summary.errors, 1);
  EXPECT_EQ(rows("SELECT verdict FROM run_verdict"), "INCOMPLETE");
  EXPECT_EQ(rows("SELECT line, raw IS NOT NULL FROM ingest_error"), "4|1");
}

TEST_F(RowContents, RowsThatDidNotComeLeaveTheRunIncomplete) {
  take_file("a/rows.jsonl", rows_start() + kTwoRows + rows_end(3));
  EXPECT_EQ(findings(), "error 4 run_end says 3 rows, and 2 came");
  EXPECT_EQ(rows("SELECT verdict FROM run_verdict"), "INCOMPLETE");
}

struct RowStream : RowContents {
  /// Both ends of a pipe; what is written to it is read by an ingest on another thread.
  void SetUp() override { ASSERT_EQ(pipe(ends), 0); }
  void write(const std::string& text) {
    ASSERT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void close_writer() { close(std::exchange(ends[1], -1)); }
  ~RowStream() override {
    for (const int fd : ends) close(fd);
  }
  /// All of `text` at once.
  IngestSummary stream(const std::string& text, const IngestOptions& options = {}) {
    write(text);
    close_writer();
    return ingest_stream(db, ends[0], options);
  }
  int ends[2] = {-1, -1};
};

TEST_F(RowStream, IsARunLikeAFile) {
  const IngestSummary summary = stream(rows_start() + kTwoRows + rows_end(2));
  EXPECT_EQ(summary.rows, 2);
  EXPECT_EQ(summary.errors, 0);
  EXPECT_EQ(rows("SELECT name, date, status FROM run"), "2026-11-24/b3_66_v2|2026-11-24|complete");
  EXPECT_EQ(rows("SELECT verdict FROM run_verdict"), "PASS");
  EXPECT_EQ(rows("SELECT shape, lines, rows, length(sha256) FROM source"), "row|4|2|64");
}

TEST_F(RowStream, RowsAreThereWhileTheWriterGoesOnAndNobodyIsLockedOut) {
  SQLite::Database reading_side = open_for_writing(folder / "g.db");
  IngestSummary summary;
  std::thread ingest([&] { summary = ingest_stream(reading_side, ends[0], {}); });
  write(rows_start() + a_row_of("prefill_last", 5));
  for (int i = 0; i < 3000 && count("trace_row") == 0; ++i) usleep(10'000);
  EXPECT_EQ(count("trace_row"), 1);
  EXPECT_EQ(rows("SELECT status, date FROM run"), "running|2026-11-24");
  judge_rest(db);
  EXPECT_EQ(rows("SELECT verdict FROM run_verdict"), "INCOMPLETE");
  db.exec("BEGIN IMMEDIATE; ROLLBACK");  // another writer has its turn
  const std::string line = a_row_of("decode0", 5);
  write(line.substr(0, 20));  // a line may come in pieces
  write(line.substr(20) + rows_end(2));
  close_writer();
  ingest.join();
  EXPECT_EQ(summary.rows, 2);
  EXPECT_EQ(rows("SELECT verdict FROM run_verdict"), "PASS");
}

TEST_F(RowStream, AStreamThatBreaksIsIncomplete) {
  const IngestSummary summary = stream(rows_start() + kTwoRows);
  EXPECT_EQ(summary.rows, 2);
  EXPECT_EQ(findings(), "error 0 it ends before run_end: its run is INCOMPLETE");
  EXPECT_EQ(rows("SELECT verdict FROM run_verdict"), "INCOMPLETE");
}

TEST_F(RowStream, WhatIsNoStreamOfRowsIsNotReadOn) {
  const IngestSummary summary =
      stream(std::string(StageLine{.pos = 5, .n = 3}) + "\n" + rows_start() + kTwoRows);
  EXPECT_EQ(summary.errors, 1);
  EXPECT_EQ(findings(),
            "error 1 not a stream of rows: its first line is no run_start of docs/traces.md; other "
            "files are ingested by their path");
  EXPECT_EQ(count("run"), 0);
}

TEST_F(RowStream, AStartWithAMistakeSaysWhich) {
  stream(rows_start(R"(,"dtyp":"f32")"));
  EXPECT_EQ(findings(),
            "error 1 not a stream of rows: its first line is no run_start of docs/traces.md "
            "(unknown field \"dtyp\")");
}

TEST_F(RowStream, NothingIsAnError) {
  EXPECT_EQ(stream("\n \n").errors, 1);
  EXPECT_EQ(findings(), "error 0 an empty stream: no row came");
}

TEST_F(RowStream, ADryRunWritesNothing) {
  IngestOptions options;
  options.dry_run = true;
  const IngestSummary summary =
      stream(rows_start() + kTwoRows + a_row_of("prefil", 1) + rows_end(3), options);
  EXPECT_EQ(summary.rows, 2);
  EXPECT_EQ(summary.errors, 1);
  EXPECT_EQ(count("run"), 0);
  EXPECT_EQ(count("ingest_error"), 0);
}

TEST_F(RowStream, KilledWhatWasCommittedIsThere) {
  write(rows_start() + kTwoRows);
  const pid_t child = start_child([&] {
    close(ends[1]);
    SQLite::Database own = open_for_writing(folder / "g.db");
    ingest_stream(own, ends[0], {});
    return 1;
  });
  for (int i = 0; i < 3000 && count("trace_row") < 2; ++i) usleep(10'000);
  kill(child, SIGKILL);
  EXPECT_EQ(end_of(child), 128 + SIGKILL);
  judge_rest(db);
  EXPECT_EQ(rows("SELECT run.status, v.verdict FROM run JOIN run_verdict v ON v.run_id = run.id"),
            "running|INCOMPLETE");
  close_writer();
}

}  // namespace
}  // namespace greta
