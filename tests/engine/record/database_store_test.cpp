#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "common/process.h"
#include "db/trace_writer.h"
#include "engine/record/run_queue.h"
#include "engine/session/run_info.h"
#include "tests/engine/engine_fixture.h"
#include "tests/engine/record/run_fixture.h"

namespace greta {
namespace {

/// A run of one prompt and one tensor.
MadeUpRun small_run() {
  return {.prompts = {{"p0_short", 6}}, .layers = {0}, .points = {TracePoint::kAttnOut}};
}

PromptRecord prompt(const std::string& name) {
  PromptRecord record;
  record.name = name;
  record.token_ids = {1, 2, 3};
  return record;
}

/// Rows of one decoded token.
std::vector<TraceRecord> token_rows(int64_t pos, int layers) {
  std::vector<TraceRecord> rows;
  for (int layer = 0; layer < layers; ++layer) {
    for (TracePoint point : {TracePoint::kQPreRope, TracePoint::kAttnOut, TracePoint::kMlpOut}) {
      TraceRecord& row = rows.emplace_back();
      row.point = point;
      row.layer = layer;
      row.phase = Phase::kDecode;
      row.step = row.pos_id = pos;
      row.token_id = 7;
      row.seq_len = 1;
      row.route = "DOT";
      row.fingerprint.n = 64;
      row.fingerprint.hash = static_cast<uint64_t>(pos * 1000 + layer);
    }
  }
  return rows;
}

class RunInDatabase : public testing::Test {
 protected:
  fs::path file() const { return folder_ / "greta.db"; }
  std::string write(const MadeUpRun& run, const std::string& mode = "kv_aligned") {
    RunQueue writer(store_in_database(file(), MadeUpRun::record(mode)));
    run.feed(writer);
    writer.end(true);
    return writer.run_name();
  }
  std::string ask(const std::string& sql) const {
    SQLite::Database db = open_for_reading(file());
    return text_of(db, sql);
  }
  /// The file is sound, `run` is INCOMPLETE, and another run beside it passes.
  void expect_usable(const std::string& run) {
    {
      SQLite::Database db = open_for_writing(file());
      EXPECT_EQ(problems_of(db), "");
    }
    EXPECT_EQ(ask("SELECT verdict, numeric_verdict FROM run_verdict WHERE run = '" + run + "'"),
              "INCOMPLETE|INCOMPLETE");
    const std::string next = write(small_run());
    EXPECT_NE(next, run);
    EXPECT_EQ(ask("SELECT verdict FROM run_verdict WHERE run = '" + next + "'"), "PASS");
  }

  TemporaryFolder folder_;
};

TEST_F(RunInDatabase, RecordsTheRun) {
  EXPECT_EQ(write(small_run()), "2026-02-07/b3_66_v2/kv_aligned");
  EXPECT_EQ(
      ask("SELECT name, experiment, family, variant, date, commit_sha, synthetic, mode, dtype,"
          " seed, hash_algo, status, started_at, length(finished_at) FROM run"),
      "2026-02-07/b3_66_v2/kv_aligned|b3_66_v2|b3_66|v2|2026-02-07|c0ffee1|0|kv_aligned|f32|1|"
      "greta-1|complete|2026-02-07T10:00:00Z|20");
  EXPECT_EQ(ask("SELECT dim, value FROM attribute ORDER BY dim, value"),
            "commit|c0ffee1\ndate|2026-02-07\ndevice|cpu\ndtype|f32\nexperiment|b3_66_v2\n"
            "host|node "
            "\"7\"\ninject|a\ninject|b\nmode|kv_aligned\nmodel_sha256|0a1b\nseed|1\ntrace_rows|2");
  EXPECT_EQ(ask("SELECT name, n_tokens, length(text_sha256), token_ids FROM prompt"),
            "p0_short|6|64|[100,101,102,103,104,105]");
  EXPECT_EQ(ask("SELECT p.side, p.layer, t.name FROM plan p JOIN tensor t ON t.id = p.tensor_id"),
            "0|0|attn_out\n1|0|attn_out");
  EXPECT_EQ(ask("SELECT leg, prompt, length(sha256), shape, lines, rows, duplicates, conflicts "
                "FROM source"),
            "||64|engine|2|2|0|0");
}

TEST_F(RunInDatabase, OnlyARunThatIsLeftBehindIsReplaced) {
  RunRecord record = MadeUpRun::record("kv_aligned");
  record.name = "ci";
  const auto begin = [&](bool replaces) {
    record.replaces_failed = replaces;
    return std::make_unique<RunQueue>(store_in_database(file(), record));
  };
  /// True if the refusal says that it would replace the run.
  const auto refused = [&](bool replaces) -> std::string {
    try {
      begin(replaces);
    } catch (const RunExists& error) {
      return error.left_behind ? "left behind" : "taken";
    }
    return "begun";
  };
  begin(true)->end(false);  // nothing is there to replace
  EXPECT_EQ(ask("SELECT name, status FROM run"), "ci|failed");
  EXPECT_EQ(refused(false), "left behind");
  {
    const auto alive = begin(true);
    small_run().feed(*alive);
    EXPECT_EQ(ask("SELECT name, status FROM run"), "ci|running");
    EXPECT_EQ(refused(false), "taken");
    EXPECT_EQ(refused(true), "taken");
    alive->end(true);
  }
  EXPECT_EQ(refused(false), "taken");
  EXPECT_EQ(refused(true), "taken");
  EXPECT_EQ(ask("SELECT verdict, pairs FROM run_verdict"), "PASS|1");
  {
    SQLite::Database db = open_for_writing(file());
    db.exec("UPDATE run SET status = 'running'");
  }
  EXPECT_EQ(refused(true), "taken");  // by whom is not known
  {
    SQLite::Database db = open_for_writing(file());
    const Process gone{this_process().host, this_process().pid, "another start"};
    db.exec("INSERT INTO meta(key, value) VALUES ('writer/1', '" + gone.host + "\t" +
            std::to_string(gone.pid) + "\t" + gone.start + "')");
  }
  EXPECT_EQ(refused(false), "left behind");
  begin(true)->end(true);
  EXPECT_EQ(ask("SELECT name, status FROM run"), "ci|complete");
  EXPECT_EQ(ask("SELECT count(*) FROM trace_row"), "0");
  SQLite::Database db = open_for_writing(file());
  EXPECT_EQ(problems_of(db), "");
}

TEST_F(RunInDatabase, WhatIsNotKnownIsNull) {
  RunRecord record = MadeUpRun::record("");
  record.commit_sha = record.dtype = "";
  record.experiment = "plain";
  record.attributes.clear();
  RunQueue writer(store_in_database(file(), record));
  PromptRecord unknown = prompt("p");
  writer.begin_prompt(unknown);
  ReadoutRecord readout;
  readout.top1_id = readout.top2_id = -1;
  writer.readout(0, readout);
  writer.end(true);
  EXPECT_EQ(writer.run_name(), "2026-02-07/plain");
  EXPECT_EQ(ask("SELECT commit_sha, mode, dtype, family, variant FROM run"), "-|-|-|plain|-");
  EXPECT_EQ(ask("SELECT text_sha256 FROM prompt"), "-");
  EXPECT_EQ(ask("SELECT top1_id, top1_logit, top2_id, top2_logit, gap, cpu_top1_id, cpu_agrees "
                "FROM readout"),
            "-|-|-|-|-|-|-");
}

TEST_F(RunInDatabase, RecordsEveryRowWhole) {
  MadeUpRun run = small_run();
  run.sample_n = 5;
  run.points = {TracePoint::kAttnOut, TracePoint::kFinalNorm};
  write(run);
  const std::vector<float> values = MadeUpRun::values("p0_short", 0, TracePoint::kAttnOut, 5);
  const Fingerprint f = fingerprint(values);
  SQLite::Database db = open_for_reading(file());
  EXPECT_EQ(text_of(db,
                    "SELECT phase, step, pos_id, layer, tensor, token_id, logical_tok_idx, n, hash,"
                    " nan, inf, nz_count, route, seq_len, tokens_total, token_index, source_line,"
                    " extra, sample_n, derived FROM trace WHERE tensor = 'attn_out' ORDER BY step"),
            "prefill_last|0|5|0|attn_out|105|5|48|" + std::to_string(f.hash) + "|0|0|" +
                std::to_string(f.nz_count) +
                "|ONLINE|6|6|5|1|-|5|0\n"
                "decode0|1|5|0|attn_out|105|5|48|" +
                std::to_string(f.hash) + "|0|0|" + std::to_string(f.nz_count) +
                "|TWO_PASS|1|6|0|3|-|5|0");
  EXPECT_EQ(text_of(db, "SELECT DISTINCT extra, route FROM trace WHERE tensor = 'final_norm'"),
            R"({"rms_sumsq":26284.25,"rms_eps":1e-05}|-)");
  SQLite::Statement row(
      db,
      "SELECT t.min, t.max, t.mean, t.abs_sum, s.n, s.derived, s.sum_sq,"
      " s.b0 * s.scale, s.b31 * s.scale, p.data, s.scale FROM trace_row t"
      " JOIN sketch s ON s.id = t.sketch_id JOIN sample p ON p.id = t.sample_id WHERE t.line = 1");
  ASSERT_TRUE(row.executeStep());
  const double expected[] = {
      static_cast<double>(f.min), static_cast<double>(f.max), f.mean, f.abs_sum, 48, 0, f.sum_sq};
  for (int i = 0; i < 7; ++i) EXPECT_EQ(row.getColumn(i).getDouble(), expected[i]) << i;
  const double scale = row.getColumn(10).getDouble();
  EXPECT_NEAR(row.getColumn(7).getDouble(), f.sketch[0], scale / 2);
  EXPECT_NEAR(row.getColumn(8).getDouble(), f.sketch[31], scale / 2);
  ASSERT_EQ(row.getColumn(9).getBytes(), 20);
  EXPECT_EQ(std::memcmp(row.getColumn(9).getBlob(), values.data(), 20), 0);
}

TEST_F(RunInDatabase, TakenNamesGetANumber) {
  for (const char* end : {"", "#2", "#3"}) {
    EXPECT_EQ(write(small_run()), std::string("2026-02-07/b3_66_v2/kv_aligned") + end);
  }
  EXPECT_EQ(ask("SELECT DISTINCT verdict, pairs FROM run_verdict"), "PASS|1");
}

TEST_F(RunInDatabase, RefusesNamesThatNoRunCanHave) {
  for (const char* bad : {"", "a/b", "a b", "..", ".hidden", "a\n", "caf\xc3\xa9"}) {
    RunRecord record = MadeUpRun::record();
    record.experiment = bad;
    EXPECT_THROW(store_in_database(file(), record), std::invalid_argument) << bad;
  }
  EXPECT_EQ(ask("SELECT count(*) FROM run"), "0");
}

TEST_F(RunInDatabase, RefusesAFileOfOthers) {
  folder_.write("greta.db", "not a database at all");
  EXPECT_THROW(store_in_database(file(), MadeUpRun::record()), DatabaseError);
  EXPECT_EQ(bytes_of(file()), "not a database at all");
}

TEST_F(RunInDatabase, CallsOutOfOrderAreErrors) {
  RunQueue writer(store_in_database(file(), MadeUpRun::record()));
  EXPECT_THROW(writer.rows(0, token_rows(0, 1)), std::logic_error);
  EXPECT_THROW(writer.readout(0, {}), std::logic_error);
  writer.begin_prompt(prompt("p"));
  writer.rows(0, {});
  writer.end(true);
  EXPECT_THROW(writer.rows(0, token_rows(0, 1)), std::logic_error);
  EXPECT_THROW(writer.end(true), std::logic_error);
  EXPECT_EQ(ask("SELECT status FROM run"), "complete");
}

TEST_F(RunInDatabase, RowsCanBeReadWhileTheRunGoesOn) {
  RunQueue writer(store_in_database(file(), MadeUpRun::record()));
  EXPECT_EQ(ask("SELECT name, status FROM run"), writer.run_name() + "|running");
  writer.begin_prompt(prompt("p"));
  writer.rows(0, token_rows(3, 2));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (ask("SELECT count(*) FROM trace_row") == "0" &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(ask("SELECT count(*) FROM trace_row"), "6");
  EXPECT_EQ(ask("SELECT rows FROM source"), "6");
  EXPECT_EQ(ask("SELECT verdict, status FROM run_verdict"), "INCOMPLETE|running");
  writer.end(true);
  EXPECT_FALSE(fs::exists(file().string() + "-wal")) << "all of it is in the file";
}

TEST_F(RunInDatabase, MoreThanTheQueueHoldsIsNotLost) {
  RunQueue writer(store_in_database(file(), MadeUpRun::record()));
  writer.begin_prompt(prompt("p"));
  int64_t given = 0;
  for (int64_t pos = 0; pos < 5; ++pos) {
    std::vector<TraceRecord> rows = token_rows(pos, 7000);
    given += static_cast<int64_t>(rows.size());
    writer.rows(0, std::move(rows));
  }
  writer.end(true);
  EXPECT_EQ(ask("SELECT count(*), count(DISTINCT line), max(line) FROM trace_row"),
            std::to_string(given) + "|" + std::to_string(given) + "|" + std::to_string(given));
  EXPECT_EQ(ask("SELECT count(sketch_id) FROM trace_row"), std::to_string(given));
}

TEST_F(RunInDatabase, SameRowTwiceIsOneRowAndACount) {
  RunQueue writer(store_in_database(file(), MadeUpRun::record()));
  writer.begin_prompt(prompt("p"));
  writer.rows(0, token_rows(0, 1));
  writer.rows(0, token_rows(0, 1));
  std::vector<TraceRecord> other = token_rows(0, 1);
  other.resize(1);
  other[0].fingerprint.hash = 99;
  writer.rows(0, other);
  writer.end(true);
  EXPECT_EQ(ask("SELECT rows, duplicates, conflicts FROM source"), "7|3|1");
  EXPECT_EQ(ask("SELECT count(*) FROM trace_row"), "4");
  EXPECT_EQ(ask("SELECT unmet FROM run_verdict"), "0");
}

TEST_F(RunInDatabase, ARowBeyondTheLimitsEndsTheRun) {
  RunQueue writer(store_in_database(file(), MadeUpRun::record()));
  writer.begin_prompt(prompt("p"));
  writer.rows(0, token_rows(kMaxPosition + 1, 1));
  EXPECT_THROW(writer.end(true), std::invalid_argument);
  EXPECT_EQ(ask("SELECT status FROM run"), "failed");
}

TEST_F(RunInDatabase, WaitsForAnotherWriter) {
  SQLite::Database other = open_for_writing(file());
  RunQueue writer(store_in_database(file(), MadeUpRun::record()));
  writer.begin_prompt(prompt("p"));
  other.exec("BEGIN IMMEDIATE");
  std::thread release([&other] {
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    other.exec("COMMIT");
  });
  writer.rows(0, token_rows(0, 10));
  writer.end(true);
  release.join();
  EXPECT_EQ(ask("SELECT count(*) FROM trace_row"), "30");
  EXPECT_EQ(ask("SELECT status FROM run"), "complete");
}

/// Runs of several engines at a time, each in small pieces.
void write_pieces(const fs::path& file, int tokens) {
  RunQueue writer(store_in_database(file, MadeUpRun::record()));
  writer.begin_prompt(prompt("p"));
  for (int pos = 0; pos < tokens; ++pos) writer.rows(0, token_rows(pos, 40));
  writer.end(true);
}

void expect_all_runs(const fs::path& file, int runs, int rows) {
  SQLite::Database db = open_for_writing(file);
  EXPECT_EQ(problems_of(db), "");
  EXPECT_EQ(text_of(db, "SELECT count(*), count(DISTINCT name), sum(status = 'complete') FROM run"),
            std::to_string(runs) + "|" + std::to_string(runs) + "|" + std::to_string(runs));
  EXPECT_EQ(text_of(db,
                    "SELECT DISTINCT (SELECT count(*) FROM trace_row t WHERE t.run_id = r.id),"
                    " (SELECT rows FROM source s WHERE s.run_id = r.id) FROM run r"),
            std::to_string(rows) + "|" + std::to_string(rows));
  EXPECT_EQ(text_of(db, "SELECT count(*) FROM trace_row t JOIN sketch k ON k.id = t.sketch_id"),
            std::to_string(runs * rows));
}

/// Runs `body` in a process of its own; _exit status 0, or 1 with what it threw on stderr.
template <class Body>
pid_t in_child(Body body) {
  const pid_t child = fork();
  if (child != 0) return child;
  int status = 0;
  try {
    body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    status = 1;
  }
  _exit(status);
}

int status_of(pid_t child) {
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST_F(RunInDatabase, ProcessesWriteOneFile) {
  std::vector<pid_t> engines;
  for (int i = 0; i < 3; ++i) engines.push_back(in_child([this] { write_pieces(file(), 60); }));
  for (pid_t engine : engines) EXPECT_EQ(status_of(engine), 0);
  expect_all_runs(file(), 3, 60 * 120);
}

TEST_F(RunInDatabase, FullDiskEndsTheRunWithAnErrorAndASoundFile) {
  write(small_run());  // the schema is there
  const auto room = static_cast<rlim_t>(fs::file_size(file())) + (200u << 10);
  const fs::path said = folder_ / "said";
  const pid_t engine = in_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{room, room};
    setrlimit(RLIMIT_FSIZE, &limit);
    std::string what;
    try {
      RunQueue writer(store_in_database(file(), MadeUpRun::record()));
      writer.begin_prompt(prompt("p"));
      try {
        for (int pos = 0; pos < 100'000; ++pos) writer.rows(0, token_rows(pos, 40));
      } catch (const DatabaseError& error) {
        what = error.what();
      }
      writer.end(true);  // the run cannot become complete
    } catch (const DatabaseError& error) {
      what += error.what() == what ? "" : "; then " + std::string(error.what());
    }
    folder_.write(said, what);
  });
  ASSERT_EQ(status_of(engine), 0);
  const std::string what = bytes_of(said);
  EXPECT_TRUE(what.starts_with(
      "cannot write the traces of run 2026-02-07/b3_66_v2/batch_invariant to " + file().string()))
      << what;
  EXPECT_NE(what.find("make room on its disk"), std::string::npos) << what;
  EXPECT_EQ(what.find("; then "), std::string::npos) << what;
  expect_usable("2026-02-07/b3_66_v2/batch_invariant");
}

TEST_F(RunInDatabase, KilledAtAnyMomentTheRunIsIncompleteAndTheFileSound) {
  const MadeUpRun run{.layers = {0, 1, 2}};
  int engines = 0;
  for (int calls : {0, 1, 3, 5, 8}) {
    const std::string number = ++engines > 1 ? "#" + std::to_string(engines) : "";
    const std::string name = "2026-02-07/b3_66_v2/batch_invariant" + number;
    int pipe_of[2];
    ASSERT_EQ(pipe(pipe_of), 0);
    const pid_t engine = in_child([&] {
      // Says each call, and waits at the end for its death.
      struct Telling : TraceSink {
        Telling(RunQueue& q, int fd) : queue(q), out(fd) {}
        void tell() { [[maybe_unused]] ssize_t n = ::write(out, ".", 1); }
        size_t begin_prompt(const PromptRecord& p) override {
          const size_t prompt = queue.begin_prompt(p);
          tell();
          return prompt;
        }
        void rows(size_t prompt, std::vector<TraceRecord> r) override {
          queue.rows(prompt, std::move(r)), tell();
        }
        void readout(size_t prompt, const ReadoutRecord& r) override {
          queue.readout(prompt, r), tell();
        }
        void end(bool) override {}
        RunQueue& queue;
        int out;
      };
      RunQueue writer(store_in_database(file(), MadeUpRun::record()));
      Telling telling(writer, pipe_of[1]);
      telling.tell();
      run.feed(telling);
      for (;;) pause();
    });
    char byte;
    for (int i = 0; i <= calls; ++i) ASSERT_EQ(read(pipe_of[0], &byte, 1), 1);
    if (calls > 3) std::this_thread::sleep_for(std::chrono::milliseconds(20 * calls));
    kill(engine, SIGKILL);
    EXPECT_TRUE(WIFSIGNALED(status_of(engine)));
    close(pipe_of[0]);
    close(pipe_of[1]);
    expect_usable(name);
    EXPECT_EQ(ask("SELECT status FROM run WHERE name = '" + name + "'"), "running");
  }
}

TEST_F(RunInDatabase, IngestOfMoreAboutTheExperimentKeepsWhatTheEngineSaid) {
  write(small_run());
  const std::string before = ask("SELECT * FROM run");
  folder_.write(
      "2026-02-07/b3_66_v2/kv_aligned/metadata.json",
      R"({"dtype":"bf16","seed":5,"git_commit":"badbad1","timestamp":"2026-03-01T00:00:00Z"})");
  SQLite::Database db = open_for_writing(file());
  EXPECT_EQ(ingest_all(db, {folder_ / "2026-02-07"}).new_sources, 1);
  EXPECT_EQ(text_of(db, "SELECT * FROM run"), before);
}

RunRecord failed_record() {
  return make_failed_record({.experiment = "b3_66", .date = "2026-02-07", .mode = "as_designed"},
                            "models/m.gguf", "hip", "no GPU can be used");
}

TEST(FailedRun, IsInTheDatabaseWithItsReasonAndIsIncomplete) {
  const TemporaryFolder folder;
  const std::string database = (folder / "greta.db").string();
  leave_failed_run(database, failed_record());
  SQLite::Database db(database);
  SQLite::Statement run(db, "SELECT run, status, verdict FROM run_verdict");
  ASSERT_TRUE(run.executeStep());
  EXPECT_EQ(run.getColumn(0).getString(), "2026-02-07/b3_66/as_designed");
  EXPECT_EQ(run.getColumn(1).getString(), "failed");
  EXPECT_EQ(run.getColumn(2).getString(), "INCOMPLETE");
  EXPECT_FALSE(run.executeStep());
  const auto attribute = [&db](const std::string& name) {
    SQLite::Statement query(db, "SELECT value FROM attribute WHERE dim = ?");
    query.bind(1, name);
    return query.executeStep() ? query.getColumn(0).getString() : "";
  };
  EXPECT_EQ(attribute("error"), "no GPU can be used");
  EXPECT_EQ(attribute("backend"), "hip");
  EXPECT_EQ(attribute("model_file"), "m.gguf");
}

TEST(FailedRun, NeitherNoDatabaseNorOneThatCannotBeWrittenIsAnErrorOfItsOwn) {
  const TemporaryFolder folder;
  leave_failed_run("", failed_record());
  leave_failed_run((folder / "no folder" / "greta.db").string(), failed_record());
  EXPECT_TRUE(std::filesystem::is_empty(folder / ""));
}

}  // namespace

}  // namespace greta
