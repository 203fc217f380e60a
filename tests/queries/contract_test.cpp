// What scripts rely on: names, columns, documentation, stock SQLite.
#include <sqlite3.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <regex>
#include <set>

#include "db/schema.h"
#include "tests/judged.h"
#include "tests/queries/warehouse.h"

namespace greta {
namespace {

const std::map<std::string, std::string> kContract = {
    {"trace",
     "run experiment mode commit_sha date prompt phase step pos_id layer tensor token_id"
     " logical_tok_idx n hash min max mean abs_sum nan inf nz_count route source_file source_line"},
    {"pair",
     "run prompt token_id logical_tok_idx pos_id layer tensor canonical_tensor status class origin"
     " inputs_complete scope compared_n cause prefill_hash decode_hash rel_l2"},
    {"first_fail",
     "run prompt token_id pos_id layer tensor first_fail root_cause details first_drift_layer"
     " first_drift_tensor first_drift_cause numeric_first_fail numeric_layer numeric_tensor"
     " numeric_origin"},
    {"run_verdict",
     "run experiment mode commit_sha date evidence verdict numeric_verdict coverage pairs pass fail"
     " missing decode_only incomparable prompt layer tensor first_fail root_cause"
     " numeric_first_fail numeric_layer numeric_tensor"},
    {"failure_breakdown", "run cause count percent numeric_count numeric_percent"},
    {"propagation", "run prompt layer tensor status origin caused_by"},
    {"kv_alignment",
     "run prompt layer pos_id k_match v_match q_match cache_match cache_rows_match k_class v_class"
     " scores_class probs_class attn_out_class kv_aligned interpretation status"},
    {"lm_head_delta",
     "run prompt prefill_route decode_route prefill_top1 decode_top1 prefill_gap decode_gap"
     " cpu_probe_agrees_prefill cpu_probe_agrees_decode suspect"},
    {"run_diff", "run_a run_b prompt phase pos_id layer tensor status class rel_l2"},
    {"history", "experiment mode date commit_sha run verdict first_fail layer tensor prompt"},
    {"drift",
     "run tensor differ rounding divergent nonfinite rel_l2 tolerance prompt layer pos_id ord"},
    {"diagnosis",
     "run prompt layer tensor finding side other_side other_tensor unit at other_at count of_count"
     " value distance"},
    {"gate",
     "run answer gate strict_answer numeric_answer own_verdict own_numeric_verdict verdict"
     " numeric_verdict change baseline why_not waived first_fail root_cause prompt layer tensor"
     " pos_id"},
    {"gate_case", "run prompt layer gate status pairs fail waived cause tensor pos_id message"},
    {"report_conflict", "run"}};

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> result;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find(' ', at), text.size());
    result.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return result;
}

std::vector<std::string> columns_of(Warehouse& w, const std::string& view) {
  std::vector<std::string> names;
  SQLite::Statement query(w.db, "SELECT name FROM pragma_table_info(?)");
  query.bind(1, view);
  while (query.executeStep()) names.push_back(query.getColumn(0).getString());
  return names;
}

bool is_under(const SqlFile& file, std::string_view folder) {
  return file.path.starts_with(folder) &&
         file.path.find('/', folder.size()) == std::string_view::npos;
}

std::string name_of(const SqlFile& file) {
  std::string name(file.path.substr(file.path.rfind('/') + 1));
  return name.substr(0, name.size() - 4);
}

TEST(Contract, EveryPublicViewHasItsColumnsInTheirOrder) {
  Warehouse w;  // but for those that more columns may follow, SELECT * starts as the contract says
  for (const auto& [view, columns] : kContract) {
    const std::vector<std::string> all = columns_of(w, view), wanted = words(columns);
    EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size())
        << view << " has a column twice";
    size_t next = 0;
    for (const std::string& column : all) {
      EXPECT_EQ(column.find(':'), std::string::npos) << view;
      next += next < wanted.size() && column == wanted[next];
    }
    EXPECT_EQ(next, wanted.size())
        << view << ": out of order from " << wanted[std::min(next, wanted.size() - 1)];
  }
}

TEST(Contract, OneViewPerFileNamedLikeTheFile) {
  std::set<std::string> public_views;
  for (const SqlFile& file : sql_files()) {
    const bool is_public = is_under(file, "queries/");
    if (!is_public && !is_under(file, "queries/internal/")) continue;
    const std::string text(file.text), create = "CREATE VIEW " + name_of(file) + " AS\n";
    EXPECT_NE(text.find("\n" + create), std::string::npos) << file.path;
    EXPECT_EQ(text.find("CREATE", text.find(create) + 1), std::string::npos) << file.path;
    if (is_public) public_views.insert(name_of(file));
  }
  for (const auto& [view, columns] : kContract) EXPECT_TRUE(public_views.contains(view)) << view;
}

TEST(Contract, HeaderSaysWhatOneRowMeans) {
  for (const SqlFile& file : sql_files()) {
    if (is_under(file, "queries/")) {
      EXPECT_TRUE(file.text.starts_with("-- One row per ")) << file.path;
    } else if (is_under(file, "queries/internal/")) {
      EXPECT_TRUE(file.text.starts_with("-- ")) << file.path;
    }
  }
}

TEST(Contract, EveryColumnOfAPublicViewIsCommented) {
  Warehouse w;
  for (const SqlFile& file : sql_files()) {
    // the columns of verdict_now are those of the table `verdict`, which has the comments
    if (!is_under(file, "queries/") || name_of(file) == "verdict_now") continue;
    const std::string text(file.text);
    for (const std::string& column : columns_of(w, name_of(file))) {
      EXPECT_TRUE(std::regex_search(text, std::regex(" AS " + column + ",? *-- [^\n]")))
          << file.path << ": " << column;
    }
  }
}

TEST(Contract, NoDoubleQuotedNames) {
  for (const SqlFile& file : sql_files()) {
    if (!is_under(file, "queries/") && !is_under(file, "queries/internal/")) continue;
    bool in_string = false, in_comment = false;
    for (size_t i = 0; i < file.text.size(); ++i) {
      const char c = file.text[i];
      if (c == '\n') in_comment = false;
      if (!in_string && file.text.substr(i, 2) == "--") in_comment = true;
      if (in_comment) continue;
      if (c == '\'') in_string = !in_string;
      EXPECT_FALSE(!in_string && (c == '"' || c == '`' || c == '[')) << file.path << " byte " << i;
    }
  }
}

TEST(Contract, EveryViewAnswersOnAnEmptyDatabase) {
  Warehouse w;
  for (const SqlFile& file : sql_files()) {
    if (!is_under(file, "queries/") && !is_under(file, "queries/internal/")) continue;
    EXPECT_EQ(w.rows("SELECT * FROM " + name_of(file)), "") << file.path;
  }
}

/// Steps of SQLite's machine to answer a query: a measure of work that no other load disturbs.
int steps(Warehouse& w, const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  EXPECT_EQ(sqlite3_prepare_v2(w.db.getHandle(), sql.c_str(), -1, &statement, nullptr), SQLITE_OK)
      << sql;
  while (sqlite3_step(statement) == SQLITE_ROW) {
  }
  const int count = sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_VM_STEP, 1);
  sqlite3_finalize(statement);
  return count;
}

void fill_run(Warehouse& w, const std::string& name, int layers) {
  w.run({.name = name});
  for (int layer = 0; layer < layers; ++layer) {
    for (const char* tensor : {"x_in", "q_post_rope", "k_post_rope", "v_proj", "attn_out"}) {
      w.drift(tensor, layer);
    }
    w.add(prefill("mlp_out", layer, 1), decode("wo_out", layer, 1),
          decode("x_out", layer, 1).at(38));
  }
}

TEST(Contract, AQuestionAboutOneRunDoesNotReadTheOthers) {
  Warehouse w;
  fill_run(w, "2026-02-07/e/small", 1);
  fill_run(w, "2026-02-07/e/other", 1);
  std::map<std::string, int> alone;
  auto ask = [&](auto&& check) {
    for (const char* view :
         {"trace", "pair", "first_fail", "run_verdict", "failure_breakdown", "propagation",
          "kv_alignment", "lm_head_delta", "report_conflict", "history", "drift", "verdict_now"}) {
      for (const char* filter : {"run = '2026-02-07/e/small'", "run_id = 1"}) {
        if (view == std::string("verdict_now") && filter != std::string("run_id = 1")) continue;
        const std::string sql = std::string("SELECT * FROM ") + view + " WHERE " + filter;
        check(sql, steps(w, sql));
      }
    }
    const std::string diff =
        "SELECT * FROM run_diff WHERE run_a = '2026-02-07/e/small' AND run_b = "
        "'2026-02-07/e/other'";
    check(diff, steps(w, diff));
  };
  w.judge();
  ask([&](const std::string& sql, int count) { alone[sql] = count; });
  fill_run(w, "2026-02-07/e/large", 100);
  for (int i = 0; i < 100; ++i) w.run({.name = "2026-02-08/e/" + std::to_string(i)});
  w.judge();
  ask([&](const std::string& sql, int count) { EXPECT_LE(count, 2 * alone[sql] + 100) << sql; });
}

/// Runs as ingests leave them: judged, with a run_start that states ten things of each.
void fill_runs(Warehouse& w, int first, int last) {
  SQLite::Transaction whole(w.db);
  SQLite::Statement start(w.db, "INSERT INTO run_event VALUES (?, 'start', 1, ?, '')");
  SQLite::Statement states(
      w.db,
      "WITH dim(name) AS (VALUES ('run'), ('experiment'), ('date'), ('commit'), ('mode'),"
      " ('dtype'), ('backend'), ('model'), ('host'), ('device'))"
      " INSERT INTO attribute(run_id, dim, value, rank, source_id)"
      " SELECT ?2, name, 'a', 0, ?1 FROM dim");
  for (int i = first; i < last; ++i) {
    const std::string name = std::to_string(i);
    w.run({.name = "2026-02-07/e" + name + "/seed_" + name, .experiment = "e" + name});
    w.match("attn_out", 0);
    const int64_t source = w.add_source(name, "stage_trace");
    for (SQLite::Statement* insert : {&start, &states}) {
      insert->bind(1, source);
      insert->bind(2, w.current_run());
      insert->exec();
      insert->reset();
    }
  }
  whole.commit();
  judge_all(w);
}

TEST(Contract, FourTimesTheRunsAreFourTimesTheWork) {
  Warehouse w;
  std::map<std::string, int> of_fewer;
  const auto ask = [&w](auto&& check) {
    for (const char* view : {"trace", "first_fail", "run_verdict", "failure_breakdown", "history",
                             "drift", "change", "lineage", "regression", "report_conflict"}) {
      check(view, steps(w, std::string("SELECT * FROM ") + view));
    }
  };
  fill_runs(w, 0, 25);
  ask([&](const std::string& view, int count) { of_fewer[view] = count; });
  fill_runs(w, 25, 100);
  ask([&](const std::string& view, int count) {
    EXPECT_LE(count, 5 * of_fewer[view] + 1000) << view;
  });
}

TEST(Contract, FourTimesTheRunsOfALineageAreFourTimesTheWork) {
  Warehouse w;
  const auto fill = [&w](int first, int last) {
    for (int i = first; i < last; ++i) {
      w.run({.name = "2026-02-07/e/" + std::to_string(i)});
      w.match("attn_out", 0);
    }
    w.db.exec(
        "UPDATE run SET started_at = strftime('%Y-%m-%dT%H:%M:%SZ', 1770000000 + id, 'unixepoch')");
  };
  const auto ask = [&w] { return steps(w, "SELECT count(baseline_id) FROM lineage"); };
  fill(0, 50);
  const int of_fewer = ask();
  fill(50, 200);
  EXPECT_EQ(w.rows("SELECT count(baseline_id) FROM lineage"), "199");
  EXPECT_LE(ask(), 5 * of_fewer);
}

TEST(Contract, TheGateOfOneRunDoesNotReadTheChangesOfOthers) {
  Warehouse w;
  const auto fill = [&w](int first, int last) {
    for (int i = first; i < last; ++i) {
      w.run({.name = "e/" + std::to_string(i), .date = "2026-01-" + std::to_string(100 + i)});
      w.match("attn_out", 0);
    }
    judge_all(w);
  };
  const auto ask = [&w] {
    return steps(w,
                 "SELECT answer, change, waived_rows FROM gate WHERE run_id = 2 AND own_baseline");
  };
  fill(0, 10);
  const int of_fewer = ask();
  fill(10, 100);
  EXPECT_EQ(w.rows("SELECT answer, change FROM gate WHERE run_id = 2"), "PASS|SAME");
  EXPECT_LE(ask(), 2 * of_fewer);
}

TEST(Contract, WhyARunIsNotWholeIsWorkedOutOnceForAPairAndNotWhereAKeptVerdictSaysThatItIs) {
  Warehouse w;
  for (const char* name : {"a", "b"}) {
    w.run({.name = name});
    for (int layer = 0; layer < 50; ++layer) w.match("attn_out", layer);
    w.db.exec("UPDATE source SET shape = 'row'");
  }
  const std::string of = " FROM diff_now WHERE run_a_id = 1 AND run_b_id = 2";
  const int worked_out = steps(w, "SELECT incomplete_why" + of);
  EXPECT_LE(steps(w, "SELECT verdict, strict_verdict, numeric_verdict" + of), worked_out + 200);
  judge_all(w);
  // two runs of 50 trace points: each is looked for in some 60 steps
  EXPECT_LE(steps(w, "SELECT incomplete_why" + of), worked_out - 2 * 50 * 40);
}

TEST(Contract, TwoRunsAreComparedInAsManyStepsAmongMany) {
  Warehouse w;
  fill_runs(w, 0, 5);
  const std::string names[] = {"2026-02-07/e0/seed_0", "2026-02-07/e1/seed_1"};
  std::string by_tensor = sql_of_file("queries/canned/diff_by_tensor.sql");
  for (const auto& [parameter, name] :
       {std::pair{std::string(":run_a"), names[0]}, {":run_b", names[1]}}) {
    for (size_t at;
         (at = by_tensor.find(parameter, by_tensor.find("SELECT"))) != std::string::npos;)
      by_tensor.replace(at, parameter.size(), "'" + name + "'");
  }
  const std::string two = " WHERE run_a = '" + names[0] + "' AND run_b = '" + names[1] + "'";
  const std::vector<std::string> questions{
      by_tensor, "SELECT status, count(*) FROM run_diff" + two + " GROUP BY 1",
      "SELECT origin, count(*) FROM run_diff" + two + " GROUP BY 1",
      "SELECT verdict FROM diff_verdict" + two};
  std::vector<int> of_few;
  for (const std::string& question : questions) of_few.push_back(steps(w, question));
  fill_runs(w, 5, 100);
  for (size_t i = 0; i < questions.size(); ++i) {
    EXPECT_LE(steps(w, questions[i]), of_few[i] + of_few[i] / 2 + 2000) << questions[i];
  }
}

TEST(Contract, WhatIsKeptOfARunIsReadInFewSteps) {
  Warehouse w;
  fill_runs(w, 0, 100);
  EXPECT_LE(steps(w, "SELECT * FROM run_verdict") / 100, 150);
}

/// How long the program is that SQLite prepares.
int instructions(Warehouse& w, const std::string& sql) {
  SQLite::Statement program(w.db, "EXPLAIN " + sql);
  int n = 0;
  while (program.executeStep()) ++n;
  return n;
}

TEST(Contract, WhatIsFoundOfAnAncestorIsWorkedOutInOnePlaceOfAStatement) {
  Warehouse w;
  const auto size = [&w](const std::string& column) {
    return instructions(w, "SELECT " + column + " FROM comparison_origin");
  };
  EXPECT_LE(size("caused_by"), 1.1 * size("worst_input"));
}

TEST(Contract, WhatARunLooksLikeIsToldWithoutReadingTheOthers) {
  Warehouse w;
  w.run({.name = "small"});
  w.divergent("attn_out", 0);
  const auto ask = [&w](const std::string& filter) {
    const std::string sql = "SELECT * FROM diagnosis WHERE " + filter;
    EXPECT_NE(w.rows(sql), "");
    return steps(w, sql);
  };
  const int by_name = ask("run = 'small'"), by_id = ask("run_id = 1");
  for (int i = 0; i < 100; ++i) {
    w.run({.name = "large" + std::to_string(i)});
    for (int layer = 0; layer < 10; ++layer) w.divergent("attn_out", layer);
  }
  EXPECT_LE(ask("run = 'small'"), 2 * by_name + 100);
  EXPECT_LE(ask("run_id = 1"), 2 * by_id + 100);
}

TEST(Contract, AFilterOnTheLayerSparesThePartnersOfOtherRows) {
  const char* of_a_layer = "SELECT count(*) FROM pair WHERE layer = 50";
  Warehouse few, many;
  fill_run(few, "2026-02-07/e/a", 100);
  fill_run(many, "2026-02-07/e/a", 200);
  // that layer costs the same in both
  EXPECT_LE(steps(many, of_a_layer) - steps(few, of_a_layer), 35 * 13 * 100)
      << "13 rows a layer cost a look at each and no seek";
}

// Who asks what is kept waits for hardly anything to be prepared.
TEST(Contract, WhatReadsTheVerdictIsAShortProgram) {
  Warehouse w;
  for (const char* view : {"run_verdict", "first_fail", "history", "failure_breakdown"}) {
    EXPECT_LE(instructions(w, std::string("SELECT * FROM ") + view), 500) << view;
  }
}

TEST(Contract, PlainSqliteGivesTheSameAnswer) {
  if (std::system("command -v sqlite3 > /dev/null 2>&1") != 0)
    GTEST_SKIP() << "no sqlite3 program here";
  const std::filesystem::path file = std::filesystem::temp_directory_path() /
                                     ("greta_contract_" + std::to_string(getpid()) + ".db");
  {
    Warehouse w(file);
    w.run({.name = "2026-02-07/e/a", .mode = "kv_aligned", .dtype = "bf16"});
    w.rounding("x_in", 0);
    w.match("k_post_rope", 0);
    w.match("q_pre_rope", 0);
    w.divergent("q_post_rope", 0);
    w.add(prefill("attn_out", 0, 18446744073709551615u), decode("attn_out", 0, 0),
          prefill("mlp_out", 0, 1), decode("logits", -1, 1).at(38));
    w.run({.name = "2026-02-07/e/b"});
    w.report("final.tsv", 0, {{.prompt = "p0", .layer = 0, .tensor = "x_in", .status = "DRIFT"}});
    w.judge();
    for (const auto& [view, columns] : kContract) {
      SCOPED_TRACE(view);
      std::string list;
      for (const std::string& column : words(columns)) list += (list.empty() ? "" : ", ") + column;
      const std::string sql = "SELECT " + list + " FROM " + view +
                              (view == "report_conflict" ? " ORDER BY run" : " ORDER BY 1, 2");
      const std::string command =
          "sqlite3 -batch -nullvalue - '" + file.string() + "' '" + sql + "' 2>&1";
      std::string answer;
      FILE* pipe = popen(command.c_str(), "r");
      ASSERT_NE(pipe, nullptr);
      char buffer[4096];
      while (size_t got = fread(buffer, 1, sizeof buffer, pipe)) answer.append(buffer, got);
      EXPECT_EQ(pclose(pipe), 0);
      if (!answer.empty() && answer.back() == '\n') answer.pop_back();
      EXPECT_EQ(answer, w.rows(sql));
    }
  }
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(file.string() + suffix);
}

}  // namespace
}  // namespace greta
