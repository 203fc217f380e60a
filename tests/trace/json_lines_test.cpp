#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdlib>

#include "ingest/importer.h"
#include "tests/trace/trace_fixture.h"

// A run that goes through JSON lines is the run that is written straight into a database.

// A program that is killed while it writes through the C API.

namespace greta {
namespace {

struct TraceJsonLines : TraceFixture {
  /// All that a run can say.
  void write_run(const std::string& path, greta_kind kind) {
    ASSERT_NO_FATAL_FAILURE(open(path, kind));
    greta_run_info info = rollout_in_full();
    const char* facts[] = {"engine", "\"ours\" \\ \xc3\xa9", "engine", "theirs", nullptr};
    info.attributes = facts;
    info.sample_values = 3;
    ASSERT_EQ(begin(info), GRETA_OK) << greta_error_text();
    ASSERT_NO_FATAL_FAILURE(add_prompt("p \"0\""));
    const greta_planned planned[] = {{GRETA_SIDE_DECODE, -1, "logits"}};
    ASSERT_EQ(greta_run_add_plan(run, nullptr, planned, 1), GRETA_OK);
    greta_row full = row_in_full(GRETA_LAYER_AFTER_STACK);
    full.tensor = "logits";
    full.extra = "{\"b\":[1,null]}";
    values = {0.1f, -3e-42f, 3.4e38f, 5};
    EXPECT_EQ(add(full), GRETA_OK) << greta_error_text();
    values = {std::nanf(""), 1.0f / 3, INFINITY};
    EXPECT_EQ(add(row(GRETA_PREFILL, 0, 0)), GRETA_OK);
    values = {std::nanf("")};
    EXPECT_EQ(add(row(GRETA_PREFILL, 1, 0)), GRETA_OK);
    values.clear();
    EXPECT_EQ(add(row(GRETA_PREFILL, 2, 0)), GRETA_OK);
    values = {1};
    EXPECT_EQ(add(row(GRETA_PREFILL_LAST, 3, GRETA_UNKNOWN)), GRETA_OK);
    EXPECT_EQ(greta_run_add_attribute(run, "late", "fact"), GRETA_OK);
    end();
    greta_trace_close(trace);
    trace = nullptr;
  }
  /// What a database says of its only run, but for where it came from and when.
  static std::string said_by(SQLite::Database& db) {
    std::string text;
    for (const char* sql :
         {"SELECT name, experiment, family, variant, date, commit_sha, mode, dtype, seed, status, "
          "hash_algo FROM run",
          "SELECT dim, value FROM attribute ORDER BY dim, value",
          "SELECT name, n_tokens, text_sha256, token_ids FROM prompt",
          "SELECT side, layer, t.name FROM plan JOIN tensor t ON t.id = tensor_id",
          "SELECT prompt, phase, step, pos_id, layer, tensor, token_id, logical_tok_idx, n, hash, "
          "min, max, mean, abs_sum, nan, inf, nz_count, route, extra FROM trace ORDER BY layer",
          "SELECT n, derived, sum_sq, scale, b0, b31 FROM sketch ORDER BY n, sum_sq",
          "SELECT n, hex(data) FROM sample ORDER BY 1, 2",
          "SELECT verdict, strict_verdict, numeric_verdict, pairs, missing, coverage FROM "
          "run_verdict"}) {
      text += text_of(db, sql) + "\n\n";
    }
    return text;
  }
};

TEST_F(TraceJsonLines, IngestMakesTheSameRunOfThem) {
  const std::string lines = (folder / "rows.jsonl").string();
  ASSERT_NO_FATAL_FAILURE(write_run(file, GRETA_DATABASE));
  ASSERT_NO_FATAL_FAILURE(write_run(lines, GRETA_JSONL));
  SQLite::Database direct = open_for_reading(file), db = open_for_writing(folder / "i.db");
  const IngestSummary summary = ingest(db, {lines}, {});
  EXPECT_EQ(summary.findings.size(), 0u);
  EXPECT_EQ(said_by(db), said_by(direct));
  EXPECT_EQ(ingest(db, {lines}, {}).known_sources, 1);
}

TEST_F(TraceJsonLines, TheyGoThroughAPipe) {
  const std::string pipe = (folder / "pipe").string(), db_file = (folder / "i.db").string();
  ASSERT_EQ(std::system(("mkfifo '" + pipe + "'").c_str()), 0);
  const std::string ingest = "'" GRETA_DB_PROGRAM "' --db '" + db_file + "' ingest -q - <'" + pipe +
                             "' >'" + (folder / "out").string() + "' 2>&1 && touch '" +
                             (folder / "done").string() + "'";
  ASSERT_EQ(std::system(("(" + ingest + ") &").c_str()), 0);
  ASSERT_NO_FATAL_FAILURE(write_run(pipe, GRETA_JSONL));
  for (int i = 0; i < 3000 && !std::filesystem::exists(folder / "done"); ++i) usleep(10'000);
  ASSERT_NO_FATAL_FAILURE(write_run(file, GRETA_DATABASE));
  SQLite::Database direct = open_for_reading(file), db = open_for_reading(db_file);
  EXPECT_EQ(said_by(db), said_by(direct));
}

using TraceKilled = TraceFixture;

TEST_F(TraceKilled, WhatWasCommittedIsThereAndTheRunIncomplete) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    greta_trace* target = nullptr;
    greta_run* writing = nullptr;
    const greta_run_info info = rollout();
    bool good = greta_trace_open(file.c_str(), GRETA_DATABASE, &target) == GRETA_OK &&
                greta_run_begin(target, &info, &writing) == GRETA_OK;
    for (int64_t pos = 0; good; ++pos) {
      const greta_row last = row(GRETA_PREFILL_LAST, 0, pos), first = row(GRETA_DECODE0, 0, pos);
      good = greta_run_add_values(writing, &last, GRETA_F32, values.data(), 4) == GRETA_OK &&
             greta_run_add_values(writing, &first, GRETA_F32, values.data(), 4) == GRETA_OK;
      if (pos == 999) {
        good = good && greta_run_flush(writing) == GRETA_OK && write(ready[1], "r", 1) == 1;
      }
    }
    _exit(1);
  }
  close(ready[1]);
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_GE(std::stoll(ask("SELECT count(*) FROM trace_row")), 2000);
  EXPECT_EQ(ask("SELECT count(*) FROM trace WHERE pos_id < 1000"), "2000");
  EXPECT_EQ(ask("SELECT r.status, v.verdict FROM run r JOIN run_verdict v ON v.run_id = r.id"),
            "running|INCOMPLETE");
}

}  // namespace

}  // namespace greta
