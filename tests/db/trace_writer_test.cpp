#include "db/trace_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/temporary_folder.h"
#include "db/check.h"
#include "db/database.h"
#include "db/judge.h"
#include "db/run_records.h"
#include "tests/query_text.h"

namespace greta {
namespace {

struct Writing : testing::Test {
  Writing() {
    db.exec("BEGIN");
    add_run(db);
  }

  /// A run with a source, ids 1.
  static void add_run(SQLite::Database& db) {
    db.exec(
        "INSERT INTO run(name, experiment) VALUES ('r', 'e');"
        "INSERT INTO source(run_id, sha256, shape, bytes) VALUES (1, 'x', 'stage_trace', 0)");
    refresh_lineage(db, 1);
  }

  TraceRow row(int64_t pos, uint64_t hash = 1, const std::string& tensor = "attn_out") {
    return row_of(writer, pos, hash, ++line, tensor);
  }
  static TraceRow row_of(TraceWriter& writer, int64_t pos, uint64_t hash, int64_t line,
                         const std::string& tensor) {
    const PhaseId phase = writer.phase_id("decode0");
    const TensorId name = writer.tensor_id(tensor);
    TraceRow r;
    r.run_id = 1;
    r.prompt_id = writer.prompt_id(1, "p0");
    r.side = phase.side;
    r.phase_id = phase.id;
    r.pos_id = pos;
    r.tensor_id = name.tensor_id;
    r.name_id = name.name_id;
    r.hash = hash;
    r.source_id = 1;
    r.line = line;
    return r;
  }
  WriteCounts write(std::vector<TraceRow> rows) { return writer.write(rows); }
  std::string rows(const std::string& sql) { return text_of(db, sql); }
  int64_t count(const std::string& table) {
    return db.execAndGet("SELECT count(*) FROM " + table).getInt64();
  }

  SQLite::Database db = open_for_writing(":memory:");
  TraceWriter writer{db};
  int64_t line = 0;
};

TEST_F(Writing, EveryColumnIsStored) {
  RowContext context;
  context.route = "MFMA";
  context.seq_len = 7;
  context.extra = R"({"a":1})";
  TraceRow r = row(37, 18446744073709551615u, "x_in");
  r.layer = -1;
  r.step = 2;
  r.token_id = 116, r.logical_tok_idx = 37, r.n = 4096;
  r.min = -1.5, r.max = 2, r.mean = 0.25, r.abs_sum = 3;
  r.nan = 1, r.inf = 2, r.nz_count = 3, r.flags = 5;
  r.ptr = 1000, r.offset_bytes = 64;
  r.context_id = writer.add_context(context);
  EXPECT_EQ(write({r}).inserted, 1);
  EXPECT_EQ(rows("SELECT run, prompt, phase, step, pos_id, layer, tensor, canonical_tensor, "
                 "token_id, logical_tok_idx, n,"
                 " hash, min, max, mean, abs_sum, nan, inf, nz_count, derived, ptr, offset_bytes, "
                 "route, seq_len, extra,"
                 " source_line, occurrence, seen FROM trace"),
            "r|p0|decode0|2|37|-1|x_in|residual_pre_attn|116|37|4096|18446744073709551615|-1.5|2.0|"
            "0.25|3.0|1|2|3|0|1000|64|"
            R"(MFMA|7|{"a":1}|1|0|1)");
  EXPECT_EQ(rows("SELECT flags FROM trace_row"), "5");
}

TEST_F(Writing, WhatIsAbsentIsNull) {
  TraceRow r = row(kUnknownPosition);
  r.hash.reset();
  write({r});
  EXPECT_EQ(
      rows("SELECT pos_id, step, token_id, n, hash, min, nan, sample_n, sample, route FROM trace"),
      "-|-|-|-|-|-|-|-|-|-");
  EXPECT_EQ(rows("SELECT pos_id, step, sample_id, sketch_id, context_id FROM trace_row"),
            "-1|-1|-|-|-");
}

// ---- duplicates and occurrences -----------------------------------------------------------------

TEST_F(Writing, EqualRowsAreOneAndACount) {
  EXPECT_EQ(write({}).inserted, 0);
  const WriteCounts counts = write({row(1), row(1), row(2), row(1)});
  EXPECT_EQ(counts.inserted, 2);
  EXPECT_EQ(counts.duplicates, 2);
  EXPECT_EQ(counts.conflict_lines, std::vector<int64_t>());
  EXPECT_EQ(rows("SELECT pos_id, seen, source_line FROM trace ORDER BY pos_id"), "1|3|1\n2|1|3");
  db.exec("COMMIT; BEGIN");
  EXPECT_EQ(write({row(1), row(3)}).duplicates, 1) << "of an earlier transaction, too";
}

TEST_F(Writing, DifferentContentIsAFurtherOccurrence) {
  const WriteCounts counts = write({row(1, 10), row(1, 11), row(1, 10), row(1, 12), row(1, 11)});
  EXPECT_EQ(counts.inserted, 3);
  EXPECT_EQ(counts.duplicates, 2);
  EXPECT_EQ(counts.conflict_lines, (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(rows("SELECT hash, occurrence, seen FROM trace ORDER BY occurrence"),
            "10|0|2\n11|1|2\n12|2|1");
  EXPECT_EQ(write({row(1, 12), row(1, 13)}).conflict_lines, std::vector<int64_t>{7});
  EXPECT_EQ(rows("SELECT hash, occurrence, seen FROM trace ORDER BY occurrence"),
            "10|0|2\n11|1|2\n12|2|2\n13|3|1");
}

TEST_F(Writing, EachPartOfTheContentCounts) {
  const std::vector<float> one = {1}, other = {2};
  using Change = void (*)(TraceRow&);
  const std::vector<Change> changes = {[](TraceRow& r) { r.hash = 2; },
                                       [](TraceRow& r) { r.hash.reset(); },
                                       [](TraceRow& r) { r.n = 5; },
                                       [](TraceRow& r) { r.min = 0; },
                                       [](TraceRow& r) { r.max = 9; },
                                       [](TraceRow& r) { r.mean.reset(); },
                                       [](TraceRow& r) { r.abs_sum = 9; },
                                       [](TraceRow& r) { r.nan = 1; },
                                       [](TraceRow& r) { r.inf = 1; },
                                       [](TraceRow& r) { r.nz_count = 1; },
                                       [](TraceRow& r) { r.flags = kFlagNonfiniteStatistic; }};
  int64_t pos = 0;
  for (const Change change : changes) {
    TraceRow a = row(++pos);
    a.n = 4, a.min = 1, a.max = 2, a.mean = 3, a.abs_sum = 4, a.nan = 0, a.inf = 0, a.nz_count = 4;
    TraceRow b = a;
    b.line = ++line;
    change(b);
    EXPECT_EQ(write({a, b}).conflict_lines.size(), 1u) << "change " << pos;
  }
  for (const auto& values : {std::span<const float>(other), std::span<const float>()}) {
    TraceRow a = row(++pos), b = row(pos);
    a.sample = one, b.sample = values;
    EXPECT_EQ(write({a, b}).conflict_lines.size(), 1u);
  }
}

TEST_F(Writing, WhereARowLayIsNotContent) {
  TraceRow a = row(1), b = row(1);
  b.ptr = 9, b.offset_bytes = 9, b.flags = kFlagRejectedField;
  b.context_id = writer.add_context({});
  const WriteCounts counts = write({a, b});
  EXPECT_EQ(counts.duplicates, 1);
}

TEST_F(Writing, RowsOfAPlaceAreNumberedByContentWhateverTheirOrder) {
  for (const std::vector<uint64_t>& hashes :
       {std::vector<uint64_t>{5, 6, 7}, {7, 5, 6}, {6, 7, 5}}) {
    db.exec("DELETE FROM trace_row; DELETE FROM trace_repeat");
    for (uint64_t hash : hashes) write({row(1, hash)});
    write({row(1, 6)});
    EXPECT_EQ(rows("SELECT hash, occurrence, seen FROM trace ORDER BY occurrence"),
              "5|0|1\n6|1|2\n7|2|1");
  }
}

TEST_F(Writing, SamplesTellRowsApartAcrossTransactions) {
  const std::vector<float> a = {1, 2, 3}, b = {1, 2, 4}, nan = {1, 2, std::nanf("")};
  const auto with = [&](const std::vector<float>& values) {
    TraceRow r = row(1);
    r.sample = values;
    return r;
  };
  write({with(a)});
  db.exec("COMMIT; BEGIN");
  EXPECT_EQ(write({with(a), with(b), with(b), with(nan), with(nan)}).duplicates, 3);
  EXPECT_EQ(rows("SELECT occurrence, seen, sample_n FROM trace ORDER BY occurrence"),
            "0|2|3\n1|2|3\n2|2|3");
  EXPECT_EQ(count("sample"), 3);
  EXPECT_EQ(rows("SELECT hex(sample) FROM trace WHERE occurrence = 1"), "0000803F0000004000008040");
}

TEST_F(Writing, WithoutAHashSketchesTellRowsApart) {
  RowSketch one{.n = 2, .sum_sq = 5}, other{.n = 2, .sum_sq = 5};
  one.bucket = {1.5, -0.0, -2};
  other.bucket = {1.5, 0, 2};
  const auto sketched = [this](const RowSketch& sketch) {
    TraceRow r = row(1);
    r.hash.reset();
    r.sketch = &sketch;
    return r;
  };
  for (int transactions = 0; transactions < 2; ++transactions) {
    write({sketched(one), sketched(other), sketched(one)});
    db.exec("COMMIT; BEGIN");
  }
  EXPECT_EQ(rows("SELECT k.b2 * k.scale, (SELECT count FROM trace_repeat r WHERE r.nth = t.nth)"
                 " FROM trace_row t JOIN sketch k ON k.id = t.sketch_id ORDER BY 1"),
            "-2.0|3\n2.0|1");
  EXPECT_EQ(count("trace_row"), 2);
  TraceRow hashed = row(2), sketch_less = row(2);
  hashed.sketch = &one;
  write({hashed, sketch_less});
  EXPECT_EQ(count("trace_row"), 3) << "a hash says what the values are";
}

TEST_F(Writing, UnsortedRowsAreSorted) {
  std::vector<TraceRow> many;
  for (int64_t pos = 0; pos < 500; ++pos) many.push_back(row(pos, static_cast<uint64_t>(pos)));
  std::shuffle(many.begin(), many.end(), std::mt19937(3));
  EXPECT_EQ(write(many).inserted, 500);
  EXPECT_EQ(rows("SELECT count(*), sum(pos_id = CAST(hash AS INTEGER)), sum(source_line = pos_id + "
                 "1) FROM trace"),
            "500|500|500");
}

// ---- sizes of a batch ---------------------------------------------------------------------------

TEST_F(Writing, BatchesOfAnySizeWithAConflictAnywhere) {
  int64_t base = 0;
  for (const int64_t size : {1, 2, 15, 16, 17, 31, 32, 33}) {
    for (int64_t conflict = -1; conflict < size; ++conflict, base += 100) {
      if (conflict >= 0) write({row(base + conflict, 999)});
      const std::vector<float> values = {1, 2};
      std::vector<TraceRow> batch;
      for (int64_t i = 0; i < size; ++i) {
        batch.push_back(row(base + i, static_cast<uint64_t>(i)));
        if (i % 3 == 0) batch.back().sample = values;
      }
      const WriteCounts counts = write(batch);
      ASSERT_EQ(counts.inserted, size);
      ASSERT_EQ(counts.duplicates, 0);
      ASSERT_EQ(counts.conflict_lines.size(), conflict < 0 ? 0u : 1u);
      const std::string here = " WHERE pos_id >= " + std::to_string(base) + " AND pos_id < " +
                               std::to_string(base + 100);
      ASSERT_EQ(
          rows("SELECT count(*), sum(occurrence), sum(sample_n IS NOT NULL) FROM trace" + here),
          std::to_string(size + (conflict >= 0)) + "|" + std::to_string(conflict >= 0 ? 1 : 0) +
              "|" + std::to_string((size + 2) / 3));
    }
  }
}

// ---- ids ----------------------------------------------------------------------------------------

TEST_F(Writing, DictionariesGiveOneIdForOneName) {
  EXPECT_EQ(writer.prompt_id(1, "a"), writer.prompt_id(1, "a"));
  EXPECT_NE(writer.prompt_id(1, "a"), writer.prompt_id(1, "b"));
  EXPECT_EQ(writer.tensor_id("x_in").tensor_id, writer.tensor_id("rms_in").tensor_id);
  EXPECT_NE(writer.tensor_id("x_in").name_id, writer.tensor_id("rms_in").name_id);
  EXPECT_EQ(writer.phase_id("prefill_last").side, Side::kPrefill);
  EXPECT_EQ(writer.phase_id("decode7").side, Side::kDecode);
  EXPECT_EQ(writer.phase_id("warmup").side, Side::kNeither);
  const TensorId fresh = writer.tensor_id("my probe");
  EXPECT_GE(fresh.tensor_id, 1000);
  EXPECT_EQ(rows("SELECT cause FROM tensor_name WHERE name = 'my probe'"), "MY PROBE_DRIFT");
  TraceWriter other(db);
  EXPECT_EQ(other.tensor_id("my probe").name_id, fresh.name_id);
}

TEST_F(Writing, IdsOfARolledBackTransactionAreForgotten) {
  db.exec("COMMIT; BEGIN");
  writer.tensor_id("gone");
  writer.phase_id("decode_gone");
  writer.prompt_id(1, "gone");
  const std::vector<float> values = {1};
  TraceRow r = row(1);
  r.sample = values;
  write({r});
  db.exec("ROLLBACK; BEGIN");
  writer.forget();
  writer.prompt_id(1, "other");
  writer.tensor_id("other");
  TraceRow again = row(1, 1, "gone");
  again.sample = values;
  write({again});
  EXPECT_EQ(rows("SELECT tensor, prompt, sample_n FROM trace"), "gone|p0|1");
  EXPECT_EQ(check_database(db), std::vector<std::string>());
}

TEST_F(Writing, EqualSketchesOfARunAreStoredOnce) {
  const std::vector<float> values = {1, 2};
  RowSketch sketch;
  sketch.n = 2;
  sketch.sum_sq = 5;
  sketch.bucket[0] = 1.5, sketch.bucket[31] = -2;
  TraceRow only_sample = row(1), only_sketch = row(2), both = row(3);
  only_sample.sample = values;
  only_sketch.sketch = &sketch;
  both.sample = values, both.sketch = &sketch;
  write({only_sample, only_sketch});
  db.exec("COMMIT; BEGIN");
  write({both});
  EXPECT_EQ(rows("SELECT count(DISTINCT sample_id), count(DISTINCT sketch_id) FROM trace_row"),
            "2|1");
  EXPECT_EQ(rows("SELECT t.pos_id, s.n, k.n, k.sum_sq, k.b0 * k.scale, k.b31 * k.scale FROM"
                 " trace_row t LEFT JOIN sample s ON s.id = t.sample_id"
                 " LEFT JOIN sketch k ON k.id = t.sketch_id ORDER BY 1"),
            "1|2|-|-|-|-\n2|-|2|5.0|1.5|-2.0\n3|2|2|5.0|1.5|-2.0");
  RowSketch other = sketch;
  other.bucket[7] = 1e-30;  // rounds to nothing
  TraceRow rounded = row(4), derived = row(5), of_another_run = row(6);
  rounded.sketch = &other;
  RowSketch of_sample = sketch;
  of_sample.derived = true;
  derived.sketch = &of_sample;
  of_another_run.sketch = &sketch;
  db.exec("INSERT INTO run(name, experiment) VALUES ('s', 'e')");
  of_another_run.run_id = 2;
  of_another_run.prompt_id = writer.prompt_id(2, "p0");
  write({rounded, derived, of_another_run});
  EXPECT_EQ(count("sketch"), 3);
}

TEST_F(Writing, ASketchThatWasNotStoredIsNotReferredTo) {
  RowSketch sketch{.n = 2, .sum_sq = 5};
  const auto sketched = [&](int64_t pos) {
    TraceRow r = row(pos);
    r.sketch = &sketch;
    return r;
  };
  write({sketched(1)});
  db.exec("COMMIT; BEGIN");
  TraceWriter later(db);  // which does not know that sketch
  line = 10;
  std::vector<TraceRow> repeat{sketched(1)}, fresh{sketched(2)}, both{sketched(1), sketched(3)};
  EXPECT_EQ(later.write(repeat).duplicates, 1);
  EXPECT_EQ(count("sketch"), 1);
  EXPECT_EQ(later.write(fresh).inserted, 1);
  EXPECT_EQ(later.write(both).inserted, 1);
  EXPECT_EQ(count("sketch"), 2);
  db.exec("COMMIT; BEGIN");
  write({sketched(4)});
  db.exec("ROLLBACK; BEGIN");
  writer.forget();
  write({sketched(4)});
  EXPECT_EQ(check_database(db), std::vector<std::string>());
}

TEST_F(Writing, ARowThatIsTakenOverLeavesTheSketchToOthers) {
  RowSketch sketch{.n = 2, .sum_sq = 5}, other{.n = 2, .sum_sq = 6};
  db.exec(
      "INSERT INTO source(run_id, sha256, shape, bytes) VALUES (1, 'y', 'stage_trace', 0);"
      "INSERT INTO source_location(source_id, path) VALUES (1, 'b'), (2, 'a')");
  TraceRow first = row(1), second = row(2);
  first.sketch = second.sketch = &sketch;
  write({first, second});
  for (const RowSketch* now : {&sketch, &other}) {
    TraceRow again = row(1);
    again.source_id = 2;
    again.sketch = now;
    db.exec("UPDATE trace_row SET source_id = 1");
    EXPECT_EQ(write({again}).taken_over, 1);
    EXPECT_EQ(rows("SELECT t.pos_id, t.source_id, k.sum_sq FROM trace_row t JOIN sketch k"
                   " ON k.id = t.sketch_id ORDER BY 1"),
              now == &sketch ? "1|2|5.0\n2|1|5.0" : "1|2|6.0\n2|1|5.0");
    EXPECT_EQ(count("sketch"), now == &sketch ? 1 : 2);
  }
}

TEST(WritingTogether, TwoConnectionsTakeTurns) {
  const TemporaryFolder folder;
  SQLite::Database a = open_for_writing(folder / "g.db"), b = open_for_writing(folder / "g.db");
  Writing::add_run(a);
  TraceWriter first(a), second(b);
  const std::vector<float> values = {1};
  for (int64_t i = 0; i < 6; ++i) {
    SQLite::Database& db = i % 2 == 0 ? a : b;
    TraceWriter& writer = i % 2 == 0 ? first : second;
    db.exec("BEGIN IMMEDIATE");
    TraceRow r = Writing::row_of(writer, i, 1, i + 1, "probe " + std::to_string(i));
    r.sample = values;
    std::vector<TraceRow> rows = {r};
    EXPECT_NO_THROW(writer.write(rows));
    db.exec("COMMIT");
  }
  EXPECT_EQ(
      text_of(
          a,
          "SELECT count(*), count(DISTINCT sample_id), count(DISTINCT tensor_id) FROM trace_row"),
      "6|6|6");
  EXPECT_EQ(text_of(a, "SELECT count(*), sum(sample_n) FROM trace"), "6|6");
  EXPECT_EQ(check_database(a), std::vector<std::string>());
}

// ---- errors -------------------------------------------------------------------------------------

TEST_F(Writing, KeysBeyondTheLimitsAreRefused) {
  for (const auto& [pos, layer] : std::vector<std::pair<int64_t, int64_t>>{
           {kMaxPosition + 1, 0}, {-2, 0}, {INT64_MAX, 0}, {0, kMaxLayer + 1}, {0, -2}}) {
    TraceRow bad = row(pos);
    bad.layer = layer;
    EXPECT_THROW(write({row(1), bad}), std::invalid_argument) << pos << " " << layer;
  }
  EXPECT_EQ(count("trace_row"), 0);
  TraceRow last = row(kMaxPosition);
  last.layer = kMaxLayer;
  EXPECT_EQ(write({last}).inserted, 1);
}

TEST_F(Writing, AFullDatabaseIsAnErrorAndLeavesTheWriterUsable) {
  db.exec("COMMIT");
  const int64_t pages = db.execAndGet("PRAGMA page_count").getInt64();
  db.execAndGet("PRAGMA max_page_count = " + std::to_string(pages + 2));
  db.exec("BEGIN");
  std::vector<TraceRow> many;
  for (int64_t pos = 0; pos < 5000; ++pos) many.push_back(row(pos));
  EXPECT_THROW(writer.write(many), SQLite::Exception);
  db.tryExec("ROLLBACK");
  writer.forget();
  db.execAndGet("PRAGMA max_page_count = 100000");
  db.exec("BEGIN");
  EXPECT_EQ(write({row(1)}).inserted, 1);
  db.exec("COMMIT");
  EXPECT_EQ(count("trace_row"), 1);
}

// ---- which row stands ---------------------------------------------------------------------------

/// Rows that often meet at a place, in batches of any size.
TEST_F(Writing, RowsSayOfEachOtherWhatTheViewSays) {
  std::mt19937 random(11);
  const auto any = [&random](auto... values) {
    const std::array all{static_cast<int64_t>(values)...};
    return all[random() % all.size()];
  };
  const std::vector<float> samples[] = {{}, {1, 2}, {1, 3}};
  const RowSketch sketches[] = {{.n = 2, .sum_sq = 5}, {.n = 2, .sum_sq = 6}};
  std::map<std::string, std::string> given;  // sum_sq, by line
  TraceWriter other(db);
  for (int batch = 0; batch < 120; ++batch) {
    std::vector<TraceRow> rows;
    for (int64_t i = any(1, 2, 30); i > 0; --i) {
      TraceRow r =
          row(any(kUnknownPosition, 1, 2, 3, 4, 5 + batch), static_cast<uint64_t>(any(1, 1, 2)));
      const PhaseId phase = writer.phase_id(any(0, 1) != 0 ? "decode0" : "decode");
      r.phase_id = phase.id;
      r.step = any(1, 1, 2);
      r.token_id = any(7, 7, 8);
      if (any(0, 0, 1) != 0) r.nan = any(0, 3);
      if (any(0, 0, 1) != 0) r.hash.reset();
      if (any(0, 1) != 0) r.sketch = &sketches[any(0, 1)];
      r.sample = samples[any(0, 0, 1, 2)];
      given[std::to_string(r.line)] = r.sketch == nullptr    ? "-"
                                      : r.sketch->sum_sq > 5 ? "6.0"
                                                             : "5.0";
      rows.push_back(r);
    }
    TraceWriter& any_writer = any(0, 1) != 0 ? writer : other;
    if (any(0, 0, 0, 1) != 0) any_writer.forget();
    any_writer.write(rows);
    ASSERT_EQ(count_wrong_standings(db), 0) << "after batch " << batch;
    SQLite::Statement stored(db,
                             "SELECT line, ifnull(sum_sq, '-') FROM trace_row t LEFT JOIN sketch k"
                             " ON k.id = t.sketch_id");
    while (stored.executeStep())
      ASSERT_EQ(stored.getColumn(1).getString(), given[stored.getColumn(0).getString()]);
  }
  EXPECT_GT(rows("SELECT count(*) FROM trace_row WHERE pos_id > 0").size(), 2u);
  EXPECT_EQ(rows("SELECT max(stands), min(stands), max(ambiguous), min(ambiguous) FROM trace_row"),
            "1|0|1|0");
  EXPECT_EQ(check_database(db), std::vector<std::string>());
}

TEST_F(Writing, WhatRowsSayOfEachOtherIsCorrected) {
  write({row(1, 5), row(1, 6), row(2), row(kUnknownPosition), row(kUnknownPosition, 7)});
  const std::string all =
      "SELECT stands, stands_in_phase, ambiguous, ambiguous_in_phase FROM trace_row";
  const std::string right = rows(all);
  for (const char* damage :
       {"UPDATE trace_row SET stands = 1 - stands", "UPDATE trace_row SET ambiguous = NULL",
        "UPDATE trace_row SET stands_in_phase = 0 WHERE pos_id = 2",
        "UPDATE trace_row SET ambiguous_in_phase = 2 WHERE pos_id = -1"}) {
    db.exec(damage);
    const int64_t wrong = count_wrong_standings(db);
    EXPECT_GT(wrong, 0) << damage;
    EXPECT_EQ(correct_standings(db), wrong);
    EXPECT_EQ(rows(all), right) << damage;
  }
}

// ---- verdicts -----------------------------------------------------------------------------------

TEST_F(Writing, AnyWriteForgetsTheVerdictOfItsRunOnly) {
  db.exec("INSERT INTO run(name, experiment) VALUES ('other', 'e')");
  write({row(1)});
  db.exec("COMMIT");
  const auto unjudged = [this] {
    return rows("SELECT id FROM run WHERE id NOT IN (SELECT run_id FROM verdict)");
  };
  const std::vector<int64_t> both{1, 2};
  judge(db, both);
  EXPECT_EQ(unjudged(), "");
  db.exec("BEGIN");
  write({row(2)});
  EXPECT_EQ(unjudged(), "1");
  db.exec("COMMIT");
  judge(db, both);
  db.exec("BEGIN");
  write({row(2)});  // a duplicate
  EXPECT_EQ(rows("SELECT id FROM run WHERE id = 2 AND id NOT IN (SELECT run_id FROM verdict)"), "");
}

TEST_F(Writing, TriggersAreOffOnItsConnection) {
  write({row(1)});
  db.exec("UPDATE trace_row SET hash = 2; COMMIT");
  const std::vector<int64_t> run{1};
  judge(db, run);
  db.exec("UPDATE trace_row SET hash = 3; BEGIN");
  EXPECT_EQ(rows("SELECT count(*) FROM run WHERE id NOT IN (SELECT run_id FROM verdict)"), "0");
}

}  // namespace
}  // namespace greta
