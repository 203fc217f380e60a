// An importer at work on a folder of a test's own.
#pragma once
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "db/judge.h"
#include "tests/ingest/ingest_fixture.h"

namespace greta {

inline const std::string kRun = "artifacts_remote/2026-02-07/b3_66/";

inline std::string readout(int pos, int hash) {
  return R"({"phase":"prefill_last","step":0,"pos_id":)" + std::to_string(pos) +
         R"(,"tokens_total":)" + std::to_string(pos + 1) + R"(,"hidden_hash":)" +
         std::to_string(hash) + "}\n";
}

inline std::string log_of(int prompt_tokens) {
  return "[GRETA_TRACE_D2H] step=0 offset=1\nPrompt: Hi\nGenerated: O\n\nStatistics:\n  Prompt "
         "tokens: " +
         std::to_string(prompt_tokens) + "\n";
}

/// A trace of more than 32 MiB, most of it blanks behind its lines, so that it has few of them.
inline std::string large_trace(size_t bytes = 33u << 20, size_t blanks_of_line = 16'000) {
  const std::string blanks(blanks_of_line, ' ');
  std::string text;
  text.reserve(bytes + 20'000);
  for (int64_t pos = 0; text.size() <= bytes; ++pos) {
    text +=
        std::string(StageLine{.pos = pos, .n = 3, .more = ",\"sample\":[0.5,1,2]"}) + blanks + "\n";
  }
  return text;
}

struct Importing : testing::Test {
  TemporaryFolder folder;
  SQLite::Database db = open_for_writing(folder / "g.db");
  KeptQueries queries{db};

  IngestSummary take(const std::string& relative = "artifacts_remote", int jobs = 1) {
    return ingest_all(db, {folder / relative}, jobs);
  }
  template <class... Texts>
  std::string rows(const std::string& sql, const Texts&... texts) {
    return queries.text_of(sql, texts...);
  }
  int64_t count(const std::string& table, const std::string& where = "1") {
    return std::stoll(rows("SELECT count(*) FROM " + table + " WHERE " + where));
  }
  /// As if nothing had been found; no trigger of this connection, which ingests, tells of that.
  void forget_findings() { db.exec("DELETE FROM ingest_error; DELETE FROM verdict"); }
  /// "error|warning line reason" of every finding.
  std::string findings() {
    return rows("SELECT severity || ' ' || line || ' ' || reason FROM ingest_error ORDER BY id");
  }
};

/// Runs body in a child process, whose exit status it returns; 99 when it throws.
inline pid_t start_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    int status = 99;
    try {
      status = body();
    } catch (...) {
    }
    _exit(status);
  }
  return child;
}

/// Waits for the end of a child: its exit status, or 128 + signal.
inline int end_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

inline int in_child(const std::function<int()>& body) { return end_of(start_child(body)); }

/// Every shape, several runs: what the tests below ingest whole or in part.
inline void write_tree(const TemporaryFolder& folder, int runs = 3) {
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

}  // namespace greta
