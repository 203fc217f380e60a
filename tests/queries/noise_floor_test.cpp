// What was measured of a model decides for its runs, and for nothing else.
#include <limits>

#include "tests/queries/warehouse.h"

namespace greta {
namespace {

/// Sixteen values, the first of which is `first`: long enough to be calibrated.
std::vector<float> long_row(float first) {
  std::vector<float> values(16, 0.0f);
  values[0] = first;
  return values;
}

/// A pair of rows whose relative distance is `rel_l2`.
void differ(Warehouse& w, const std::string& tensor, int64_t layer, float rel_l2) {
  w.add(prefill(tensor, layer, 1).length(16).sketched(long_row(1)),
        decode(tensor, layer, 2).length(16).sketched(long_row(1 - rel_l2)));
}

struct Place {
  std::string tensor = "wo_out", model = "m", dtype = "f32", backend = "cpu";
  int64_t layer = 0;
};

void calibrate(Warehouse& w, double rel_l2, std::optional<double> gain = {},
               const Place& place = {}) {
  SQLite::Statement insert(
      w.db,
      "INSERT OR REPLACE INTO noise_floor(tensor_id, layer, model_sha256, dtype, backend, rel_l2,"
      " gain, pairs, measured_at) VALUES ((SELECT id FROM tensor WHERE name = ?), ?, ?, ?, ?, ?, ?,"
      " 500, '2026-01-01T00:00:00Z')");
  insert.bind(1, place.tensor);
  insert.bind(2, place.layer);
  insert.bind(3, place.model);
  insert.bind(4, place.dtype);
  insert.bind(5, place.backend);
  insert.bind(6, rel_l2);
  gain ? insert.bind(7, *gain) : insert.bind(7);
  insert.exec();
}

/// A run of model m by f32 on the CPU.
void run_of(Warehouse& w, const std::string& name = "r", const std::string& model = "m") {
  w.run({.name = name, .dtype = "f32"});
  for (const auto& [dim, value] : {std::pair{"model_sha256", model}, {"backend", "cpu"}}) {
    SQLite::Statement insert(w.db,
                             "INSERT INTO attribute(run_id, dim, value, rank) VALUES (?, ?, ?, 0)");
    insert.bind(1, w.current_run());
    insert.bind(2, dim);
    insert.bind(3, value);
    insert.exec();
  }
}

std::string graded(Warehouse& w) {
  return w.rows("SELECT class, printf('%.2g', tolerance), tolerance_source FROM pair");
}

/// wo_out differs by this, and then these were measured: "class|tolerance|tolerance_source".
void expect_graded(float rel_l2, const std::vector<std::pair<double, Place>>& measured,
                   const std::string& expected) {
  Warehouse w;
  run_of(w);
  differ(w, "wo_out", 0, rel_l2);
  for (const auto& [floor, place] : measured) calibrate(w, floor, {}, place);
  EXPECT_EQ(graded(w), expected);
}

TEST(NoiseFloor, FourTimesWhatWasMeasuredOfThePlaceIsRounding) {
  expect_graded(5e-5f, {}, "ROUNDING|0.0001|shipped");
  expect_graded(5e-5f, {{1e-5, {}}}, "DIVERGENT|4e-05|calibrated");
  expect_graded(5e-5f, {{1e-5, {}}, {1.5e-5, {}}}, "ROUNDING|6e-05|calibrated");
  // never more than the shipped one
  expect_graded(5e-4f, {{1e-2, {}}}, "DIVERGENT|0.0001|shipped");
  for (const Place& other : {Place{.model = "n"}, Place{.dtype = "f16"}, Place{.backend = "hip"},
                             Place{.tensor = "mlp_out"}, Place{.layer = 1}}) {
    expect_graded(5e-5f, {{1e-7, other}}, "ROUNDING|0.0001|shipped");
  }
}

TEST(NoiseFloor, IsFoundByTheModelsRootAsByTheSha256OfItsFile) {
  for (const bool says_both : {true, false}) {
    Warehouse w;
    run_of(w);
    w.db.exec("INSERT INTO attribute(run_id, dim, value, rank) VALUES (1, 'model_root', 'k', 0)");
    if (!says_both) w.db.exec("DELETE FROM attribute WHERE dim = 'model_sha256'");
    differ(w, "wo_out", 0, 5e-5f);
    calibrate(w, 1e-5);
    EXPECT_EQ(graded(w), says_both ? "DIVERGENT|4e-05|calibrated" : "ROUNDING|0.0001|shipped");
    calibrate(w, 1e-6, {}, {.model = "k"});
    EXPECT_EQ(graded(w), "DIVERGENT|4e-06|calibrated");
  }
}

TEST(NoiseFloor, RowsOfFewValuesKeepTheShippedTolerance) {
  Warehouse w;  // they may cancel, and then any rounding is much
  run_of(w);
  w.add(prefill("wo_out", 0, 1).length(15).sketched({1}),
        decode("wo_out", 0, 2).length(15).sketched({1 - 5e-5f}));
  calibrate(w, 1e-6);
  EXPECT_EQ(graded(w), "ROUNDING|0.0001|shipped");
}

TEST(NoiseFloor, ARunThatSaysNotWhichModelItRanHasNone) {
  Warehouse w;
  w.run({.dtype = "f32"});
  differ(w, "wo_out", 0, 5e-5f);
  calibrate(w, 1e-7);
  EXPECT_EQ(graded(w), "ROUNDING|0.0001|shipped");
}

TEST(NoiseFloor, BetweenTwoRunsTheLargerOfTheirTolerances) {
  Warehouse w;
  run_of(w, "a");
  w.add(prefill("wo_out", 0, 1).length(16).sketched(long_row(1)));
  run_of(w, "b");
  w.add(prefill("wo_out", 0, 2).length(16).sketched(long_row(1 - 5e-5f)));
  run_of(w, "c", "n");
  w.add(prefill("wo_out", 0, 2).length(16).sketched(long_row(1 - 5e-5f)));
  calibrate(w, 1e-6);
  EXPECT_EQ(w.rows("SELECT run_b, class FROM run_diff WHERE run_a = 'a' AND run_b <> 'a'"
                   " ORDER BY run_b"),
            "b|DIVERGENT\nc|ROUNDING");
}

TEST(NoiseFloor, RefusesValuesThatNothingMeasures) {
  Warehouse w;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  for (const double value : {-1e-9, 2.5, nan, inf}) {
    EXPECT_THROW(calibrate(w, value), SQLite::Exception) << value;
  }
  for (const double gain : {-1.0, inf}) {
    EXPECT_THROW(calibrate(w, 1e-6, gain), SQLite::Exception) << gain;
  }
  EXPECT_THROW(calibrate(w, 1e-6, {}, {.tensor = "no such tensor"}), SQLite::Exception);
  EXPECT_EQ(w.rows("SELECT count(*) FROM noise_floor"), "0");
}

TEST(NoiseFloor, ChangesForgetVerdictsOfItsModelOnly) {
  const char* changes[] = {
      "UPDATE noise_floor SET rel_l2 = 1e-6",
      "DELETE FROM noise_floor",
      ("INSERT INTO noise_floor SELECT tensor_id, 7, model_sha256, dtype, backend, rel_l2, gain,"
       " pairs, measured_at FROM noise_floor"),
      "UPDATE attribute SET value = 'k' WHERE dim = 'model_sha256' AND value = 'm'",
      "DELETE FROM attribute WHERE dim = 'backend' AND run_id = 1",
      "INSERT INTO attribute(run_id, dim, value, rank) VALUES (1, 'model_sha256', 'k', 0)",
      "INSERT INTO attribute(run_id, dim, value, rank) VALUES (1, 'model_root', 'k', 0)"};
  for (const char* change : changes) {
    Warehouse w;
    run_of(w, "r");
    differ(w, "wo_out", 0, 5e-5f);
    run_of(w, "s", "n");
    differ(w, "wo_out", 0, 5e-5f);
    calibrate(w, 1e-5);
    w.judge();
    ASSERT_EQ(w.kept("SELECT count(DISTINCT run_id) FROM verdict"), "2");
    ASSERT_GT(w.db.exec(change), 0) << change;
    EXPECT_EQ(w.kept("SELECT DISTINCT run_id FROM verdict"), "2") << change;
  }
}

TEST(DriftGain, IsMeasuredAgainstTheWorstDirectInputWhereAllWereTraced) {
  Warehouse w;
  run_of(w);
  differ(w, "residual_pre_attn", 0, 1e-3f);
  differ(w, "wo_out", 0, 2e-3f);
  differ(w, "residual_post_attn", 0, 4e-3f);
  std::string query = sql_of_file("queries/canned/drift_gain.sql");
  query.erase(query.rfind(';'));
  query.replace(query.find(":run)"), 4, "'r'");
  EXPECT_EQ(w.rows("SELECT tensor, printf('%.1g', rel_l2),"
                   " iif(input_rel_l2 IS NULL, 'unknown', printf('%.1g', input_rel_l2))"
                   " FROM (" +
                   query + ") ORDER BY ord"),
            "residual_pre_attn|0.001|unknown\nwo_out|0.002|unknown\n"
            "residual_post_attn|0.004|0.002");
}

}  // namespace
}  // namespace greta
