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

/// A row of q_post_rope, layer 2.
Row qp(uint64_t hash) { return prefill("q_post_rope", 2, hash); }
Row qd(uint64_t hash) { return decode("q_post_rope", 2, hash); }

/// A pair beyond rounding at position 37 of layer 2, whose decode row has hash 101.
const std::vector<Row> kFails = {qp(100).sketched({5, 0, 0, 1}), qd(101).sketched({1, 2, 4, 0})};

std::vector<Row> fails_beside(const std::vector<Row>& more) {
  std::vector<Row> all = kFails;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// Two sides of these values.
std::vector<Row> pair_of(const std::string& tensor, const std::vector<float>& x,
                         const std::vector<float>& y, int64_t pos = 37) {
  return {prefill(tensor, 2, 1).at(pos).length(std::ssize(x)).sketched(x),
          decode(tensor, 2, 2).at(pos).length(std::ssize(y)).sketched(y)};
}

void add(Warehouse& w, const std::vector<Row>& rows) {
  for (const Row& row : rows) w.add(row);
}

/// "FINDING|evidence" of all findings of these rows, a line each; all are of position 37.
void expect_findings(const std::string& expected, const std::vector<Row>& rows,
                     const char* by_hand = "") {
  Warehouse w;
  add(w, rows);
  w.db.exec(by_hand);
  std::string said;
  for (const PairFinding& one : worded(w))
    said += (said.empty() ? "" : "\n") + one.name + "|" + one.evidence(kEnglishWords);
  EXPECT_EQ(said, expected);
  const char* const position = "SELECT DISTINCT pos_id FROM diagnosis";
  EXPECT_EQ(w.rows(position), expected.empty() ? "" : "37");
}

/// The same of one finding only.
void expect_evidence(const std::string& finding, const std::string& expected,
                     const std::vector<Row>& rows, const char* by_hand) {
  Warehouse w;
  add(w, rows);
  w.db.exec(by_hand);
  EXPECT_EQ(evidence(w, finding), expected);
}

std::vector<float> wave(int n, float step) {
  std::vector<float> values;
  for (int i = 0; i < n; ++i) values.push_back(std::sin(step * static_cast<float>(i)));
  return values;
}

TEST(Diagnosis, NothingOfWhatPassesOrLooksLikeNothingKnown) {
  expect_findings("", {qp(1), qd(1), prefill("attn_out", 0, 1).sketched({1000, 0, 0, 0}),
                       decode("attn_out", 0, 2).sketched({999, 0, 0, 0}), qp(2).at(36)});
  expect_findings("", kFails);
  Warehouse w;  // rows of other runs, prompts and lengths
  w.run({.name = "a"});
  w.add(qp(101).at(36));
  w.run({.name = "b"});
  add(w, fails_beside({qp(101).at(36).of("p1"), qp(101).at(36).length(5)}));
  EXPECT_EQ(findings(w), "");
}

TEST(Diagnosis, ValuesThatAreNaNOrZero) {
  expect_findings("ALL_NAN|every value of decode's row is NaN", {qp(1), qd(2).nans(4)});
  expect_findings("ALL_NAN|every value of prefill's row is NaN", {qp(1).nans(4), qd(2)});
  expect_findings("ALL_NAN|every value of both rows is NaN", {qp(1).nans(4), qd(2).nans(4)});
  expect_findings("SOME_NAN|3 of 4 values of decode's row are NaN or infinite",
                  {qp(1), qd(2).nans(3)});
  expect_findings("ALL_ZERO|every value of decode's row is 0", kFails,
                  "UPDATE trace_row SET nz_count = 4 - 4 * side");
  expect_findings("FEWER_VALUES|decode's row has 1 zeros more than prefill's, of 4 values", kFails,
                  "UPDATE trace_row SET nz_count = 4 - side");
  expect_findings("FEWER_VALUES|prefill's row has 1 zeros more than decode's, of 4 values", kFails,
                  "UPDATE trace_row SET nz_count = 3 + side");
}

TEST(Diagnosis, TheRowOfAnotherPlace) {
  expect_findings("OTHER_POSITION|decode's row of position 37 is prefill's of position 36",
                  fails_beside({qp(101).at(36).in("prefill")}));
  expect_findings("STALE_ROW|decode's row of position 37 is its own of position 36",
                  fails_beside({qd(101).at(36).in("decode")}));
  expect_findings("OTHER_LAYER|decode's row of layer 2 is prefill's of layer 3",
                  fails_beside({prefill("q_post_rope", 3, 101), decode("q_post_rope", 3, 101)}));
  expect_findings("OTHER_TENSOR|decode's q_post_rope is decode's q_pre_rope of this layer",
                  fails_beside({prefill("q_pre_rope", 2, 101), decode("q_pre_rope", 2, 101)}));
  // not where it is so on the other side, too
  expect_findings("", fails_beside({prefill("q_pre_rope", 2, 100), decode("q_pre_rope", 2, 101)}));
  expect_findings(
      "OTHER_POSITION|decode's row of position 37 is prefill's k_post_rope of position 36",
      {prefill("k_cache", 2, 9).token(5).sketched({5, 0, 0, 1}),
       decode("k_cache", 2, 101).token(5).sketched({1, 2, 4, 0}),
       prefill("k_post_rope", 2, 101).at(36).in("prefill").token(4)});
  // a later row of that place tells, too; rows that are alike at both positions do not
  expect_findings("OTHER_POSITION|decode's row of position 38 is prefill's of position 37",
                  fails_beside({qp(103).at(38), qd(100).at(38)}));
  expect_findings("", fails_beside({qp(100).at(36), qd(101).at(36)}));
}

TEST(Diagnosis, WhatSketchesTell) {
  expect_findings(
      "SCALED|decode's row is 1.03125 times prefill's, but for a relative distance of 0",
      pair_of("q_pre_rope", {2, 4, -1, 0.5}, {2.0625f, 4.125f, -1.03125f, 0.515625f}));
  expect_findings(
      "TURNED|both rows have the same norm and point elsewhere: a relative distance"
      " of 1",
      pair_of("q_post_rope", {3, 0, 0, 0}, {0, 3, 0, 0}));
  const std::vector<Row> permuted = pair_of("attn_out", {3, 1, 2, 0}, {1, 3, 2, 0});
  expect_evidence("PERMUTED", "both rows have the same values, in another order", permuted,
                  "UPDATE trace_row SET min = 0, max = 3, mean = 1.5, abs_sum = 6, nz_count = 3");
  expect_evidence("PERMUTED", "", permuted,
                  "UPDATE trace_row SET min = 0, max = 3 + side, mean = 1.5, abs_sum = 6");
  const std::vector<Row> probs = pair_of("attn_probs", wave(76, 0.7f), wave(76, 0.3f));
  expect_evidence("NOT_ONE", "the probabilities of decode's 2 heads add up to 1.8", probs,
                  "UPDATE trace_row SET abs_sum = 2.0 - 0.2 * side");
  expect_evidence("NOT_ONE", "", probs, "UPDATE trace_row SET abs_sum = 2.0 + 1e-7 * side");
}

TEST(Diagnosis, WhatSamplesAndRepeatsTell) {
  expect_evidence("TAIL", "the difference is in the last 62 of 64 values",
                  {qp(1).sampled({3, 1}).length(64), qd(2).sampled({3, 1}).length(64).nans(1)}, "");
  expect_findings("UNSTABLE|2 different rows of decode at this place",
                  {qp(1), qd(1), qd(2).step(2)});
}

/// Adds a pair of q_pre_rope at position 37, with how it differs value by value.
void add_measured(Warehouse& w, const std::vector<float>& x, const std::vector<float>& y,
                  int64_t heads) {
  add(w, pair_of("q_pre_rope", x, y));
  const size_t n = x.size(), segments = heads > 0 ? static_cast<size_t>(heads) : 32;
  std::vector<double> sums(segments);
  double total = 0, norm_x = 0, norm_y = 0, most = 0;
  size_t differing = 0, first = n, last = 0;
  for (size_t i = 0; i < n; ++i) {
    const double apart = double{y[i]} - double{x[i]};
    sums[i * segments / n] += apart * apart;
    total += apart * apart;
    norm_x += double{x[i]} * double{x[i]};
    norm_y += double{y[i]} * double{y[i]};
    most = std::max(most, std::abs(apart));
    if (apart == 0) continue;
    ++differing;
    first = std::min(first, i);
    last = i;
  }
  SQLite::Statement difference(
      w.db,
      "INSERT INTO difference(id, run_id, prompt_id, pos_id, layer, tensor_id, prefill_hash,"
      " decode_hash, n, differing, first_at, last_at, rel_l2, max_abs, max_ulp, heads, segments)"
      " SELECT 1, run_id, prompt_id, 37, 2, tensor_id, 1, 2, ?, ?, ?, ?, ?, ?, 9, ?, ? FROM"
      " trace_row WHERE side = 0");
  const double rel_l2 = std::sqrt(total / std::max(norm_x, norm_y));
  const auto integer = [](size_t value) { return static_cast<int64_t>(value); };
  difference.bind(1, integer(n));
  difference.bind(2, integer(differing));
  difference.bind(3, integer(first));
  difference.bind(4, integer(last));
  difference.bind(5, rel_l2);
  difference.bind(6, most);
  difference.bind(7, heads);
  difference.bind(8, integer(segments));
  difference.exec();
  for (size_t i = 0; i < segments; ++i) {
    if (sums[i] == 0) continue;
    w.db.exec("INSERT INTO difference_part VALUES (1, " + std::to_string(i) + ", " +
              std::to_string(std::lround(1e6 * sums[i] / total)) + ")");
  }
}

TEST(Diagnosis, WhereTheRowsDifferDecides) {
  struct Case {
    std::string expected;
    size_t first, last, step;
    float factor;
    int64_t heads;
  };
  for (const Case& one : std::vector<Case>{{"FEW_VALUES", 20, 21, 1, -9, 0},
                                           {"FEW_VALUES", 20, 250, 90, -9, 0},
                                           {"FEW_VALUES", 20, 250, 90, -9, 8},
                                           {"TAIL", 240, 256, 1, 1.5, 0},
                                           {"SOME_VALUES", 32, 64, 1, 1.5, 0},
                                           {"SOME_HEADS", 32, 64, 1, 1.5, 8},
                                           {"SOME_HEADS", 224, 256, 1, 1.5, 8},
                                           {"SCALED", 0, 256, 1, 1.5, 8},
                                           {"OTHER_VALUES", 0, 256, 2, 1.25, 8}}) {
    for (const std::string mode : {"as_designed", "batch_invariant"}) {
      Warehouse w;
      w.run({.mode = mode, .dtype = "f32"});
      const std::vector<float> x = wave(256, 0.7f);
      std::vector<float> y = x;
      // elsewhere they differ by rounding, unless bits are to be equal
      if (mode == "as_designed")
        for (size_t i = 0; i < y.size(); ++i) y[i] *= i % 3 == 0 ? 1 + 2e-7f : 1 - 1e-7f;
      for (size_t i = one.first; i < one.last; i += one.step) y[i] *= one.factor;
      add_measured(w, x, y, one.heads);
      EXPECT_EQ(codes(w, "SELECT group_concat(finding) FROM diagnosis"), one.expected)
          << mode << " " << one.first << " " << one.heads;
    }
  }
}

TEST(Diagnosis, WhatMostPairsAgreeOn) {
  // one pair is all zero, two are scaled
  const auto scaled = [](float factor, int64_t pos) {
    std::vector<float> x = wave(64, 0.1f * static_cast<float>(pos)), y = x;
    for (float& value : y) value *= factor;
    return pair_of("attn_out", x, y, pos);
  };
  Warehouse w;
  w.run({.dtype = "f32"});
  add(w, scaled(0, 3));
  w.db.exec("UPDATE trace_row SET nz_count = 64 - 64 * side");
  EXPECT_EQ(codes(w, "SELECT group_concat(finding) FROM diagnosis"), "ALL_ZERO");
  w.use_prompt("p1");
  add(w, scaled(1.5f, 4));
  w.use_prompt("p2");
  add(w, scaled(1.5f, 5));
  w.use_prompt("p3");
  add(w, scaled(1.5f, 6));
  EXPECT_EQ(codes(w, "SELECT prompt, pos_id, finding FROM diagnosis"), "p1|4|SCALED");
}

TEST(Diagnosis, WhatOtherRowsOfThePositionTell) {
  const std::vector<float> input = wave(64, 0.7f), weighted = wave(64, 0.3f);
  const auto found = [&](const std::vector<float>& x, const std::vector<float>& y) {
    Warehouse w;
    w.run({.dtype = "f32"});
    w.add(prefill("residual_pre_attn", 2, 7).length(64).sketched(input),
          decode("residual_pre_attn", 2, 7).length(64).sketched(input));
    add(w, pair_of("attn_norm_out", x, y));
    return codes(w, "SELECT finding, side, other_tensor, round(value, 4) FROM diagnosis LIMIT 1");
  };
  std::vector<float> half = input, sum = weighted;
  for (size_t i = 0; i < half.size(); ++i) {
    half[i] *= 0.5f;
    sum[i] += 2 * input[i];
  }
  EXPECT_EQ(found(weighted, half), "MISSING_WEIGHT|decode|residual_pre_attn|0.5");
  EXPECT_EQ(found(half, weighted), "MISSING_WEIGHT|prefill|residual_pre_attn|0.5");
  EXPECT_EQ(found(weighted, sum), "ADDED|decode|residual_pre_attn|2.0");
}

TEST(Diagnosis, ABiasIsMissingWhereTokensDifferByTheSame) {
  const auto found = [](float change) {
    Warehouse w;
    w.run({.dtype = "f32"});
    for (int64_t pos = 3; pos < 5; ++pos) {
      const std::vector<float> x = wave(64, 0.1f * static_cast<float>(pos));
      std::vector<float> y = x;
      for (size_t i = 0; i < y.size(); ++i)
        y[i] += (pos == 3 ? 1 : change) * std::sin(static_cast<float>(i * i));
      w.add(prefill("q_pre_rope", 2, 10 + 2 * pos).at(pos).token(pos).length(64).sketched(x),
            decode("q_pre_rope", 2, 11 + 2 * pos).at(pos).token(pos).length(64).sketched(y));
      w.use_prompt("p" + std::to_string(pos));
    }
    return evidence(w, "MISSING_WEIGHT");
  };
  EXPECT_EQ(found(1), "the rows of different tokens differ by the same amount");
  EXPECT_EQ(found(1.5f), "");
}

TEST(Diagnosis, OnlyTheRecordIsWrongWhereAllThatIsComputedAgrees) {
  const auto found = [](uint64_t of_decode) {
    Warehouse w;
    w.run({.mode = "batch_invariant", .dtype = "f32"});
    add(w, kFails);
    w.add(prefill("attn_scores", 2, 7), decode("attn_scores", 2, of_decode));
    return evidence(w, "RECORD_ONLY");
  };
  EXPECT_EQ(found(7), "all that is computed from the row agrees (trace points: 1)");
  EXPECT_EQ(found(8), "");
}

TEST(Diagnosis, FewValuesFewBitsAndNothingInCommon) {
  const auto found = [](const std::vector<float>& x, const std::vector<float>& y) {
    Warehouse w;
    w.run({.dtype = "f32"});
    add(w, pair_of("attn_out", x, y));
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
    add(w, pair_of("attn_out", x, y));
    return codes(w, "SELECT finding FROM diagnosis");
  };
  EXPECT_EQ(findings_in("batch_invariant"), "ROUNDING");
  EXPECT_EQ(findings_in("as_designed"), "");
}

TEST(Diagnosis, WhetherARowComesOutAlikeAgain) {
  // Hashes of decode's repeats from the first on, of which the second comes after what the judged
  // row came after; 101 is that row's. other: of one more row of decode at its place.
  struct Case {
    std::vector<uint64_t> repeats;
    uint64_t other;
    std::string finding;
  };
  const std::string alike = "REPEATED|in 2 repeats of the prompt both rows came out alike";
  const auto unstable = [](const std::string& n) {
    return "UNSTABLE|decode's row came out otherwise in " + n + " repeats of the prompt";
  };
  const auto state = [](const std::string& n) {
    return "STATE|decode's row is another one after other prompts, the same in " + n + " repeats";
  };
  for (const auto& [repeats, other, finding] :
       {Case{{101, 101}, 0, alike}, Case{{102, 101}, 0, state("1 of 1")},
        Case{{102, 101, 102}, 0, state("2 of 2")}, Case{{102}, 0, unstable("1 of 1")},
        Case{{101, 102}, 0, unstable("1 of 2")}, Case{{102, 102}, 0, unstable("2 of 2")},
        Case{{102, 103}, 0, unstable("2 of 2")}, Case{{102, 101, 103}, 0, unstable("2 of 3")},
        Case{{0, 0, 102}, 102, state("1 of 1")}, Case{{0, 0, 102, 0, 102}, 102, state("2 of 2")},
        Case{{0, 0, 103}, 102, unstable("1 of 1")},
        Case{{0, 0, 102, 0, 101}, 102, unstable("1 of 2")}}) {
    Warehouse w;
    add(w, kFails);
    if (other > 0) w.add(qd(other).step(9));
    for (size_t i = 0; i < repeats.size(); ++i) {
      const auto step = static_cast<int64_t>(i) + 1;
      if (repeats[i] == 0) continue;
      w.add(qp(100).in("repeat_prefill").step(step));
      w.add(qp(repeats[i]).in("repeat_decode").step(step));
    }
    EXPECT_EQ(codes(w, "SELECT fail, pairs FROM run_verdict"), "1|1");
    EXPECT_EQ(w.rows("SELECT status FROM pair"), other > 0 ? "AMBIGUOUS" : "DRIFT");
    const std::string found = findings(w);
    EXPECT_TRUE(found.starts_with("p0|2|q_post_rope|37|" + finding)) << found << "\n" << finding;
  }
}

TEST(Diagnosis, TheLengthFromWhichItFails) {
  Warehouse w;
  const auto prompt = [&](const std::string& name, int64_t length, bool fails) {
    w.use_prompt(name);
    add(w, pair_of("attn_out", {5, 0, 0, 1}, {5, 0, 0, fails ? 9.0f : 1.0f}, length - 1));
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
  EXPECT_EQ(evidence(w, "ONSET"), onset);
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
      add(w, pair_of("attn_out", {5, 0, 0, 1}, {1, 2, 4, 1}, pos));
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
  add(w, kFails);
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
