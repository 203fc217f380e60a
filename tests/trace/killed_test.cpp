// What a program leaves that is killed while it writes through the C API.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/trace/trace_fixture.h"

namespace greta {
namespace {

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
