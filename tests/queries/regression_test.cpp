// Since when something is wrong, and who mended it.
#include "tests/queries/change_fixture.h"

namespace greta {
namespace {

class Regression : public Change {
 protected:
  std::string turns() {
    const char* const columns =
        "SELECT change, gate, substr(first_bad, 9, 2), substr(last_good, 9, 2), layer, tensor,"
        " substr(fixed_run, 9, 2) FROM ";
    return ask(std::string(columns) + "regression ORDER BY first_bad");
  }
};

TEST_F(Regression, OfTheVerdictEndsWhereItPassesAgain) {
  add_run("01", {});
  add_run("02", {.decoded_attn_out = 5});
  add_run("03", {.decoded_attn_out = 5});
  add_run("04", {});
  EXPECT_EQ(turns(), "BROKEN|numeric|02|01|0|attn_out|04");
}

TEST_F(Regression, OfBothPhasesIsFoundThoughEveryVerdictPasses) {
  add_run("01", {});
  add_run("02", {});
  add_run("03", {.x_out = 3});
  add_run("04", {.x_out = 3});
  add_run("05", {});
  add_run("06", {});
  EXPECT_EQ(ask("SELECT DISTINCT numeric_verdict FROM run_verdict"), "PASS");
  EXPECT_EQ(turns(), "CHANGED|-|03|02|1|x_out|05");
}

TEST_F(Regression, AFixThatComputesSomethingElseIsNone) {
  add_run("01", {});
  add_run("02", {.decoded_attn_out = 5});
  add_run("03", {.attn_out = 5, .decoded_attn_out = 5});  // both phases are wrong now
  add_run("04", {});
  EXPECT_EQ(ask("SELECT substr(first_bad, 9, 2), substr(fixed_run, 9, 2) FROM regression"
                " WHERE change = 'BROKEN'"),
            "02|04");
}

TEST_F(Regression, NotMendedYetHasNoFix) {
  add_run("01", {});
  add_run("02", {.x_out = 3});
  add_run("03", {.x_out = 4});  // another change, not the fix of the first
  EXPECT_EQ(turns(), "CHANGED|-|02|01|1|x_out|-\nCHANGED|-|03|02|1|x_out|-");
}

TEST_F(Regression, TwoThatOverlapAreToldApart) {
  add_run("01", {});
  add_run("02", {.x_out = 3});
  add_run("03", {.x_out = 3, .decoded_attn_out = 5});
  add_run("04", {.x_out = 1, .decoded_attn_out = 5});
  add_run("05", {});
  EXPECT_EQ(turns(), "CHANGED|-|02|01|1|x_out|04\nBROKEN|numeric|03|02|0|attn_out|05");
}

TEST_F(Regression, OfBatchInvarianceEndsWhereBitsAreEqualAgain) {
  add_run("01", {}, "", "batch_invariant");
  add_run("02", {.decoded_attn_out = 5}, "", "batch_invariant");
  add_run("03", {.decoded_attn_out = 1.0001f}, "", "batch_invariant");
  const std::string changed = "\nCHANGED|-|03|02|0|attn_out|";
  EXPECT_EQ(turns(), "BROKEN|strict|02|01|0|attn_out|-" + changed + "-");
  add_run("04", {}, "", "batch_invariant");
  EXPECT_EQ(turns(), "BROKEN|strict|02|01|0|attn_out|04" + changed + "-");
}

TEST_F(Regression, HeldAgainstAPinnedBaselineEndsWhereItsValuesAreBack) {
  add_run("01", {});
  add_run("02", {.x_out = 3});
  add_run("03", {});  // SAME as the one pinned
  w_.db.exec(
      "INSERT INTO pinned_baseline SELECT lineage, 1, '' FROM lineage_member WHERE run_id = 1");
  EXPECT_EQ(turns(), "CHANGED|-|02|01|1|x_out|03");
}

TEST_F(Regression, IsNotOfAPinThatCameLater) {
  add_run("01", {.attn_out = 3, .decoded_attn_out = 3});
  add_run("02", {.attn_out = 3, .decoded_attn_out = 3});
  // its own phases differ there, too, which says nothing of it
  add_run("03", {.decoded_attn_out = 1.0001f});
  w_.db.exec(
      "INSERT INTO pinned_baseline SELECT lineage, 3, '' FROM lineage_member WHERE run_id = 3");
  EXPECT_EQ(turns(), "CHANGED|-|03|02|0|attn_out|-") << "01 and 02 are held against no later run";
}

TEST_F(Regression, RoundingAloneIsNone) {
  add_run("01", {});
  add_run("02", {.decoded_attn_out = 1.0001f});
  EXPECT_EQ(ask("SELECT strict_verdict, verdict FROM run_verdict"), "PASS|PASS\nFAIL|PASS");
  EXPECT_EQ(turns(), "");
}

TEST_F(Regression, IsNotMendedByARunOfAnotherSeed) {
  add_run("01", {});
  add_run("02", {.decoded_attn_out = 5});
  w_.db.exec("UPDATE run SET seed = 7 WHERE id = " + std::to_string(add_run("03", {})));
  w_.db.exec("UPDATE run SET seed = 7 WHERE id = " + std::to_string(add_run("04", {.x_out = 3})));
  const std::string apart = "BROKEN|numeric|02|01|0|attn_out|-\nCHANGED|-|04|03|1|x_out|-";
  EXPECT_EQ(turns(), apart);
  w_.db.exec("UPDATE run SET seed = NULL, synthetic = 1 WHERE id > 2");
  EXPECT_EQ(turns(), apart) << "nor by one of a made-up model";
}

TEST_F(Regression, IsMendedByALaterCommitOfItsLine) {
  add_commits();
  add_run("01", {}, "c000000");
  add_run("06", {.decoded_attn_out = 5}, "c100000");
  add_run("07", {}, "b100000");  // beside it
  EXPECT_EQ(turns(), "BROKEN|numeric|06|01|0|attn_out|-");
  add_run("05", {}, "c300000");  // though it ran before
  add_run("04", {.decoded_attn_out = 5}, "c200000");
  EXPECT_EQ(turns(), "BROKEN|numeric|06|01|0|attn_out|05");
}

TEST_F(Regression, HeldAgainstAPinTellsTheFirstOfSeveralAndTheRunBeforeIt) {
  add_run("01", {});
  w_.db.exec("INSERT INTO pinned_baseline SELECT lineage, 1, '' FROM lineage_member");
  add_run("02", {});
  add_run("03", {.x_out = 3});
  add_run("04", {.x_out = 3});  // as bad, and not anew
  EXPECT_EQ(turns(), "CHANGED|-|03|02|1|x_out|-");
}

TEST_F(Regression, HeldAgainstAPinGoesByCommitsAndSeeds) {
  add_commits();
  add_run("01", {}, "c000000");
  w_.db.exec("INSERT INTO pinned_baseline SELECT lineage, 1, '' FROM lineage_member");
  add_run("03", {.x_out = 3}, "c100000");
  add_run("02", {.x_out = 3}, "c200000");  // as bad, of a later commit
  EXPECT_EQ(turns(), "CHANGED|-|03|01|1|x_out|-");
  w_.db.exec("UPDATE run SET seed = 7 WHERE id = 3");
  EXPECT_EQ(turns(), "CHANGED|-|02|01|1|x_out|-\nCHANGED|-|03|01|1|x_out|-");
}

TEST_F(Regression, OfTheVerdictIsNotMendedByValuesAlone) {
  add_run("01", {});
  add_run("02", {.x_out = 3, .attn_out = 2, .decoded_attn_out = 5});
  add_run("03", {.x_out = 3, .decoded_attn_out = 5});  // prefill's attn_out is back, and fails
  EXPECT_EQ(turns(), "BROKEN|numeric|02|01|0|attn_out|-");
}

TEST_F(Regression, NamesACauseOfItsOwnVerdictOnly) {
  add_run("01", {.decoded_attn_out = 5});
  add_run("02", {.x_out = 3, .decoded_attn_out = 5});
  EXPECT_EQ(ask("SELECT change, tensor, first_fail FROM regression"), "CHANGED|x_out|-");
}

TEST_F(Regression, NothingIsInvented) {
  for (int day = 1; day <= 9; ++day)
    add_run("0" + std::to_string(day), {.x_out = 1 + 1e-5f * static_cast<float>(day)});
  EXPECT_EQ(turns(), "");
}

/// c3 and b2 merged.
class MergedRegression : public Regression {
 protected:
  MergedRegression() {
    add_commits();
    w_.db.exec(
        "INSERT INTO commit_node VALUES ('d000000', 6, '2026-01-01T00:00:00Z', 's');"
        "INSERT INTO commit_parent VALUES ('d000000', 0, 'c300000'), ('d000000', 1, 'b200000')");
  }
  /// A run of each commit, as they came.
  std::string turns_of(const Values& on_line, const Values& on_branch, const Values& merged) {
    add_run("01", {}, "c000000");
    add_run("02", on_line, "c100000");
    add_run("03", on_branch, "b100000");
    add_run("04", on_branch, "b200000");
    add_run("05", on_line, "c200000");
    add_run("06", on_line, "c300000");
    add_run("07", merged, "d000000");
    return turns();
  }
};

// The merge is held against one of its parents, whichever that is.
TEST_F(MergedRegression, OfValuesOnABranchIsToldWhereItCame) {
  EXPECT_EQ(turns_of({}, {.x_out = 3}, {.x_out = 3}), "CHANGED|-|03|01|1|x_out|-");
}

TEST_F(MergedRegression, OfValuesOnTheLineIsToldWhereItCame) {
  EXPECT_EQ(turns_of({.x_out = 3}, {}, {.x_out = 3}), "CHANGED|-|02|01|1|x_out|-");
}

TEST_F(MergedRegression, OfTheVerdictOnABranchIsToldWhereItCame) {
  EXPECT_EQ(turns_of({}, {.decoded_attn_out = 5}, {.decoded_attn_out = 5}),
            "BROKEN|numeric|03|01|0|attn_out|-");
}

TEST_F(MergedRegression, OfTheVerdictOnTheLineIsToldWhereItCame) {
  EXPECT_EQ(turns_of({.decoded_attn_out = 5}, {}, {.decoded_attn_out = 5}),
            "BROKEN|numeric|02|01|0|attn_out|-");
}

TEST_F(MergedRegression, OfTheMergeItselfIsToldThere) {
  EXPECT_EQ(turns_of({}, {}, {.decoded_attn_out = 5}), "BROKEN|numeric|07|06|0|attn_out|-");
}

}  // namespace
}  // namespace greta
