#include <SQLiteCpp/SQLiteCpp.h>

#include "tests/cli/greta_infer/infer_program.h"

namespace greta {
namespace {

class InferCalibrate : public InferProgram {
 protected:
  /// A model of two layers and prompts short enough to probe often, 54 pairs of every place a run.
  void SetUp() override {
    make_model("--type q8_0 --layers 2");
    ASSERT_EQ(sh("for n in 3 9 14 20 27 33; do ids=5; i=1; while [ $i -lt $n ]; do"
                 " ids=$ids,$((i * 37 * n % 500)); i=$((i + 1)); done;"
                 " echo '{\"name\":\"n'$n'\",\"tokens\":['$ids']}'; done > s.jsonl")
                  .status,
              0);
  }

  Result calibrate(const std::string& options = "") const {
    return sh("$I calibrate --model m.gguf --suite s.jsonl " + options);
  }
  Result probe(const std::string& options) const {
    return sh("$I probe --model m.gguf --suite s.jsonl --gate numeric " + options);
  }
  /// Of the newest run, that probe() has just made.
  std::string graded(const std::string& tensor, int layer) const {
    return query("SELECT DISTINCT class, tolerance_source FROM pair WHERE tensor = '" + tensor +
                 "' AND layer = " + std::to_string(layer) +
                 " AND status = 'DRIFT' AND run_id = (SELECT max(id) FROM run)");
  }
};

TEST_F(InferCalibrate, FindsFp16AccumulationAndNoReorderedSum) {
  const Result done = calibrate();
  ASSERT_EQ(done.status, 0) << done.out << done.err;
  EXPECT_EQ(probe("--inject fp16_accumulate:layer=1").status, 1);
  EXPECT_EQ(graded("wo_out", 1), "DIVERGENT\tcalibrated\n");
  EXPECT_EQ(query("SELECT numeric_first_fail, numeric_layer FROM run_verdict"),
            "WO_OUT_DRIFT\t1\n");
  for (const char* sums : {"", "--route wo=gemm@decode --route qkv=dot@prefill", "--batch 5"}) {
    EXPECT_EQ(probe(sums).status, 0) << sums;
    EXPECT_EQ(graded("wo_out", 1), "ROUNDING\tcalibrated\n") << sums;
  }
}

TEST_F(InferCalibrate, FindsWhatTheShippedToleranceTakesForRounding) {
  const std::string fault = "--inject quant_scale:layer=1,magnitude=1.00002 --tensors all";
  EXPECT_EQ(probe(fault).status, 0);
  EXPECT_EQ(graded("q_pre_rope", 1), "ROUNDING\tshipped\n");
  ASSERT_EQ(calibrate().status, 0);
  // also of the run that was judged before
  EXPECT_EQ(query("SELECT numeric_verdict, numeric_tensor FROM run_verdict"), "FAIL\tq_pre_rope\n");
  EXPECT_EQ(probe(fault).status, 1);
  EXPECT_EQ(graded("q_pre_rope", 1), "DIVERGENT\tcalibrated\n");
  EXPECT_TRUE(sh("$G firstfail").says(", calibrated)"));
}

TEST_F(InferCalibrate, IsOfTheModelAlone) {
  ASSERT_EQ(calibrate().status, 0);
  ASSERT_EQ(sh("mv m.gguf n.gguf").status, 0);
  make_model("--type q8_0 --layers 2 --seed 2");
  EXPECT_EQ(probe("").status, 0);
  EXPECT_EQ(graded("wo_out", 1), "ROUNDING\tshipped\n");
}

TEST_F(InferCalibrate, MeasuresEveryLayerAndSaysHowOften) {
  const Result done = calibrate("--format json");
  ASSERT_EQ(done.status, 0) << done.err;
  for (const auto& row : done.json()) {
    EXPECT_GE(row.at("pairs"), 100) << row;
    EXPECT_GT(row.at("rel_l2"), 0) << row;
    EXPECT_LT(row.at("rel_l2"), 1e-5) << row;
    EXPECT_LT(row.at("tolerance"), row.at("tolerance_was")) << row;
    EXPECT_NEAR(row.at("tolerance").get<double>() / row.at("rel_l2").get<double>(), 4, 0.05) << row;
    EXPECT_EQ(row.at("beyond"), 0) << row;
  }
  EXPECT_EQ(query("SELECT count(DISTINCT layer), count(DISTINCT model_sha256), min(dtype),"
                  " min(backend) FROM noise_floor WHERE layer >= 0"),
            "2\t1\tf32\tcpu\n");
  // the probes themselves are no runs of the file
  EXPECT_EQ(query("SELECT count(*) FROM run"), "0\n");
}

TEST_F(InferCalibrate, OfOneTypeOfTheCacheIsOfNoOther) {
  ASSERT_EQ(calibrate("--kv-cache f16").status, 0);
  EXPECT_EQ(query("SELECT DISTINCT dtype LIKE '%/kv_cache=f16' FROM noise_floor"), "1\n");
  EXPECT_EQ(probe("").status, 0);
  EXPECT_EQ(graded("q_pre_rope", 0), "ROUNDING\tshipped\n");
  EXPECT_EQ(probe("--kv-cache f16").status, 0);
  EXPECT_EQ(graded("q_pre_rope", 0), "ROUNDING\tcalibrated\n");
}

TEST_F(InferCalibrate, StoresWhatIsBeyondAndSaysWhichTensorAndHowOften) {
  ASSERT_EQ(sh("$G tolerance set 1e-9 --tensor q_pre_rope").status, 0);
  const Result done = calibrate("--format json");
  EXPECT_EQ(done.status, 1) << done.err;
  EXPECT_NE(done.err.find("pairs of clean probes are beyond"), std::string::npos) << done.err;
  for (const auto& row : done.json()) {
    // in the first layer no input explains it
    const bool beyond = row.at("tensor") == "q_pre_rope";
    EXPECT_EQ(row.at("beyond") > 0, beyond) << row;
    EXPECT_EQ(row.at("tolerance") == 1e-9, beyond) << row;  // which excuses nothing
  }
  EXPECT_EQ(query("SELECT count(*) FROM noise_floor f JOIN tensor t ON t.id = f.tensor_id"
                  " WHERE t.name = 'q_pre_rope' AND f.rel_l2 > 1e-9"),
            "2\n");
}

TEST_F(InferCalibrate, ASecondTimeReplacesTheFirst) {
  ASSERT_EQ(calibrate().status, 0);
  const std::string places = query("SELECT count(*) FROM noise_floor");
  SQLite::Database(database(), SQLite::OPEN_READWRITE).exec("UPDATE noise_floor SET rel_l2 = 0.5");
  ASSERT_EQ(calibrate().status, 0);
  EXPECT_EQ(query("SELECT count(*) FROM noise_floor"), places);
  EXPECT_EQ(query("SELECT max(rel_l2) < 1e-5 FROM noise_floor"), "1\n");
}

TEST_F(InferCalibrate, OfTooFewPairsThereIsNothingToStore) {
  const Result done = calibrate("--runs 1");
  EXPECT_EQ(done.status, 3) << done.out << done.err;
  EXPECT_NE(done.err.find("too few pairs"), std::string::npos) << done.err;
  EXPECT_EQ(sh("test -e greta.db").status, 1);
}

TEST_F(InferCalibrate, AnEngineThatIsWrongIsNotCalibrated) {
  // a block of the weights, scale included, that is no number
  ASSERT_EQ(sh("yes '' | head -n 40 | tr '\\n' '\\377' | dd of=m.gguf bs=1 conv=notrunc"
               " seek=$(($(wc -c < m.gguf) - 1000)) 2> dd.err")
                .status,
            0);
  const Result done = calibrate();
  EXPECT_EQ(done.status, 1) << done.out << done.err;
  EXPECT_NE(done.err.find("a clean probe is FAIL"), std::string::npos) << done.err;
  EXPECT_NE(done.err.find("to see it: greta-infer probe --model"), std::string::npos) << done.err;
  EXPECT_EQ(sh("test -e greta.db").status, 1);
}

TEST_F(InferCalibrate, ANumberOfProbesThatIsNoneIsRefusedInASentence) {
  for (const char* n : {"0", "-1", "x", "1e9"}) {
    EXPECT_TRUE(
        calibrate(std::string("--runs ") + n).answers(2, {"is no whole number of 1 or more"}))
        << n;
  }
}

}  // namespace
}  // namespace greta
