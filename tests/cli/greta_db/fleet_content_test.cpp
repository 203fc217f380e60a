// What is in a warehouse is what was sent, bit by bit, whatever runs hold and are called.
#include <algorithm>
#include <filesystem>
#include <set>

#include "tests/cli/greta_db/fleet_fixture.h"

namespace greta {
namespace {

class FleetContent : public FleetTest {
 protected:
  Result pull(const std::string& file, const std::string& from, const std::string& name) {
    return shell("$G --db " + quoted(file) + " pull --from " + quoted(from) + " --run " +
                 quoted(name));
  }

  /// A run with a difference, sketches and samples.
  static void tell_exact(Warehouse& w) {
    w.run({.name = "exact"});
    w.add(prefill("x_in", 0, 1).sketched({1, 2, 3, 4}), decode("x_in", 0, 2).sketched({1, 2, 3, 5}),
          prefill("attn_out", 0).sampled({1, 2, 3, 4}),
          decode("attn_out", 0).sampled({1, 2, 3, 4}));
    w.db.exec(
        "INSERT INTO difference(run_id, prompt_id, pos_id, layer, tensor_id, prefill_hash,"
        " decode_hash, n, differing, first_at, last_at, rel_l2, max_abs, max_abs_at, max_ulp,"
        " heads, segments) SELECT run_id, prompt_id, pos_id, layer, tensor_id, 1, 2, 4, 1, 3, 3,"
        " 0.1, 1.0, 3, 5, 0, 4 FROM trace_row WHERE hash = 1 AND run_id = " +
        std::to_string(w.current_run()) +
        "; INSERT INTO difference_part SELECT max(id), 0, 750000 FROM difference UNION ALL"
        " SELECT max(id), 2, 250000 FROM difference");
  }

  /// The same beside twelve of the oracle.
  void tell_runs() {
    tell_random_runs(database(), 1, 12);
    Warehouse w{std::filesystem::path(database())};
    for (const char* id :
         {"sketch SET id = id", "sample SET id = id", "trace_row SET sketch_id = sketch_id",
          "trace_row SET sample_id = sample_id"})  // its own begin at 1, too
      w.db.exec(std::string("UPDATE ") + id + " + 1000000");
    tell_exact(w);
  }

  /// Rows of a file, each value by its type and all of its bits.
  std::string dump(const std::string& file, const std::string& sql) {
    SQLite::Database db(path(file), SQLite::OPEN_READONLY);
    SQLite::Statement query(db, sql);
    std::string text;
    while (query.executeStep()) {
      for (int i = 0; i < query.getColumnCount(); ++i) {
        text += bits_of(query.getColumn(i));
        text += i + 1 < query.getColumnCount() ? "|" : "\n";
      }
    }
    return text;
  }

  inline static const std::string kTraceRows =
      "SELECT r.name, p.name, t.side, t.pos_id, t.layer, x.name, t.nth, t.stands,"
      " t.stands_in_phase, t.ambiguous, t.ambiguous_in_phase, f.name, t.step,"
      " m.name, t.token_id, t.logical_tok_idx, t.n, t.hash, t.min, t.max, t.mean, t.abs_sum, t.nan,"
      " t.inf, t.nz_count, t.flags, t.ptr, t.offset_bytes, t.line FROM run r JOIN trace_row t ON"
      " t.run_id = r.id JOIN prompt p ON p.id = t.prompt_id JOIN tensor x ON x.id = t.tensor_id"
      " JOIN phase f ON f.id = t.phase_id JOIN tensor_name m ON m.id = t.name_id";
  inline static const std::string kOfExact = " WHERE r.name = 'exact'";
};

TEST_F(FleetContent, AValueThatWasChangedThereIsNoticed) {
  tell_runs();
  const std::string at = servers().address("changed");
  expect_pushed(at, database());
  expect_clean(at);
  struct Change {
    const char* update;
    const char* what;
  };
  const Change changes[] = {
      {"trace_row UPDATE min = -7.5 WHERE side < 2", "trace rows"},
      {"trace_row UPDATE line = line + 1 WHERE side = 1", "trace rows"},
      {"trace_row UPDATE stands = NULL WHERE side = 0", "trace rows"},
      {"trace_row UPDATE token_id = ifNull(token_id, 0) WHERE side = 0", "trace rows"},
      {"sketch UPDATE b0 = b0 + 1 WHERE n > 0", "sketches"},
      {"sample UPDATE data = concat(data, '!') WHERE n > 0", "samples"},
      {"difference UPDATE rel_l2 = NULL WHERE differing > 0", "differences"},
      {"difference_part UPDATE share_ppm = 1 WHERE share_ppm > 1", "parts of differences"},
      {"verdict UPDATE verdict = 'PASS' WHERE verdict = 'FAIL'", "verdict rows"},
      {"record UPDATE cells = arrayMap(c -> if(c = 'p0', 'p9', c), cells) WHERE kind = 'prompt'",
       "records"}};
  for (const Change& change : changes) {
    SCOPED_TRACE(change.update);
    mutate(std::string("ALTER TABLE changed.") + change.update);
    const std::string words = std::string("has other ") + change.what + " of ";
    for (const Result& result : {run({"--db", at, "fleet", "check"}),
                                 run({"--db", at, "firstfail"}), pull("pulled.db", at, "exact")}) {
      EXPECT_EQ(result.status, 2) << result.out;
      EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
      EXPECT_TRUE(result.says(words));
      EXPECT_TRUE(result.says("than were sent: they sum to "));
    }
    EXPECT_FALSE(std::filesystem::exists(path("pulled.db")));
    EXPECT_TRUE(push(at, database(), "all --format csv").says("\n0,13,"));  // known, as it was
    expect_pushed(at, database(), "--replace all");
    expect_clean(at);
  }
}

TEST_F(FleetContent, ADictionaryThatWasChangedThereIsNoticed) {
  tell_random_runs(database(), 1, 3);
  const std::string at = servers().address("dictionary");
  expect_pushed(at, database(), "all --cluster pair");
  for (const int server : {0, 1}) {  // it lies on one of them
    servers().execute(
        "ALTER TABLE dictionary.record UPDATE cells = arrayMap(c -> if(c = 'x_in', 'x_out', c),"
        " cells) WHERE kind = 'tensor_name'",
        server);
    wait_until([&] {
      return servers().number("SELECT count() FROM system.mutations WHERE NOT is_done", server) ==
             0;
    });
  }
  for (const char* command : {"runs", "firstfail", "fleet check"}) {
    EXPECT_TRUE(shell("$G --db " + quoted(at) + " " + command)
                    .answers(2, {"has another dictionary of names"}))
        << command;
  }
}

TEST_F(FleetContent, TwoPushesOfARunAtOnceAreOneRun) {
  tell_runs();
  const std::string at = servers().address("atonce");
  const std::string push_all = "$G --db greta.db push --to " + quoted(at) + " --cluster pair all";
  const Result both =
      shell(push_all + " & a=$!; " + push_all + "; s=$?; wait $a && exit $s; exit 9");
  ASSERT_EQ(both.status, 0) << both.err;
  expect_clean(at);
  expect_same("greta.db", at, "runs --format csv");
  expect_same("greta.db", at, "firstfail --format json");
  ASSERT_EQ(pull("pulled.db", at, "exact").status, 0);
  EXPECT_TRUE(dump("pulled.db", kTraceRows) == dump("greta.db", kTraceRows + kOfExact));
  ASSERT_EQ(run({"--db", at, "fleet", "sweep", "--older-than", "0"}).status, 0);
  EXPECT_EQ(servers().sum("SELECT uniqExact(push) FROM atonce.trace_row"),
            servers().sum("SELECT uniqExact(identity) FROM atonce.published WHERE counts[1] > 0"));
  expect_clean(at);
}

TEST_F(FleetContent, RunsOfOneNameThatArePushedAtOnceStayTwo) {
  for (const char* file : {"one.db", "two.db"}) {
    Warehouse w{std::filesystem::path(path(file))};
    w.run({.name = "probe"});
    w.add_source(std::string(64, file[0]), "engine");
    w.add(prefill("x_in", 0, 1), decode("x_in", 0, file[0] == 'o' ? 1 : 2));
  }
  const std::string at = servers().address("namesakes");
  const auto push_of = [&](const char* file) {
    return std::string("$G --db ") + file + " push --to " + quoted(at) + " all";
  };
  const Result both = shell(push_of("one.db") + " & a=$!; " + push_of("two.db") +
                            "; s=$?; wait $a && exit $s; exit 9");
  ASSERT_EQ(both.status, 0) << both.err;
  std::multiset<std::string> verdicts;
  for (const nlohmann::json& one : run({"--db", at, "runs", "--format", "json"}).json())
    verdicts.insert(one["verdict"]);
  EXPECT_EQ(verdicts, (std::multiset<std::string>{"FAIL", "PASS"}));
  expect_clean(at);
}

TEST_F(FleetContent, ARunThatAFileHasIsPulledAsItIsMerged) {
  {
    Warehouse w{std::filesystem::path(database())};
    tell_exact(w);
  }
  const std::string at = servers().address("merged");
  expect_pushed(at, database());
  const std::string rows = dump("greta.db", kTraceRows);
  for (const char* file : {"greta.db", "copy.db", "copy.db"}) {  // its own, a new one, that again
    SCOPED_TRACE(file);
    const Result pulled = pull(file, at, "exact");
    ASSERT_EQ(pulled.status, 0) << pulled.err;
    EXPECT_TRUE(dump(file, kTraceRows) == rows);
    EXPECT_EQ(dump(file, "SELECT count(*) FROM difference"), "1\n");
    expect_same("greta.db", path(file), "runs --format csv");
  }
  // files that have another content under that name, by which a merge says what it finds
  struct Other {
    const char* change;
    int status;
    const char* said;
  };
  for (const Other& other :
       {Other{"UPDATE trace_row SET hash = 77 WHERE side = 1 AND hash = 2;"
              "UPDATE source SET sha256 = 'another'",
              0, "1,0,1,3,1"},  // four rows, of which three are there and one contradicts
        Other{"UPDATE source SET rows = rows + 1", 2, "exact"},
        Other{"UPDATE run SET hash_algo = 'fnv-256'", 2, "never compare"}}) {
    SCOPED_TRACE(other.change);
    ASSERT_EQ(shell("cp copy.db pulled.db; cp copy.db merged.db").status, 0);
    for (const char* file : {"pulled.db", "merged.db"})
      SQLite::Database(path(file), SQLite::OPEN_READWRITE).exec(other.change);
    const std::string before = dump("pulled.db", kTraceRows);
    const Result pulled =
        shell("$G --db pulled.db --format csv pull --from " + quoted(at) + " --run exact");
    const Result merged = run({"--db", "merged.db", "merge", "copy.db", "--format", "csv"});
    EXPECT_EQ(pulled.status, other.status) << pulled.err;
    EXPECT_EQ(merged.status, other.status) << merged.err;
    EXPECT_TRUE(pulled.says(other.said)) << pulled.out << pulled.err << merged.out << merged.err;
    EXPECT_EQ(std::count(pulled.err.begin(), pulled.err.end(), '\n'), other.status / 2);
    EXPECT_EQ(pulled.says(servers().address("merged")), other.status == 2) << pulled.err;
    EXPECT_TRUE(dump("pulled.db", kTraceRows) == dump("merged.db", kTraceRows));
    EXPECT_EQ(dump("pulled.db", kTraceRows) == before, other.status == 2);
  }
}

TEST_F(FleetContent, ValuesAreTheSameToTheLastBit) {
  {
    Warehouse w{std::filesystem::path(database())};
    w.run({.name = "values"});
    w.add(prefill("x_in", 0, ~uint64_t{0}).sketched({1, 2, 3, 4}).token(7),
          decode("x_in", 0, uint64_t{1} << 63).sketched({1, 2, 3, 5}).token(7),
          prefill("attn_out", 1).sampled({1, 2, 3, 4}), decode("attn_out", 1).sampled({1, 2, 3, 4}),
          prefill("ffn_out", 2, 0));
    w.db.exec(
        "UPDATE trace_row SET token_id = 9223372036854775807, logical_tok_idx ="
        " -9223372036854775807 - 1, n = 9223372036854775807, min = -9e999, max = 9e999,"
        " mean = -0.0, abs_sum = 4.9406564584124654e-324, line = 9223372036854775807,"
        " ptr = -1, offset_bytes = -9223372036854775807 - 1 WHERE layer = 0 AND side = 0;"
        "UPDATE trace_row SET min = 1.7976931348623157e308, max = 0.1, mean = NULL, nan = 1,"
        " inf = 9223372036854775807, flags = 31, nz_count = 0 WHERE layer = 0 AND side = 1;"
        "UPDATE sketch SET b0 = 268435455, b1 = -268435455, b31 = -1, scale = 5e-324,"
        " sum_sq = 9e999;"
        // NaNs of three payloads, -0, inf and the least number
        "UPDATE sample SET data = x'0000c07f0100a0ffffffffff000000800000807f01000000', n = 6;"
        "INSERT INTO run_metric(run_id, source_id, name, text, value) SELECT 1, id, 'm1', '', 9e999"
        " FROM source UNION ALL SELECT 1, id, 'm2', '', -0.0 FROM source UNION ALL SELECT 1, id,"
        " 'm3', '', 4.9406564584124654e-324 FROM source UNION ALL SELECT 1, id, 'm4', '', 0.1 FROM"
        " source;"
        "INSERT INTO attribute(run_id, dim, value, rank) VALUES (1, 'odd', '', 0)");
  }
  const Result checked = run({"check"});
  ASSERT_EQ(checked.status, 0) << checked.out;
  const std::string at = servers().address("bits");
  expect_pushed(at, database(), "all --cluster pair");
  expect_clean(at);
  expect_same("greta.db", at, "runs --format csv");
  const Result pulled = pull("pulled.db", at, "values");
  ASSERT_EQ(pulled.status, 0) << pulled.err;
  for (const std::string& sql :
       {kTraceRows,
        std::string("SELECT k.n, k.sum_sq, k.scale, k.b0, k.b1, k.b2, k.b3, k.b31 FROM trace_row t"
                    " JOIN sketch k ON k.id = t.sketch_id ORDER BY t.side, t.layer"),
        std::string("SELECT k.n, k.data FROM trace_row t JOIN sample k ON k.id = t.sample_id"
                    " ORDER BY t.side, t.layer"),
        std::string("SELECT name, value FROM run_metric ORDER BY name"),
        std::string("SELECT dim, value FROM attribute ORDER BY dim")}) {
    EXPECT_EQ(dump("pulled.db", sql), dump("greta.db", sql));
  }
}

TEST_F(FleetContent, RunsThatHoldNothingAreThere) {
  {
    Warehouse w{std::filesystem::path(database())};
    w.run({.name = "nothing"});
    w.run({.name = "ended", .status = "complete"});
    w.run({.name = "prompts"});
    w.prompt_id("asked");
    w.run({.name = "planned", .status = "running"});
    w.plan("asked", 0, 0, "x_in");
    w.run({.name = "document"});
    w.report("r.md", 1, {{.prompt = "p", .layer = 0, .tensor = "x_in", .status = "MATCH"}});
  }
  const std::string at = servers().address("hollow");
  expect_pushed(at, database(), "all --cluster pair");
  expect_clean(at);
  for (const char* command :
       {"runs --format csv", "firstfail --format json", "history", "regressions",
        "query 'SELECT p.name, r.name FROM prompt p, run r'"}) {
    expect_same("greta.db", at, command);
  }
  ASSERT_EQ(pull("pulled.db", at, "e").status, 0);
  expect_same("greta.db", path("pulled.db"), "runs --format csv");
  expect_same("greta.db", path("pulled.db"), "firstfail --format json");
}

TEST_F(FleetContent, NamesMayHoldAnyByte) {
  const std::string nul("nul\0l", 5);
  const std::vector<std::string> names{nul,         "new\nline", "tab\tand\rreturn",    "'\"`",
                                       "back\\n\\", "\\N",       "\xc3\xbc %s {db} --", "a/b/c#2",
                                       " blank "};
  {
    Warehouse w{std::filesystem::path(database())};
    for (const std::string& name : names) {
      w.run({.name = name, .experiment = "e"});
      w.use_prompt(name);
      w.add(prefill("x_in", 0, 1), decode("x_in", 0, 2));
    }
    w.db.exec(
        "UPDATE run SET name = 'nul' || char(0) || 'l' WHERE id = 1;"
        "UPDATE prompt SET name = 'nul' || char(0) || 'l' WHERE run_id = 1");
  }
  const std::string at = servers().address("names");
  expect_pushed(at, database(), "all --cluster pair");
  expect_clean(at);
  expect_same("greta.db", at, "runs --format json");
  expect_same("greta.db", at, "firstfail --format json");
  ASSERT_EQ(pull("pulled.db", at, "e").status, 0);
  for (const char* sql : {"SELECT name, experiment FROM run ORDER BY name",
                          "SELECT r.name, p.name FROM run r JOIN prompt p ON p.run_id = r.id"
                          " ORDER BY 1"}) {
    EXPECT_EQ(dump("pulled.db", sql), dump("greta.db", sql));
  }
  for (const std::string& name : names) {
    if (name != nul) expect_same("greta.db", at, "firstfail --format json --run " + quoted(name));
  }
  expect_same("greta.db", at, "query 'SELECT hex(name) FROM run ORDER BY 1'");
}

}  // namespace
}  // namespace greta
