#include <sqlite3.h>

#include <set>

#include "cli/greta_db/canned.h"
#include "cli/warehouse/sql_query.h"
#include "tests/cli/program.h"
#include "tests/judged.h"

namespace greta {
namespace {

class QueryCommand : public ProgramTest {
 protected:
  QueryCommand() { Warehouse(database()).drift("attn_out", 0); }
};

TEST_F(QueryCommand, RefusesWhatDoesNotOnlyRead) {
  ASSERT_EQ(run({"runs"}).status, 0);  // which judges
  for (const char* sql :
       {"DELETE FROM run", "INSERT INTO meta VALUES ('a', 'b') RETURNING key", "DROP TABLE run",
        "CREATE TEMP TABLE t(x)", "ATTACH ':memory:' AS o", "PRAGMA user_version = 9",
        "PRAGMA query_only = OFF", "VACUUM INTO 'x.db'", "BEGIN", "SELECT 1; DELETE FROM run",
        "SELECT 1; SELECT 2", "REINDEX", "WITH x AS (SELECT 1) DELETE FROM run",
        "SELECT load_extension('x')", "UPDATE sqlite_master SET sql = 'x'"}) {
    std::string before = read(database());
    Result result = run({"query", sql});
    EXPECT_EQ(result.status, 2) << sql;
    EXPECT_EQ(result.err.substr(0, 10), "greta-db: ") << sql;
    EXPECT_EQ(result.out, "") << sql;
    EXPECT_EQ(read(database()), before) << sql;
  }
  EXPECT_FALSE(std::filesystem::exists(path("x.db")));
}

TEST_F(QueryCommand, ANulByteIsAnErrorAtOnce) {
  for (const std::string& text : {std::string("SELECT 1;\0", 10), std::string("\0", 1),
                                  std::string("SELECT 1 -- \0 AS x", 19)}) {
    write("nul.sql", text);
    for (const char* command : {"query -f nul.sql", "query -f - < nul.sql"}) {
      EXPECT_TRUE(shell(std::string("timeout 20 $G ") + command).answers(2, {"NUL byte"}));
    }
  }
}

TEST_F(QueryCommand, TakesOneStatementWithCommentsAroundIt) {
  Result result =
      run({"query", "-- first\nSELECT 1 AS n; -- last\n /* end */ ;", "--format", "csv"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "n\r\n1\r\n");
  EXPECT_EQ(run({"query", "  -- nothing\n"}).status, 2);
  EXPECT_EQ(run({"query"}).status, 2);
}

TEST_F(QueryCommand, AllowsPragmasThatTell) {
  EXPECT_EQ(run({"query", "PRAGMA table_info(run)"}).status, 0);
  EXPECT_EQ(run({"query", "PRAGMA user_version"}).status, 0);
  EXPECT_EQ(run({"query", "SELECT name FROM pragma_table_info('run')"}).status, 0);
  EXPECT_EQ(run({"query", "SELECT value FROM json_each('[1]')"}).status, 0);
  EXPECT_EQ(run({"query", "SELECT * FROM run_verdict"}).status, 0);
  EXPECT_EQ(run({"query", "EXPLAIN QUERY PLAN SELECT * FROM pair"}).status, 0);
}

TEST_F(QueryCommand, ReadsAFileAndStandardInput) {
  write("q.sql", "SELECT count(*) AS n FROM trace_row");
  EXPECT_EQ(run({"query", "-f", "q.sql", "--format", "csv"}).out, "n\r\n2\r\n");
  EXPECT_EQ(shell("$G query --format csv -f - <q.sql").out, "n\r\n2\r\n");
  EXPECT_TRUE(run({"query", "-f", "nope.sql"}).answers(2, {"nope.sql"}));
}

TEST_F(QueryCommand, BindsParametersByNameAndType) {
  auto type = [&](const std::string& value) {
    Result result = run({"query", "SELECT typeof(:x) || ' ' || :x AS t", "--param", "x=" + value,
                         "--format", "tsv"});
    return result.out.substr(2);
  };
  EXPECT_EQ(type("37"), "integer 37\n");
  EXPECT_EQ(type("-1"), "integer -1\n");
  EXPECT_EQ(type("0.5"), "real 0.5\n");
  EXPECT_EQ(type("007"), "text 007\n");
  EXPECT_EQ(type("1e5x"), "text 1e5x\n");
  EXPECT_EQ(type("nan"), "text nan\n");
  EXPECT_EQ(type("a=b;--'"), "text a=b;--'\n");
  EXPECT_EQ(type(""), "text \n");
  EXPECT_EQ(type("18446744073709551615"), "text 18446744073709551615\n");
}

TEST_F(QueryCommand, SaysWhichParameterIsMissingOrUnknown) {
  EXPECT_TRUE(run({"query", "SELECT :a + :b", "--param", "a=1"}).answers(2, {"--param b="}));
  EXPECT_TRUE(run({"query", "SELECT :a", "--param", "a=1", "--param", "c=1"})
                  .answers(2, {"no parameter 'c'; it has a"}));
  EXPECT_EQ(run({"query", "SELECT ?"}).status, 2);
  EXPECT_EQ(run({"query", "SELECT :a", "--param", "a"}).status, 2);
  EXPECT_EQ(run({"query", "SELECT :a", "--param", "a=1", "--param", "a=2"}).status, 2);
}

TEST_F(QueryCommand, NamesTheErrorInTheSql) {
  EXPECT_TRUE(run({"query", "SELECT nonsense FROM run"}).answers(2, {"no such column: nonsense"}));
}

TEST_F(QueryCommand, CannedQueryTakesARunAsGenerouslyAsRun) {
  Result result = run({"query", "drift_by_layer", "--param", "run=e", "--format", "json"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.json()[0]["tensor"], "attn_out");
  EXPECT_EQ(run({"query", "drift_by_layer", "--param", "run=nope"}).status, 2);
  EXPECT_EQ(run({"query", "drift_by_layer"}).status, 2);
  EXPECT_EQ(run({"query", "no_such_query"}).status, 2);
}

TEST_F(QueryCommand, ListNamesEveryCannedQuery) {
  Result result = run({"query", "--list", "--format", "json"});
  EXPECT_EQ(result.json().size(), canned_queries().size());
}

class Canned : public testing::TestWithParam<CannedQuery> {};

TEST_P(Canned, DocumentsItselfAndRunsOnAnEmptyDatabaseAndOnRows) {
  const CannedQuery& canned = GetParam();
  EXPECT_FALSE(canned.description.empty());
  Warehouse empty, full;
  full.run({.name = "a", .date = "2026-01-01"});
  full.match("x_in", 0);
  full.rounding("attn_out", 0);
  const auto ramp = [](float step) {
    std::vector<float> values(16, 1);
    values.back() += step;
    return values;
  };
  full.add(prefill("q_pre_rope", 0, 1).length(16).sketched(ramp(0)),
           decode("q_pre_rope", 0, 2).length(16).sketched(ramp(1e-3f)));
  full.divergent("wo_out", 0);
  full.add(prefill("mlp_out", 0, 1));
  int64_t report = full.report(
      "r.tsv", 1, {{.prompt = "p0", .layer = 0, .tensor = "attn_out", .status = "MATCH"}});
  full.claim(report, 1, "PASS");
  full.db.exec(
      "INSERT INTO attribute(run_id, dim, value, rank) VALUES (1, 'dtype', 'bf16', 1), (1, "
      "'dtype', 'fp16', 2);"
      "INSERT INTO waiver(tensor, until, reason, created_at, created_by) VALUES ('wo_out',"
      " '2999-12-31', 'why', '2026-01-01T00:00:00Z', 'me');"
      "INSERT INTO run_metric(run_id, name, value, text, source_id) VALUES (1, 'm', 1.0, '1', 1);"
      "INSERT INTO log_event VALUES (1, 1, 0, 1, 'p0', 'TAG', 0, '{}', 'TAG x');"
      "INSERT INTO ingest_error(file, line, severity, reason, raw) VALUES ('f', 1, 'error', 'bad', "
      "x'ff')");
  full.run({.name = "b"});
  full.match("x_in", 0);
  judge_all(full);
  for (Warehouse* warehouse : {&empty, &full}) {
    Query query(warehouse->db, canned.sql);
    std::set<std::string> known;
    for (const CannedParameter& parameter : canned.parameters) known.insert(":" + parameter.name);
    std::set<std::string> used;
    for (int i = 1; i <= query.parameters(); ++i) {
      std::string name = query.parameter_name(i);
      used.insert(name);
      if (name.starts_with(":run")) query.bind(i, name == ":run_b" ? "b" : "a");
      if (name == ":tensor") query.bind(i, "attn_out");
      if (name == ":limit") query.bind(i, int64_t{20});
    }
    EXPECT_EQ(used, known);
    EXPECT_TRUE(query.read_only());
    int64_t rows = 0;
    while (query.step()) rows++;
    if (warehouse == &empty) {
      EXPECT_EQ(rows, 0);
    } else if (canned.name != "pass_to_fail" && canned.name != "readout_conflicts" &&
               canned.name != "kv_misaligned") {
      EXPECT_GT(rows, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Queries, Canned, testing::ValuesIn(canned_queries()),
                         [](const auto& query) { return query.param.name; });

TEST(CannedQuery, PassToFailFindsTheCommit) {
  Warehouse warehouse;
  warehouse.run({.name = "1", .mode = "m", .date = "2026-01-01", .commit = "aaa"});
  warehouse.match("attn_out", 0);
  warehouse.run({.name = "2", .mode = "m", .date = "2026-01-02", .commit = "bbb"});
  warehouse.drift("attn_out", 0);
  warehouse.run({.name = "3", .mode = "other", .date = "2026-01-03", .commit = "ccc"});
  warehouse.drift("attn_out", 0);
  judge_all(warehouse);
  Query query(warehouse.db, canned_query("pass_to_fail").sql);
  ASSERT_TRUE(query.step());
  EXPECT_EQ(query.text(0), "strict");
  EXPECT_EQ(query.text(5), "aaa");
  EXPECT_EQ(query.text(7), "bbb");
  EXPECT_FALSE(query.step());
}

TEST(CannedQuery, RoundingNeitherFailsNorHidesWhatDoes) {
  Warehouse warehouse;
  for (const char* name : {"r", "r#2", "r#10"}) {  // fails strictly by design
    warehouse.run({.name = name, .mode = "as_designed", .dtype = "bf16", .date = "2026-01-01"});
    name == std::string("r#10") ? warehouse.divergent("attn_out", 3)
                                : warehouse.rounding("attn_out", 3);
  }
  judge_all(warehouse);
  Query query(warehouse.db, canned_query("pass_to_fail").sql);
  ASSERT_TRUE(query.step());
  EXPECT_EQ(query.text(0), "numeric");
  EXPECT_EQ(query.text(8), "ATTN_OUT_DRIFT");
  EXPECT_EQ(query.integer(9), 3);
  EXPECT_EQ(query.text(12), "r#2");
  EXPECT_EQ(query.text(13), "r#10");
  EXPECT_FALSE(query.step());
  Query by_commit(warehouse.db, canned_query("first_fail_by_commit").sql);
  ASSERT_TRUE(by_commit.step());
  EXPECT_EQ(by_commit.text(4), "PASS");
  EXPECT_EQ(by_commit.text(9), "FAIL");
  EXPECT_EQ(by_commit.text(10), "ATTN_OUT_DRIFT");
}

TEST(CannedQuery, DiagnosisIsOfOneRun) {
  Warehouse warehouse;
  for (const char* run : {"a", "b"}) {
    warehouse.run({.name = run});
    warehouse.divergent("x_in", 0);
  }
  judge_all(warehouse);
  Query query(warehouse.db, canned_query("diagnosis").sql);
  query.bind(1, "b");
  ASSERT_TRUE(query.step());
  EXPECT_EQ(query.text(4), "SCALED");
  EXPECT_FALSE(query.step());
}

TEST(CannedQuery, RunAttributeTellsTheWinnerAndTheConflict) {
  Warehouse warehouse;
  warehouse.run({.name = "d/e"});
  warehouse.run({.name = "d/e/1"});
  warehouse.db.exec(
      "INSERT INTO attribute(run_id, dim, value, rank) VALUES (2, 'dtype', 'fp16', 2),"
      " (1, 'dtype', 'bf16', 1), (1, 'host', 'h', 2)");
  Query query(warehouse.db, canned_query("run_attribute").sql);
  query.bind(1, "d/e/1");
  ASSERT_TRUE(query.step());
  EXPECT_EQ(query.text(2), "bf16");
  EXPECT_EQ(query.integer(3), 1);
  EXPECT_EQ(query.integer(4), 1);
  EXPECT_EQ(query.text(7), "d/e");
  ASSERT_TRUE(query.step());
  EXPECT_EQ(query.text(2), "fp16");
  EXPECT_EQ(query.integer(3), 0);
  ASSERT_TRUE(query.step());
  EXPECT_EQ(query.integer(4), 0);
}

}  // namespace
}  // namespace greta
