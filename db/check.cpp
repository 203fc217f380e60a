#include "db/check.h"

#include <sqlite3.h>

#include <algorithm>
#include <utility>

#include "db/definitions.h"
#include "db/judge.h"
#include "db/schema.h"
#include "db/trace_row.h"
#include "db/transaction.h"

namespace greta {
namespace {

using Problems = std::vector<std::string>;

int64_t number_of(SQLite::Database& db, const std::string& sql) {
  return db.execAndGet(sql).getInt64();
}

void check_integrity(SQLite::Database& db, Problems& problems) {
  SQLite::Statement integrity(db, "PRAGMA integrity_check");
  while (integrity.executeStep()) {
    std::string line = integrity.getColumn(0).getString();
    if (line != "ok") problems.push_back("integrity: " + line);
  }
}

void check_foreign_keys(SQLite::Database& db, Problems& problems) {
  SQLite::Statement keys(db, "PRAGMA foreign_key_check");
  while (keys.executeStep()) {
    problems.push_back("foreign key: a row of " + keys.getColumn(0).getString() +
                       " refers to a missing row of " + keys.getColumn(2).getString());
  }
}

/// A condition that no row of a table may meet, and what the row is then.
struct Fault {
  std::string condition, what;
};

/// One pass over the table for all of its faults.
void check_rows(SQLite::Database& db, const std::string& table, const std::vector<Fault>& faults,
                Problems& problems) {
  std::string sql;
  for (const Fault& fault : faults) {
    sql +=
        (sql.empty() ? "SELECT " : ", ") + ("count(CASE WHEN " + fault.condition + " THEN 1 END)");
  }
  SQLite::Statement counts(db, sql + " FROM " + table + " t");
  counts.executeStep();
  for (size_t i = 0; i < faults.size(); ++i) {
    const int64_t n = counts.getColumn(static_cast<int>(i)).getInt64();
    if (n > 0) problems.push_back(table + ": " + std::to_string(n) + " rows " + faults[i].what);
  }
}

Fault orphan(const std::string& column, const std::string& table) {
  return {"t." + column + " IS NOT NULL AND NOT EXISTS (SELECT 1 FROM " + table +
              " o WHERE o.id = t." + column + ")",
          "with a " + column + " that " + table + " does not have"};
}

/// A row of another run than the one that `column` belongs to. A missing run is another fault.
Fault of_another_run(const std::string& column, const std::string& table) {
  return {"t.run_id <> (SELECT o.run_id FROM " + table + " o WHERE o.id = t." + column +
              ") AND EXISTS (SELECT 1 FROM run o WHERE o.id = t.run_id)",
          "with the " + table + " of another run"};
}

Fault outside(const std::string& column, int64_t least, int64_t most) {
  return {"t." + column + " NOT BETWEEN " + std::to_string(least) + " AND " + std::to_string(most),
          "with a " + column + " that no writer writes"};
}

void check_trace_rows(SQLite::Database& db, Problems& problems) {
  check_rows(db, "trace_row",
             {orphan("run_id", "run"),
              orphan("prompt_id", "prompt"),
              orphan("phase_id", "phase"),
              orphan("tensor_id", "tensor"),
              orphan("name_id", "tensor_name"),
              orphan("context_id", "row_context"),
              orphan("sample_id", "sample"),
              orphan("sketch_id", "sketch"),
              orphan("source_id", "source"),
              of_another_run("prompt_id", "prompt"),
              of_another_run("source_id", "source"),
              {"t.side <> (SELECT o.side FROM phase o WHERE o.id = t.phase_id)",
               "whose side is not their phase's"},
              {"t.tensor_id <> (SELECT o.tensor_id FROM tensor_name o WHERE o.id = t.name_id)"
               " AND EXISTS (SELECT 1 FROM tensor o WHERE o.id = t.tensor_id)",
               "whose tensor is not their name's"},
              outside("side", 0, 2),
              outside("pos_id", kUnknownPosition, kMaxPosition),
              outside("layer", -1, kMaxLayer),
              outside("flags", 0, kAllFlags),
              {"t.flags & " + std::to_string(kFlagTensor) + " AND t.pos_id <> -1",
               "of a whole tensor, at a position"}},
             problems);
}

void check_other_rows(SQLite::Database& db, Problems& problems) {
  for (const char* table : {"plan", "readout", "report_pair"}) {
    check_rows(db, table, {of_another_run("prompt_id", "prompt")}, problems);
  }
  check_rows(db, "difference",
             {orphan("run_id", "run"), orphan("prompt_id", "prompt"), orphan("tensor_id", "tensor"),
              of_another_run("prompt_id", "prompt")},
             problems);
  check_rows(
      db, "traced_position",
      {{"NOT EXISTS (SELECT 1 FROM prompt o WHERE o.id = t.prompt_id AND o.run_id = t.run_id)"
        " AND NOT EXISTS (SELECT 1 FROM trace_row x WHERE x.run_id = t.run_id"
        " AND x.prompt_id = t.prompt_id)",  // which would be told of the row
        "with a prompt that the run does not have"}},
      problems);
  check_rows(db, "trace_repeat",
             {{"NOT EXISTS (SELECT 1 FROM trace_row x WHERE x.run_id = t.run_id"
               " AND x.prompt_id = t.prompt_id AND x.side = t.side AND x.pos_id = t.pos_id"
               " AND x.layer = t.layer AND x.tensor_id = t.tensor_id AND x.nth = t.nth)",
               "of which trace_row has no row"}},
             problems);
  check_rows(db, "sample", {{"length(t.data) <> 4 * t.n", "with another number of values than n"}},
             problems);
  check_rows(db, "noise_floor", {{"t.rel_l2 > 1", "that rounding never reaches"}}, problems);
  check_rows(db, "tolerance",
             {{"t.rel_l2 NOT BETWEEN 0 AND 1", "beyond 1, which are not believed"},
              {"EXISTS (SELECT 1 FROM tolerance o WHERE o.rowid < t.rowid"
               " AND (o.tensor_id, o.dtype) IS (t.tensor_id, t.dtype))",
               "of a trace point and dtype that another has, of which the least counts"}},
             problems);
  check_rows(db, "waiver",
             {{"t.tensor <> '' AND t.tensor NOT IN (SELECT name FROM tensor)",
               "with a tensor that tensor does not have"},
              {"date(t.until) IS NOT t.until", "until a day that is none"}},
             problems);
}

/// Positions with what they demand, by the rows.
constexpr const char* kPositions =
    "SELECT run_id, prompt_id, side, pos_id,"
    " max(phase_id = (SELECT id FROM phase WHERE name = 'prefill_last')) AS demands"
    " FROM trace_row GROUP BY run_id, prompt_id, side, pos_id";

/// Runs whose lineage is not kept as they state it.
constexpr const char* kWrongMembers =
    "run_lineage l WHERE NOT EXISTS (SELECT 1 FROM lineage_member m WHERE m.run_id = l.run_id"
    " AND (m.lineage, m.injected, m.run, m.date, m.started_at, m.seed, m.synthetic)"
    " IS (l.lineage, l.injected, l.run, l.date, l.started_at, l.seed, l.synthetic))";

std::string positions_where(const std::string& condition) {
  return std::string("FROM (") + kPositions +
         ") x LEFT JOIN traced_position p ON p.run_id = x.run_id AND p.prompt_id = x.prompt_id"
         " AND p.side = x.side AND p.pos_id = x.pos_id WHERE " +
         condition;
}

void check_bookkeeping(SQLite::Database& db, Problems& problems) {
  const auto report = [&](const std::string& sql, const std::string& before,
                          const std::string& after) {
    if (const int64_t n = number_of(db, sql); n > 0) {
      problems.push_back(before + std::to_string(n) + after);
    }
  };
  report("SELECT count(*) " + positions_where("p.run_id IS NULL"),
         "traced_position: ", " positions of trace rows are not in it");
  report("SELECT count(*) " + positions_where("p.demands < x.demands"),
         "traced_position: ", " positions do not demand the partners that they must have");
}

/// What sources gave and the file does not have. Writers count in the transaction that writes; rows
/// beyond what a source gave are somebody's own.
void check_sources(SQLite::Database& db, Problems& problems) {
  SQLite::Statement lost(
      db,
      "SELECT r.name, s.rows - s.duplicates, ifnull(x.stored, 0), s.shape, s.id"
      " FROM source s JOIN run r ON r.id = s.run_id"
      " LEFT JOIN (SELECT run_id, source_id, count(*) AS stored FROM trace_row GROUP BY 1, 2) x"
      "   ON x.run_id = s.run_id AND x.source_id = s.id"
      " WHERE ifnull(x.stored, 0) < s.rows - s.duplicates ORDER BY s.id");
  while (lost.executeStep()) {
    problems.push_back("trace_row: " + lost.getColumn(2).getString() + " rows of run " +
                       lost.getColumn(0).getString() + ", whose " +
                       (lost.getColumn(3).getString() == "engine"
                            ? "engine wrote "
                            : "source " + lost.getColumn(4).getString() + " gave ") +
                       lost.getColumn(1).getString());
  }
}

/// Rows whose columns are not as the view has them, with what it says. A row that is alone needs no
/// view: places are looked through in the order of the key, those without a position step by step.
std::string wrong_standings() {
  const std::string of_several =
      " HAVING count(*) > 1 OR (min(stands), min(stands_in_phase), max(ambiguous),"
      " max(ambiguous_in_phase)) IS NOT (1, 1, 0, 0)";
  return "SELECT s.run_id AS of_run, s.prompt_id AS of_prompt, s.side AS of_side,"
         " s.pos_id AS of_pos, s.layer AS of_layer, s.tensor_id AS of_tensor, s.nth AS of_nth,"
         " s.stands AS is_first, s.stands_in_phase AS is_first_in_phase, s.ambiguous AS differ,"
         " s.ambiguous_in_phase AS differ_in_phase FROM ("
         "SELECT run_id, prompt_id, side, pos_id, layer, tensor_id, NULL AS step FROM trace_row"
         " WHERE pos_id >= 0 GROUP BY run_id, prompt_id, side, pos_id, layer, tensor_id" +
         of_several +
         " UNION ALL SELECT run_id, prompt_id, side, pos_id, layer, tensor_id, step FROM trace_row"
         " WHERE pos_id = -1 GROUP BY run_id, prompt_id, side, layer, tensor_id, step" +
         of_several +
         ") c CROSS JOIN standing s ON s.run_id = c.run_id AND s.prompt_id = c.prompt_id"
         " AND s.side = c.side AND s.pos_id = c.pos_id AND s.layer = c.layer"
         " AND s.tensor_id = c.tensor_id AND (c.step IS NULL OR s.step = c.step)"
         " CROSS JOIN trace_row t ON t.run_id = s.run_id AND t.prompt_id = s.prompt_id"
         " AND t.side = s.side AND t.pos_id = s.pos_id AND t.layer = s.layer"
         " AND t.tensor_id = s.tensor_id AND t.nth = s.nth"
         " WHERE (t.stands, t.stands_in_phase, t.ambiguous, t.ambiguous_in_phase)"
         " IS NOT (s.stands, s.stands_in_phase, s.ambiguous, s.ambiguous_in_phase)";
}

/// Temporary twins of the tables of what is kept: an INSERT means these, and views do not.
void make_room_for_verdicts(SQLite::Database& db) {
  db.exec(
      "PRAGMA query_only = OFF; PRAGMA temp_store = MEMORY");  // the file itself stays read-only
  for (const char* table : {"verdict", "run_change"}) {
    db.exec(std::string("DROP TABLE IF EXISTS temp.") + table + "; CREATE TEMP TABLE " + table +
            " AS SELECT * FROM main." + table + " WHERE false");
  }
}

/// True if the rows of main's table that meet the condition (two parameters at most) equal those of
/// the table of that name in temp.
bool is_kept_right(SQLite::Database& db, const std::string& table, const std::string& condition,
                   int64_t first, int64_t second) {
  const std::string ours = "SELECT * FROM temp." + table + " WHERE " + condition,
                    kept = "SELECT * FROM main." + table + " WHERE " + condition;
  SQLite::Statement differ(db, "SELECT EXISTS (" + kept + " EXCEPT " + ours + ") OR EXISTS (" +
                                   ours + " EXCEPT " + kept + "), ?2");
  differ.bind(1, first);
  differ.bind(2, second);
  differ.executeStep();
  return differ.getColumn(0).getInt() == 0;
}

}  // namespace

int64_t count_wrong_standings(SQLite::Database& db) {
  return db.execAndGet("SELECT count(*) FROM (" + wrong_standings() + ")").getInt64();
}

int64_t correct_standings(SQLite::Database& db) {
  return db.exec(
      "UPDATE trace_row SET stands = is_first, stands_in_phase = is_first_in_phase,"
      " ambiguous = differ, ambiguous_in_phase = differ_in_phase FROM (" +
      wrong_standings() +
      ") WHERE run_id = of_run AND prompt_id = of_prompt AND side = of_side"
      " AND pos_id = of_pos AND layer = of_layer AND tensor_id = of_tensor"
      " AND nth = of_nth");
}

std::vector<std::string> check_database(SQLite::Database& db) {
  Problems problems;
  check_integrity(db, problems);
  for (std::string& problem : check_content(db)) problems.push_back(std::move(problem));
  if (const int64_t n = count_wrong_standings(db); n > 0) {
    problems.push_back("trace_row: " + std::to_string(n) +
                       " rows do not say which of their place stands for the others");
  }
  if (const int64_t n = number_of(db, std::string("SELECT count(*) FROM ") + kWrongMembers);
      n > 0) {
    problems.push_back("lineage_member: " + std::to_string(n) +
                       " runs are not in the lineage that they state");
  }
  return problems;
}

std::vector<std::string> check_content(SQLite::Database& db) {
  Problems problems;
  check_foreign_keys(db, problems);
  check_trace_rows(db, problems);
  check_other_rows(db, problems);
  check_bookkeeping(db, problems);
  check_sources(db, problems);
  return problems;
}

std::vector<int64_t> runs_kept_wrong(SQLite::Database& db, KeptProgress progress) {
  make_room_for_verdicts(db);
  std::vector<std::pair<int64_t, int64_t>> kept;  // runs, and then runs and their baselines
  SQLite::Statement all(
      db,
      "SELECT run_id, baseline_id FROM ("
      " SELECT run_id, 0 AS baseline_id, until FROM main.verdict"
      " UNION ALL SELECT run_id, baseline_id, until FROM main.run_change)"
      " GROUP BY run_id, baseline_id HAVING ifnull(min(until), 'x') >= date('now')"
      " ORDER BY baseline_id, run_id");
  while (all.executeStep())
    kept.emplace_back(all.getColumn(0).getInt64(), all.getColumn(1).getInt64());
  SQLite::Statement judge(db, sql_of_file("db/sql/judge_run.sql")),
      compare(db, sql_of_file("db/sql/judge_change.sql"));
  std::vector<int64_t> wrong;
  for (size_t i = 0; i < kept.size(); ++i) {
    if (progress != nullptr) progress(static_cast<int64_t>(i), static_cast<int64_t>(kept.size()));
    const auto [run_id, baseline_id] = kept[i];
    SQLite::Statement& work_out = baseline_id == 0 ? judge : compare;
    work_out.bind(1, run_id);
    if (baseline_id != 0) work_out.bind(2, baseline_id);
    work_out.exec();
    work_out.reset();
    const bool is_right = baseline_id == 0
                              ? is_kept_right(db, "verdict", "run_id = ?1", run_id, 0)
                              : is_kept_right(db, "run_change", "run_id = ?1 AND baseline_id = ?2",
                                              run_id, baseline_id);
    if (!is_right) wrong.push_back(run_id);
    db.exec("DELETE FROM temp.verdict; DELETE FROM temp.run_change");
  }
  std::sort(wrong.begin(), wrong.end());
  wrong.erase(std::unique(wrong.begin(), wrong.end()), wrong.end());
  return wrong;
}

std::vector<std::string> repair_database(SQLite::Database& db,
                                         const std::vector<int64_t>& kept_wrong) {
  return in_transaction(db, [&] {
    std::vector<std::string> done;
    const auto change = [&](const std::string& sql, const std::string& what) {
      const int n = db.exec(sql);
      if (n > 0) done.push_back(std::to_string(n) + " " + what);
    };
    if (const int64_t n = correct_standings(db); n > 0) {
      done.push_back(std::to_string(n) + " rows say which of their place stands for the others");
    }
    change(std::string("INSERT INTO traced_position ") + kPositions +
               " HAVING true ON CONFLICT DO UPDATE SET demands = excluded.demands"
               " WHERE demands <> excluded.demands",
           "positions that trace rows have");
    change(
        "DELETE FROM traced_position WHERE (run_id, prompt_id, side, pos_id) NOT IN (SELECT "
        "DISTINCT"
        " run_id, prompt_id, side, pos_id FROM trace_row)",
        "positions that no trace row has");
    change(std::string("REPLACE INTO lineage_member SELECT * FROM ") + kWrongMembers,
           "runs are in the lineage that they state");
    // A verdict may have been made of rows that were wrong.
    const int64_t n = done.empty() ? static_cast<int64_t>(kept_wrong.size())
                                   : number_of(db, "SELECT count(DISTINCT run_id) FROM verdict");
    for (const int64_t run_id : kept_wrong) forget_verdict(db, run_id);
    if (!done.empty()) db.exec("DELETE FROM verdict; DELETE FROM run_change");
    if (n > 0) done.push_back("verdicts of " + std::to_string(n) + " runs were forgotten");
    return done;
  });
}

}  // namespace greta
