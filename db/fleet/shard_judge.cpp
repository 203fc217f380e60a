#include "db/fleet/shard_judge.h"

#include <algorithm>
#include <set>
#include <string>

#include "common/stop_signal.h"
#include "db/fleet/sent_rows.h"

namespace greta {
namespace {

using clickhouse::RowReader;
using Value = TallyRows::Value;

void add_count(TallyRows& tally, int64_t prompt, const char* status, int64_t count) {
  tally.values.insert(
      tally.values.end(),
      {tally.run_id, prompt, std::string(status), Value(), Value(), Value(), count, int64_t{0},
       int64_t{0}, int64_t{0}, Value(), Value(), Value(), Value(), Value(), Value(), Value()});
}

}  // namespace

void ShardJudge::judge(std::vector<const PushedRun*> wanted) {
  // of a batch: one dictionary
  std::stable_sort(wanted.begin(), wanted.end(), [](const PushedRun* a, const PushedRun* b) {
    return a->published->rules < b->published->rules;
  });
  for (size_t at = 0; at < wanted.size();) {
    Batch batch;
    uint64_t rows = 0;
    do {
      batch.push_back(wanted[at]);
      rows += wanted[at]->published->rows.n;
      ++at;
    } while (at < wanted.size() && wanted[at]->rules == batch.front()->rules &&
             batch.size() < kMostRunsAsked && rows < kMostRowsAsked);
    throw_if_stopped();
    judge_batch(batch);
  }
}

void ShardJudge::judge_batch(const Batch& batch) {
  std::vector<Published> asked;
  Tallies tallies;
  for (const PushedRun* run : batch) {
    asked.push_back(*run->published);
    statements_("DELETE FROM kept_tally WHERE run_id = ?", run->run_id).exec();
    statements_("DELETE FROM kept_verdict WHERE run_id = ?", run->run_id).exec();
    tallies[run->published->push].run_id = run->run_id;
  }
  const Written written = count_rows(asked);
  ask_tallies(*batch.front()->rules, asked, written.crowded, tallies);
  if (any_has(batch, "SELECT 1 FROM plan WHERE run_id = ? LIMIT 1")) ask_unmet(asked, tallies);
  if (any_has(batch, "SELECT 1 FROM announced_prompt WHERE run_id = ? LIMIT 1")) {
    ask_untraced(asked, tallies);
  }
  TallyReader own(db_);
  TallyKeeper keeper(db_);
  for (const PushedRun* run : batch) {
    TallyRows& tally = tallies.at(run->published->push);
    if (run->published->rows.n == 0) {
      tally = own.read(run->run_id);  // of what documents say, which is all here
    } else {
      add_facts(*run, tally, written.rows.at(run->published->push));
    }
    keeper.keep(tally);
  }
}

bool ShardJudge::any_has(const Batch& batch, const char* sql) {
  return std::any_of(batch.begin(), batch.end(), [&](const PushedRun* run) {
    return statements_.find_id(sql, run->run_id).has_value();
  });
}

ShardJudge::Written ShardJudge::count_rows(const std::vector<Published>& asked) {
  Written written;
  std::map<uint64_t, RowSum> found;
  server_.select(server_.query("row_count", {{"hash", hash_sql(kTraceColumnsThere)}}),
                 "push, total, said, written, any_crowded",
                 [&](RowReader& row) {
                   const uint64_t push = row.u64();
                   const uint64_t n = row.u64(), said = row.u64(), no_claims = row.u64();
                   const bool is_crowded = row.u8() != 0;
                   found[push].n += n;
                   found[push].sum += said;
                   written.rows[push] += no_claims;
                   written.crowded = written.crowded || is_crowded;
                 },
                 {asked_table(asked)});
  require_all(server_, asked, found, "trace rows", &Published::rows, Held::kContent);
  check_differences(server_, asked);
  for (const Published& run : asked) written.rows[run.push] += 0;  // those without any, too
  return written;
}

void ShardJudge::ask_tallies(const Rules& rules, const std::vector<Published>& asked, bool crowded,
                             Tallies& tallies) {
  std::vector<uint64_t> whole;
  for (const Published& run : asked) {
    if (run.hash_algo != "fnv-256") whole.push_back(run.push);
  }
  // to sort what is never more than one row takes as long as all else
  const auto first_of = [crowded](const std::string& rows) {
    return crowded ? "arraySort(r -> (tupleElement(r, 1), tupleElement(r, 2), tupleElement(r, 3),"
                     " tupleElement(r, 4)), " +
                         rows + ")"
                   : rows;
  };
  server_.select(server_.query("tally", {{"prefill_last", std::to_string(rules.prefill_last)},
                                         {"xs", first_of("xs")},
                                         {"ys", first_of("ys")}}),
                 "push, prompt_id, status, class, scope, cause, total, pairs, claims, anywhere, "
                 "unknown_names, first",
                 [&](RowReader& row) { add_tally(tallies, row); },
                 {asked_table(asked),
                  push_table("whole", whole),
                  {"names",
                   "name_id Int64, of_tensor_id Int64, ord Int64, tensor String, stage String,"
                   " name_cause String, switch_on Int64, switch_cause String",
                   rules.name_rows.bytes()}});
}

void ShardJudge::ask_unmet(const std::vector<Published>& asked, Tallies& tallies) {
  server_.select(server_.query("unmet"), "push, prompt_id, total",
                 [&](RowReader& row) {
                   const uint64_t push = row.u64();
                   const int64_t prompt = row.i64();
                   const auto total = static_cast<int64_t>(row.u64());
                   add_count(tallies.at(push), runs_.at(push).prompts.at(prompt), "UNMET", total);
                 },
                 {asked_table(asked)});
}

/// Announced prompts that have no rows there, of runs that have some: as in view unkept_tally.
void ShardJudge::ask_untraced(const std::vector<Published>& asked, Tallies& tallies) {
  std::map<uint64_t, std::set<int64_t>> traced;  // by push, ids of this database
  server_.select(server_.query("traced_prompt"), "push, prompt_id",
                 [&](RowReader& row) {
                   const uint64_t push = row.u64();
                   traced[push].insert(runs_.at(push).prompts.at(row.i64()));
                 },
                 {asked_table(asked)});
  for (const auto& [push, prompts] : traced) {
    TallyRows& tally = tallies.at(push);
    SQLite::Statement& announced =
        statements_("SELECT prompt_id FROM announced_prompt WHERE run_id = ?", tally.run_id);
    while (announced.executeStep()) {
      const int64_t prompt = announced.getColumn(0).getInt64();
      if (!prompts.contains(prompt)) add_count(tally, prompt, "UNMET", 1);
    }
  }
}

void ShardJudge::add_tally(Tallies& tallies, RowReader& row) const {
  const uint64_t push = row.u64();
  const int64_t prompt = row.i64();
  std::string texts[4];  // status, class, scope, cause
  for (std::string& text : texts) text = row.text();
  const auto count = static_cast<int64_t>(row.u64()), pairs = static_cast<int64_t>(row.u64()),
             claims = static_cast<int64_t>(row.u64());
  const int64_t elsewhere = row.u8();
  row.u8();  // a name that nobody knows is an error there
  const int64_t forward = row.i64();
  row.i64();   // ord
  row.text();  // trace point
  const int64_t layer = row.i64(), name = row.i64(), pos = row.i64();
  row.u8();   // side
  row.i64();  // nth
  const bool no_token = row.u8() != 0;
  const int64_t token = row.i64(), tensor = row.i64();
  const PushedRun& run = runs_.at(push);
  const auto text = [](std::string& one) { return one.empty() ? Value() : Value(std::move(one)); };
  const bool has_cause = !texts[3].empty();
  const auto placed = [&](int64_t value) { return has_cause ? Value(value) : Value(); };
  TallyRows& tally = tallies.at(push);
  tally.values.insert(
      tally.values.end(),
      {run.run_id, run.mapped(Reference::kPrompt, prompt), std::move(texts[0]), text(texts[1]),
       text(texts[2]), text(texts[3]), count, pairs, claims, elsewhere, placed(forward),
       placed(layer), has_cause ? Value(run.mapped(Reference::kTensor, tensor)) : Value(),
       has_cause ? Value(run.mapped(Reference::kName, name)) : Value(), placed(pos),
       has_cause && !no_token ? Value(token) : Value(), Value()});
}

/// Of a run with trace rows, what follows from other tables: as in view unkept_tally.
void ShardJudge::add_facts(const PushedRun& run, TallyRows& tally, uint64_t written) {
  SQLite::Statement& refuted = statements_(
      "SELECT o.prompt_id, o.cause, count(*), o.tensor_id, o.name_id, min(o.pos_id)"
      " FROM refuted_readout o WHERE o.run_id = ? GROUP BY o.prompt_id, o.cause",
      run.run_id);
  while (refuted.executeStep()) {
    tally.values.insert(
        tally.values.end(),
        {tally.run_id, refuted.getColumn(0).getInt64(), std::string("REFUTED"), Value(), Value(),
         refuted.getColumn(1).getString(), refuted.getColumn(2).getInt64(), int64_t{0}, int64_t{0},
         int64_t{0}, int64_t{1000000}, int64_t{-1}, refuted.getColumn(3).getInt64(),
         refuted.getColumn(4).getInt64(), refuted.getColumn(5).getInt64(), Value(), Value()});
  }
  const auto lost = statements_.find_id(
      "SELECT max(CAST(a.value AS INTEGER)) - ?2 - (SELECT ifnull(sum(s.duplicates), 0) FROM"
      " source s WHERE s.run_id = ?1 AND s.shape = 'engine') FROM attribute a"
      " WHERE a.run_id = ?1 AND a.dim = 'trace_rows'",
      run.run_id, static_cast<int64_t>(written));
  if (lost.value_or(0) > 0) add_count(tally, 0, "LOST", *lost);
  add_count(tally, 0, "RUN", 0);
}

}  // namespace greta
