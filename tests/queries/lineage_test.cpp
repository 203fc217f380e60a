// What the views say across commits, dates and modes, against an oracle in plain C++: a thousand
// made-up histories, asked before
// anything is kept, when all is, and after something changed.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <iostream>

#include "db/judge.h"
#include "db/statements.h"
#include "tests/queries/harm/random_run.h"
#include "tests/queries/lineage/oracle.h"
#include "tests/queries/warehouse.h"

namespace greta::lineage {
namespace {

using harm::Random;

std::string shown(const std::optional<std::string>& text) { return text.value_or("-"); }
std::string shown(int64_t number) { return std::to_string(number); }
std::string shown(const std::string& text) { return text; }

/// As text_of shows a row.
template <class... Values>
std::string line(const Values&... values) {
  std::string text;
  ((text += "|" + shown(values)), ...);
  return text.substr(1);
}

std::string place(const std::optional<Where>& at) {
  if (!at) return "-|-|-|-|-";
  return line(at->prompt, at->phase, at->pos < 0 ? "-" : std::to_string(at->pos), at->layer,
              at->tensor);
}

std::string fail(const std::optional<Where>& at) {
  return at ? line(at->cause, at->layer, at->tensor) : "-|-|-";
}

/// One database for all histories, with statements that are prepared once: to prepare what asks of
/// a history takes longer than to answer.
class Archive {
 public:
  Archive() { db_.exec("PRAGMA foreign_keys = OFF"); }

  void fill(const ToldHistory& history) {
    empty_out();
    SQLite::Transaction all(db_);
    for (size_t i = 0; i < history.commits.size(); ++i) {
      sql_("INSERT INTO commit_node VALUES (?, ?, '', '')", history.commits[i].sha,
           static_cast<int64_t>(i))
          .exec();
      for (size_t nth = 0; nth < history.commits[i].parents.size(); ++nth) {
        sql_("INSERT INTO commit_parent VALUES (?, ?, ?)", history.commits[i].sha,
             static_cast<int64_t>(nth), history.commits[history.commits[i].parents[nth]].sha)
            .exec();
      }
    }
    for (const ToldRun& run : history.runs) add_run(run);
    for (const auto& [lineage, run] : history.pins)
      sql_("INSERT INTO pinned_baseline VALUES (?, ?, '')", lineage, static_cast<int64_t>(run) + 1)
          .exec();
    all.commit();
  }

  /// Changes one thing of a run, in what is told as in the file.
  void edit(ToldHistory& history, size_t at, Random& random) {
    ToldRun& run = history.runs[at];
    const int64_t id = static_cast<int64_t>(at) + 1;
    switch (random.below(8)) {
      case 0:
        run.status = random.one_in(2) ? "complete" : "failed";
        sql_("UPDATE run SET status = ? WHERE id = ?", run.status, id).exec();
        break;
      case 1: {
        const std::string dim = random.of(std::vector<std::string>{
            "inject", "suite", "kv_cache", "model_sha256", "model_root", "trace.layers"});
        if (run.attributes.contains(dim)) {
          run.attributes.erase(dim);
          sql_("DELETE FROM attribute WHERE run_id = ? AND dim = ?", id, dim).exec();
        } else {
          run.attributes[dim] = "other@x";
          sql_("INSERT INTO attribute(run_id, dim, value, rank) VALUES (?, ?, 'other@x', 0)", id,
               dim)
              .exec();
        }
        break;
      }
      case 2:
        run.prompt_tokens["p0"] = "[7]";
        sql_("INSERT OR IGNORE INTO prompt(run_id, name) VALUES (?, 'p0')", id).exec();
        sql_("UPDATE prompt SET token_ids = '[7]' WHERE run_id = ? AND name = 'p0'", id).exec();
        break;
      case 3:
      case 4: {
        if (run.rows.empty()) break;
        const size_t nth = random.below(run.rows.size());
        ToldRow& row = run.rows[nth];
        if (random.one_in(2)) {
          row.is_nan = !row.is_nan;
        } else {
          row.bits += 3;
        }
        sql_(
            "UPDATE trace_row SET nan = ?, hash = CASE WHEN hash IS NOT NULL THEN ? END"
            " WHERE run_id = ?3 AND line = ?4 + (SELECT min(line) FROM trace_row WHERE run_id = "
            "?3)",
            static_cast<int64_t>(row.is_nan), static_cast<int64_t>(row.hash()), id,
            static_cast<int64_t>(nth))
            .exec();
        break;
      }
      case 5: {
        const std::string lineage = lineage_of(run);
        if (history.pins.erase(lineage) > 0) {
          sql_("DELETE FROM pinned_baseline WHERE lineage = ?", lineage).exec();
        } else {
          history.pins[lineage] = at;
          sql_("INSERT INTO pinned_baseline VALUES (?, ?, '')", lineage, id).exec();
        }
        break;
      }
      case 6:
        run.date = "2026-01-0" + std::to_string(1 + random.below(6));
        sql_("UPDATE run SET date = ? WHERE id = ?", *run.date, id).exec();
        break;
      default:
        run.commit.reset();
        sql_("UPDATE run SET commit_sha = NULL WHERE id = ?", id).exec();
    }
  }

  /// The answer to a question that is asked of many histories, as text_of.
  std::string ask(const char* question) { return greta::text_of(sql_(question)); }
  std::string ask_of_two(const char* question, size_t a, size_t b) {
    return greta::text_of(sql_(question, static_cast<int64_t>(a) + 1, static_cast<int64_t>(b) + 1));
  }

  void judge(const std::vector<int64_t>& runs) { greta::judge(db_, runs); }
  void judge_all() { judge_rest(db_); }

 private:
  void empty_out() {
    SQLite::Transaction all(db_);
    for (const char* const statement :
         {"DELETE FROM verdict", "DELETE FROM run_change", "DELETE FROM trace_row",
          "DELETE FROM traced_position", "DELETE FROM sketch", "DELETE FROM source_location",
          "DELETE FROM source", "DELETE FROM prompt", "DELETE FROM attribute",
          "DELETE FROM pinned_baseline", "DELETE FROM lineage_member", "DELETE FROM run",
          "DELETE FROM commit_node", "DELETE FROM commit_parent"}) {
      sql_(statement).exec();
    }
    all.commit();
  }

  void add_run(const ToldRun& run) {
    const int64_t id = w_.run({run.name, run.experiment, run.mode, run.dtype, run.date, run.commit,
                               "greta-1", run.status});
    sql_("UPDATE run SET started_at = ?, synthetic = ?, seed = ? WHERE id = ?", run.started_at,
         static_cast<int64_t>(run.synthetic), run.seed, id)
        .exec();
    for (const auto& [dim, value] : run.attributes)
      sql_("INSERT INTO attribute(run_id, dim, value, rank) VALUES (?, ?, ?, 0)", id, dim, value)
          .exec();
    for (const ToldRow& told : run.rows) {
      Row row{.tensor = told.tensor,
              .phase = told.phase,
              .prompt = told.prompt,
              .layer_id = told.layer,
              .pos_id = told.pos,
              .step_id = told.step,
              .n = told.n,
              .token_id = told.token,
              .nan_count = told.is_nan,
              .max = told.max};
      if (told.has_hash) row.hash = told.hash();
      if (told.has_sketch) row.sketch_values = told.values();
      w_.add(row);
    }
    for (const auto& [prompt, tokens] : run.prompt_tokens) {
      sql_("UPDATE prompt SET token_ids = ? WHERE id = ?", tokens, w_.prompt_id(prompt)).exec();
    }
  }

  Warehouse w_{":memory:"};
  SQLite::Database& db_ = w_.db;
  Statements sql_{db_};
};

/// What the views must answer, as text.
class Expected {
 public:
  explicit Expected(const ToldHistory& history)
      : history_(history),
        oracle_(history),
        lineages_(work_out_lineages()),
        verdicts_(work_out_verdicts()),
        changes_(work_out_changes()),
        regressions_(work_out_regressions()) {}

  const Oracle& oracle() const { return oracle_; }
  const std::string& lineages() const { return lineages_; }
  const std::string& verdicts() const { return verdicts_; }
  const std::string& changes() const { return changes_; }
  const std::string& regressions() const { return regressions_; }

  std::string work_out_lineages() const {
    std::string text;
    for (size_t i = 0; i < history_.runs.size(); ++i) {
      const ToldRun& run = history_.runs[i];
      const auto baseline = oracle_.baseline_of(i);
      const auto pin = history_.pins.find(lineage_of(run));
      text += line(lineage_of(run), run.name, run.date, run.commit, name_of(baseline),
                   pin != history_.pins.end() && baseline == pin->second, oracle_.is_injected(i),
                   commit_ord(i)) +
              "\n";
    }
    return chopped(text);
  }
  static constexpr const char* kLineages =
      "SELECT lineage, run, date, commit_sha, baseline, pinned, injected, commit_ord FROM lineage "
      "ORDER BY run_id";

  std::string work_out_verdicts() const {
    std::string text;
    for (size_t i = 0; i < history_.runs.size(); ++i) {
      const OwnVerdict& own = oracle_.verdict_of(i);
      text += line(history_.runs[i].name, own.verdict(), fail(own.acted_fail()), own.strict,
                   fail(own.first_fail), own.numeric, fail(own.numeric_first_fail),
                   oracle_.is_injected(i), lineage_of(history_.runs[i])) +
              "\n";
    }
    return chopped(text);
  }

  std::string comparison(size_t a, size_t b) const {
    const Comparison c = oracle_.compare(a, b);
    const bool strictly = history_.runs[b].mode == "batch_invariant" ||
                          (c.unknown > 0 && c.rounding + c.divergent == 0);
    return line(strictly ? c.verdict : c.numeric_verdict, c.verdict, c.numeric_verdict, c.pairs,
                c.compared, c.match, c.rounding, c.divergent, c.unknown, c.nonfinite,
                c.incomparable, c.only_a, c.only_b, place(c.first), place(c.numeric_first),
                !c.why_not, c.why_not, c.caused_by);
  }
  static constexpr const char* kComparison =
      "SELECT verdict, strict_verdict, numeric_verdict, pairs, compared, match, rounding, "
      "divergent, unknown, "
      "nonfinite, incomparable,"
      " only_a, only_b, prompt, phase, pos_id, layer, tensor, numeric_prompt, numeric_phase, "
      "numeric_pos_id,"
      " numeric_layer, numeric_tensor, comparable, why_not, caused_by FROM diff_verdict WHERE "
      "run_a_id = ? "
      "AND run_b_id = ?";

  std::string rows_of_both(size_t a, size_t b) const {
    std::string text;
    for (const std::string& row : oracle_.compare(a, b).rows) text += row + "\n";
    return chopped(text);
  }
  static constexpr const char* kRowsOfBoth =
      "SELECT prompt || '|' || phase || '|' || ifnull(pos_id, '-') || '|' || layer || '|' || "
      "tensor || '|' || status"
      " || '|' || ifnull(class, '-') AS row FROM run_diff WHERE run_a_id = ? AND run_b_id = ? "
      "ORDER BY 1";

  std::string work_out_changes() const {
    std::string text;
    for (const Change& c : oracle_.changes()) {
      const ToldRun &run = history_.runs[c.run], &baseline = history_.runs[c.baseline];
      const OwnVerdict &own = oracle_.verdict_of(c.run), &was = oracle_.verdict_of(c.baseline);
      const Comparison& d = c.comparison;
      text += line(run.name, baseline.name, c.change, own.verdict(), was.verdict(), own.strict,
                   own.numeric, was.strict, was.numeric, d.numeric_verdict, d.pairs, d.match,
                   d.rounding, d.divergent, d.nonfinite, d.only_a, d.only_b,
                   place(d.numeric_first ? d.numeric_first : d.first), d.why_not, lineage_of(run),
                   run.date, run.commit, baseline.date, baseline.commit, commit_ord(c.run),
                   run.started_at, fail(own.numeric_first_fail), fail(own.first_fail),
                   fail(own.acted_fail()), d.caused_by) +
              "\n";
    }
    return chopped(text);
  }

  std::string work_out_regressions() const {
    std::string text;
    for (const Regression& r : oracle_.regressions()) {
      const ToldRun &bad = history_.runs[r.first_bad], &good = history_.runs[r.last_good];
      const ToldRun none{};
      const ToldRun& fixed = r.fixed_run ? history_.runs[*r.fixed_run] : none;
      text += line(lineage_of(bad), r.change, r.gate, bad.name, bad.commit, bad.date, good.name,
                   good.commit, good.date, r.gate && r.where ? r.where->cause : "-",
                   r.where ? line(r.where->layer, r.where->tensor) : "-|-", name_of(r.fixed_run),
                   fixed.commit, fixed.date) +
              "\n";
    }
    return chopped(text);
  }

 private:
  static std::string chopped(std::string text) {
    if (!text.empty()) text.pop_back();
    return text;
  }
  std::optional<std::string> name_of(std::optional<size_t> run) const {
    if (!run) return std::nullopt;
    return history_.runs[*run].name;
  }
  std::optional<std::string> commit_ord(size_t run) const {
    if (!oracle_.commit_of(run)) return std::nullopt;
    return std::to_string(*oracle_.commit_of(run));
  }

  const ToldHistory& history_;
  Oracle oracle_;
  std::string lineages_, verdicts_, changes_, regressions_;
};

constexpr const char* kVerdicts =
    "SELECT run, verdict, first_fail, layer, tensor, strict_verdict, strict_first_fail,"
    " strict_layer, strict_tensor, numeric_verdict, numeric_first_fail, numeric_layer,"
    " numeric_tensor, injected, lineage FROM history ORDER BY run_id";
constexpr const char* kChanges =
    "SELECT run, baseline, change, verdict, baseline_verdict, strict_verdict, numeric_verdict, "
    "baseline_strict_verdict,"
    " baseline_numeric_verdict, values_verdict, pairs, match, rounding, divergent, nonfinite,"
    " only_baseline, only_run, prompt, phase, pos_id, layer, tensor, why_not, lineage, date,"
    " commit_sha, baseline_date, baseline_commit_sha, commit_ord, started_at, numeric_first_fail,"
    " numeric_fail_layer, numeric_fail_tensor, strict_first_fail, strict_fail_layer,"
    " strict_fail_tensor, first_fail, fail_layer, fail_tensor, caused_by FROM change ORDER BY "
    "run_id";
constexpr const char* kRegressions =
    "SELECT lineage, change, gate, first_bad, first_bad_commit, first_bad_date, last_good,"
    " last_good_commit, last_good_date, first_fail, layer, tensor, fixed_run, fixed_commit,"
    " fixed_date FROM regression ORDER BY first_bad_id";

class LineageOracle : public ::testing::TestWithParam<uint64_t> {
 protected:
  static Archive& archive() {
    static Archive all;
    return all;
  }

  void expect_changes(const Expected& expected, const char* when) {
    SCOPED_TRACE(when);
    EXPECT_EQ(archive().ask(Expected::kLineages), expected.lineages());
    EXPECT_EQ(archive().ask(kVerdicts), expected.verdicts());
    EXPECT_EQ(archive().ask(kChanges), expected.changes());
  }

  void expect_all(const Expected& expected, const char* when) {
    expect_changes(expected, when);
    SCOPED_TRACE(when);
    EXPECT_EQ(archive().ask(kRegressions), expected.regressions());
  }

  void expect_pair(const Expected& expected, size_t a, size_t b) {
    SCOPED_TRACE("run " + std::to_string(a) + " and run " + std::to_string(b) + ", counted from 0");
    EXPECT_EQ(archive().ask_of_two(Expected::kComparison, a, b), expected.comparison(a, b));
  }
  void expect_pairs(const Expected& expected, Random& random, size_t runs) {
    for (const Change& c : expected.oracle().changes()) expect_pair(expected, c.baseline, c.run);
    for (size_t i = 0; i < runs / 8; ++i) {
      const size_t a = random.below(runs), b = random.below(runs);
      if (a == b) continue;
      expect_pair(expected, a, b);
      SCOPED_TRACE("rows of " + std::to_string(a) + " and " + std::to_string(b));
      EXPECT_EQ(archive().ask_of_two(Expected::kRowsOfBoth, a, b), expected.rows_of_both(a, b));
    }
  }

  /// Of what is judged, and after something changed and was judged again: edits of three batches in
  /// five, when some runs are judged before others of one. What counts the batches from 0 is `nth`.
  void expect_views_to_agree(ToldHistory history, uint64_t seed, uint64_t nth) {
    Random random(seed);
    const size_t runs = history.runs.size();
    const Expected expected(history);
    archive().fill(history);
    if (nth % 5 == 0) {
      std::vector<int64_t> some;
      for (size_t i = 0; i < runs; ++i) {
        if (random.one_in(2)) some.push_back(static_cast<int64_t>(i) + 1);
      }
      archive().judge(some);
    }
    archive().judge_all();
    expect_all(expected, "judged");
    expect_pairs(expected, random, runs);
    if (nth % 2 != 0) return;
    for (size_t i = 0; i < runs; ++i) {
      if (random.one_in(6)) archive().edit(history, i, random);
    }
    const Expected now(history);
    archive().judge_all();
    expect_all(now, "edited, judged again");
    if (HasFailure()) std::cout << "after the edits:\n" << text_of(history);
  }
};

// Many histories at a time, for a question costs about as much of few runs as of many, and what
// keeps verdicts prepares its statements each time. Where they fail, each is asked of alone, so
// that what is printed is as short as it can be.
TEST_P(LineageOracle, AgreesWithTheViews) {
  constexpr uint64_t kHistories = 250, kTogether = 50;
  const uint64_t first = GetParam() * kHistories;
  for (uint64_t seed = first; seed < first + kHistories; seed += kTogether) {
    std::vector<ToldHistory> histories;
    for (uint64_t i = 0; i < kTogether; ++i) histories.push_back(random_history(seed + i));
    const uint64_t nth = (seed - first) / kTogether;
    expect_views_to_agree(together(histories), seed, nth);
    if (!HasFailure()) continue;
    std::cout << "random_history(" << seed << ") to random_history(" << seed + kTogether - 1
              << ") together fail; each alone:\n";
    for (uint64_t i = 0; i < kTogether; ++i) {
      SCOPED_TRACE("random_history(" + std::to_string(seed + i) +
                   ") alone: leave out runs and rows of it that do not matter");
      expect_views_to_agree(histories[i], seed + i, nth);
    }
    return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, LineageOracle, ::testing::Values<uint64_t>(0));
INSTANTIATE_TEST_SUITE_P(FurtherSeeds, LineageOracle, ::testing::Range<uint64_t>(1, 4));

}  // namespace
}  // namespace greta::lineage
