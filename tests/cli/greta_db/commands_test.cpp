#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "tests/cli/program.h"
#include "tests/judged.h"

namespace greta {
namespace {

class Commands : public ProgramTest {
 protected:
  /// What a command lists with these words.
  nlohmann::json listed(const std::string& words) const {
    const Result result = shell("$G " + words + " --format json");
    EXPECT_EQ(result.status, 0) << result.err;
    return result.json();
  }
};

TEST_F(Commands, VersionNamesBothVersions) {
  Result result = run({"--version"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out.substr(0, 9), "greta-db ");
  EXPECT_TRUE(result.says("SQLite 3."));
}

TEST_F(Commands, LoadNoLibraryThatAQuestionToAFileDoesNotNeed) {
  Result libraries = shell("LD_TRACE_LOADED_OBJECTS=1 $G");
  EXPECT_TRUE(libraries.says("libsqlite3"));
  EXPECT_FALSE(libraries.says("libcurl"));     // db/clickhouse/libcurl.h
  EXPECT_FALSE(libraries.says("libarchive"));  // ingest/content/libarchive.h
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
    EXPECT_TRUE(run({command}).answers(2, {"greta.db", "ingest"})) << command;
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
  EXPECT_TRUE(run({"--db", "other.db", "runs"}).answers(2, {"not a greta database"}));
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

TEST_F(Commands, EveryReaderWorksWhereNothingMayBeWritten) {
  std::filesystem::create_directory(path("archive"));
  {
    Warehouse warehouse(path("archive/a b.db"));
    warehouse.drift("attn_out", 0);
    warehouse.run({.name = "s", .experiment = "f"});
    warehouse.match("attn_out", 0);
    judge_all(warehouse);
  }
  const std::string as_nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups ";
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::all);
  if (shell("chmod 755 . && chmod 444 archive/* && chmod 555 archive && " + as_nobody +
            "$G --version")
          .status != 0) {
    GTEST_SKIP() << "may not become another user, or that one not run the program";
  }
  for (const char* command :
       {"runs", "runs --attributes", "firstfail", "pairs", "trace", "history", "check",
        "check --deep", "report --run r", "compare r s", "query 'SELECT * FROM run_verdict'",
        "query ingest_errors", "forget --run r --dry-run", "prune --keep 1d --dry-run"}) {
    const Result result = shell(as_nobody + "$G --db 'archive/a b.db' " + command + " </dev/null");
    EXPECT_NE(result.status, 2) << command << result.err;
    EXPECT_NE(result.out, "") << command;
  }
  EXPECT_TRUE(shell(as_nobody + "$G --db 'archive/a b.db' firstfail --run nosuch")
                  .says("'nosuch' in " + path("archive/a b.db")));
  EXPECT_EQ(shell(as_nobody + "$G --db 'archive/a b.db' forget --run r --yes").status, 2);
  EXPECT_EQ(shell("chmod 755 archive; ls archive").out, "a b.db\n");
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
  for (const auto& [words, expected] :
       std::map<std::string, std::string>{{"", "1;2;"},
                                          {"--experiment f", "2;"},
                                          {"--mode kv_aligned", "1;"},
                                          {"--date 2026-02", "1;"},
                                          {"--commit abc", "1;"},
                                          {"--verdict NO_EVIDENCE", "2;"},
                                          {"--verdict PASS --gate strict", "1;"},
                                          {"--run f", "2;"}}) {
    std::string names;
    for (const auto& row : listed("runs " + words)) names += row["run"].get<std::string>() + ";";
    EXPECT_EQ(names, expected) << words;
  }
  const Result injected = run({"runs", "--experiment", "' OR 1=1 --"});
  EXPECT_EQ(injected.status, 2);
  EXPECT_EQ(injected.out, "");
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
  for (const auto& [words, n] : std::map<std::string, size_t>{{"", 4},
                                                              {"--status MISSING", 1},
                                                              {"--class DIVERGENT", 1},
                                                              {"--cause ATTN_OUT_DRIFT", 1},
                                                              {"--layer 0", 2},
                                                              {"--tensor x_in", 2},
                                                              {"--tensor residual_pre_attn", 2},
                                                              {"--prompt p0 --limit 3", 3},
                                                              {"--limit 0", 0}})
    EXPECT_EQ(listed("pairs " + words).size(), n) << words;
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
  for (const auto& [words, n] : std::map<std::string, size_t>{
           {"", 3}, {"--phase decode0", 2}, {"--pos 38", 1}, {"--step 2", 1}, {"--limit 2", 2}})
    EXPECT_EQ(listed("trace " + words).size(), n) << words;
  EXPECT_EQ(listed("trace --pos 38 --samples")[0]["sample"], "0000803f00000040");
  EXPECT_FALSE(listed("trace --pos 38")[0].contains("sample"));
}

TEST_F(Commands, BadValuesAreRefusedWithWhatIsAllowed) {
  Warehouse warehouse(database());
  warehouse.run({.name = "r", .experiment = "b3_66", .mode = "kv_aligned", .date = "2026-02-07"});
  warehouse.match("attn_out", 0);
  warehouse.match("attn_out", 7);
  const auto refused = [&](const std::string& words, const std::string& message) {
    const Result result = shell("$G " + words);
    EXPECT_EQ(result.status, 2) << words;
    EXPECT_EQ(result.out, "") << words;
    EXPECT_TRUE(result.says(message)) << words << "\n" << result.err;
  };
  refused("history --since foo", "'foo' is no date: give YYYY-MM-DD");
  refused("history --since 2026-02-30", "no date");
  refused("history --since 2026-2-3", "no date");
  refused("runs --date 07.02.2026", "no date");
  refused("history --experiment b3_67", "no experiment 'b3_67'; perhaps:\n  b3_66");
  refused("runs --experiment b3", "perhaps:\n  b3_66");
  refused("prune --keep 1d --dry-run --experiment nosuch", "no experiment 'nosuch'");
  refused("history --mode kv_alined", "no mode 'kv_alined'; perhaps:\n  kv_aligned");
  refused("runs --mode nosuch", "there are:\n  as_designed\n  batch_invariant\n  kv_aligned");
  for (const std::string command : {"pairs", "trace"}) {
    refused(command + " --tensor atn_out", "no tensor 'atn_out'; perhaps:\n  attn_out");
    refused(command + " --tensor nosuch", "no tensor 'nosuch'");
    refused(command + " --prompt p1", "no prompt 'p1'; perhaps:\n  p0");
    refused(command + " --layer 3000", "no row of layer 3000: the run has layers 0 to 7");
    refused(command + " --layer -2", "'-2' is no whole number from -1 to 8189");
    refused(command + " --layer x", "'x' is no whole number");
    refused(command + " --limit abc", "--limit: 'abc' is no whole number of 0 or more");
    refused(command + " --limit -1", "'-1' is no whole number of 0 or more");
    refused(command + " --limit 1.5", "'1.5' is no whole number");
    refused(command + " --limit 99999999999999999999", "no whole number");
  }
  refused("pairs --cause ATTN_DRIFT", "no cause 'ATTN_DRIFT'");
  refused("trace --phase decode1", "no phase 'decode1'");
  refused("trace --pos -1", "'-1' is no whole number from 0");
  refused("ingest --jobs 0 .", "'0' is no whole number from 1");
  refused("schema rum", "no view or table 'rum'; perhaps:\n  run");
  refused("query worst_pair", "perhaps:\n  worst_pairs");
  refused("query worst_pairs --param run=r --param limit=x", "whole number");
  EXPECT_EQ(shell("$G pairs --layer 7 --tensor mlp_out --format json").json().size(), 0u)
      << "each is there, though not together";
  EXPECT_EQ(shell("$G history --since 2026 --format json").json().size(), 1u);
  EXPECT_EQ(shell("$G history --since 2026-03 --format json").json().size(), 0u);
  EXPECT_EQ(shell("$G pairs --status PREFILL_ONLY --format json").json().size(), 0u);
}

TEST_F(Commands, AnUnknownCommandIsNamed) {
  const Result near = run({"firstfial"});
  EXPECT_EQ(near.status, 2);
  EXPECT_EQ(near.err, "greta-db: no command 'firstfial'; perhaps:\n  firstfail\n");
  EXPECT_TRUE(run({"--db", "x.db", "nonsense", "--run", "y"}).says("no command 'nonsense'"));
  EXPECT_TRUE(run({"--db", "x.db"}).says("subcommand is required"));
}

TEST_F(Commands, CompletionHasTheValuesOfEveryEnumeratedOption) {
  Warehouse(database()).run({.name = "2026/r#1", .experiment = "b3_66", .mode = "kv_aligned"});
  const std::pair<const char*, const char*> cases[] = {
      {"--format \"\"", "table json csv tsv md html"},
      {"first", "firstfail"},
      {"firstfail --gate = n", "numeric"},
      {"pairs --status DR", "DRIFT"},
      {"pairs --tensor attn_out", "attn_out"},
      {"runs --verdict P", "PASS"},
      {"runs --mode k", "kv_aligned"},
      {"history --experiment b", "b3_66"},
      {"--db greta.db firstfail --run 2026", "2026/r#1"},
      {"--db none.db firstfail --run 2026", ""},
      {"compare 2", "2026/r#1"},
      {"query worst", "worst_pairs worst_recent"},
      {"report --lang e", "en es"},
      {"schema run_v", "run_verdict"},
      {"completion z", "zsh"},
  };
  ASSERT_EQ(shell("$G completion bash >c").status, 0);
  for (const auto& [words, offered] : cases) {
    const Result result = shell(
        "PATH=$(dirname \"$G\"):$PATH bash -c '. ./c; COMP_WORDS=(greta-db " + std::string(words) +
        "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _greta_db; echo \"${COMPREPLY[*]}\"'");
    EXPECT_EQ(result.out, std::string(offered) + "\n") << words << result.err;
  }
  EXPECT_EQ(run({"completion", "tcsh"}).status, 2);
}

TEST_F(Commands, TheManualHasAnExampleOfEveryCommand) {
  const std::string page = run({"manual"}).out;
  EXPECT_TRUE(page.starts_with(".TH GRETA-DB 1\n")) << page.substr(0, 40);
  for (size_t at = 0; (at = page.find("\n.SS ", at)) != std::string::npos;) {
    const std::string name = page.substr(at + 5, page.find('\n', at + 1) - at - 5);
    at = page.find_first_of("\n", at + 1);
    const bool has_own_text =
        name.find(' ') == std::string::npos && name != "completion" && name != "manual";
    if (!has_own_text) continue;
    const std::string section = page.substr(at, page.find("\n.SS ", at) - at);
    EXPECT_NE(section.find("\n.EX\ngreta\\-db "), std::string::npos) << name;
  }
}

TEST_F(Commands, TablesOfRunsTellTheVerdict) {
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
    EXPECT_TRUE(
        table.says("| PASS (rounding only; bitwise equal: no, as expected in as_designed) |"
                   " - | - | - | - | - |"));
    EXPECT_TRUE(table.says("| FAIL though within rounding | ATTN_OUT_DRIFT | 0 |"));
    EXPECT_TRUE(table.says("| FAIL beyond rounding | MLP_OUT_DRIFT | 3 | mlp_out | p0 | 37 |"));
    EXPECT_TRUE(run({command, "--gate", "strict", "--format", "md"})
                    .says("| FAIL | X_IN_DRIFT | 0 | x_in | p0 | 37 |"));
    for (const nlohmann::json& row : run({command, "--format", "json"}).json()) {
      EXPECT_EQ(row["verdict"], row["run"] == "healthy" ? "PASS" : "FAIL") << command;
      EXPECT_EQ(row["strict_verdict"], "FAIL") << command;
      EXPECT_EQ(row["numeric_verdict"], row["run"] == "buggy" ? "FAIL" : "PASS") << command;
      if (row["run"] != "buggy") continue;
      EXPECT_EQ(row["tensor"], "mlp_out");
      EXPECT_EQ(row["strict_tensor"], "x_in");
    }
  }
}

TEST_F(Commands, PairsShowWhereValuesPartAndWhatWouldTell) {
  Warehouse warehouse(database());
  warehouse.rounding("residual_pre_attn", 0);
  warehouse.divergent("attn_norm_out", 0);
  warehouse.divergent("x_in", 8);
  const Result table = run({"pairs", "--run", "r", "--layer", "0", "--class", "DIVERGENT"});
  EXPECT_TRUE(table.says("numeric_origin"));
  EXPECT_TRUE(table.says("between residual_pre_attn and attn_norm_out of layer 0"));
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
    EXPECT_EQ(shell("timeout 20 $G --db new.db merge '" + std::string(name) + "'").status, 2)
        << name;
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
  EXPECT_FALSE(names.contains("verdict_count"));
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

}  // namespace
}  // namespace greta
