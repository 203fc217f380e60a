#include "ingest/run_identity.h"

#include <gtest/gtest.h>

#include <map>
#include <ostream>
#include <string>

namespace greta {
namespace {

struct PathCase {
  std::string path, run_name, leg, prompt;
  std::string relative_path = path;
};

void PrintTo(const PathCase& c, std::ostream* out) { *out << c.path; }

class IdentifyRun : public testing::TestWithParam<PathCase> {};

TEST_P(IdentifyRun, NamesTheRunOfEveryKnownLayout) {
  const PathCase& want = GetParam();
  const RunIdentity id = identify_run(want.path);
  EXPECT_EQ(id.run_name(), want.run_name);
  EXPECT_EQ(id.leg, want.leg);
  EXPECT_EQ(id.prompt, want.prompt);
  EXPECT_EQ(id.relative_path, want.relative_path);
}

TEST_P(IdentifyRun, IsTheSameUnderAnyRoot) {
  const RunIdentity id = identify_run(GetParam().path);
  for (const std::string root :
       {"/x/", "./", "../y/", "/data/2020-01-01/artifacts_remote/", "C:\\"}) {
    if (root.find("artifacts_remote") != std::string::npos && id.experiment.empty()) continue;
    const RunIdentity rooted = identify_run(root + id.relative_path);
    EXPECT_EQ(rooted.run_name(), id.run_name()) << root;
    EXPECT_EQ(rooted.relative_path, id.relative_path) << root;
  }
}

const std::string kRemote = "root/gretacore/artifacts/alignment/2026-02-03/";
const std::string kRun67 = "2026-02-07/b3_67/kv_aligned_0/seed_1";
const std::string kRun70 = "2026-02-09/b3_70_71_72/span_32/dtype_fp16/kv_aligned_1/seed_2";
const std::string kLeaf70 = "2026-02-09/b3_70_71_72/runs/span_32/dtype_fp16/kv_aligned_1/seed_2/";

INSTANTIATE_TEST_SUITE_P(
    TensorRows, IdentifyRun,
    testing::Values(
        PathCase{"2026-02-05/b3_59/traces/p0_short_trace.jsonl", "2026-02-05/b3_59", "",
                 "p0_short"},
        PathCase{"2026-02-07/b3_67/runs/kv_aligned_0/seed_1/prefill/p0_short_trace.jsonl.gz",
                 kRun67, "prefill", "p0_short"},
        PathCase{"2026-02-07/b3_67/runs/kv_0/seed_1/decode/p6_len_16_trace.jsonl.gz", kRun67,
                 "decode", "p6_len_16"},
        PathCase{"2026-02-04/b3_58/b3_58_rms_in.jsonl", "2026-02-04/b3_58", "", ""},
        PathCase{"2026-02-04/b3_58/b3_57_normout.jsonl", "2026-02-04/b3_58", "", ""},
        PathCase{"2026-02-03/b3_11/" + kRemote + "b3_11_readout_consistency.jsonl",
                 "2026-02-03/b3_11", "", ""},
        PathCase{"2026-02-03/b3_12/" + kRemote + "b3_12_readout.jsonl", "2026-02-03/b3_12", "", ""},
        PathCase{"2026-02-03/b3_10A/" + kRemote + "b3_10_p1_hi_space_prefill_decode.jsonl",
                 "2026-02-03/b3_10A", "", "p1_hi_space"},
        PathCase{"2026-02-03/b3_10A/" + kRemote + "b3_10_p4_sys_landscape.jsonl",
                 "2026-02-03/b3_10A", "", "p4_sys"},
        PathCase{"/" + kRemote + "b3_13_delta.jsonl", "2026-02-03/b3_13", "", "",
                 "2026-02-03/b3_13_delta.jsonl"}));

INSTANTIATE_TEST_SUITE_P(
    ContextAndReports, IdentifyRun,
    testing::Values(
        PathCase{kLeaf70 + "prefill/metadata.json", kRun70, "prefill", ""},
        PathCase{kLeaf70 + "decode/perf.json", kRun70, "decode", ""},
        PathCase{kLeaf70 + "decode/logits.jsonl.gz", kRun70, "decode", ""},
        PathCase{"2026-02-09/b3_70_71_72/runs/config.json", "2026-02-09/b3_70_71_72", "", ""},
        PathCase{"2026-02-09/b3_70_71_72/perf_summary.json", "2026-02-09/b3_70_71_72", "", ""},
        PathCase{"2026-02-09/b3_78_80/report.md", "2026-02-09/b3_78_80", "", ""},
        PathCase{"artifacts_remote/--seeds/b3_67/runs/kv_aligned_0/seed_0/decode/metadata.json",
                 "--seeds/b3_67/kv_aligned_0/seed_0", "decode", "",
                 "--seeds/b3_67/runs/kv_aligned_0/seed_0/decode/metadata.json"},
        PathCase{"2026-02-03/b3_9/" + kRemote + "b3_9_prompt1_run.log", "2026-02-03/b3_9", "",
                 "prompt1"},
        PathCase{"2026-02-03/b3_10A/" + kRemote + "b3_10_p2_hi_nl.log", "2026-02-03/b3_10A", "",
                 "p2_hi_nl"},
        PathCase{"2026-02-03/b3_10A/gretacore_b3_10A_runs.tgz", "2026-02-03/b3_10A", "", ""},
        PathCase{"2026-02-03/b3_7_analysis/tables.csv", "2026-02-03/b3_7_analysis", "", ""},
        PathCase{"2026-02-07/b3_64/stability/run_01.txt", "2026-02-07/b3_64/stability", "", ""},
        PathCase{"2026-02-07/b3_64/run_results_2026-02-07.txt", "2026-02-07/b3_64", "", ""},
        PathCase{"2026-02-07/b3_66/b3_66_analysis_v3.tsv", "2026-02-07/b3_66", "", ""},
        PathCase{"2026-02-07/b3_66/b3_66_final.txt", "2026-02-07/b3_66", "", ""},
        PathCase{"2026-02-07/B3_66_FINAL_REPORT.md", "2026-02-07/b3_66", "", ""},
        PathCase{"2026-02-07/b3_65_analysis.txt", "2026-02-07/b3_65", "", ""},
        PathCase{"2026-02-10/B3_85_88_RCA_SUMMARY.md", "2026-02-10/b3_85_88", "", ""},
        PathCase{"2026-02-07/b3_67/x/logits.jsonl", "2026-02-07/b3_67/x", "", ""},
        PathCase{"2026-02-12/b3_89_long_ctx/runs/profile_long/ctx_4096/batch_2/repeat_3/perf.json",
                 "2026-02-12/b3_89_long_ctx/profile_long/ctx_4096/batch_2/repeat_3", "", ""},
        PathCase{"2026-02-10/b3_89/b3_89/runs/ctx_512/p0_short/perf.json",
                 "2026-02-10/b3_89/ctx_512/p0_short", "", ""},
        PathCase{"artifacts_remote/B3_89_FINAL_REPORT.md", "undated/b3_89", "", "",
                 "B3_89_FINAL_REPORT.md"}));

INSTANTIATE_TEST_SUITE_P(
    ModesInFileNames, IdentifyRun,
    testing::Values(
        PathCase{"2026-02-07/b3_66_v2/run/p6_len_16_as_designed.log",
                 "2026-02-07/b3_66_v2/as_designed", "", "p6_len_16"},
        PathCase{"2026-02-07/b3_66_v2/traces/p0_short_kv_aligned_trace.jsonl",
                 "2026-02-07/b3_66_v2/kv_aligned", "", "p0_short"},
        PathCase{"2026-02-07/b3_66_v2/traces/b3_66_v2_p0_short_batch_invariant_trace.jsonl.gz",
                 "2026-02-07/b3_66_v2/batch_invariant", "", "p0_short"},
        PathCase{"2026-02-07/b3_66_v2/kv_aligned/traces/p0_short_trace.jsonl",
                 "2026-02-07/b3_66_v2/kv_aligned", "", "p0_short"},
        PathCase{"2026-02-07/b3_66_v2/as_designed/p0_short_kv_aligned_trace.jsonl",
                 "2026-02-07/b3_66_v2/as_designed", "", "p0_short"},
        PathCase{"2026-02-07/b3_66_v2/B3_66_V2_FINAL_REPORT.md", "2026-02-07/b3_66_v2", "", ""},
        PathCase{"2026-02-07/b3_66_v2/B3_66_V2_ANALYSIS.tsv", "2026-02-07/b3_66_v2", "", ""},
        PathCase{"2026-02-07/b3_66/b3_66_kv_aligned.log", "2026-02-07/b3_66/kv_aligned", "", ""},
        PathCase{"2026-02-07/b3_66_kv_aligned/b3_66_kv_aligned.log", "2026-02-07/b3_66_kv_aligned",
                 "", ""}));

INSTANTIATE_TEST_SUITE_P(
    UnknownLayouts, IdentifyRun,
    testing::Values(
        PathCase{"", "undated/unnamed", "", ""}, PathCase{"/", "undated/unnamed", "", "", ""},
        PathCase{"/tmp/p0_short_trace.jsonl", "undated/unnamed", "", "p0_short",
                 "p0_short_trace.jsonl"},
        PathCase{"/tmp/runs/kv_aligned_1/seed_3/decode/x.jsonl",
                 "undated/unnamed/kv_aligned_1/seed_3", "decode", "",
                 "kv_aligned_1/seed_3/decode/x.jsonl"},
        PathCase{"/tmp/b3_67/runs/seed_0/x.jsonl", "undated/b3_67/seed_0", "", "",
                 "b3_67/runs/seed_0/x.jsonl"},
        PathCase{"2026-02-07/nightly/seed_0/x.jsonl", "2026-02-07/nightly/seed_0", "", ""},
        PathCase{"2026-02-07/runs/seed_0/x.jsonl", "2026-02-07/unnamed/seed_0", "", ""},
        PathCase{"2026-02-07/host_a/b3_67/a/b/x.jsonl", "2026-02-07/b3_67/host_a/a/b", "", ""},
        PathCase{"2026-02-07/b3_67/seed_0/seed_1/x.jsonl", "2026-02-07/b3_67/seed_0/seed_1", "",
                 ""},
        PathCase{"2026-02-07/b3_67/seed_x/kv_cache/x.jsonl", "2026-02-07/b3_67/seed_x/kv_cache", "",
                 ""},
        PathCase{"artifacts_remote/smoke/b3_67/x.jsonl", "smoke/b3_67", "", ""},
        PathCase{"2026-02-07\\b3_77\\runs\\seed_0\\decode\\perf.json", "2026-02-07/b3_77/seed_0",
                 "decode", "", "2026-02-07/b3_77/runs/seed_0/decode/perf.json"},
        PathCase{"2026-02-07/b3_66/../b3_67/./x.jsonl", "2026-02-07/b3_67", "", "",
                 "2026-02-07/b3_67/x.jsonl"},
        PathCase{"2026-02-07/b3_67/seed_0/", "2026-02-07/b3_67/seed_0", "", ""}));

TEST(RunIdentity, CountsFromTheDateNearestAboveTheExperiment) {
  for (const std::string root :
       {"/backup/2026-03-01/", "/home/b3_66_checkout/", "/2026-03-01/b3_1/artifacts_remote/",
        "/srv/2026-03-01/artifacts_remote/"}) {
    const RunIdentity id = identify_run(root + "2026-02-07/b3_67/config.json");
    EXPECT_EQ(id.run_name(), "2026-02-07/b3_67") << root;
    EXPECT_EQ(id.relative_path, "2026-02-07/b3_67/config.json") << root;
  }
  EXPECT_EQ(identify_run("/srv/2026-03-01/artifacts_remote/B3_89_FINAL_REPORT.md").date, "");
}

TEST(RunIdentity, ADirectoryThatIsNoDateKeepsItsRunsApart) {
  const RunIdentity dated = identify_run("2026-02-08/b3_67/runs/seed_0/decode/metadata.json");
  const RunIdentity seeds = identify_run("--seeds/b3_67/runs/seed_0/decode/metadata.json");
  EXPECT_NE(dated.run_name(), seeds.run_name());
  EXPECT_EQ(seeds.date_segment, "--seeds");
  EXPECT_EQ(seeds.date, "");
  EXPECT_EQ(identify_run("--seeds/b3_67/" + kRemote + "x.jsonl").date_segment, "--seeds");
}

TEST(RunIdentity, OnlyACalendarDateIsADate) {
  EXPECT_EQ(identify_run("2024-02-29/b3_1/x").date, "2024-02-29");
  for (const std::string segment : {"2025-02-29", "2026-13-01", "2026-00-10", "0000-00-00"}) {
    const RunIdentity id = identify_run(segment + "/b3_1/x");
    EXPECT_EQ(id.date_segment, segment);
    EXPECT_EQ(id.date, "");
  }
}

TEST(RunIdentity, AnArchiveMemberIsItsLooseTwin) {
  const std::string member = kRemote + "b3_10_p4_sys.log";
  const RunIdentity loose = identify_run("/a/artifacts_remote/2026-02-03/b3_10A/" + member);
  const RunIdentity packed = identify_run("/b/2026-02-03/b3_10A/some_runs.tgz/" + member);
  EXPECT_EQ(packed.run_name(), loose.run_name());
  EXPECT_EQ(packed.relative_path, loose.relative_path);
  EXPECT_EQ(packed.prompt, loose.prompt);
}

TEST(RunIdentity, SplitsFamilyAndVariant) {
  struct {
    std::string experiment, family, variant;
  } const cases[] = {{"b3_66_v2", "b3_66", "v2"},
                     {"b3_7_analysis", "b3_7", "analysis"},
                     {"b3_10A", "b3_10A", ""},
                     {"b3_70_71_72", "b3_70_71_72", ""},
                     {"b3_89_long_ctx", "b3_89", "long_ctx"},
                     {"B3_66_V2", "b3_66", "V2"},
                     {"b3_66v2", "b3_66", "v2"},
                     {"b3_66__x", "b3_66__x", ""},
                     {"nightly_v2", "nightly_v2", ""},
                     {"b3_10A_11_x", "b3_10A_11", "x"}};
  for (const auto& c : cases) {
    const RunIdentity id = identify_run("2026-02-07/" + c.experiment + "/x.jsonl");
    EXPECT_EQ(id.experiment, c.experiment);
    EXPECT_EQ(id.family, c.family) << c.experiment;
    EXPECT_EQ(id.variant, c.variant) << c.experiment;
  }
}

TEST(RunIdentity, TakesTheExperimentFromTheFileNameOnlyWithoutADirectory) {
  EXPECT_EQ(identify_run("2026-02-07/b3_65_2026-02-07.txt").experiment, "b3_65");
  EXPECT_EQ(identify_run("2026-02-07/B3_10A_notes.md").experiment, "b3_10A");
  EXPECT_EQ(identify_run("2026-02-04/b3_58/b3_57_normout.jsonl").experiment, "b3_58");
  EXPECT_EQ(identify_run("2026-02-07/notes.md").experiment, "");
}

TEST(RunIdentity, HoldsOnlyTheDimensionsThatThePathStates) {
  const RunIdentity id = identify_run("2026-02-09/b3_70/span_32/kv_1/prefill/p0/x.jsonl");
  const std::map<std::string, std::string> want = {
      {"span", "32"}, {"kv_aligned", "1"}, {"case", "p0"}};
  EXPECT_EQ(id.dims, want);
  EXPECT_EQ(id.leg, "prefill");
}

TEST(RunName, WritesEveryDimensionInItsFixedOrder) {
  const std::map<std::string, std::string> dims = {
      {"case", "c/d"},  {"repeat", "7"},        {"batch", "6"},        {"ctx", "5"},
      {"seed", "4"},    {"kv_aligned", "3"},    {"dtype", "bf16"},     {"span", "2"},
      {"profile", "p"}, {"mode", "kv_aligned"}, {"unknown", "ignored"}};
  EXPECT_EQ(run_name("2026-02-07", "b3_1", dims),
            "2026-02-07/b3_1/kv_aligned/profile_p/span_2/dtype_bf16/kv_aligned_3/seed_4/ctx_5/"
            "batch_6/repeat_7/c/d");
}

TEST(RunName, IsAlwaysPrintable) {
  EXPECT_EQ(run_name("", "", {}), "undated/unnamed");
  EXPECT_EQ(run_name("a\x1b\n\x7f", "é→😀", {}),
            "a\\x1b\\n\\x7f"
            "/é→😀");
  // A stray byte, C1 control, overlong, surrogate, beyond Unicode, cut short, a turn of direction.
  EXPECT_EQ(run_name("\xc6", "\xc2\x85", {}), "\ufffd/\\x85");
  EXPECT_EQ(run_name("\xc0\xaf", "\xed\xa0\x80", {}), "\ufffd\ufffd/\ufffd\ufffd\ufffd");
  EXPECT_EQ(run_name("\xf4\x90\x80\x80", "\xe2\x82", {}), "\ufffd\ufffd\ufffd\ufffd/\ufffd\ufffd");
  EXPECT_EQ(run_name("a\u202e", "b", {}), "a\\u202e/b");
  const RunIdentity id = identify_run("2026-02-07/b3_1/\xff/x");
  EXPECT_EQ(id.dims.at("case"), "\xff") << "identity keeps the bytes";
  EXPECT_EQ(id.run_name(), "2026-02-07/b3_1/\ufffd");
}

}  // namespace
}  // namespace greta
