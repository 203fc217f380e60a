#include "cli/commits/recorded_answers.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "cli/warehouse/sql_query.h"

namespace greta {
namespace {

using State = CommitVerdict::State;

constexpr size_t kLeastDigits = 7;  // of a commit, to be told by

State state_of(std::string_view verdict) {
  return verdict == "PASS" ? State::kGood : verdict == "FAIL" ? State::kBad : State::kUndecided;
}

/// Whether `sha` begins with the digits, none of which is none.
bool begins_with(std::string_view sha, std::string_view digits) {
  return digits.size() >= kLeastDigits && sha.starts_with(digits);
}

}  // namespace

RecordedAnswers::RecordedAnswers(QueryPool& statements, const Repository& repository,
                                 std::string lineage, Gate gate)
    : statements_(statements), repository_(repository), gate_(gate) {
  Query runs(statements,
             "SELECT lower(l.commit_sha), l.run, l.run_id FROM lineage l JOIN run r ON r.id ="
             " l.run_id WHERE l.lineage = ? AND NOT l.injected AND l.commit_sha IS NOT NULL"
             " ORDER BY 1, ifnull(l.date, ''), ifnull(r.started_at, ''), length(l.run), l.run");
  runs.bind(1, std::move(lineage));
  while (runs.step()) runs_.push_back({runs.text(0), runs.text(1), runs.integer(2)});
}

void RecordedAnswers::compare_with(int64_t run_id, std::string run) {
  reference_ = run_id;
  reference_name_ = std::move(run);
}

bool RecordedAnswers::has_runs(std::string_view commit) const {
  // What begins a name is no greater than it, and greater than what begins otherwise.
  for (size_t n = kLeastDigits; n <= commit.size(); ++n) {
    const std::string_view digits = commit.substr(0, n);
    const auto found =
        std::lower_bound(runs_.begin(), runs_.end(), digits,
                         [](const RecordedRun& run, std::string_view d) { return run.digits < d; });
    if (found == runs_.end()) return false;
    if (found->digits == digits) return true;
  }
  return false;
}

bool RecordedAnswers::is_of(const RecordedRun& run, const std::string& commit) {
  if (!begins_with(commit, run.digits)) return false;
  if (run.digits.size() == commit.size()) return true;
  const auto [found, is_new] = commit_of_digits_.try_emplace(run.digits);
  if (is_new) found->second = repository_.commit_of_digits(run.digits);
  return found->second == commit;
}

CommitVerdict RecordedAnswers::verdict_of(const RecordedRun& run) {
  CommitVerdict said;
  said.run_id = run.id;
  said.run = run.name;
  RunQuery query(statements_, run.id,
                 "SELECT " + std::string(kVerdictColumns) + " FROM run_verdict WHERE run_id = ?");
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

CommitVerdict RecordedAnswers::difference_of(const RecordedRun& run, CommitVerdict own) {
  own.place = {};
  if (run.id == *reference_) {
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
  query.bind(1, *reference_).bind(2, run.id);
  if (!query.step()) throw std::logic_error("two runs have no row in diff_verdict");
  own.state = state_of(query.text(0));
  const std::string with = reference_name_;
  if (own.state == State::kGood) {
    own.text = "computes what " + with + " does";
  } else if (own.state == State::kBad) {
    own.place.prompt = query.text(1);
    own.place.tensor = query.text(3);
    if (!query.is_null(2)) own.place.layer = query.integer(2);
    if (!query.is_null(4)) own.place.pos = query.integer(4);
    own.text = "differs from " + with;
    if (!query.is_null(3)) own.text += " " + place_text(own.place) + ", " + query.text(5);
  } else {
    own.text = query.text(0) + " with " + with + (query.is_null(6) ? "" : ": " + query.text(6));
  }
  return own;
}

bool RecordedAnswers::is_dirty(const RecordedRun& run) {
  Query query(
      statements_,
      "SELECT 1 FROM attribute WHERE run_id = ? AND dim = 'dirty' AND value IN ('1', 'true')");
  return query.bind(1, run.id).step();
}

CommitVerdict RecordedAnswers::of(const std::string& commit) {
  CommitVerdict last;
  for (const RecordedRun& run : runs_) {
    if (!is_of(run, commit)) continue;
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

std::map<std::string, int> lineages_of(SQLite::Database& db,
                                       const std::vector<std::string>& commits) {
  std::map<std::string, std::set<std::string>> seen;
  Query runs(db,
             "SELECT DISTINCT lineage, lower(commit_sha) FROM lineage"
             " WHERE NOT injected AND commit_sha IS NOT NULL");
  while (runs.step()) {
    for (const std::string& commit : commits) {
      if (begins_with(commit, runs.text(1))) seen[runs.text(0)].insert(commit);
    }
  }
  std::map<std::string, int> counts;
  for (const auto& [lineage, of] : seen) counts[lineage] = static_cast<int>(of.size());
  return counts;
}

}  // namespace greta
