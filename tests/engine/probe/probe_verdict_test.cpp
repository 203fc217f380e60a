// Real probes through the writer and the views: what the database says of an engine's run.

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "db/database.h"
#include "db/statements.h"
#include "engine/record/run_queue.h"
#include "tests/engine/engine_fixture.h"
#include "tests/engine/forward/tampered_backend.h"
#include "tests/engine/probe/probe_lab.h"

namespace greta {
namespace {

constexpr int64_t kPairs = 2 + 3 * 21 + 6;  // of a probe of small_shape()

class ProbeVerdict : public testing::TestWithParam<std::string> {
 protected:
  LabVerdict probe(Mode mode) {
    const TestModel model(small_shape(), GetParam());
    const TestEngine engine(model);
    run_ = lab_.probe(engine, model.tokens(11), {.forward = engine.options(mode), .selection = {}});
    return lab_.verdict(run_);
  }

  ProbeLab lab_;
  std::string run_;
};

TEST_P(ProbeVerdict, BatchInvariantPassesWithCompleteCoverage) {
  const LabVerdict verdict = probe(Mode::kBatchInvariant);
  EXPECT_EQ(verdict.verdict, "PASS");
  EXPECT_EQ(verdict.numeric_verdict, "PASS");
  EXPECT_EQ(verdict.coverage, "complete");
  EXPECT_EQ(verdict.pairs, kPairs);
  EXPECT_EQ(verdict.pass, kPairs);
}

TEST_P(ProbeVerdict, AsDesignedFailsStrictlyAndPassesNumerically) {
  const LabVerdict verdict = probe(Mode::kAsDesigned);
  EXPECT_EQ(verdict.verdict, "PASS");
  EXPECT_EQ(verdict.strict_verdict, "FAIL");
  EXPECT_EQ(verdict.numeric_verdict, "PASS");
  EXPECT_EQ(verdict.coverage, "complete");
  EXPECT_EQ(verdict.pairs, kPairs);
  EXPECT_FALSE(verdict.first_fail.has_value());
}

TEST_P(ProbeVerdict, KvAlignedHasTheCacheOfPrefillAndItsOwnKvBesideIt) {
  const LabVerdict verdict = probe(Mode::kKvAligned);
  EXPECT_EQ(verdict.verdict, "PASS");
  EXPECT_EQ(verdict.coverage, "complete");
  const SQLite::Database db = open_for_reading(lab_.database());
  SQLite::Statement rows(db,
                         "SELECT cache_match, k_match AND v_match, k_class, v_class, interpretation"
                         " FROM kv_alignment WHERE run = ? ORDER BY layer");
  rows.bind(1, run_);
  int layers = 0, own_kv_differs = 0;
  for (; rows.executeStep(); ++layers) {
    EXPECT_EQ(rows.getColumn(0).getInt(), 1) << "layer " << layers;
    const bool differs = rows.getColumn(1).getInt() == 0;
    own_kv_differs += differs;
    EXPECT_EQ(rows.getColumn(4).getString(), differs ? "STRUCTURAL_DRIFT" : "ALIGNED");
  }
  EXPECT_EQ(layers, 3);
  EXPECT_GT(own_kv_differs, 0);
}

INSTANTIATE_TEST_SUITE_P(Types, ProbeVerdict, testing::ValuesIn(synth_type_names()),
                         [](const auto& param) { return param.param; });

/// What the views say after a change, which is undone.
std::string verdict_after(SQLite::Database& db, Statements& sql, const std::string& change) {
  db.exec("SAVEPOINT change");
  db.exec(change);
  SQLite::Statement& query = sql("SELECT verdict FROM verdict_now WHERE level = 'run'");
  const std::string verdict = query.executeStep() ? query.getColumn(0).getString() : "no run";
  query.reset();
  db.exec("ROLLBACK TO change");
  db.exec("RELEASE change");
  return verdict;
}

TEST(ProbeRows, AnyRowLessIsIncomplete) {
  SynthShape shape = small_shape();
  shape.n_layers = 2;
  const TestModel model(shape);
  const TestEngine engine(model);
  ProbeLab lab;
  const std::string run = lab.probe(
      engine, model.tokens(3), {.forward = engine.options(Mode::kBatchInvariant), .selection = {}});
  ASSERT_EQ(lab.verdict(run).verdict, "PASS");

  SQLite::Database db = open_for_writing(lab.database());
  Statements sql(db);
  std::vector<std::string> keys;
  SQLite::Statement rows(db, "SELECT side, layer, tensor_id FROM trace_row");
  while (rows.executeStep()) {
    keys.push_back("side = " + rows.getColumn(0).getString() +
                   " AND layer = " + rows.getColumn(1).getString() +
                   " AND tensor_id = " + rows.getColumn(2).getString());
  }
  ASSERT_EQ(keys.size(), 2 * (2u + 2u * 21u + 6u));
  for (const std::string& key : keys) {
    EXPECT_EQ(verdict_after(db, sql, "DELETE FROM trace_row WHERE " + key), "INCOMPLETE") << key;
  }
  EXPECT_EQ(verdict_after(db, sql, ""), "PASS");
}

TEST(ProbeRows, AnyRowLessOfADecodedTokenIsNoPass) {
  SynthShape shape = small_shape();
  shape.n_layers = 1;
  const TestModel model(shape);
  const TestEngine engine(model);
  ProbeLab lab;
  ProbeOptions options{.forward = engine.options(Mode::kBatchInvariant), .selection = {}};
  options.decode_steps = 2;
  const LabVerdict clean = lab.verdict(lab.probe(engine, model.tokens(3), options));
  ASSERT_EQ(clean.verdict, "PASS");
  EXPECT_EQ(clean.pairs, 3 * (2 + 21 + 6));

  SQLite::Database db = open_for_writing(lab.database());
  Statements sql(db);
  int rows = 0;
  SQLite::Statement keys(db, "SELECT side, layer, tensor_id FROM trace_row WHERE pos_id = 4");
  for (; keys.executeStep(); ++rows) {
    const std::string key = "pos_id = 4 AND side = " + keys.getColumn(0).getString() +
                            " AND layer = " + keys.getColumn(1).getString() +
                            " AND tensor_id = " + keys.getColumn(2).getString();
    EXPECT_NE(verdict_after(db, sql, "DELETE FROM trace_row WHERE " + key), "PASS") << key;
  }
  EXPECT_EQ(rows, 2 * (2 + 21 + 6));
}

// Both sides compute the same, and the same wrong: only double arithmetic tells.
TEST(ProbeRows, AHeadThatIsWrongOnBothSidesIsRefuted) {
  SynthShape shape = small_shape();
  shape.vocab = 1021;  // no other product has as many rows, whatever the batch
  const TestModel model(shape);
  auto backend = std::make_unique<TamperedBackend>(make_cpu_backend(1));
  TamperedBackend& tampered = *backend;
  const TestEngine engine(model, std::move(backend));
  ProbeLab lab;
  ProbeOptions options{.forward = engine.options(Mode::kBatchInvariant), .selection = {}};
  options.rms_verify = options.cpu_probe = true;
  options.decode_steps = 2;
  options.n_threads = 1;
  const auto verdict = [&] { return lab.verdict(lab.probe(engine, model.tokens(5), options)); };
  EXPECT_EQ(verdict().verdict, "PASS");
  tampered.tamper = [&](std::string_view name, float* out, int64_t n,
                        const std::function<void()>& compute) {
    compute();
    if (name != "project" || n % shape.vocab != 0) return;
    for (int64_t i = shape.vocab - 1; i < n; i += shape.vocab) out[i] += 1;
  };
  const LabVerdict wrong = verdict();
  EXPECT_EQ(wrong.verdict, "FAIL");
  EXPECT_EQ(wrong.pairs, wrong.pass);
  EXPECT_EQ(wrong.first_fail, (Place{"logits", kLayerAfterStack}));
}

TEST(ProbeRows, OneBitOfOneActivationFailsAtItsTensor) {
  const TestModel model(small_shape());
  auto backend = std::make_unique<TamperedBackend>(make_cpu_backend(1));
  TamperedBackend& tampered = *backend;
  const TestEngine engine(model, std::move(backend));
  ProbeLab lab;
  int calls = 0;
  // The second batch is decode0; this is the attention of its layer 1.
  tampered.tamper = [&](std::string_view name, float* out, int64_t n,
                        const std::function<void()>& compute) {
    compute();
    if (name != "attention" || calls++ != 3 + 1) return;
    uint32_t bits = 0;
    std::memcpy(&bits, out + n - 1, sizeof bits);
    bits ^= 1;
    std::memcpy(out + n - 1, &bits, sizeof bits);
  };
  ProbeOptions options{.forward = engine.options(Mode::kBatchInvariant), .selection = {}};
  options.repeats = 0;
  const LabVerdict verdict = lab.verdict(lab.probe(engine, model.tokens(5), options));
  EXPECT_EQ(calls, 6);
  EXPECT_EQ(verdict.verdict, "FAIL");
  EXPECT_EQ(verdict.first_fail, (Place{"attn_out", 1}));
  EXPECT_EQ(verdict.numeric_verdict, "PASS");
}

class RunAgain : public testing::Test {
 protected:
  /// Verdict, place and first finding of a suite whose first prompt runs again.
  std::string outcome(Mode mode, int64_t sequences, const std::string& fault = "") {
    std::vector<Fault> faults;
    if (!fault.empty()) faults.push_back(parse_fault(fault));
    ProbeOptions options{.forward = engine_.options(mode, faults), .selection = {}};
    options.sequences = sequences;
    options.decode_steps = 1;
    const std::string run =
        lab_.probe(engine_, {model_.tokens(4), model_.tokens(30), model_.tokens(9)}, options);
    const LabVerdict verdict = lab_.verdict(run);
    EXPECT_EQ(verdict.coverage, "complete");
    const std::vector<std::string> found = lab_.findings(run);
    return verdict.verdict + (verdict.first_fail ? " " + verdict.first_fail->text() : "") +
           (found.empty() ? "" : " " + found.front());
  }

  TestModel model_{small_shape()};
  TestEngine engine_{model_};
  ProbeLab lab_;
};

TEST_F(RunAgain, FindsWhatIsKeptFromOnePromptToTheNext) {
  for (const Mode mode : {Mode::kAsDesigned, Mode::kKvAligned, Mode::kBatchInvariant}) {
    for (const int64_t sequences : {1, 3}) {
      SCOPED_TRACE(std::string(mode_name(mode)) + " " + std::to_string(sequences));
      EXPECT_EQ(outcome(mode, sequences), "PASS");
      for (const std::string phase : {"@decode", "@prefill", "@both"}) {
        EXPECT_EQ(outcome(mode, sequences, "rope_theta_kept" + phase + ":layer=1"),
                  "FAIL q_post_rope@1 STATE")
            << phase;
      }
    }
  }
}

TEST_F(RunAgain, FindsARaceThatHitsBothSidesAlike) {
  EXPECT_EQ(outcome(Mode::kBatchInvariant, 3, "race@both:layer=1"), "FAIL mlp_out@1 UNSTABLE");
}

TEST(ProbeRows, BothSidesNonfiniteAreNotAPass) {
  const TestModel model(small_shape());
  const TestEngine engine(model);
  ProbeLab lab;
  const LabVerdict verdict = lab.verdict(lab.probe(
      engine, model.tokens(5),
      {.forward =
           engine.options(Mode::kBatchInvariant, {parse_fault("softmax_no_max@both:layer=2")}),
       .selection = {}}));
  EXPECT_EQ(verdict.verdict, "FAIL");
  EXPECT_EQ(verdict.first_fail, (Place{"attn_probs", 2}));
  EXPECT_EQ(verdict.numeric_first_fail, (Place{"attn_probs", 2}));
}

}  // namespace
}  // namespace greta
