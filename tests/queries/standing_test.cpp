// Which of several rows of one place stands for them, when somebody writes rows by hand.
#include <gtest/gtest.h>

#include "common/temporary_folder.h"
#include "tests/queries/warehouse.h"

namespace greta {
namespace {

/// "nth stands stands_in_phase ambiguous ambiguous_in_phase" of each row, by side and nth. They are
/// what the view standing says.
std::string standing(Warehouse& w) {
  const std::string columns =
      "SELECT printf('%d %d %d %d %d', nth, stands, stands_in_phase, ambiguous, ambiguous_in_phase)"
      " FROM ";
  const std::string kOrder = " ORDER BY run_id, side, pos_id, layer, nth";
  const std::string kept = w.kept(columns + "trace_row" + kOrder);
  EXPECT_EQ(kept, w.kept(columns + "standing" + kOrder));
  return kept;
}

TEST(Standing, ARowAloneStands) {
  Warehouse w;
  w.add(prefill("x_in", 0, 1));
  EXPECT_EQ(standing(w), "0 1 1 0 0");
}

TEST(Standing, OfEqualRowsTheFirstStands) {
  Warehouse w;
  w.add(prefill("x_in", 0, 1).step(1), prefill("x_in", 0, 1));
  EXPECT_EQ(standing(w), "0 0 0 0 0\n1 1 1 0 0") << "of the lesser step, whichever came first";
  w.add(decode("x_in", 0, 1));
  EXPECT_EQ(w.rows("SELECT status FROM pair"), "MATCH");
}

TEST(Standing, RowsThatDifferAreAmbiguous) {
  const Row row = prefill("x_in", 0, 1).averaging(1);
  for (const Row& other : {prefill("x_in", 0, 2).averaging(1), row.averaging(2), row.length(5),
                           row.up_to(3), row.sampled({1}), row.flagged(16)}) {
    Warehouse w;
    w.add(row, other.step(1), decode("x_in", 0, 1).averaging(1));
    EXPECT_EQ(standing(w), "0 1 1 1 1\n1 0 0 1 1\n0 1 1 0 0");
    EXPECT_EQ(w.rows("SELECT status FROM pair"), "AMBIGUOUS");
  }
}

TEST(Standing, WithoutAHashSketchesTellRowsApart) {
  Warehouse w;
  w.add(prefill("x_in", 0).sketched({1, 2}), prefill("x_in", 0).step(1).sketched({1, 2}),
        prefill("mlp_out", 1).sketched({1, 2}), prefill("mlp_out", 1).step(1).sketched({2, 2}),
        prefill("x_out", 2, 7).sketched({1, 2}), prefill("x_out", 2, 7).step(1).sketched({2, 2}));
  EXPECT_EQ(standing(w), "0 1 1 0 0\n1 0 0 0 0\n0 1 1 1 1\n1 0 0 1 1\n0 1 1 0 0\n1 0 0 0 0");
}

TEST(Standing, RowsOfOtherTokensStandEachButForTwoRuns) {
  Warehouse w;
  w.add(prefill("x_in", 0, 1).token(5), prefill("x_in", 0, 2).token(6),
        decode("x_in", 0, 1).token(5));
  EXPECT_EQ(standing(w), "0 1 1 0 1\n1 1 0 0 1\n0 1 1 0 0");
  EXPECT_EQ(w.rows("SELECT token_id, status FROM pair ORDER BY token_id"), "5|MATCH\n6|MISSING");
}

TEST(Standing, RowsOfOtherPhasesStandEachForTwoRuns) {
  Warehouse w;
  w.add(prefill("x_in", 0, 1).in("prefill"), prefill("x_in", 0, 2), decode("x_in", 0, 1));
  EXPECT_EQ(standing(w), "0 0 1 1 0\n1 1 1 1 0\n0 1 1 0 0");
  EXPECT_EQ(w.rows("SELECT status FROM pair"), "AMBIGUOUS");
}

TEST(Standing, ARowThatIsNotFiniteStandsBeforeOthers) {
  const Row row = prefill("x_in", 0, 1).step(1);
  for (const Row& other : {row.nans(1), row.infs(2), row.flagged(1)}) {
    Warehouse w;
    w.add(prefill("x_in", 0, 1), other);
    EXPECT_EQ(standing(w), "0 0 0 1 1\n1 1 1 1 1");
    EXPECT_EQ(w.rows("SELECT status FROM pair"), "NONFINITE") << "though nothing is beside it";
  }
}

TEST(Standing, WhereThePositionIsUnknownRowsOfOneStepAreOne) {
  Warehouse w;
  const Row row = prefill("x_in", 0, 1).at(-1);
  w.add(row, row.step(1), row.step(1), prefill("x_in", 0, 2).at(-1).step(2));
  EXPECT_EQ(standing(w), "0 1 1 0 0\n1 1 1 0 0\n2 0 0 0 0\n3 1 1 0 0");
}

TEST(Standing, AnotherStandsWhenTheOneThatStoodIsDeleted) {
  Warehouse w;
  w.add(prefill("x_in", 0, 2), prefill("x_in", 0, 1).step(1), decode("x_in", 0, 1));
  EXPECT_EQ(w.rows("SELECT verdict FROM run_verdict"), "FAIL");
  w.db.exec("DELETE FROM trace_row WHERE side = 0 AND nth = 0");
  EXPECT_EQ(standing(w), "1 1 1 0 0\n0 1 1 0 0");
  EXPECT_EQ(w.kept("SELECT verdict FROM run_verdict"), "UNJUDGED");
  EXPECT_EQ(w.rows("SELECT verdict FROM run_verdict"), "PASS");
}

TEST(Standing, AnotherStandsWhenTheOneThatStoodIsMoved) {
  for (const char* to : {"layer = 3", "pos_id = 38", "pos_id = -1", "side = 2"}) {
    Warehouse w;
    w.add(prefill("x_in", 0, 1), prefill("x_in", 0, 2).step(1), decode("x_in", 0, 1));
    w.db.exec(std::string("UPDATE trace_row SET ") + to + " WHERE side = 0 AND nth = 0");
    standing(w);
    EXPECT_EQ(w.kept("SELECT stands, ambiguous FROM trace_row WHERE side = 0 AND layer = 0"
                     " AND pos_id = 37"),
              "1|0")
        << to;
    EXPECT_EQ(w.rows("SELECT verdict FROM run_verdict"), "FAIL") << to;
  }
}

TEST(Standing, IsWorkedOutAnewWhenARowIsCorrected) {
  Warehouse w;
  w.add(prefill("x_in", 0, 1), prefill("x_in", 0, 2).step(1), decode("x_in", 0, 1));
  w.db.exec("UPDATE trace_row SET hash = 1");
  EXPECT_EQ(standing(w), "0 1 1 0 0\n1 0 0 0 0\n0 1 1 0 0");
  EXPECT_EQ(w.rows("SELECT verdict FROM run_verdict"), "PASS");
  w.db.exec("UPDATE trace_row SET step = -1 WHERE side = 0 AND nth = 1");
  EXPECT_EQ(standing(w), "0 0 0 0 0\n1 1 1 0 0\n0 1 1 0 0");
  w.db.exec("UPDATE trace_row SET nan = 1 WHERE side = 0 AND nth = 0");
  EXPECT_EQ(standing(w), "0 1 1 1 1\n1 0 0 1 1\n0 1 1 0 0");
  EXPECT_EQ(w.rows("SELECT verdict FROM run_verdict"), "FAIL");
}

TEST(Standing, IsSaidOfWhatAConnectionThatKnowsNothingOfGretaWrites) {
  const TemporaryFolder folder;
  const std::string file = folder / "g.db";
  {
    Warehouse w(file);
    w.match("x_in", 0);
    w.judge();
  }
  {
    SQLite::Database plain(file, SQLite::OPEN_READWRITE);
    EXPECT_EQ(text_of(plain, "SELECT verdict FROM run_verdict"), "PASS");
    plain.exec(
        "INSERT INTO trace_row(run_id, prompt_id, side, pos_id, layer, tensor_id, nth, phase_id,"
        " step, name_id, n, hash, flags, source_id, line) SELECT run_id, prompt_id, side, pos_id,"
        " layer, tensor_id, 1, phase_id, step, name_id, n, 2, flags, source_id, 99 FROM trace_row"
        " WHERE side = 0");
    EXPECT_EQ(text_of(plain, "SELECT stands, ambiguous FROM trace_row WHERE side = 0 ORDER BY nth"),
              "1|1\n0|1");
    EXPECT_EQ(text_of(plain, "SELECT verdict FROM run_verdict"), "UNJUDGED");
    EXPECT_EQ(text_of(plain, "SELECT verdict FROM verdict_now WHERE run_id = 1 AND level = 'run'"),
              "FAIL");
  }
  Warehouse w(file);
  EXPECT_EQ(w.rows("SELECT verdict, first_fail FROM run_verdict"), "FAIL|AMBIGUOUS_TRACE");
}

}  // namespace
}  // namespace greta
