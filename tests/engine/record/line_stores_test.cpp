#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "engine/record/run_queue.h"
#include "tests/engine/record/run_fixture.h"

namespace greta {
namespace {

/// A run written straight into one database, and exported and ingested into another.
class RunInFolder : public testing::Test {
 protected:
  void write_both(const MadeUpRun& run, const std::string& mode = "as_designed",
                  bool complete = true) {
    const RunRecord record = MadeUpRun::record(mode);
    RunQueue direct(store_in_database(direct_file(), record));
    run.feed(direct);
    direct.end(complete);
    RunQueue exported(store_in_folder(out(), record));
    run.feed(exported);
    exported.end(complete);
  }
  /// Ingests all that was exported into the second database.
  SQLite::Database ingested() const {
    SQLite::Database db = open_for_writing(folder_ / "ingested.db");
    const IngestSummary summary = ingest_all(db, {out()});
    for (const Finding& f : summary.findings)
      ADD_FAILURE() << f.file << ":" << f.line << " " << f.reason;
    EXPECT_EQ(problems_of(db), "");
    return db;
  }
  void expect_equal_views() const {
    SQLite::Database a = open_for_reading(direct_file()), b = ingested();
    const std::pair<const char*, const char*> views[] = {
        {"run_verdict", "run"},
        {"first_fail", "run, prompt"},
        {"failure_breakdown", "run, cause"},
        {"pair", "run, prompt, pos_id, layer, tensor, status"},
        {"propagation", "run, prompt, pos_id, layer, tensor, status"},
        {"kv_alignment", "run, prompt, layer, pos_id"},
        {"lm_head_delta", "run, prompt"},
        {"history", "run"},
        {"verdict", "level, item"},
        {"trace", "run, prompt, side, pos_id, step, layer, tensor, occurrence"}};
    // Where a row was read from is not the same, and not compared.
    const std::set<std::string> but = {"run_id",      "prompt_id",   "source_id",
                                       "source_file", "source_line", "shape"};
    for (const auto& [name, order] : views) {
      const std::string answer = view(a, name, order, but);
      EXPECT_EQ(view(b, name, order, but), answer) << name;
    }
    const char* tables[] = {
        "SELECT name, experiment, family, variant, date, commit_sha, synthetic, mode, dtype, seed,"
        " hash_algo, status, started_at, finished_at IS NOT NULL FROM run ORDER BY name",
        "SELECT r.name, p.name, n_tokens, text_sha256, token_ids FROM prompt p JOIN run r ON r.id "
        "= p.run_id"
        " ORDER BY r.name, p.id",
        "SELECT prompt_id, side, layer, tensor_id FROM plan ORDER BY 1, 2, 3, 4",
        "SELECT DISTINCT dim, value FROM attribute ORDER BY 1, 2"};
    for (const char* sql : tables) {
      const std::string answer = text_of(a, sql);
      EXPECT_NE(answer, "") << sql;
      EXPECT_EQ(text_of(b, sql), answer) << sql;
    }
    const std::string differences =
        "SELECT pos_id, layer, tensor_id, prefill_hash, decode_hash, n, differing, first_at,"
        " last_at, rel_l2, max_abs, max_abs_at, max_ulp, heads, segments, segment, share_ppm"
        " FROM difference d LEFT JOIN difference_part p ON p.difference_id = d.id"
        " ORDER BY prompt_id, 1, 2, 3, segment";
    EXPECT_EQ(text_of(b, differences), text_of(a, differences));
    const std::string sketches =
        "SELECT k.n, derived, sum_sq, scale, b0, b1, b15, b16, b30, b31 FROM trace_row t"
        " JOIN sketch k ON k.id = t.sketch_id"
        " ORDER BY prompt_id, side, pos_id, layer, tensor_id, step";
    EXPECT_EQ(text_of(b, sketches), text_of(a, sketches));
  }

  fs::path out() const { return folder_ / "out"; }
  fs::path run_folder() const { return out() / "2026-02-07/b3_66_v2/as_designed"; }
  fs::path direct_file() const { return folder_ / "direct.db"; }
  TemporaryFolder folder_;
};

TEST_F(RunInFolder, ExportReadsBackAsTheDirectWrite) {
  write_both({});
  expect_equal_views();
  SQLite::Database direct = open_for_reading(direct_file());
  EXPECT_EQ(text_of(direct, "SELECT verdict, coverage FROM run_verdict"), "PASS|complete");
}

TEST_F(RunInFolder, DriftOfEveryKindReadsBack) {
  MadeUpRun run{.decode_steps = 2, .sample_n = 7, .cpu_probe = true, .compared = true};
  run.alter = [](MadeUpRow& row) {
    if (row.record.phase != Phase::kDecode0) return true;
    if (row.record.layer == 1) {
      for (float& x : row.values) x *= 1.0f + 0x1p-19f;
    }
    if (is(row, TracePoint::kMlpOut, 1)) row.values[0] += 3.0f;
    if (is(row, TracePoint::kKPostRope, 0)) row.values[1] += 0x1p-13f;
    return !is(row, TracePoint::kHidden, -1);  // one row has no partner
  };
  run.alter_readout = [](ReadoutRecord& readout) {
    if (readout.phase == Phase::kDecode0) readout.cpu_top1_id = 3;
    if (readout.phase == Phase::kDecode) readout.top2_id = -1;
  };
  write_both(run);
  write_both(run, "kv_aligned");
  expect_equal_views();
  SQLite::Database direct = open_for_reading(direct_file());
  EXPECT_EQ(text_of(direct,
                    "SELECT DISTINCT measure, location FROM pair WHERE tensor = 'mlp_out'"
                    " AND layer = 1 AND status = 'DRIFT'"),
            "exact|every value, 99 % in values 0 to 23");
  EXPECT_EQ(text_of(direct,
                    "SELECT DISTINCT location FROM pair WHERE tensor = 'k_post_rope'"
                    " AND layer = 0 AND status = 'DRIFT'"),
            "value 1");
}

TEST_F(RunInFolder, ValuesThatAreNotFiniteReadBack) {
  MadeUpRun run{.prompts = {{"p0_short", 6}}, .layers = {0}, .sample_n = 4, .compared = true};
  run.alter = [](MadeUpRow& row) {
    if (is(row, TracePoint::kAttnOut, 0)) row.values[1] = -NAN;
    if (is(row, TracePoint::kWoOut, 0)) row.values.assign(4, -INFINITY);
    if (is(row, TracePoint::kMlpOut, 0)) row.values = {NAN, INFINITY, -0.0f, 0x1p-149f};
    if (is(row, TracePoint::kVProj, 0)) row.values = {-0.0f, 3.4e38f, 0.1f, -1e-30f};
    if (is(row, TracePoint::kQPreRope, 0)) row.values[is_decode(row.record.phase) ? 2 : 3] = NAN;
    return true;
  };
  write_both(run);
  expect_equal_views();
  SQLite::Database db = ingested();
  EXPECT_EQ(
      text_of(db,
              "SELECT DISTINCT status FROM pair WHERE tensor IN ('attn_out', 'wo_out', 'mlp_out')"),
      "NONFINITE");
  const char* samples =
      "SELECT line, data FROM trace_row t JOIN sample s ON s.id = t.sample_id"
      " ORDER BY side, layer, tensor_id";
  SQLite::Database direct = open_for_reading(direct_file());
  SQLite::Statement a(direct, samples), b(db, samples);
  int compared = 0;
  for (; a.executeStep(); ++compared) {
    ASSERT_TRUE(b.executeStep());
    EXPECT_EQ(a.getColumn(1).getString(), b.getColumn(1).getString());  // to the bit
  }
  EXPECT_EQ(compared, 58);
}

TEST_F(RunInFolder, FailedRunReadsBackAsIncomplete) {
  write_both({}, "as_designed", false);
  expect_equal_views();
  SQLite::Database db = ingested();
  EXPECT_EQ(text_of(db, "SELECT verdict, status FROM run_verdict"), "INCOMPLETE|failed");
}

TEST_F(RunInFolder, ExportWithoutItsEndIsIncomplete) {
  {
    RunQueue writer(store_in_folder(out(), MadeUpRun::record("as_designed")));
    MadeUpRun().feed(writer);
  }
  const fs::path run_file = run_folder() / "run.jsonl";
  std::string text = bytes_of(run_file);
  EXPECT_NE(text.find(R"("status":"failed")"), std::string::npos) << "it was not told to end";
  text.resize(text.rfind("{\"event\":\"run_end\""));
  folder_.write(run_file, text);
  SQLite::Database db = ingested();
  EXPECT_EQ(text_of(db, "SELECT verdict, numeric_verdict, coverage, status FROM run_verdict"),
            "INCOMPLETE|INCOMPLETE|complete|running");
}

TEST_F(RunInFolder, AnyLostLineIsIncomplete) {
  MadeUpRun run{.prompts = {{"p0_short", 6}},
                .layers = {0},
                .points = {TracePoint::kAttnOut},
                .decode_steps = 2};
  write_both(run);
  const fs::path trace = run_folder() / "traces/p0_short_trace.jsonl";
  std::vector<std::string> lines;
  std::istringstream in(bytes_of(trace));
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 8u);  // 4 rows, 4 readouts
  int rows = 0;
  for (size_t lost = 0; lost < lines.size(); ++lost) {
    if (lines[lost].find("stage_trace") == std::string::npos) continue;
    std::string text;
    for (size_t i = 0; i < lines.size(); ++i) {
      if (i != lost) text += lines[i] + "\n";
    }
    folder_.write(trace, text);
    SQLite::Database db = open_for_writing(folder_ / ("lost" + std::to_string(lost) + ".db"));
    ingest_all(db, {out()});
    EXPECT_NE(text_of(db, "SELECT verdict FROM run_verdict"), "PASS") << lines[lost];
    EXPECT_EQ(text_of(db, "SELECT unmet FROM run_verdict"), "1") << lines[lost];
    ++rows;
  }
  EXPECT_EQ(rows, 4);
  fs::remove(trace);  // the whole file
  SQLite::Database db = ingested();
  EXPECT_EQ(text_of(db, "SELECT verdict, unmet FROM run_verdict"), "INCOMPLETE|4");
}

TEST_F(RunInFolder, IngestedBesideTheDirectWriteItIsTheSameRun) {
  write_both({});
  SQLite::Database db = open_for_writing(direct_file());
  const std::string before =
      view(db, "run_verdict", "run") + view(db, "pair", "prompt, layer, tensor");
  const IngestSummary summary = ingest_all(db, {out()});
  EXPECT_EQ(summary.rows, 0);
  EXPECT_EQ(summary.duplicates, 200);
  EXPECT_EQ(view(db, "run_verdict", "run") + view(db, "pair", "prompt, layer, tensor"), before);
}

TEST_F(RunInFolder, TakenNamesGetANumber) {
  for (const char* end : {"", "#2", "#3"}) {
    const fs::path folder(run_folder().string() + end);
    EXPECT_FALSE(fs::exists(folder));
    RunQueue writer(store_in_folder(out(), MadeUpRun::record("as_designed")));
    EXPECT_TRUE(fs::exists(folder / "run.jsonl"));
    MadeUpRun{.prompts = {{"p", 2}}}.feed(writer);
    writer.end(true);
  }
  RunRecord plain = MadeUpRun::record("");
  RunQueue writer(store_in_folder(out(), plain));  // beside the folders of its modes
  EXPECT_TRUE(fs::exists(out() / "2026-02-07/b3_66_v2/run.jsonl"));
  MadeUpRun{.prompts = {{"p", 2}}}.feed(writer);
  writer.end(true);
  RunQueue second(store_in_folder(out(), plain));
  MadeUpRun{.prompts = {{"p", 2}}}.feed(second);
  second.end(true);
  SQLite::Database db = ingested();
  EXPECT_EQ(
      text_of(db, "SELECT run, experiment, mode, verdict, pairs FROM run_verdict ORDER BY run"),
      "2026-02-07/b3_66_v2|b3_66_v2|-|PASS|50\n"
      "2026-02-07/b3_66_v2#2|b3_66_v2|-|PASS|50\n"
      "2026-02-07/b3_66_v2/as_designed|b3_66_v2|as_designed|PASS|50\n"
      "2026-02-07/b3_66_v2/as_designed#2|b3_66_v2|as_designed|PASS|50\n"
      "2026-02-07/b3_66_v2/as_designed#3|b3_66_v2|as_designed|PASS|50");
}

TEST_F(RunInFolder, OddPromptNamesAreOnlyNames) {
  MadeUpRun run{
      .prompts = {{"../a b", 3}, {".._a_b", 3}, {"caf\xc3\xa9 \"x\"\n", 3}, {".._a b", 4}}};
  write_both(run);
  for (const auto& entry : fs::recursive_directory_iterator(out())) {
    EXPECT_TRUE(entry.is_directory() || entry.path().extension() == ".jsonl") << entry.path();
  }
  EXPECT_FALSE(fs::exists(out() / "2026-02-07/b3_66_v2/a b_trace.jsonl"));
  SQLite::Database db = ingested();
  EXPECT_EQ(text_of(db, "SELECT count(*), count(DISTINCT name) FROM prompt"), "4|4");
  EXPECT_EQ(text_of(db, "SELECT verdict, pairs, unmet FROM run_verdict"), "PASS|200|0");
}

TEST_F(RunInFolder, LinesHaveTheKeysOfTheHistory) {
  MadeUpRun run{
      .prompts = {{"p0_short", 6}}, .layers = {0}, .points = {TracePoint::kAttnOut}, .sample_n = 3};
  write_both(run);
  std::istringstream in(bytes_of(run_folder() / "traces/p0_short_trace.jsonl"));
  std::string line;
  ASSERT_TRUE(std::getline(in, line));
  const nlohmann::json row = nlohmann::json::parse(line);
  for (const char* key :
       {"event",     "prompt_id", "phase",        "point",           "layer",    "step",
        "pos_id",    "seq_len",   "tokens_total", "token_index",     "sample_n", "hash",
        "min",       "max",       "mean",         "abs_sum",         "nan",      "inf",
        "nz_count",  "sample",    "token_id",     "logical_tok_idx", "route",    "n",
        "hash_algo", "sum_sq",    "sketch"}) {
    EXPECT_TRUE(row.contains(key)) << key;
  }
  EXPECT_EQ(row["event"], "stage_trace");
  EXPECT_EQ(row["sample_n"], 3);
  EXPECT_EQ(row["n"], 48);
  EXPECT_EQ(row["sketch"].size(), 32u);
  EXPECT_EQ(row["tokens_total"], 6);
}

PromptRecord named_prompt(const std::string& name) {
  PromptRecord record;
  record.name = name;
  return record;
}

TEST_F(RunInFolder, RowsOfManyPromptsMayAlternate) {
  constexpr size_t kPrompts = 70;  // more than files are open at a time
  const auto name_of = [](size_t i) { return "p" + std::to_string(i); };
  RunQueue writer(store_in_folder(out(), MadeUpRun::record("as_designed")));
  for (size_t i = 0; i < kPrompts; ++i) {
    EXPECT_EQ(writer.begin_prompt(named_prompt(name_of(i))), i);
  }
  for (const int64_t step : {0, 1}) {
    for (size_t i = 0; i < kPrompts; ++i) {
      TraceRecord row;
      row.step = step;
      writer.rows(i, {row});
    }
  }
  EXPECT_EQ(writer.n_rows(), 2 * static_cast<int64_t>(kPrompts));
  EXPECT_THROW(writer.rows(kPrompts, {TraceRecord()}), std::logic_error);
  writer.end(true);
  for (size_t i = 0; i < kPrompts; ++i) {
    const std::string lines = bytes_of(run_folder() / "traces" / (name_of(i) + "_trace.jsonl"));
    EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2) << name_of(i);
    EXPECT_NE(lines.find("\"prompt_id\":\"" + name_of(i) + "\""), std::string::npos) << lines;
  }
}

TEST_F(RunInFolder, ARowThatCannotBeWrittenEndsTheRunAsFailed) {
  RunQueue writer(store_in_folder(out(), MadeUpRun::record("as_designed")));
  writer.begin_prompt(named_prompt("p"));
  TraceRecord row;
  row.extra = "not JSON";
  writer.rows(0, {row});
  EXPECT_THROW(writer.end(true), std::invalid_argument);
  EXPECT_NE(bytes_of(run_folder() / "run.jsonl").find(R"("status":"failed")"), std::string::npos);
}

TEST_F(RunInFolder, FullDeviceIsAnErrorThatNamesTheFile) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  RunQueue writer(store_in_folder(out(), MadeUpRun::record("as_designed")));
  fs::create_directories(run_folder() / "traces");
  fs::create_symlink("/dev/full", run_folder() / "traces/p_trace.jsonl");
  writer.begin_prompt(named_prompt("p"));
  TraceRecord row;
  writer.rows(0, {row});
  try {
    writer.end(true);
    FAIL() << "all is well on a full device";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::no_space_on_device);
    EXPECT_NE(std::string(error.what()).find("p_trace.jsonl"), std::string::npos) << error.what();
  }
}

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

class LmHeadLines : public testing::Test {
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

TEST_F(LmHeadLines, LineHasTheKeysOfTheShape) {
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

TEST_F(LmHeadLines, WhatWasNotTracedHasNoKeys) {
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

TEST_F(LmHeadLines, IngestAnswersAsTheDirectWrite) {
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

TEST_F(LmHeadLines, OfPromptsComputedTogetherStandInTheirOrderWhenOthersBegin) {
  RunQueue writer(store_lm_head(file()));
  const auto begin = [&](const std::string& name) {
    PromptRecord prompt;
    prompt.name = name;
    return writer.begin_prompt(prompt);
  };
  TraceRecord row;
  row.point = TracePoint::kHidden;
  const size_t a = begin("a"), b = begin("b");
  writer.rows(b, {row});
  writer.rows(a, {row});
  begin("c");
  writer.flush();
  ASSERT_EQ(lines().size(), 2u);
  EXPECT_EQ(lines()[0]["prompt_id"], "a");
  EXPECT_EQ(lines()[1]["prompt_id"], "b");
  writer.end(true);
  EXPECT_EQ(lines().size(), 2u) << "nothing is known of c";
}

TEST_F(LmHeadLines, FileGrowsFromRunToRun) {
  write(head_run());
  const std::string first = bytes_of(file());
  write(head_run());
  EXPECT_EQ(bytes_of(file()), first + first);
}

TEST_F(LmHeadLines, FileThatCannotBeWrittenIsAnErrorThatNamesIt) {
  try {
    RunQueue writer(store_lm_head(folder_ / "no/such/folder/x.jsonl"));
    FAIL() << "it could be opened";
  } catch (const std::system_error& error) {
    EXPECT_NE(std::string(error.what()).find("no/such/folder/x.jsonl"), std::string::npos);
  }
}

}  // namespace

}  // namespace greta
