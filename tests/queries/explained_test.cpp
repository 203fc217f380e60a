// A difference that its inputs' differences explain, and one that they do not.
#include "tests/queries/warehouse.h"

namespace greta {
namespace {

/// A pair of rows of 16 values whose relative distance is `rel_l2`; 0: equal rows.
void apart(Warehouse& w, const std::string& tensor, float rel_l2, float scale = 1) {
  std::vector<float> a(16, 0.0f), b(16, 0.0f);
  a[0] = scale;
  b[0] = scale * (1 - rel_l2);
  const uint64_t other = rel_l2 == 0 ? 1 : 2;
  w.add(prefill(tensor, 0, 1).length(16).up_to(scale).sketched(a),
        decode(tensor, 0, other).length(16).up_to(b[0]).sketched(b));
}

struct Graded {
  const char* why;
  std::vector<std::pair<std::string, float>>
      rows;              ///< tensors and their distances; the last is asked for
  std::string expected;  ///< class, numeric origin and verdict
  std::string kv_cache = {};
};

TEST(Explained, ByTheWorstOfTheDirectInputsTimesTheGainOfTheOperation) {
  for (const Graded& one : std::vector<Graded>{
           {"nothing explains it", {{"wo_out", 3e-4f}}, "DIVERGENT|UNSAMPLED|FAIL"},
           {"equal inputs explain nothing",
            {{"attn_out", 0}, {"wo_out", 3e-4f}},
            "DIVERGENT|ORIGIN|FAIL"},
           {"rounding", {{"attn_out", 9e-5f}, {"wo_out", 3e-4f}}, "EXPLAINED|PROPAGATED|PASS"},
           {"too little", {{"attn_out", 9e-5f}, {"wo_out", 6e-4f}}, "DIVERGENT|PROPAGATED|FAIL"},
           {"next to nothing", {{"attn_out", 9e-6f}, {"wo_out", 6e-4f}}, "DIVERGENT|ORIGIN|FAIL"},
           {"a copy",
            {{"residual_post_mlp", 9e-5f}, {"x_out", 1.5e-4f}},
            "EXPLAINED|PROPAGATED|PASS"},
           {"a copy has no rounding of its own",
            {{"residual_post_mlp", 9e-5f}, {"x_out", 2.5e-4f}},
            "DIVERGENT|PROPAGATED|FAIL"},
           {"an input that nothing explains explains no verdict",
            {{"attn_out", 3e-4f}, {"wo_out", 3e-4f}},
            "EXPLAINED|PROPAGATED|FAIL"},
           {"no direct input",
            {{"attn_scores", 9e-5f}, {"wo_out", 3e-4f}},
            "DIVERGENT|PROPAGATED|FAIL"},
           {"a cache of f32", {{"k_post_rope", 0}, {"k_cache", 9e-4f}}, "DIVERGENT|ORIGIN|FAIL"},
           {"a cache of f16",
            {{"k_post_rope", 0}, {"k_cache", 9e-4f}},
            "EXPLAINED|PROPAGATED|PASS",
            "f16"},
           {"more than a cache of f16",
            {{"k_post_rope", 0}, {"k_cache", 1.2e-3f}},
            "DIVERGENT|ORIGIN|FAIL",
            "f16"},
           {"behind a cache of f16",
            {{"k_cache", 2e-4f}, {"attn_scores", 8e-4f}},
            "EXPLAINED|PROPAGATED|PASS",
            "f16"},
           {"behind one that was not traced",
            {{"attn_out", 9e-4f}},
            "EXPLAINED|PROPAGATED|PASS",
            "f16"},
           {"before the cache",
            {{"attn_norm_out", 0}, {"q_pre_rope", 3e-4f}},
            "DIVERGENT|ORIGIN|FAIL",
            "f16"},
       }) {
    Warehouse w;
    w.run({.dtype = "f32"});
    if (!one.kv_cache.empty()) {
      w.db.exec("INSERT INTO attribute(run_id, dim, value, rank) VALUES (1, 'kv_cache', '" +
                one.kv_cache + "', 0)");
    }
    for (const auto& [tensor, rel_l2] : one.rows) apart(w, tensor, rel_l2);
    EXPECT_EQ(w.rows("SELECT class, numeric_origin, (SELECT verdict FROM run_verdict) FROM pair"
                     " WHERE tensor = '" +
                     one.rows.back().first + "'"),
              one.expected)
        << one.why;
  }
}

TEST(Explained, SoftmaxMultipliesByTheGreatestAbsoluteDistanceOfTwoScores) {
  for (const auto& [score, expected] :
       {std::pair(2000.0f, "EXPLAINED|PASS"), {2.0f, "DIVERGENT|FAIL"}}) {
    Warehouse w;
    w.run({.dtype = "f32"});
    apart(w, "attn_scores", 1e-6f, score);
    apart(w, "attn_probs", 3e-3f);
    EXPECT_EQ(w.rows("SELECT class, (SELECT verdict FROM run_verdict) FROM pair"
                     " WHERE tensor = 'attn_probs'"),
              expected)
        << score;
  }
}

TEST(Explained, IsCountedAsDivergentInAPromptOfWhichAnythingIs) {
  Warehouse w;
  w.run({.dtype = "f32"});
  apart(w, "q_pre_rope", 3e-4f);
  apart(w, "q_post_rope", 3e-4f);
  EXPECT_EQ(w.rows("SELECT rounding, divergent, numeric_tensor FROM run_verdict"),
            "0|2|q_pre_rope");
  // and what is waived explains nothing
  w.db.exec(
      "INSERT INTO waiver(tensor, reason, until, created_at, created_by)"
      " VALUES ('q_pre_rope', 'known', '9999-12-31', '2026-01-01T00:00:00Z', 'me@here')");
  EXPECT_EQ(w.rows("SELECT verdict FROM gate"), "FAIL");
}

TEST(Explained, BetweenTwoRunsAsWell) {
  Warehouse w;
  for (const float times : {0.0f, 1.0f}) {
    w.run({.name = times == 0 ? "a" : "b", .dtype = "f32"});
    for (const auto& [tensor, rel_l2] : {std::pair("attn_out", 9e-5f), {"wo_out", 3e-4f}}) {
      std::vector<float> row(16, 0.0f);
      row[0] = 1 - times * rel_l2;
      w.add(prefill(tensor, 0, times == 0 ? 1 : 2).length(16).sketched(row));
    }
  }
  EXPECT_EQ(w.rows("SELECT tensor, class FROM run_diff WHERE run_a = 'a' AND run_b = 'b'"
                   " ORDER BY tensor"),
            "attn_out|ROUNDING\nwo_out|EXPLAINED");
  EXPECT_EQ(w.rows("SELECT verdict, rounding, divergent FROM diff_verdict WHERE run_a = 'a' AND "
                   "run_b = 'b'"),
            "PASS|2|0");
}

}  // namespace
}  // namespace greta
