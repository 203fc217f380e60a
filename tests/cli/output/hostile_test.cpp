// No text of a database, a file name or a command line reaches a terminal as it is.

#include "cli/greta_db/canned.h"
#include "common/utf8.h"
#include "db/schema.h"
#include "tests/cli/program.h"
#include "tests/judged.h"

namespace greta {
namespace {

/// Ends a line, colours, sets a title, turns text around, hides; and is quoted in no format.
const std::string kHostile =
    "\nFORGED\r\x1b[31m\x1b]0;x\x07\b\x7f\xc2\x9b\xc2\x85\u200b\u200e\u200f\u061c\u202a\u202b\u202c"
    "\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029\u2060\ufeff\u00ad\U000e0041\xff\t'\"|`,;";

/// What is in `text` that must not be, as bytes; "" when nothing is.
std::string forbidden(std::string_view text, std::string_view allowed) {
  const std::string_view whole = text;
  while (!text.empty()) {
    const utf8::Head next = utf8::head(text);
    if (!next.is_character()) return "invalid UTF-8 in " + std::string(whole);
    const char32_t c = next.code;
    const bool bad = c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c ||
                     (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
                     (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || c >= 0xe0000;
    if (bad && (c >= 0x80 || allowed.find(static_cast<char>(c)) == allowed.npos)) {
      return utf8::printable(text.substr(0, next.bytes)) + " in " + std::string(whole);
    }
    text.remove_prefix(next.bytes);
  }
  return whole.find("\nFORGED") == whole.npos ? "" : "a forged line in " + std::string(whole);
}

void expect_harmless(const Result& result, const std::string& format, const std::string& command) {
  const std::string allowed = format == "tsv" ? "\n\t" : format == "csv" ? "\n\r" : "\n";
  EXPECT_EQ(forbidden(result.out, allowed), "") << command;
  EXPECT_EQ(forbidden(result.err, "\n"), "") << command;
  EXPECT_LE(result.status, 3) << command << result.err;
}

class Hostile : public ProgramTest {
 protected:
  Hostile() {
    Warehouse warehouse(database());
    for (const char* name : {"a", "b"}) {
      warehouse.run({.name = name,
                     .experiment = "e",
                     .mode = "m",
                     .dtype = "f32",
                     .date = "2026-02-07",
                     .commit = "abc"});
      warehouse.match("x_in", 0);
      warehouse.rounding("attn_out", 0);
      warehouse.divergent("some_tensor", 1);
      warehouse.add(prefill("mlp_out", 1, 5), decode("x_in", 2, 3));
      const int64_t source = warehouse.report("report.md", 1,
                                              {{.prompt = "p1",
                                                .layer = 0,
                                                .tensor = "attn_out",
                                                .status = "DRIFT",
                                                .cause = "ATTN_OUT_DRIFT",
                                                .details = "d"}});
      warehouse.claim(source, 3, "PASS");
      const std::string run = std::to_string(warehouse.current_run());
      const std::string id = std::to_string(source);
      warehouse.db.exec(
          "INSERT INTO ingest_error(source_id, file, line, severity, reason, raw)"
          " VALUES (" +
          id + ", 'f', 1, 'error', 'why', x'1b5b')");
    }
    warehouse.db.exec(
        "INSERT INTO waiver(tensor, run, until, reason, created_at, created_by)"
        " VALUES ('attn_out', 'a', '2999-12-31', 'why', 'then', 'somebody')");
    spoil(warehouse.db);
    bring_to_this_build(warehouse.db);  // some of these texts are the program's own
    judge_all(warehouse);
  }

  /// Puts kHostile behind every text but those that views compare with.
  static void spoil(SQLite::Database& db) {
    std::vector<std::pair<std::string, std::string>> columns;
    SQLite::Statement query(db,
                            "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info("
                            "t.name) c WHERE t.type = 'table' AND c.type = 'TEXT' AND t.name NOT IN"
                            " ('status', 'class', 'tolerance', 'lineage_member', "
                            "'sqlite_schema')");  // lineage_member follows run
    while (query.executeStep()) {
      columns.emplace_back(query.getColumn(0).getString(), query.getColumn(1).getString());
    }
    int spoiled = 0;
    for (const auto& [table, column] : columns) {
      try {
        SQLite::Statement update(
            db, "UPDATE " + table + " SET " + column + " = " + column + " || CAST(? AS TEXT)");
        update.bind(1, kHostile);
        spoiled += update.exec() > 0;
      } catch (const SQLite::Exception&) {  // a CHECK keeps it clean, or a key
      }
    }
    EXPECT_GT(spoiled, 15);
    db.exec("UPDATE waiver SET until = substr(until, 1, 10)");
  }

  /// Every command that shows something of the database. Queries are all printed alike: without
  /// `every_query` there is one of each kind.
  std::vector<std::vector<std::string>> commands(bool every_query) const {
    std::vector<std::vector<std::string>> all = {
        {"runs"},
        {"runs", "--attributes"},
        {"firstfail"},
        {"firstfail", "--run", "a" + kHostile},
        {"firstfail", "--latest"},
        {"pairs"},
        {"trace", "--samples"},
        {"history"},
        {"check"},
        {"compare", "a" + kHostile, "b" + kHostile},
        {"compare", "a" + kHostile, "b" + kHostile, "--rows"},
        {"query", "SELECT name AS \"" + sql_name() + "\" FROM run"},
        {"history", "--matrix"},
        {"regressions"},
        {"baseline", "list"},
        {"gate", "--run", "a" + kHostile},
        {"gate", "--run", "a" + kHostile, "--baseline", "b" + kHostile},
        {"gate", "--run", "a" + kHostile, "--markdown", "-"},
        {"gate", "--run", "a" + kHostile, "--junit", "-"},
        {"waive", "--list"},
        {"tolerance", "list"},
        {"forget", "--run", "a" + kHostile, "--dry-run"},
        {"prune", "--keep", "0d", "--dry-run"},
        {"ingest", path("in")},
        {"merge", path("other" + kHostile + ".db")}};
    for (const CannedQuery& canned : canned_queries()) {
      std::vector<std::string> words = {"query", canned.name};
      for (const CannedParameter& parameter : canned.parameters) {
        if (parameter.name == "limit") continue;
        words.insert(
            words.end(),
            {"--param", parameter.name + "=" + (parameter.name == "run_b" ? "b" : "a") + kHostile});
      }
      all.push_back(words);
      if (!every_query) break;
    }
    for (const char* table : {"run", "prompt", "tensor_name", "ingest_error", "source_location",
                              "first_fail", "run_verdict", "pair", "report_conflict", "cause"}) {
      all.push_back({"query", std::string("SELECT * FROM ") + table});
      if (!every_query) break;
    }
    return all;
  }

  static std::string sql_name() {
    std::string name;
    for (char c : kHostile) name.append(c == '"' ? 2 : 1, c);
    return name;
  }

  void make_inputs() const {
    const std::filesystem::path folder = path("in/2026-02-07/e" + kHostile);
    std::filesystem::create_directories(folder);
    std::ofstream(folder / ("bad" + kHostile + ".jsonl")) << "{\"a\": \"\x1b[31m\x07\"\nnonsense\n";
    std::ofstream(folder / "metadata.json") << "{\"a\": \x1b]0;\u202e}";
    std::filesystem::create_symlink("nowhere" + kHostile, folder / ("link" + kHostile));
    Warehouse other{path("other" + kHostile + ".db")};
    other.run({.name = "a", .experiment = "e"});
    other.match("x_in", 0);
    spoil(other.db);
  }

  Result run_words(const std::vector<std::string>& words) const {
    std::string command = "$G";
    for (const std::string& word : words) command += " " + quoted(word);
    return shell(command);
  }
};

class HostileFormat : public Hostile, public testing::WithParamInterface<const char*> {};

TEST_P(HostileFormat, NoTextReachesTheOutputOfAnyCommandAsItIs) {
  make_inputs();
  for (std::vector<std::string> words : commands(GetParam() == std::string("table"))) {
    const std::string name = words[0] + " " + (words.size() > 1 ? words[1] : "");
    words.insert(words.end(), {"--format", GetParam()});
    Result result = run_words(words);
    EXPECT_NE(result.status, 2) << name << result.err;
    EXPECT_NE(result.out, "") << name;
    if (std::string(GetParam()) == "csv") result.out.clear();  // it is for machines
    expect_harmless(result, GetParam(), name);
  }
}

INSTANTIATE_TEST_SUITE_P(Format, HostileFormat, testing::Values("json"));
INSTANTIATE_TEST_SUITE_P(OtherFormats, HostileFormat, testing::Values("table", "md", "tsv", "csv"));

// The formats that are not the same there.
TEST_F(Hostile, NoTextReachesATerminalAsItIs) {
  make_inputs();
  for (const char* format : {"table", "csv"}) {
    for (std::vector<std::string> words : commands(false)) {
      const std::string name = words[0] + " " + (words.size() > 1 ? words[1] : "");
      words.insert(words.end(), {"--format", format});
      if (words[0] == "ingest") words.push_back("--quiet");  // a progress bar moves the cursor
      const Result result = on_terminal(GRETA_DB_PROGRAM, words);
      EXPECT_NE(result.status, 2) << name << result.out;
      EXPECT_EQ(forbidden(result.out, "\n\r"), "") << name;
    }
  }
}

TEST_F(Hostile, ARunThatIsWatchedIsHarmless) {
  for (const char* format : {"table", "json"}) {
    const Result result = run({"watch", "--once", "--run", "a" + kHostile, "--format", format});
    EXPECT_NE(result.status, 2) << result.err;
    expect_harmless(result, format, "watch");
  }
  const Result drawn = on_terminal(GRETA_DB_PROGRAM, {"watch", "--once", "--run", "a" + kHostile});
  EXPECT_EQ(forbidden(drawn.out, "\n\r"), "");
}

TEST_F(Hostile, ReportsAreHarmless) {
  for (const char* language : {"en", "es", "both"}) {
    expect_harmless(run({"report", "--run", "a" + kHostile, "--lang", language}), "md", "report");
  }
  expect_harmless(run({"report", "--run", "a" + kHostile, "--format", "tsv"}), "tsv", "report");
  expect_harmless(run({"report", "--run", "e" + kHostile, "--out", path("out" + kHostile) + "/"}),
                  "table", "report --out");
}

TEST_F(Hostile, ErrorsAreHarmless) {
  write("there" + kHostile, "x");
  write("sql" + kHostile, "SELECT \x1b[31m\u202e");
  const std::string file = path("there" + kHostile);
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {kHostile},
           {"runs", "--" + kHostile},
           {"runs", "--format", kHostile},
           {"runs", "--verdict", kHostile},
           {"runs", "--db", path("none" + kHostile)},
           {"runs", "--db", file},
           {"firstfail", "--run", "none of these" + kHostile},
           {"firstfail", "--run", kHostile},  // part of both names
           {"compare", "e" + kHostile, "a" + kHostile},
           {"query", "SELECT '" + kHostile},
           {"query", "SELECT x FROM \"" + sql_name() + "\""},
           {"query", "-f", path("sql" + kHostile)},
           {"query", "-f", path("none" + kHostile)},
           {"query", "SELECT :a", "--param", kHostile},
           {"query", "drift_by_layer", "--param", "none" + kHostile + "=1"},
           {"query", "worst_pairs", "--param", "run=" + kHostile},
           {"schema", kHostile},
           {"merge", file},
           {"merge", path("none" + kHostile)},
           {"ingest", path("none" + kHostile)},
           {"report", "--run", "a" + kHostile, "--out", file},
           {"report", "--run", "a" + kHostile, "--out", path("none" + kHostile + "/x.md")},
           {"trace", "--limit", kHostile},
           {"pairs", "--tensor", "nosuch" + kHostile},
           {"history", "--experiment", "nosuch" + kHostile},
           {"baseline", "set", "nosuch" + kHostile},
           {"commits", path("nosuch" + kHostile)},
           {"bisect", "--repo", path("nosuch" + kHostile), "--good", "a", "--bad", "b"},
           {"watch", "--run", "nosuch" + kHostile},
           {"forget", "--run", "a" + kHostile},  // nobody is there to be asked
           {"prune", "--keep", "1d" + kHostile}}) {
    const Result result = run_words(words);
    EXPECT_EQ(result.status, 2) << words[0] << result.out;
    EXPECT_NE(result.err, "") << words[0];
    expect_harmless(result, "table", words[0]);
  }
}

TEST_F(Hostile, JsonGivesTheTextsBack) {
  const nlohmann::json runs = run({"runs", "--format", "json"}).json();
  std::string name = "a" + kHostile;
  name = utf8::replace_invalid(name);
  EXPECT_EQ(runs[0]["run"], name);
}

TEST_F(Hostile, CsvGivesTheTextsBackButOnATerminal) {
  const Result piped = run({"query", "SELECT char(27) || 'x' AS t", "--format", "csv"});
  EXPECT_EQ(piped.out, "t\r\n\x1bx\r\n");
  const Result shown =
      on_terminal(GRETA_DB_PROGRAM, {"query", "SELECT char(27) || 'x' AS t", "--format", "csv"});
  EXPECT_NE(shown.out.find("\\x1bx"), std::string::npos) << shown.out;
}

}  // namespace
}  // namespace greta
