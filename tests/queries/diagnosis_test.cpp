// What the rows of the first failing pair look like, said in words.
#include <cmath>
#include <iterator>
#include <tuple>

#include "cli/show/judged_row.h"
#include "db/judge.h"
#include "tests/queries/warehouse.h"

namespace greta {
namespace {

/// What rows of the view diagnosis say, of all runs.
std::vector<PairFinding> worded(Warehouse& w) {
  judge_rest(w.db);
  QueryPool statements(w.db);
  std::vector<PairFinding> all;
  SQLite::Statement runs(w.db, "SELECT id FROM run ORDER BY id");
  while (runs.executeStep()) {
    for (PairFinding& one : pair_findings(statements, runs.getColumn(0).getInt64()))
      all.push_back(std::move(one));
  }
  return all;
}

/// "p0|2|q_post_rope|37|ALL_ZERO|every value of decode's row is 0", a line each.
std::string findings(Warehouse& w) {
  std::string text;
  for (const PairFinding& one : worded(w)) {
    const std::string at =
        "SELECT DISTINCT prompt, layer, tensor, pos_id FROM diagnosis WHERE"
        " prompt = '" +
        one.prompt + "'";
    text += (text.empty() ? "" : "\n") + w.rows(at) + "|" + one.name + "|" +
            one.evidence(kEnglishWords);
  }
  return text;
}

/// Of one finding only.
std::string evidence(Warehouse& w, const std::string& finding) {
  std::string text;
  for (const PairFinding& one : worded(w)) {
    if (one.name == finding) text += (text.empty() ? "" : "\n") + one.evidence(kEnglishWords);
  }
  return text;
}

/// Codes of the view.
std::string codes(Warehouse& w, const std::string& sql) {
  judge_rest(w.db);
  return w.rows(sql);
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
  EXPECT_EQ(findings(w),
            "p0|0|attn_out|37|SOME_NAN|3 of 4 values of decode's row are NaN or infinite");
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
  EXPECT_EQ(evidence(w, "PERMUTED"), "both rows have the same values, in another order");
  w.db.exec("UPDATE trace_row SET max = 4 WHERE side = 1");
  EXPECT_EQ(evidence(w, "PERMUTED"), "");
}

TEST(Diagnosis, ALeadingPartThatIsEqual) {
  Warehouse w;
  w.add(prefill("attn_out", 2, 1).sampled({3, 1}).length(64).nans(0),
        decode("attn_out", 2, 2).sampled({3, 1}).length(64).nans(1));
  EXPECT_EQ(evidence(w, "TAIL"), "the first 2 of 64 values are equal");
}

TEST(Diagnosis, RowsThatChangeBetweenRepeats) {
  Warehouse w;
  w.add(prefill("attn_out", 2, 1), decode("attn_out", 2, 1), decode("attn_out", 2, 2).step(2));
  EXPECT_EQ(findings(w), "p0|2|attn_out|37|UNSTABLE|2 different rows of decode at this place");
}

/// Two sides of n values each.
void add_pair(Warehouse& w, const std::string& tensor, const std::vector<float>& x,
              const std::vector<float>& y, int64_t pos = 37) {
  w.add(prefill(tensor, 2, 1).at(pos).length(std::ssize(x)).sketched(x),
        decode(tensor, 2, 2).at(pos).length(std::ssize(y)).sketched(y));
}

std::vector<float> wave(int n, float step) {
  std::vector<float> values;
  for (int i = 0; i < n; ++i) values.push_back(std::sin(step * static_cast<float>(i)));
  return values;
}

TEST(Diagnosis, ARowThatFollowsItsSourceOfThePositionBefore) {
  Warehouse w;
  w.add(prefill("k_cache", 2, 9).token(5).sketched({5, 0, 0, 1}),
        decode("k_cache", 2, 101).token(5).sketched({1, 2, 4, 0}),
        prefill("k_post_rope", 2, 101).at(36).in("prefill").token(4));
  EXPECT_EQ(findings(w),
            "p0|2|k_cache|37|OTHER_POSITION|decode's row of position 37 is prefill's k_post_rope of"
            " position 36");
}

TEST(Diagnosis, ALaterRowOfThatPlaceTellsToo) {
  Warehouse w;
  fails_as(w, 101);
  w.add(prefill("q_post_rope", 2, 103).at(38), decode("q_post_rope", 2, 100).at(38));
  EXPECT_EQ(findings(w),
            "p0|2|q_post_rope|37|OTHER_POSITION|decode's row of position 38 is prefill's of"
            " position 37");
}

TEST(Diagnosis, RowsThatAreAlikeAtBothPositionsTellNothing) {
  Warehouse w;
  fails_as(w, 101);  // prefill has 100 at both
  w.add(prefill("q_post_rope", 2, 100).at(36), decode("q_post_rope", 2, 101).at(36));
  EXPECT_EQ(findings(w), "");
}

TEST(Diagnosis, ProbabilitiesThatDoNotAddUpToOne) {
  Warehouse w;
  add_pair(w, "attn_probs", wave(76, 0.7f), wave(76, 0.3f));  // of two heads
  w.db.exec("UPDATE trace_row SET abs_sum = CASE side WHEN 0 THEN 2.0 ELSE 1.8 END");
  EXPECT_EQ(evidence(w, "NOT_ONE"), "the probabilities of decode's 2 heads add up to 1.8");
  w.db.exec("UPDATE trace_row SET abs_sum = 2.0 + 1e-7 * side");
  EXPECT_EQ(evidence(w, "NOT_ONE"), "");
}

TEST(Diagnosis, AHeadInThePlaceOfAnother) {
  const std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8}, y{1, 2, 5, 6, 3, 4, 7, 8};
  const auto run_with = [&](const std::string& heads) {
    Warehouse w;
    w.run({.name = "r"});
    w.db.exec("INSERT INTO attribute(run_id, dim, value, rank) SELECT id, 'n_heads', '" + heads +
              "', 0 FROM run");
    w.add(prefill("q_pre_rope", 2, 1).length(8).sampled(x),
          decode("q_pre_rope", 2, 2).length(8).sampled(y));
    return evidence(w, "OTHER_HEAD");
  };
  EXPECT_EQ(run_with("4"), "head 1 of decode's row is head 2 of prefill's");
  EXPECT_EQ(run_with("3"), "") << "8 values are not those of 3 heads";
  EXPECT_EQ(run_with("1"), "");
}

TEST(Diagnosis, HeadsThatDifferBesideHeadsThatDoNot) {
  const auto found = [](int64_t ppm_of_first) {
    Warehouse w;
    w.run({.dtype = "f32"});
    add_pair(w, "attn_scores", wave(76, 0.7f), wave(76, 0.3f));
    w.db.exec(
        "INSERT INTO difference(run_id, prompt_id, pos_id, layer, tensor_id, prefill_hash,"
        " decode_hash, n, differing, first_at, last_at, rel_l2, max_abs, max_abs_at, max_ulp,"
        " heads, segments) SELECT run_id, prompt_id, pos_id, layer, tensor_id, 1, 2, 76, 76, 0,"
        " 75, 0.9, 1.0, 3, 9, 2, 2 FROM trace_row WHERE side = 0");
    w.db.exec(
        "INSERT INTO difference_part SELECT d.id, p.column1, p.column2 FROM difference d,"
        " (VALUES (0, " +
        std::to_string(ppm_of_first) + "), (1, 1000000 - " + std::to_string(ppm_of_first) + ")) p");
    return evidence(w, "SOME_HEADS");
  };
  EXPECT_EQ(found(1), "1 of 2 heads differ, the others by rounding at most");
  EXPECT_EQ(found(500'000), "");
}

TEST(Diagnosis, FewValuesFewBitsAndNothingInCommon) {
  const auto found = [](const std::vector<float>& x, const std::vector<float>& y) {
    Warehouse w;
    w.run({.dtype = "f32"});
    add_pair(w, "attn_out", x, y);
    return codes(w, "SELECT group_concat(finding) FROM diagnosis");
  };
  const std::vector<float> x = wave(256, 0.7f);
  std::vector<float> few = x, coarse = x;
  few[3] += 2;
  few[100] -= 3;
  for (size_t i = 0; i < coarse.size(); ++i) coarse[i] *= i % 2 == 0 ? 1.002f : 0.998f;
  EXPECT_EQ(found(x, few), "FEW_VALUES");
  EXPECT_EQ(found(x, coarse), "FEWER_BITS");
  EXPECT_EQ(found(x, wave(256, 0.3f)), "UNRELATED");
}

TEST(Diagnosis, RoundingWhereBitsAreToBeEqual) {
  const auto findings_in = [](const std::string& mode) {
    Warehouse w;
    w.run({.mode = mode, .dtype = "f32"});
    std::vector<float> x = wave(64, 0.7f), y = x;
    for (size_t i = 0; i < y.size(); ++i) y[i] *= i % 2 == 0 ? 1 + 1e-6f : 1 - 1e-6f;
    add_pair(w, "attn_out", x, y);
    return codes(w, "SELECT finding FROM diagnosis");
  };
  EXPECT_EQ(findings_in("batch_invariant"), "ROUNDING");
  EXPECT_EQ(findings_in("as_designed"), "");
}

TEST(Diagnosis, WhetherARowComesOutAlikeAgain) {
  const auto repeated = [](uint64_t first, uint64_t second) {
    Warehouse w;
    fails_as(w, 101);
    const auto again = [&](const std::string& side, uint64_t hash, int64_t step) {
      w.add(prefill("q_post_rope", 2, hash).in("repeat_" + side).step(step));
    };
    again("prefill", 100, 1);
    again("prefill", 100, 2);
    again("decode", first, 1);
    again("decode", second, 2);
    EXPECT_EQ(codes(w, "SELECT fail, pairs FROM run_verdict"), "1|1");
    EXPECT_EQ(w.rows("SELECT status FROM pair"), "DRIFT");
    return findings(w);
  };
  EXPECT_EQ(repeated(101, 101),
            "p0|2|q_post_rope|37|REPEATED|in 2 repeats of the prompt both rows came out alike");
  EXPECT_EQ(repeated(101, 102),
            "p0|2|q_post_rope|37|UNSTABLE|decode's row came out otherwise in 1 of 2 repeats of the"
            " prompt");
}

TEST(Diagnosis, TheLengthFromWhichItFails) {
  Warehouse w;
  const auto prompt = [&](const std::string& name, int64_t length, bool fails) {
    w.use_prompt(name);
    add_pair(w, "attn_out", {5, 0, 0, 1}, {5, 0, 0, fails ? 9.0f : 1.0f}, length - 1);
    if (!fails)
      w.db.exec("UPDATE trace_row SET hash = 1 WHERE prompt_id = (SELECT max(id) FROM prompt)");
    w.db.exec("UPDATE prompt SET n_tokens = " + std::to_string(length) + " WHERE name = '" + name +
              "'");
  };
  prompt("p1", 16, false);
  prompt("p2", 255, false);
  prompt("p3", 256, true);
  EXPECT_EQ(evidence(w, "ONSET"), "") << "one prompt that fails has other reasons";
  prompt("p4", 300, true);
  const std::string onset =
      "positions up to 254 are clean, none from 255 on; prompts of up to 255 tokens are clean,"
      " none of 256 or more: a multiple of 256";
  EXPECT_EQ(evidence(w, "ONSET"), onset + "\n" + onset) << "of two prompts";
}

TEST(Diagnosis, AnOnsetOneAfterABlockOrAtTheBatch) {
  const auto onset = [](int64_t last_clean, int64_t first_bad, const std::string& batch) {
    Warehouse w;
    w.run({.name = "r"});
    w.db.exec("INSERT INTO attribute(run_id, dim, value, rank) SELECT id, 'batch', '" + batch +
              "', 0 FROM run");
    for (const int64_t pos : {int64_t{0}, last_clean}) {
      w.add(prefill("attn_out", 2, 1).at(pos), decode("attn_out", 2, 1).at(pos));
    }
    for (const int64_t pos : {first_bad, first_bad + 3}) {
      add_pair(w, "attn_out", {5, 0, 0, 1}, {1, 2, 4, 1}, pos);
    }
    return evidence(w, "ONSET");
  };
  EXPECT_EQ(onset(96, 97, "512"),
            "positions up to 96 are clean, none from 97 on: one after a multiple of 96");
  EXPECT_EQ(onset(90, 97, "512"), "positions up to 90 are clean, none from 97 on");
  EXPECT_EQ(onset(99, 100, "50"),
            "positions up to 99 are clean, none from 100 on: a multiple of the batch, 50");
}

TEST(Diagnosis, ThePositionFromWhichItFails) {
  const auto at = [](Warehouse& w, int64_t pos, bool fails) {
    w.add(prefill("attn_out", 2, 1).at(pos).sketched({5, 0, 0, 1}),
          fails ? decode("attn_out", 2, 2).at(pos).sketched({1, 2, 4, 1})
                : decode("attn_out", 2, 1).at(pos).sketched({5, 0, 0, 1}));
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

TEST(Diagnosis, TellsCodesThatReportsWordInTheirLanguage) {
  Warehouse w;
  fails_as(w, 101);
  w.add(prefill("q_post_rope", 2, 101).at(36).in("prefill"));
  EXPECT_EQ(codes(w,
                  "SELECT finding, side, other_side, other_tensor, unit, at, other_at, count,"
                  " of_count, value, distance FROM diagnosis"),
            "OTHER_POSITION|decode|prefill|-|position|37|36|-|-|-|-");
  const PairFinding one = worded(w).at(0);
  EXPECT_EQ(one.text(Wording(Language::kSpanish)),
            "OTHER_POSITION: la fila de decode de la posición 37 es la de prefill de la posición 36"
            " (una posición desplazada en uno, o una fila obsoleta)");
}

TEST(Diagnosis, SaysWhatEveryFindingUsuallyComesFrom) {
  Warehouse w;
  EXPECT_EQ(w.rows("SELECT count(*) FROM finding WHERE length(meaning) < 10"), "0");
  w.add(prefill("attn_out", 0, 1), decode("attn_out", 0, 2).nans(4));
  EXPECT_EQ(codes(w, "SELECT meaning FROM diagnosis"),
            "it reads what nobody wrote (a buffer, a cache row, a slot beyond the last one), or"
            " overflows");
}

}  // namespace
}  // namespace greta
