// Runs written through the C API, and what a database then says of them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/temporary_folder.h"
#include "db/database.h"
#include "include/greta_trace.h"
#include "tests/query_text.h"

namespace greta {

struct TraceFixture : testing::Test {
  TemporaryFolder folder;
  const std::string file = (folder / "g.db").string();
  greta_trace* trace = nullptr;
  greta_run* run = nullptr;
  std::vector<float> values{1, 2, 3, 4};

  ~TraceFixture() override { greta_trace_close(trace); }

  void open(const std::string& path, greta_kind kind) {
    ASSERT_EQ(greta_trace_open(path.c_str(), kind, &trace), GRETA_OK) << greta_error_text();
  }
  void open() { open(file, GRETA_DATABASE); }
  greta_status begin(const greta_run_info& info) { return greta_run_begin(trace, &info, &run); }
  void begin() {
    ASSERT_NO_FATAL_FAILURE(open());
    ASSERT_EQ(begin(rollout()), GRETA_OK) << greta_error_text();
  }
  void end(greta_outcome outcome = GRETA_COMPLETE) {
    EXPECT_EQ(greta_run_end(run, outcome), GRETA_OK) << greta_error_text();
    run = nullptr;
  }

  /// Of a run that was refused rows.
  void end_refused() {
    EXPECT_EQ(greta_run_end(run, GRETA_COMPLETE), GRETA_ERROR_REFUSED) << greta_error_text();
    run = nullptr;
  }

  static greta_run_info rollout() {
    greta_run_info info = GRETA_RUN_INFO_INIT;
    info.experiment = "rollout";
    info.date = "2026-11-24";
    info.dtype = "f32";
    return info;
  }
  /// With all that a run can say of itself, but for a name and attributes.
  static greta_run_info rollout_in_full() {
    greta_run_info info = rollout();
    info.commit = "abc";
    info.mode = "eager";
    info.backend = "cuda";
    info.model = "llama";
    info.seed = -3;
    return info;
  }
  void add_prompt(const char* name) {
    greta_prompt prompt = GRETA_PROMPT_INIT;
    const int32_t ids[] = {7, 8};
    prompt.name = name;
    prompt.token_ids = ids;
    prompt.n_tokens = 2;
    ASSERT_EQ(greta_run_add_prompt(run, &prompt), GRETA_OK) << greta_error_text();
  }
  static greta_row row(greta_phase phase = GRETA_PREFILL, int32_t layer = 0, int64_t pos = 5) {
    greta_row row = GRETA_ROW_INIT;
    row.tensor = "attn_out";
    row.phase = phase;
    row.layer = layer;
    row.pos_id = pos;
    return row;
  }
  /// With all that a row can say, but for a prompt and extra.
  static greta_row row_in_full(int32_t layer) {
    greta_row full = row(GRETA_DECODE, layer, 17);
    full.step = 2;
    full.token_id = 7;
    full.logical_tok_idx = 9;
    full.route = "flash";
    return full;
  }
  greta_status add(const greta_row& row) {
    return greta_run_add_values(run, &row, GRETA_F32, values.data(), values.size());
  }
  std::string ask(const std::string& sql) {
    SQLite::Database db = open_for_reading(file);
    return text_of(db, sql);
  }
};

}  // namespace greta
