// A kept tally changes no answer, and goes when anything under it changes. And what the views say
// of random rows is what docs/design.md says of a verdict, worked out here a second time.
#include <sqlite3.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "db/kept_tally.h"
#include "db/with_views.h"
#include "tests/queries/warehouse.h"

namespace greta {
namespace {

/// Everything every public view says.
std::string everything(Warehouse& w) {
  std::string all;
  for (const char* view :
       {"trace", "pair", "first_fail", "run_verdict", "failure_breakdown", "propagation",
        "kv_alignment", "lm_head_delta", "run_diff", "history", "report_conflict"}) {
    all += std::string("== ") + view + "\n" + w.rows(std::string("SELECT * FROM ") + view) + "\n";
  }
  return all;
}

void keep_all(Warehouse& w) {
  SQLite::Statement query(w.db, "SELECT id FROM run");
  std::vector<int64_t> ids;
  while (query.executeStep()) ids.push_back(query.getColumn(0).getInt64());
  for (int64_t id : ids) keep_tally(w.db, id);
}

std::string kept(Warehouse& w) { return w.rows("SELECT count(DISTINCT run_id) FROM kept_tally"); }

struct Scenario {
  const char* name;
  std::function<void(Warehouse&)> fill;
};

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> all = {
      {"no rows", [](Warehouse& w) { w.run(); }},
      {"match", [](Warehouse& w) { w.match("attn_out", 0); }},
      {"every status",
       [](Warehouse& w) {
         w.match("embed_out", 0);
         w.drift("x_in", 0);
         w.rounding("norm_out", 0);
         w.divergent("q_proj", 0);
         w.incomparable("k_proj", 0);
         w.add(prefill("v_proj", 0, 1).nans(1), decode("v_proj", 0, 1));
         w.add(prefill("k_cache", 0, 1), prefill("k_cache", 0, 2), decode("k_cache", 0, 1));
         w.add(prefill("attn_out", 0, 1), decode("mlp_out", 0, 1), decode("mlp_out", 0, 1).at(38));
         w.use_prompt("p1");
         w.match("q_pre_rope", 3);
         w.divergent("q_post_rope", 3);
         w.drift("logits", -1);
         w.divergent("gate_proj", 3);
       }},
      {"plan",
       [](Warehouse& w) {
         w.run({.status = "complete"});
         w.match("attn_out", 0);
         w.plan_what_is_there();
         w.plan("p0", 1, 2, "attn_out");
         w.plan("p9", 1, 2, "attn_out");
       }},
      {"report",
       [](Warehouse& w) {
         w.claim(w.report("final.tsv", 9,
                          {{.prompt = "p0", .layer = 1, .tensor = "x_in", .status = "DRIFT"},
                           {.prompt = "p0", .status = "MISSING"},
                           {.prompt = "p1", .status = "DRIFT", .cause = "Why \"\\\" not é"}}),
                 1, "PASS");
         w.report("v1.tsv", 1, {{.prompt = "p1", .layer = 1, .tensor = "x_in", .status = "MATCH"}});
       }},
      {"names that need escaping",
       [](Warehouse& w) {
         w.drift("a\"b\\c,\",\"d'é%s", 0);
         w.drift("tab\there", 0);
       }},
      {"several runs", [](Warehouse& w) {
         w.run({.name = "e", .hash_algo = "fnv-256"});
         w.run({.name = "e/a", .mode = "kv_aligned", .date = "2026-02-07"});
         w.drift("k_cache", 0);
         w.run({.name = "e/b", .status = "running"});
         w.match("k_post_rope", 0);
       }}};
  return all;
}

TEST(Tally, KeptOrNotTheViewsSayTheSame) {
  for (const Scenario& scenario : scenarios()) {
    SCOPED_TRACE(scenario.name);
    Warehouse w;
    scenario.fill(w);
    const std::string computed = everything(w);
    EXPECT_EQ(kept(w), "0");
    keep_all(w);
    EXPECT_EQ(w.rows("SELECT count(*) FROM unjudged_run"), "0");
    EXPECT_EQ(everything(w), computed);
    const std::string all_kept = w.rows("SELECT * FROM kept_tally");
    w.db.exec("DELETE FROM kept_tally");
    keep_all(w);
    EXPECT_EQ(w.rows("SELECT * FROM kept_tally"), all_kept);
  }
}

TEST(Tally, TheTwinsOfViewsSayWhatTheViewsSay) {
  for (const Scenario& scenario : scenarios()) {
    SCOPED_TRACE(scenario.name);
    Warehouse w;
    scenario.fill(w);
    for (const std::string view : {"run_verdict", "first_fail", "failure_breakdown", "history"}) {
      std::string of_twin;
      {
        const SQLite::Statement twin(w.db, with_views("SELECT * FROM kept_" + view));
        for (int i = 0; i < twin.getColumnCount(); ++i)
          of_twin += (i == 0 ? "" : ", ") + std::string(twin.getColumnName(i));
      }
      EXPECT_EQ(w.rows("SELECT group_concat(name, ', ') FROM pragma_table_info('" + view +
                       "') WHERE name <> 'numeric_origin'"),
                of_twin);
      const std::string select = "SELECT " + of_twin + " FROM ";
      const std::string of_kept = with_views(select + "kept_" + view);
      EXPECT_EQ(w.rows(of_kept), "") << view;
      const std::string said = w.rows(select + view);
      keep_all(w);
      EXPECT_EQ(w.rows(of_kept), said) << view;
      w.db.exec("DELETE FROM kept_tally");
    }
  }
}

TEST(Tally, ANameOfAnyCharactersFailsNoQuery) {
  for (const char* name : {"a\"b", "a\\b", "a\nb",
                           "a\x01"
                           "b",
                           "", " ", "a','b", "%n", "é\x7f"}) {
    Warehouse w;
    w.drift(name, 0);
    EXPECT_EQ(w.rows("SELECT verdict, fail FROM run_verdict"), "FAIL|1") << name;
    keep_all(w);
    EXPECT_EQ(w.rows("SELECT verdict, fail FROM run_verdict"), "FAIL|1") << name;
  }
}

TEST(Tally, KeepsACauseAsItIsWritten) {
  Warehouse w;
  w.drift("a\"b\\c,\",\"d'é%s", 0);
  const std::string cause = w.rows("SELECT cause FROM pair");
  EXPECT_EQ(w.rows("SELECT first_fail FROM run_verdict"), cause);
  keep_all(w);
  EXPECT_EQ(w.rows("SELECT first_fail FROM run_verdict"), cause);
  EXPECT_EQ(w.rows("SELECT cause FROM failure_breakdown"), cause);
}

TEST(Tally, WhateverChangesUnderItClearsIt) {
  const char* changes[] = {
      "DELETE FROM trace_row WHERE side = 1",
      "UPDATE trace_row SET hash = 5 WHERE side = 1",
      "DELETE FROM plan",
      "UPDATE plan SET layer = 7 WHERE side = 1",
      "INSERT INTO plan SELECT run_id, prompt_id, 1, 9, 70 FROM plan LIMIT 1",
      "UPDATE run SET status = 'failed'",
      "UPDATE run SET dtype = 'bf16'",
      "UPDATE run SET hash_algo = 'fnv-256'",
      "INSERT INTO trace_repeat SELECT run_id, prompt_id, side, pos_id, layer, tensor_id, nth, 1"
      " FROM trace_row LIMIT 1",
      "INSERT INTO attribute(run_id, dim, value, rank) VALUES (1, 'trace_rows', '9', 0)",
      "UPDATE traced_position SET demands = 0",
      "UPDATE status SET fails = 0",
      "DELETE FROM tolerance",
      "UPDATE tolerance SET rel_l2 = 0.9",
      "INSERT INTO tolerance VALUES (70, NULL, 0.9)",
      "UPDATE sketch SET sum_sq = 3",
      "DELETE FROM sketch",
      "UPDATE sample SET n = 3",
      "INSERT INTO readout(run_id, prompt_id, side, step, pos_id, name_id, norm_error, source_id,"
      " line) SELECT run_id, prompt_id, 0, 0, 0, 1, 0.5, source_id, 1 FROM trace_row LIMIT 1",
      "DELETE FROM sample",
      "UPDATE tensor_name SET cause = 'OTHER'",
      "UPDATE tensor SET stage = 'head' WHERE id = 70",
      "INSERT INTO prompt(run_id, name, token_ids) VALUES (1, 'announced', '[7]')",
      "UPDATE prompt SET token_ids = '[7]'",
  };
  for (const char* change : changes) {
    Warehouse w;
    w.divergent("attn_out", 0);
    w.add(prefill("mlp_out", 0, 1).sampled({1}), decode("mlp_out", 0, 2).sampled({2}));
    w.plan_what_is_there();
    keep_all(w);
    ASSERT_EQ(kept(w), "1");
    ASSERT_GT(w.db.exec(change), 0) << change;
    EXPECT_EQ(kept(w), "0") << change;
  }
}

TEST(Tally, ReportRowsClearIt) {
  const char* changes[] = {
      "DELETE FROM report_pair WHERE line = 1",
      "UPDATE report_pair SET status = 'MATCH' WHERE line = 1",
      ("INSERT INTO report_pair(source_id, line, run_id, prompt_id, status)"
       " SELECT source_id, 99, run_id, prompt_id, 'DRIFT' FROM report_pair LIMIT 1")};
  for (const char* change : changes) {
    Warehouse w;
    w.report("final.tsv", 1,
             {{.prompt = "p0", .layer = 1, .tensor = "x_in", .status = "DRIFT"},
              {.prompt = "p0", .layer = 2, .tensor = "x_in", .status = "DRIFT"}});
    keep_all(w);
    ASSERT_EQ(kept(w), "1");
    w.db.exec(change);
    EXPECT_EQ(kept(w), "0") << change;
  }
}

TEST(Tally, AChangeOfOneRunKeepsTheOthers) {
  Warehouse w;
  w.run({.name = "a"});
  w.match("attn_out", 0);
  const int64_t b = w.run({.name = "b"});
  w.match("attn_out", 0);
  keep_all(w);
  w.db.exec("DELETE FROM trace_row WHERE run_id = " + std::to_string(b));
  EXPECT_EQ(w.rows("SELECT name FROM run WHERE id NOT IN (SELECT run_id FROM unjudged_run)"), "a");
}

// A second opinion on random rows.

struct Key {
  int64_t prompt, pos, layer, tensor;
  std::optional<int64_t> token;
  auto operator<=>(const Key&) const = default;
};

struct Fact {
  int side;
  bool is_prefill_last;
  std::optional<uint64_t> hash;
  int64_t n, nan;
  bool operator==(const Fact& other) const {
    return std::tie(hash, n, nan) == std::tie(other.hash, other.n, other.nan);
  }
};

struct Opinion {
  std::map<std::string, int> count;  // status -> pairs
  bool elsewhere = false;
  std::string lines;  // "prompt pos layer tensor token status", sorted

  std::string verdict(bool finished, bool plan_met) {
    if (count["DRIFT"] + count["NONFINITE"] + count["AMBIGUOUS"] + count["CONFLICT"] > 0 ||
        elsewhere)
      return "FAIL";
    if (!finished || !plan_met) return "INCOMPLETE";
    if (count["MISSING"] > 0) return "FAIL";
    if (count["MATCH"] + count["INCOMPARABLE"] == 0) return "NO_EVIDENCE";
    return count["INCOMPARABLE"] > 0 ? "INCOMPARABLE" : "PASS";
  }
};

bool all_equal(const std::vector<Fact>& facts) {
  return std::adjacent_find(facts.begin(), facts.end(),
                            [](const Fact& a, const Fact& b) { return !(a == b); }) == facts.end();
}

std::string status_of(const std::vector<Fact>& p, const std::vector<Fact>& d,
                      bool prefill_last_here) {
  const bool demands =
      std::any_of(p.begin(), p.end(), [](const Fact& f) { return f.is_prefill_last; });
  const std::vector<Fact>& alone = p.empty() ? d : p;
  if ((p.empty() || d.empty()) &&
      std::any_of(alone.begin(), alone.end(), [](const Fact& f) { return f.nan > 0; })) {
    return "NONFINITE";
  }
  if (d.empty()) return demands ? "MISSING" : "PREFILL_ONLY";
  if (p.empty()) return prefill_last_here ? "MISSING" : "DECODE_ONLY";
  if (!all_equal(p) || !all_equal(d)) return "AMBIGUOUS";
  if (p[0].hash && p[0].hash == d[0].hash && p[0].n != d[0].n) return "CONFLICT";
  if (p[0].nan + d[0].nan > 0) return "NONFINITE";
  if (!p[0].hash || !d[0].hash || p[0].n != d[0].n) return "INCOMPARABLE";
  return p[0].hash == d[0].hash ? "MATCH" : "DRIFT";
}

Opinion judge(const std::map<Key, std::vector<Fact>>& rows) {
  Opinion opinion;
  std::vector<std::string> lines;
  for (const auto& [key, facts] : rows) {
    const auto add_line = [&](const std::string& status) {
      ++opinion.count[status];
      lines.push_back(std::to_string(key.prompt) + " " + std::to_string(key.pos) + " " +
                      std::to_string(key.layer) + " " + std::to_string(key.tensor) + " " +
                      (key.token ? std::to_string(*key.token) : "-") + " " + status);
    };
    if (key.pos < 0) {  // compared with nothing
      for (const Fact& fact : facts) {
        if (fact.nan > 0) add_line("NONFINITE");
      }
      continue;
    }
    std::vector<Fact> p, d;
    for (const Fact& fact : facts) (fact.side == 0 ? p : d).push_back(fact);
    bool prefill_last_here = false;
    for (const auto& [other, others] : rows) {
      if (other.prompt != key.prompt || other.pos != key.pos) continue;
      for (const Fact& fact : others) prefill_last_here |= fact.is_prefill_last;
    }
    const std::string status = status_of(p, d, prefill_last_here);
    if (status == "MISSING") {
      for (const auto& [other, others] : rows) {
        if (std::tie(other.prompt, other.layer, other.tensor) !=
                std::tie(key.prompt, key.layer, key.tensor) ||
            other.pos < 0 || other.pos == key.pos)
          continue;
        for (const Fact& fact : others) opinion.elsewhere |= fact.side != (p.empty() ? 1 : 0);
      }
    }
    add_line(status);
  }
  std::sort(lines.begin(), lines.end());
  for (const std::string& line : lines) opinion.lines += (opinion.lines.empty() ? "" : "\n") + line;
  return opinion;
}

TEST(RandomRows, TheViewsAgreeWithASecondOpinion) {
  std::map<std::string, int> seen;
  for (unsigned seed = 0; seed < 80; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto pick = [&](int n) { return static_cast<int64_t>(random() % static_cast<unsigned>(n)); };
    Warehouse w;
    w.run({.status = pick(4) == 0 ? "running" : "complete"});
    const bool finished = w.rows("SELECT status FROM run") == "complete";
    const bool tame = pick(2) == 0;  // most rows pair and match
    std::map<Key, std::vector<Fact>> rows;
    const char* tensors[] = {"x_in", "residual_pre_attn", "attn_out", "logits"};
    const int64_t canonical[] = {20, 20, 70, 210};
    const char* phases[] = {"prefill_last", "decode0", "prefill", "decode"};
    for (int64_t count = pick(12); count > 0; --count) {
      const int64_t tensor = pick(4), prompt = pick(2), layer = pick(2);
      const int64_t pos = tame ? 37 : (pick(8) == 0 ? -1 : 37 + pick(2));
      const std::optional<int64_t> token =
          tame || pick(6) > 0 ? std::nullopt : std::optional<int64_t>(5);
      const bool pair_up = tame ? pick(8) > 0 : pick(2) > 0;
      for (int64_t phase = pair_up ? 0 : pick(4), last = pair_up ? 1 : phase; phase <= last;
           ++phase) {
        Row row = prefill(tensors[tensor], layer, pick(tame ? 20 : 4) == 0 ? 2 : 1)
                      .in(phases[phase])
                      .at(pos)
                      .step(pick(3));
        row.prompt = "p" + std::to_string(prompt);
        row.token_id = token;
        if (pick(tame ? 30 : 8) == 0) row.hash.reset();
        if (pick(tame ? 30 : 10) == 0) row.n = 5;
        if (pick(tame ? 30 : 10) == 0) row.nan_count = 1;
        w.prompt_id("p0");
        w.prompt_id("p1");
        w.add(row);
        rows[{w.prompt_id(row.prompt), pos, layer, canonical[tensor], token}].push_back(
            {phase == 1 || phase == 3 ? 1 : 0, phase == 0, row.hash, *row.n, *row.nan_count});
      }
    }
    // both prompts are there as soon as one has rows, and announced
    bool plan_met = w.rows(
                        "SELECT count(*) <> count(t.prompt_id) FROM prompt p LEFT JOIN (SELECT "
                        "DISTINCT prompt_id FROM trace_row) t ON t.prompt_id = p.id") == "0";
    if (pick(3) == 0) {
      w.plan_what_is_there();
      if (pick(2) == 0) {
        w.plan("p0", 0, 8, "attn_out");
        plan_met = false;
      }
    }
    Opinion opinion = judge(rows);
    EXPECT_EQ(
        w.rows("SELECT printf('%d %d %d %d %s %s', prompt_id, ifnull(pos_id, -1), layer, tensor_id,"
               " ifnull(token_id, '-'), status) AS line FROM pair ORDER BY line"),
        opinion.lines);
    const std::string verdict = opinion.verdict(finished, plan_met);
    ++seen[verdict];
    const std::string expected =
        verdict + "|" + std::to_string(opinion.count["MATCH"]) + "|" +
        std::to_string(opinion.count["DRIFT"] + opinion.count["NONFINITE"] +
                       opinion.count["AMBIGUOUS"] + opinion.count["CONFLICT"]) +
        "|" + std::to_string(opinion.count["MISSING"]) + "|" +
        std::to_string(opinion.count["DECODE_ONLY"]) + "|" +
        std::to_string(opinion.count["INCOMPARABLE"]);
    const char* question =
        "SELECT verdict, pass, fail, missing, decode_only, incomparable FROM run_verdict";
    EXPECT_EQ(w.rows(question), expected);
    if (seed % 8 == 0) {
      const std::string computed = everything(w);
      keep_all(w);
      EXPECT_EQ(everything(w), computed);
    }
  }
  EXPECT_EQ(seen.size(), 5u);  // every verdict came up
}

/// sqlite3_set_authorizer callback: notes the tables of the file that a statement reads.
int note_table(void* tables, int action, const char* table, const char*, const char* database,
               const char*) {
  if (action == SQLITE_READ && database != nullptr) {
    static_cast<std::set<std::string>*>(tables)->insert(table);
  }
  return SQLITE_OK;
}

TEST(KeptVerdict, EveryTableThatAVerdictReadsClearsIt) {
  // Why nothing needs to be cleared when a row of it is ...
  const std::map<std::string, std::string> kExceptions = {
      {"trace_row INSERT", "a third of the speed of ingest: the writer clears; check --deep finds"},
      {"sketch INSERT", "comes with its row; check finds a row that waits for one"},
      {"sample INSERT", "comes with its row; check finds a row that waits for one"},
      {"run INSERT", "nothing of it is kept yet"},
      {"phase INSERT", "no row has it yet"},
      {"tensor INSERT", "no row has it yet"},
      {"tensor_name INSERT", "no row has it yet"},
      {"cause INSERT", "a name, looked up when asked"},
      {"origin INSERT", "no verdict depends on it"},
      {"origin UPDATE", "no verdict depends on it"},
      {"origin DELETE", "no verdict depends on it"},
      {"cause UPDATE", "a name, looked up when asked"},
      {"cause DELETE", "a name, looked up when asked"},
      {"ingest_error INSERT", "looked up when asked"},
      {"ingest_error UPDATE", "looked up when asked"},
      {"ingest_error DELETE", "looked up when asked"},
      {"ingest_run INSERT", "looked up when asked"},
      {"ingest_run UPDATE", "looked up when asked"},
      {"ingest_run DELETE", "looked up when asked"},
      {"run_event INSERT", "looked up when asked"},
      {"run_event UPDATE", "looked up when asked"},
      {"run_event DELETE", "looked up when asked"},
      {"run_metric INSERT", "what tells of a prompt clears"},
      {"run_metric UPDATE", "nobody does; check --deep finds"},
      {"run_metric DELETE", "nobody does but with its run; check --deep finds"},
      {"report_claim INSERT", "looked up when asked"},
      {"report_claim UPDATE", "looked up when asked"},
      {"report_claim DELETE", "looked up when asked"},
      {"source INSERT", "looked up when asked; how many rows it gave comes with these"},
      {"source UPDATE", "looked up when asked; how many rows it gave comes with these"},
      {"source DELETE", "looked up when asked; how many rows it gave comes with these"},
      {"kept_tally INSERT", "what is kept: check --deep compares it"},
      {"kept_tally UPDATE", "what is kept: check --deep compares it"},
      {"kept_verdict INSERT", "what is kept: check --deep compares it"},
      {"kept_verdict UPDATE", "what is kept: check --deep compares it"},
      {"kept_verdict DELETE", "is worked out then"}};
  Warehouse w;
  std::set<std::string> tables;
  sqlite3_set_authorizer(w.db.getHandle(), note_table, &tables);
  { SQLite::Statement verdict(w.db, "SELECT * FROM run_verdict"); }
  sqlite3_set_authorizer(w.db.getHandle(), nullptr, nullptr);
  std::set<std::string> unused;
  for (const auto& [exception, reason] : kExceptions) unused.insert(exception);
  int read = 0;
  for (const std::string& table : tables) {
    SQLite::Statement is_table(w.db,
                               "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?");
    is_table.bind(1, table);
    if (!is_table.executeStep()) continue;
    ++read;
    for (const char* event : {"INSERT", "UPDATE", "DELETE"}) {
      SQLite::Statement trigger(
          w.db,
          "SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1 AND sql LIKE '% "
          "AFTER '"
          " || ?2 || ' %' AND (sql LIKE '%DELETE FROM kept_tally%' OR sql LIKE '%DELETE FROM "
          "kept_verdict%')");
      trigger.bind(1, table);
      trigger.bind(2, event);
      const std::string change = table + " " + event;
      EXPECT_NE(trigger.executeStep(), kExceptions.contains(change)) << change;
      unused.erase(change);
    }
  }
  EXPECT_GT(read, 15);
  EXPECT_EQ(unused, std::set<std::string>());
}

}  // namespace
}  // namespace greta
