#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

#include "engine/record/run_queue.h"
#include "tests/engine/record/run_fixture.h"

namespace greta {
namespace {

using Json = nlohmann::json;

/// The probe of what lies after the stack: the CPU contradicts prefill.
MadeUpRun head_run() {
  MadeUpRun run{.prompts = {{"p4_sys", 20}, {"p5_ba", 9}},
                .layers = {},
                .decode_steps = 1,
                .cpu_probe = true};
  run.points = {TracePoint::kHidden, TracePoint::kFinalNorm, TracePoint::kLogits};
  run.alter = [](MadeUpRow& row) {
    if (row.record.phase == Phase::kDecode0 && row.record.point == TracePoint::kLogits)
      row.values[0] += 1;
    return true;
  };
  run.alter_readout = [](ReadoutRecord& readout) {
    if (readout.phase == Phase::kPrefillLast) readout.cpu_top1_id = 12;
  };
  return run;
}

class DeltaWriterTest : public testing::Test {
 protected:
  void write(const MadeUpRun& run) {
    RunQueue writer(store_lm_head(file()));
    run.feed(writer);
    writer.end(true);
  }
  std::vector<Json> lines() const {
    std::vector<Json> all;
    std::istringstream in(bytes_of(file()));
    for (std::string line; std::getline(in, line);) all.push_back(Json::parse(line));
    return all;
  }
  fs::path file() const { return folder_ / "2026-02-07/b3_13/b3_13_delta.jsonl"; }
  TemporaryFolder folder_;

  void SetUp() override { fs::create_directories(file().parent_path()); }
};

TEST_F(DeltaWriterTest, OneLineForEachPhaseOfAPrompt) {
  write(head_run());
  const std::vector<Json> all = lines();
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0]["prompt_id"], "p4_sys");
  EXPECT_EQ(all[0]["phase"], "prefill_last");
  EXPECT_EQ(all[1]["phase"], "decode0");
  EXPECT_EQ(all[2]["prompt_id"], "p5_ba");
  EXPECT_EQ(all[3]["pos_id"], 8);
  EXPECT_EQ(all[3]["seq_len"], 1);
  EXPECT_EQ(all[3]["tokens_total"], 9);
}

TEST_F(DeltaWriterTest, LineHasTheKeysOfTheShape) {
  write(head_run());
  const Json line = lines()[0];
  const Fingerprint hidden = fingerprint(MadeUpRun::values("p4_sys", -1, TracePoint::kHidden, 19));
  EXPECT_EQ(line["hidden_hash"], hidden.hash);
  EXPECT_EQ(line["hidden_mean"], hidden.mean);
  EXPECT_EQ(line["hidden_n"], 48);
  EXPECT_EQ(line["rms_sumsq"], 26284.25);
  EXPECT_EQ(line["rms_eps"], 1e-05);
  EXPECT_EQ(line["logits_n"], 40);
  EXPECT_EQ(line["top1_id"], 7);
  EXPECT_EQ(line["gap"], static_cast<double>(3.1f) - static_cast<double>(1.7f));
  EXPECT_EQ(line["lm_head_route"], "GEMM");
  EXPECT_EQ(line["lm_head_quant_mode"], "F16");
  EXPECT_EQ(line["cpu_probe_top1_id"], 12);
  EXPECT_EQ(line["cpu_probe_agrees_gpu"], false);
  EXPECT_EQ(line["cpu_probe_prefill_top1"], 12);
  EXPECT_EQ(line["cpu_probe_decode0_top1"], 7);
  EXPECT_EQ(lines()[1]["cpu_probe_agrees_gpu"], true);
}

TEST_F(DeltaWriterTest, WhatWasNotTracedHasNoKeys) {
  MadeUpRun run = head_run();
  run.cpu_probe = false;
  run.alter_readout = [](ReadoutRecord&) {};
  run.points = {TracePoint::kHidden};
  write(run);
  const Json line = lines()[0];
  for (const char* key :
       {"rms_hash", "rms_sumsq", "logits_hash", "cpu_probe_top1_id", "cpu_probe_prefill_top1"}) {
    EXPECT_FALSE(line.contains(key)) << key;
  }
  EXPECT_TRUE(line.contains("hidden_hash"));
  EXPECT_TRUE(line.contains("top1_id"));
}

TEST_F(DeltaWriterTest, IngestAnswersAsTheDirectWrite) {
  write(head_run());
  RunQueue direct(store_in_database(folder_ / "direct.db", MadeUpRun::record()));
  head_run().feed(direct);
  direct.end(true);
  SQLite::Database a = open_for_reading(folder_ / "direct.db");
  SQLite::Database b = open_for_writing(folder_ / "ingested.db");
  const IngestSummary summary = ingest_all(b, {file()});
  EXPECT_TRUE(summary.findings.empty()) << summary.findings[0].reason;
  EXPECT_EQ(text_of(b, "SELECT hash_algo FROM run"), "greta-1");
  const std::set<std::string> but = {"run", "run_id", "prompt_id"};
  EXPECT_EQ(view(b, "lm_head_delta", "prompt", but), view(a, "lm_head_delta", "prompt", but));
  const char* pairs =
      "SELECT prompt, pos_id, canonical_tensor, status, scope, compared_n, prefill_hash,"
      " decode_hash FROM pair WHERE status <> 'DECODE_ONLY' ORDER BY prompt, tensor_id";
  EXPECT_EQ(text_of(b, pairs), text_of(a, pairs));
  EXPECT_EQ(text_of(b, "SELECT verdict, fail, tensor FROM run_verdict"), "FAIL|2|logits");
}

TEST_F(DeltaWriterTest, FileGrowsFromRunToRun) {
  write(head_run());
  const std::string first = bytes_of(file());
  write(head_run());
  EXPECT_EQ(bytes_of(file()), first + first);
}

TEST_F(DeltaWriterTest, FileThatCannotBeWrittenIsAnErrorThatNamesIt) {
  try {
    RunQueue writer(store_lm_head(folder_ / "no/such/folder/x.jsonl"));
    FAIL() << "it could be opened";
  } catch (const std::system_error& error) {
    EXPECT_NE(std::string(error.what()).find("no/such/folder/x.jsonl"), std::string::npos);
  }
}

}  // namespace
}  // namespace greta
