// What the rows of the first failing pair look like, said in words.
#include "tests/queries/warehouse.h"

namespace greta {
namespace {

std::string findings(Warehouse& w) {
  return w.rows(
      "SELECT prompt, layer, tensor, pos_id, finding, evidence FROM diagnosis ORDER BY"
      " prompt, ord");
}

/// A pair beyond rounding at position 37 of layer 2, whose decode row has this hash.
void fails_as(Warehouse& w, uint64_t hash, const std::string& tensor = "q_post_rope") {
  w.add(prefill(tensor, 2, 100).sketched({5, 0, 0, 1}),
        decode(tensor, 2, hash).sketched({1, 2, 4, 0}));
}

TEST(Diagnosis, NothingOfARunThatPassesOrDiffersByRounding) {
  Warehouse w;
  w.match("x_in", 0);
  w.rounding("attn_out", 0);
  w.add(prefill("attn_out", 0, 2).at(36));
  EXPECT_EQ(findings(w), "");
}

TEST(Diagnosis, NothingOfAPairThatLooksLikeNothingKnown) {
  Warehouse w;
  fails_as(w, 101);
  EXPECT_EQ(findings(w), "");
}

TEST(Diagnosis, ARowOfNaN) {
  for (const auto& [prefill_nans, decode_nans, who] :
       {std::tuple(0, 4, "every value of decode's row is NaN"),
        std::tuple(4, 0, "every value of prefill's row is NaN"),
        std::tuple(4, 4, "every value of both rows is NaN")}) {
    Warehouse w;
    w.add(prefill("attn_out", 0, 1).nans(prefill_nans), decode("attn_out", 0, 2).nans(decode_nans));
    EXPECT_EQ(findings(w), std::string("p0|0|attn_out|37|ALL_NAN|") + who);
  }
  Warehouse w;
  w.add(prefill("attn_out", 0, 1), decode("attn_out", 0, 2).nans(3));
  EXPECT_EQ(findings(w), "");
}

TEST(Diagnosis, ARowOfZerosAndARowWithMoreOfThem) {
  Warehouse w;
  fails_as(w, 101);
  w.db.exec("UPDATE trace_row SET nz_count = 4 - 4 * side");
  EXPECT_EQ(findings(w), "p0|2|q_post_rope|37|ALL_ZERO|every value of decode's row is 0");
  w.db.exec("UPDATE trace_row SET nz_count = 4 - side");
  EXPECT_EQ(findings(w),
            "p0|2|q_post_rope|37|FEWER_VALUES|decode's row has 1 zeros more than prefill's, of 4"
            " values");
  w.db.exec("UPDATE trace_row SET nz_count = 3 + side");
  EXPECT_EQ(findings(w),
            "p0|2|q_post_rope|37|FEWER_VALUES|prefill's row has 1 zeros more than decode's, of 4"
            " values");
}

TEST(Diagnosis, TheRowOfAnotherPosition) {
  Warehouse w;
  fails_as(w, 101);
  w.add(prefill("q_post_rope", 2, 101).at(36).in("prefill"));
  EXPECT_EQ(findings(w),
            "p0|2|q_post_rope|37|OTHER_POSITION|decode's row of position 37 is prefill's of"
            " position 36");
}

TEST(Diagnosis, TheRowOfTheTokenBefore) {
  Warehouse w;
  fails_as(w, 101);
  w.add(decode("q_post_rope", 2, 101).at(36).in("decode"));
  EXPECT_EQ(findings(w),
            "p0|2|q_post_rope|37|STALE_ROW|decode's row of position 37 is its own of position 36");
}

TEST(Diagnosis, TheRowOfAnotherLayer) {
  Warehouse w;
  fails_as(w, 101);
  w.add(prefill("q_post_rope", 3, 101), decode("q_post_rope", 3, 101));
  EXPECT_EQ(findings(w),
            "p0|2|q_post_rope|37|OTHER_LAYER|decode's row of layer 2 is prefill's of layer 3");
}

TEST(Diagnosis, TheRowOfTheStepBefore) {
  Warehouse w;
  w.match("q_pre_rope", 2);  // hash 1
  fails_as(w, 1);
  EXPECT_EQ(findings(w),
            "p0|2|q_post_rope|37|OTHER_TENSOR|decode's q_post_rope is prefill's q_pre_rope of this"
            " layer");
}

TEST(Diagnosis, RowsOfOtherRunsPromptsAndLengthsSayNothing) {
  Warehouse w;
  w.run({.name = "a"});
  w.add(prefill("q_post_rope", 2, 101).at(36));
  w.run({.name = "b"});
  fails_as(w, 101);
  w.add(prefill("q_post_rope", 2, 101).at(36).of("p1"),
        prefill("q_post_rope", 2, 101).at(36).length(5));
  EXPECT_EQ(findings(w), "");
}

TEST(Diagnosis, AFactor) {
  Warehouse w;
  w.run({.dtype = "f32"});
  w.add(prefill("q_pre_rope", 2, 1).sketched({2, 4, -1, 0.5}),
        decode("q_pre_rope", 2, 2).sketched({2.0625f, 4.125f, -1.03125f, 0.515625f}));
  EXPECT_EQ(findings(w),
            "p0|2|q_pre_rope|37|SCALED|decode's row is 1.03125 times prefill's, but for a relative"
            " distance of 0");
}

TEST(Diagnosis, AnotherDirectionOfTheSameNorm) {
  Warehouse w;
  w.add(prefill("q_post_rope", 2, 1).sketched({3, 0, 0, 0}),
        decode("q_post_rope", 2, 2).sketched({0, 3, 0, 0}));
  EXPECT_EQ(
      findings(w),
      "p0|2|q_post_rope|37|TURNED|both rows have the same norm and point elsewhere: a relative"
      " distance of 1");
}

TEST(Diagnosis, TheSameValuesInAnotherOrder) {
  Warehouse w;
  w.add(prefill("attn_out", 2, 1).sketched({3, 1, 2, 0}),
        decode("attn_out", 2, 2).sketched({1, 3, 2, 0}));
  w.db.exec("UPDATE trace_row SET min = 0, max = 3, mean = 1.5, abs_sum = 6, nz_count = 3");
  EXPECT_EQ(w.rows("SELECT finding, evidence FROM diagnosis WHERE finding = 'PERMUTED'"),
            "PERMUTED|both rows have the same values, in another order");
  w.db.exec("UPDATE trace_row SET max = 4 WHERE side = 1");
  EXPECT_EQ(w.rows("SELECT count(*) FROM diagnosis WHERE finding = 'PERMUTED'"), "0");
}

TEST(Diagnosis, ALeadingPartThatIsEqual) {
  Warehouse w;
  w.add(prefill("attn_out", 2, 1).sampled({3, 1}).length(64).nans(0),
        decode("attn_out", 2, 2).sampled({3, 1}).length(64).nans(1));
  EXPECT_EQ(w.rows("SELECT finding, evidence FROM diagnosis"),
            "TAIL|the first 2 of 64 values are equal");
}

TEST(Diagnosis, RowsThatChangeBetweenRepeats) {
  Warehouse w;
  w.add(prefill("attn_out", 2, 1), decode("attn_out", 2, 1), decode("attn_out", 2, 2).step(2));
  EXPECT_EQ(findings(w), "p0|2|attn_out|37|UNSTABLE|2 different rows of decode at this place");
}

TEST(Diagnosis, ThePositionFromWhichItFails) {
  const auto at = [](Warehouse& w, int64_t pos, bool fails) {
    w.add(prefill("attn_out", 2, 1).at(pos).sketched({5, 0, 0, 1}),
          decode("attn_out", 2, fails ? 2 : 1).at(pos).sketched({fails ? 1.0f : 5.0f, 2, 4, 1}));
  };
  for (const auto& [first_bad, text] :
       {std::pair(96, "positions up to 15 are clean, none from 96 on: a multiple of 96"),
        std::pair(33, "positions up to 15 are clean, none from 33 on")}) {
    Warehouse w;
    at(w, 3, false);
    w.use_prompt("p1");
    at(w, 15, false);
    at(w, first_bad, true);
    at(w, first_bad + 1, true);
    EXPECT_EQ(findings(w), "p1|2|attn_out|" + std::to_string(first_bad) + "|ONSET|" + text);
    at(w, first_bad + 2, false);
    EXPECT_EQ(findings(w), "") << "not all that follow fail";
  }
}

TEST(Diagnosis, SaysWhatEveryFindingUsuallyComesFrom) {
  Warehouse w;
  EXPECT_EQ(w.rows("SELECT count(*) FROM finding WHERE length(meaning) < 10"), "0");
  w.add(prefill("attn_out", 0, 1), decode("attn_out", 0, 2).nans(4));
  EXPECT_EQ(w.rows("SELECT meaning FROM diagnosis"),
            "it reads what nobody wrote (a buffer, a cache row, a slot beyond the last one), or"
            " overflows");
}

}  // namespace
}  // namespace greta
