#include "cli/commits/recorded_answers.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "db/database.h"

namespace greta {
namespace {

using State = CommitVerdict::State;

constexpr size_t kLeastDigits = 7;  // of a commit, to be told by

State state_of(std::string_view verdict) {
  return verdict == "PASS" ? State::kGood : verdict == "FAIL" ? State::kBad : State::kUndecided;
}

}  // namespace

CommitRuns::CommitRuns(SQLite::Database& db, const Repository& repository,
                       const std::string& lineage)
    : repository_(repository) {
  Query runs(db,
             "SELECT lower(l.commit_sha), l.run_id, l.run FROM lineage l JOIN run r ON r.id ="
             " l.run_id WHERE l.lineage = ifnull(nullif(?, ''), l.lineage) AND NOT l.injected"
             " AND length(l.commit_sha) >= ?"
             " ORDER BY 1, ifnull(l.date, ''), ifnull(r.started_at, '~'), l.run_id");
  runs.bind(1, lineage).bind(2, static_cast<int64_t>(kLeastDigits));
  while (runs.step()) runs_.push_back({runs.text(0), {runs.integer(1), runs.text(2)}});
}

std::vector<Run> CommitRuns::of(const std::string& commit) {
  std::vector<Run> all;
  for (const OneRun& one : runs_) {
    if (!commit.starts_with(one.digits)) continue;
    if (one.digits.size() < commit.size()) {
      const auto [found, is_new] = commit_of_digits_.try_emplace(one.digits);
      if (is_new) found->second = repository_.commit_of_digits(one.digits);
      if (found->second != commit) continue;
    }
    all.push_back(one.run);
  }
  return all;
}

RecordedAnswers::RecordedAnswers(const std::string& database, const Repository& repository,
                                 const std::string& lineage, Gate gate)
    : db_(open_for_reading(database)),
      statements_(db_),
      gate_(gate),
      runs_(db_, repository, lineage) {}

CommitVerdict RecordedAnswers::verdict_of(const Run& run) {
  CommitVerdict said;
  said.run_id = run.id;
  said.run = run.name;
  RunQuery query = verdict_query(statements_, run.id);
  if (!query.step()) return said;
  const RunVerdict verdict(query);
  said.text = verdict.at(gate_);
  said.state = state_of(said.text);
  said.place = verdict.first_fail(gate_);
  if (said.state == State::kBad && !said.place.cause.empty()) {
    said.text += " " + fail_text(said.place);
  }
  return reference_ && said.decided() ? difference_of(run, std::move(said)) : said;
}

CommitVerdict RecordedAnswers::difference_of(const Run& run, CommitVerdict own) {
  own.place = {};
  if (run == *reference_) {
    own.state = State::kGood;
    own.text = "is what others are held against";
    return own;
  }
  const std::string verdict =
      gate_ == Gate::kVerdict ? "verdict" : std::string(gate_name(gate_)) + "_verdict";
  const auto place = [this](const std::string& column) {
    if (gate_ == Gate::kStrict) return column;
    return "CASE WHEN numeric_tensor IS NULL THEN " + column + " ELSE numeric_" + column + " END";
  };
  Query query(statements_, "SELECT " + verdict + ", " + place("prompt") + ", " + place("layer") +
                               ", " + place("tensor") + ", " + place("pos_id") + ", " +
                               place("phase") +
                               ", why_not FROM diff_verdict WHERE run_a_id = ? AND run_b_id = ?");
  query.bind(1, reference_->id).bind(2, run.id);
  if (!query.step()) throw std::logic_error("two runs have no row in diff_verdict");
  own.state = state_of(query.text(0));
  const std::string& with = reference_->name;
  if (own.state == State::kGood) {
    own.text = "computes what " + with + " does";
  } else if (own.state == State::kBad) {
    own.place.prompt = query.text(1);
    own.place.tensor = query.text(3);
    own.place.layer = query.cell(2).id();
    own.place.pos = query.cell(4).id();
    own.text = "differs from " + with;
    if (!query.is_null(3)) own.text += " " + place_text(own.place) + ", " + query.text(5);
  } else {
    own.text = query.text(0) + " with " + with + (query.is_null(6) ? "" : ": " + query.text(6));
  }
  return own;
}

bool RecordedAnswers::is_dirty(const Run& run) {
  Query query(
      statements_,
      "SELECT 1 FROM attribute WHERE run_id = ? AND dim = 'dirty' AND value IN ('1', 'true')");
  return query.bind(1, run.id).step();
}

CommitVerdict RecordedAnswers::of(const std::string& commit) {
  CommitVerdict last;
  for (const Run& run : runs_.of(commit)) {
    CommitVerdict next = verdict_of(run);
    if (next.state == State::kNoRun) continue;
    if (is_dirty(run)) next.text += ", of an engine with changes that no commit has";
    if (last.state == State::kDisputed || (last.decided() && !next.decided())) continue;
    if (last.decided() && last.state != next.state) {
      last.text = last.run + " " + last.text + ", but " + next.run + " " + next.text;
      last.state = State::kDisputed;
    } else {
      last = std::move(next);
    }
  }
  return last;
}

std::vector<std::string> likely_lineages(SQLite::Database& db, const std::string& good,
                                         const std::string& bad) {
  Query runs(db,
             "WITH run_end AS (SELECT lineage, length(commit_sha) >= 7"
             "   AND substr(?1, 1, length(commit_sha)) = lower(commit_sha) AS good,"
             "   length(commit_sha) >= 7"
             "   AND substr(?2, 1, length(commit_sha)) = lower(commit_sha) AS bad"
             "  FROM lineage WHERE NOT injected)"
             " SELECT lineage, ifnull(max(good), 0) + ifnull(max(bad), 0) FROM run_end"
             " GROUP BY lineage ORDER BY 2 DESC, 1");
  runs.bind(1, good).bind(2, bad);
  std::vector<std::string> likely;
  for (int64_t most = 0; runs.step(); likely.push_back(runs.text(0))) {
    most = std::max(most, runs.integer(1));
    if (runs.integer(1) < most) break;
  }
  return likely;
}

}  // namespace greta
