#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "tests/cli/program.h"

namespace greta {
namespace {

class Commands : public ProgramTest {};

TEST_F(Commands, VersionNamesBothVersions) {
  Result result = run({"--version"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out.substr(0, 9), "greta-db ");
  EXPECT_TRUE(result.says("SQLite 3."));
}

TEST_F(Commands, HelpExitsZeroAndUsageErrorsExitTwo) {
  EXPECT_EQ(run({"--help"}).status, 0);
  EXPECT_EQ(run({"firstfail", "--help"}).status, 0);
  EXPECT_EQ(run({}).status, 2);
  EXPECT_EQ(run({"nonsense"}).status, 2);
  Result unknown = run({"firstfail", "--nonsense"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_EQ(unknown.err.substr(0, 10), "greta-db: ");
}

TEST_F(Commands, MissingDatabaseExitsTwoAndCreatesNothing) {
  for (const char* command : {"runs", "firstfail", "pairs", "trace", "history", "check"}) {
    Result result = run({command});
    EXPECT_EQ(result.status, 2) << command;
    EXPECT_TRUE(result.says("greta.db")) << result.err;
    EXPECT_TRUE(result.says("ingest")) << result.err;
  }
  EXPECT_FALSE(std::filesystem::exists(database()));
}

TEST_F(Commands, DatabaseComesFromFlagElseVariableElseDefault) {
  Warehouse(path("a.db")).run({.name = "in a"});
  Warehouse(path("b.db")).run({.name = "in b"});
  EXPECT_TRUE(shell("GRETA_DB=a.db $G runs").says("in a"));
  EXPECT_TRUE(shell("GRETA_DB=a.db $G --db b.db runs").says("in b"));
  EXPECT_TRUE(shell("$G runs --db b.db").says("in b"));  // after the command as well
  EXPECT_TRUE(shell("GRETA_DB= $G runs").says("greta.db"));
}

TEST_F(Commands, ForeignAndNewerFilesAreRefused) {
  write("text.db", "this is no database at all, but long enough to be read as one............");
  EXPECT_EQ(run({"--db", "text.db", "runs"}).status, 2);
  SQLite::Database(path("other.db"), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
      .exec("CREATE TABLE t(x)");
  Result other = run({"--db", "other.db", "runs"});
  EXPECT_EQ(other.status, 2);
  EXPECT_TRUE(other.says("not a greta database"));
  Warehouse(path("newer.db")).db.exec("PRAGMA user_version = 99");
  Result newer = run({"--db", "newer.db", "firstfail"});
  EXPECT_EQ(newer.status, 2);
  EXPECT_TRUE(newer.says("newer"));
}

TEST_F(Commands, EmptyDatabaseAnswersEveryCommand) {
  Warehouse warehouse(database());
  for (const char* command : {"runs", "pairs", "trace", "history", "check", "schema"}) {
    for (const char* format : {"table", "json", "csv", "tsv", "md"}) {
      Result result = run({command, "--format", format});
      EXPECT_EQ(result.status, 0) << command << " " << format << ": " << result.err;
      EXPECT_NE(result.out, "") << command << " " << format;
    }
  }
}

TEST_F(Commands, RunsFilters) {
  Warehouse warehouse(database());
  warehouse.run({.name = "1", .mode = "kv_aligned", .date = "2026-02-07", .commit = "abc123"});
  warehouse.match("attn_out", 0);
  warehouse.run({.name = "2",
                 .experiment = "f",
                 .mode = "as_designed",
                 .date = "2026-03-01",
                 .commit = "def"});
  auto names = [&](std::initializer_list<std::string> words) {
    std::vector<std::string> all(words);
    std::string command = "$G runs --format json";
    for (const std::string& word : all) command += " " + quoted(word);
    Result result = shell(command);
    EXPECT_EQ(result.status, 0) << result.err;
    std::string text;
    for (const auto& row : result.json()) text += row["run"].get<std::string>() + ";";
    return text;
  };
  EXPECT_EQ(names({}), "1;2;");
  EXPECT_EQ(names({"--experiment", "f"}), "2;");
  EXPECT_EQ(names({"--mode", "kv_aligned"}), "1;");
  EXPECT_EQ(names({"--date", "2026-02"}), "1;");
  EXPECT_EQ(names({"--commit", "abc"}), "1;");
  EXPECT_EQ(names({"--verdict", "NO_EVIDENCE"}), "2;");
  EXPECT_EQ(names({"--run", "f"}), "2;");
  EXPECT_EQ(names({"--experiment", "' OR 1=1 --"}), "");
  EXPECT_EQ(run({"runs", "--verdict", "MAYBE"}).status, 2);
}

TEST_F(Commands, RunsShowsAttributes) {
  Warehouse warehouse(database());
  warehouse.run();
  warehouse.db.exec(
      "INSERT INTO attribute(run_id, dim, value, rank) VALUES (1, 'dtype', 'bf16', 1), (1, "
      "'dtype', 'fp16', 2)");
  nlohmann::json rows = run({"runs", "--attributes", "--run", "r", "--format", "json"}).json();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["value"], "bf16");
  EXPECT_EQ(rows[0]["wins"], 1);
  EXPECT_EQ(rows[0]["conflict"], 1);
}

TEST_F(Commands, PairsFilters) {
  Warehouse warehouse(database());
  warehouse.match("x_in", 0);
  warehouse.rounding("attn_out", 0);
  warehouse.divergent("mlp_out", 1);
  warehouse.add(prefill("x_in", 2, 1));
  auto count = [&](std::initializer_list<std::string> words) {
    std::string command = "$G pairs --format json";
    for (const std::string& word : words) command += " " + quoted(word);
    return shell(command).json().size();
  };
  EXPECT_EQ(count({}), 4u);
  EXPECT_EQ(count({"--status", "MISSING"}), 1u);
  EXPECT_EQ(count({"--class", "DIVERGENT"}), 1u);
  EXPECT_EQ(count({"--cause", "ATTN_OUT_DRIFT"}), 1u);
  EXPECT_EQ(count({"--layer", "0"}), 2u);
  EXPECT_EQ(count({"--tensor", "x_in"}), 2u);
  EXPECT_EQ(count({"--tensor", "residual_pre_attn"}), 2u);  // canonical name
  EXPECT_EQ(count({"--prompt", "p0", "--limit", "3"}), 3u);
  EXPECT_EQ(count({"--limit", "0"}), 0u);
}

TEST_F(Commands, PairsComeInForwardOrder) {
  Warehouse warehouse(database());
  warehouse.match("logits", -1);
  warehouse.match("mlp_out", 1);
  warehouse.match("attn_out", 1);
  warehouse.match("attn_out", 0);
  std::string order;
  for (const auto& row : run({"pairs", "--format", "json"}).json())
    order += row["tensor"].get<std::string>() + row["layer"].dump() + " ";
  EXPECT_EQ(order, "attn_out0 attn_out1 mlp_out1 logits-1 ");
}

TEST_F(Commands, TraceFilters) {
  Warehouse warehouse(database());
  warehouse.match("x_in", 0);
  warehouse.add(decode("x_in", 0, 1).at(38).step(2).sampled({1, 2}));
  auto rows = [&](std::initializer_list<std::string> words) {
    std::string command = "$G trace --format json";
    for (const std::string& word : words) command += " " + quoted(word);
    return shell(command).json();
  };
  EXPECT_EQ(rows({}).size(), 3u);
  EXPECT_EQ(rows({"--phase", "decode0"}).size(), 2u);
  EXPECT_EQ(rows({"--pos", "38"}).size(), 1u);
  EXPECT_EQ(rows({"--step", "2"}).size(), 1u);
  EXPECT_EQ(rows({"--limit", "2"}).size(), 2u);
  EXPECT_EQ(rows({"--pos", "38", "--samples"})[0]["sample"], "0000803f00000040");
  EXPECT_FALSE(rows({"--pos", "38"})[0].contains("sample"));
}

TEST_F(Commands, HistoryIsInOrderOfDate) {
  Warehouse warehouse(database());
  warehouse.run({.name = "late", .date = "2026-03-01"});
  warehouse.run({.name = "early", .experiment = "f", .date = "2026-01-01"});
  nlohmann::json rows = run({"history", "--format", "json"}).json();
  EXPECT_EQ(rows[0]["run"], "early");
  EXPECT_EQ(run({"history", "--experiment", "f", "--format", "json"}).json().size(), 1u);
  EXPECT_EQ(run({"history", "--since", "2026-02-01", "--format", "json"}).json()[0]["run"], "late");
}

TEST_F(Commands, TablesOfRunsTellWhatLeadsAndKeepTheStrictVerdictBeside) {
  Warehouse warehouse(database());
  warehouse.run({.name = "healthy", .mode = "as_designed"});
  warehouse.rounding("attn_out", 0);
  warehouse.run({.name = "invariant", .mode = "batch_invariant"});
  warehouse.rounding("attn_out", 0);
  warehouse.run({.name = "buggy", .mode = "as_designed"});
  warehouse.rounding("x_in", 0);
  warehouse.divergent("mlp_out", 3);
  for (const char* command : {"runs", "history"}) {
    const Result table = run({command, "--format", "md"});
    EXPECT_TRUE(table.says("| PASS within rounding | FAIL | - | - | - | - | - |")) << table.out;
    EXPECT_TRUE(table.says("| FAIL though within rounding | FAIL | ATTN_OUT_DRIFT | 0 |"))
        << table.out;
    EXPECT_TRUE(
        table.says("| FAIL beyond rounding | FAIL | MLP_OUT_DRIFT | 3 | mlp_out | p0 | 37 |"))
        << table.out;
    EXPECT_EQ(run({command, "--format", "json"}).json()[0]["verdict"], "FAIL");
  }
}

TEST_F(Commands, RunsAreFilteredByTheVerdictOfTheGate) {
  Warehouse warehouse(database());
  warehouse.run({.name = "healthy"});
  warehouse.rounding("attn_out", 0);
  warehouse.run({.name = "buggy"});
  warehouse.divergent("attn_out", 0);
  const auto names = [](const Result& result) {
    std::string all;
    for (const auto& row : result.json()) all += row["run"].get<std::string>() + ";";
    return all;
  };
  const auto filtered = [&](const char* verdict, const char* gate) {
    return names(run({"runs", "--verdict", verdict, "--gate", gate, "--format", "json"}));
  };
  EXPECT_EQ(names(run({"runs", "--verdict", "FAIL", "--format", "json"})), "healthy;buggy;");
  EXPECT_EQ(filtered("FAIL", "strict"), "healthy;buggy;");
  EXPECT_EQ(filtered("FAIL", "numeric"), "buggy;");
  EXPECT_EQ(filtered("PASS", "numeric"), "healthy;");
  EXPECT_EQ(run({"runs", "--gate", "numeric"}).status, 2) << "nothing to filter by";
}

TEST_F(Commands, PairsShowWhereValuesPartAndWhatWouldTell) {
  Warehouse warehouse(database());
  warehouse.rounding("residual_pre_attn", 0);
  warehouse.divergent("attn_norm_out", 0);
  warehouse.divergent("x_in", 8);
  const Result table = run({"pairs", "--run", "r", "--layer", "0", "--class", "DIVERGENT"});
  EXPECT_TRUE(table.says("numeric_origin")) << table.out;
  EXPECT_TRUE(table.says("between residual_pre_attn and attn_norm_out of layer 0")) << table.out;
  const nlohmann::json pair =
      run({"pairs", "--run", "r", "--tensor", "attn_norm_out", "--format", "json"}).json()[0];
  EXPECT_EQ(pair["origin"], "PROPAGATED");
  EXPECT_EQ(pair["numeric_origin"], "ORIGIN");
  EXPECT_EQ(
      run({"query", "worst_pairs", "--param", "run=r", "--param", "limit=9", "--format", "json"})
          .json()
          .back()["numeric_origin"],
      "UNSAMPLED");
  warehouse.run({.name = "gap"});
  warehouse.match("x_out", 4);
  warehouse.divergent("x_in", 8);
  EXPECT_TRUE(run({"pairs", "--run", "gap"})
                  .says("UNSAMPLED: greta-infer probe … --layers 5,6,7 tells where"));
}

TEST_F(Commands, WhatKeepsNoRowsIsNoDatabase) {
  ASSERT_EQ(shell("mkfifo pipe && mkdir folder && $G ingest folder").status, 0);
  ASSERT_EQ(mknod(path("socket").c_str(), S_IFSOCK | 0600, 0), 0);
  for (const char* name : {"", ":memory:", "file:x?mode=memory", "file:greta.db",
                           "file::memory:", "pipe", "folder", "socket", "/dev/null"}) {
    for (const char* command : {"ingest folder", "runs", "check", "merge greta.db"}) {
      Result result = shell("timeout 20 $G --db '" + std::string(name) + "' " + command);
      EXPECT_EQ(result.status, 2) << name << ": " << command << result.err;
      EXPECT_EQ(result.out, "") << name;
      EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    }
    Result merged = shell("timeout 20 $G --db new.db merge '" + std::string(name) + "'");
    EXPECT_EQ(merged.status, 2) << name << merged.err;
    EXPECT_FALSE(std::filesystem::exists(path("new.db"))) << name;
  }
  EXPECT_EQ(shell("GRETA_DB=:memory: $G runs").status, 2);
}

TEST_F(Commands, SchemaNeedsNoDatabaseAndExplainsColumns) {
  Result list = run({"schema", "--format", "json"});
  EXPECT_EQ(list.status, 0) << list.err;
  std::set<std::string> names;
  for (const auto& row : list.json()) names.insert(row["name"].get<std::string>());
  for (const char* name : {"trace", "pair", "first_fail", "run_verdict", "run", "trace_row"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  EXPECT_FALSE(names.contains("tally"));
  EXPECT_TRUE(run({"schema", "trace"}).says("-1: after the stack"));
  nlohmann::json columns = run({"schema", "trace", "--format", "json"}).json();
  EXPECT_EQ(columns[0]["column"], "run");
  EXPECT_EQ(columns[0]["comment"], "run.name");
  nlohmann::json table = run({"schema", "run", "--format", "json"}).json();
  EXPECT_EQ(table[1]["column"], "name");
  EXPECT_EQ(table[1]["comment"], "2026-02-07/b3_66_v2/kv_aligned");
  EXPECT_TRUE(run({"schema", "pair"}).says("One row per comparison"));
  EXPECT_TRUE(run({"schema", "pair", "--sql"}).says("CREATE VIEW pair AS"));
  EXPECT_EQ(run({"schema", "nope"}).status, 2);
  EXPECT_FALSE(std::filesystem::exists(database()));
}

TEST_F(Commands, CompletionScriptsParseAndComplete) {
  for (const char* shell_name : {"bash", "zsh", "fish"}) {
    Result result = run({"completion", shell_name});
    EXPECT_EQ(result.status, 0);
    EXPECT_TRUE(result.says("firstfail"));
  }
  EXPECT_EQ(run({"completion", "tcsh"}).status, 2);
  Warehouse(database()).run({.name = "2026-02-07/b3_66"});
  Result words = shell(
      "$G completion bash >c.bash; PATH=$(dirname \"$G\"):$PATH bash -c 'source ./c.bash;"
      " complete_words() { COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _greta_db; echo "
      "\"${COMPREPLY[*]}\"; };"
      " complete_words greta-db first; complete_words greta-db --db greta.db firstfail --run 2026;"
      " complete_words greta-db firstfail --ga; complete_words greta-db query worst;"
      " complete_words greta-db --db none.db firstfail --run x'");
  EXPECT_EQ(words.err, "");
  EXPECT_EQ(words.out, "firstfail\n2026-02-07/b3_66\n--gate\nworst_pairs\n\n");
}

}  // namespace
}  // namespace greta
