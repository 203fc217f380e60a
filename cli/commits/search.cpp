#include "cli/commits/search.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "cli/warehouse/sql_query.h"
#include "common/exit_status.h"
#include "common/stop_signal.h"
#include "common/utf8.h"
#include "db/database.h"

namespace greta {
namespace {

using std::to_string;

/// "30 candidates left, about 5 steps".
std::string left_text(size_t n) {
  const int steps = Bisection::steps(n);
  return to_string(n) + " candidate" + (n == 1 ? "" : "s") + " left, about " + to_string(steps) +
         " step" + (steps == 1 ? "" : "s");
}

CommitFacts facts_of(const GitCommit& commit) {
  return {std::string(commit.subject), std::string(commit.committed_at),
          std::string(commit.authored_at), std::string(commit.parents)};
}

/// "verdict", "strict verdict".
std::string verdict_name(const BisectQuestion& question) {
  return question.gate == "verdict" ? "verdict" : question.gate + " verdict";
}

Conclusion nothing(std::string text) {
  return {Conclusion::Kind::kNothing, "", std::move(text), {}};
}

}  // namespace

/// A connection, and what it says.
struct Search::Book {
  Book(const std::string& database, const Repository& repository, const std::string& lineage,
       Gate gate)
      : db(open_for_reading(database)),
        statements(db),
        answers(statements, repository, lineage, gate) {}

  SQLite::Database db;
  QueryPool statements;
  RecordedAnswers answers;
};

Search::Search(SearchRequest request, std::function<void(const std::string&)> say)
    : request_(std::move(request)),
      say_(std::move(say)),
      log_(request_.log),
      repository_(folder_of(request_, log_)),
      question_(question_of(request_, log_, repository_)),
      gate_(question_.gate == "strict"    ? Gate::kStrict
            : question_.gate == "numeric" ? Gate::kNumeric
                                          : Gate::kVerdict),
      command_(request_.command, request_.database, repository_, log_) {}

Search::~Search() = default;

RecordedAnswers& Search::answers() {
  if (book_ == nullptr) {
    book_ = std::make_unique<Book>(request_.database, repository_, question_.lineage, gate_);
    if (by_values_) book_->answers.compare_with(good_.run_id, good_.run);
  }
  return book_->answers;
}

const CommitFacts& Search::facts(const std::string& commit) {
  const auto found = facts_.find(commit);
  if (found != facts_.end()) return found->second;
  const CommitLog log = repository_.log({"--no-walk", commit});
  return facts_.emplace(commit, facts_of(log.commits().at(0))).first->second;
}

const CommitVerdict* Search::answer(const std::string& commit) const {
  const auto found = answered_.find(commit);
  return found == answered_.end() ? nullptr : &found->second;
}

const FailPlace& Search::place(const std::string& commit) const {
  return question_.fix ? bad_.place : answered_.at(commit).place;
}

std::string Search::named(const std::string& commit) {
  return short_sha(commit) + " " + utf8::printable(facts(commit).subject);
}

void Search::note(const std::string& commit, const CommitVerdict& verdict, bool asked,
                  std::optional<size_t> left) {
  answered_[commit] = verdict;
  const char* word = verdict.state == State::kGood ? "good" : "bad";
  const std::string& subject = facts(commit).subject;
  log_.add({word, commit, verdict.run}, subject);
  probes_.push_back({commit, subject, word, verdict.text, verdict.run, asked, left});
  show(probes_.back());
}

void Search::note_skip(const std::string& commit, const std::string& why, bool asked) {
  skipped_.insert(commit);
  const std::string& subject = facts(commit).subject;
  if (asked) log_.add({"skip", commit, why}, subject);
  probes_.push_back({commit, subject, "skip", why, "", asked, {}});
  show(probes_.back());
}

void Search::show(const ProbedCommit& probe) {
  std::string line = probe.word + (probe.word == "bad" ? "   " : "  ") + named(probe.commit) +
                     ": " + utf8::printable(probe.text);
  if (!probe.run.empty()) line += " (" + utf8::printable(probe.run) + ")";
  if (probe.left && *probe.left > 1) line += "; " + left_text(*probe.left);
  say_(line);
}

/// What runs say, or said when the log was written.
std::optional<CommitVerdict> Search::known(const std::string& commit) {
  CommitVerdict verdict = answers().of(commit);
  if (verdict.decided()) return verdict;
  if (verdict.state == State::kDisputed) {
    note_skip(commit, "its runs disagree: " + verdict.text, false);
    return std::nullopt;
  }
  for (const BisectAnswer& answer : log_.answers()) {
    if (answer.commit != commit || answer.word == "skip") continue;
    verdict.state = answer.word == "good" ? State::kGood : State::kBad;
    verdict.run = answer.reason;
    verdict.text = "as the log says";
    return verdict;
  }
  return std::nullopt;
}

/// A database without runs has none of the ends, and no lineage: the command makes the first.
void Search::begin_with_a_run() {
  if (!command_.is_given()) return;
  {
    SQLite::Database db = open_for_writing(request_.database);
    if (Query(db, "SELECT 1 FROM lineage WHERE NOT injected LIMIT 1").step()) return;
  }
  const std::string& commit = question_.good;
  say_("there are no runs yet: running the command on the good end " + named(commit));
  const ProgramEnd end = command_.run(commit);
  SQLite::Database db = open_for_reading(request_.database);
  if (Query(db, "SELECT 1 FROM lineage WHERE NOT injected LIMIT 1").step()) return;
  if (cannot_be_tested(end)) {
    throw UsageError("the good end " + short_sha(commit) +
                     " cannot be tested (exit status 125): name another commit");
  }
  refuse_end(commit, end, "");
}

/// The command left no run that answers: says which ones it did leave.
void Search::refuse_runs(const std::string& commit, int64_t before, const ProgramEnd& end) {
  std::vector<std::string> lines;
  Query query(book_->db,
              "SELECT run, commit_sha, lineage, injected FROM lineage WHERE run_id > ? LIMIT 5");
  for (query.bind(1, before); query.step();) {
    lines.push_back("  it left " + query.text(0) + " of commit " +
                    (query.is_null(1) ? "unknown" : query.text(1)) + ", lineage " + query.text(2) +
                    (query.integer(3) != 0 ? ", with a fault injected" : ""));
  }
  refuse_end(commit, end, " of that commit in lineage " + question_.lineage, std::move(lines));
}

/// The command in a work tree of the commit, and what its run says; nothing where it cannot be
/// tested.
std::optional<CommitVerdict> Search::run_command(const std::string& commit) {
  answers();
  const int64_t before = book_->db.execAndGet("SELECT ifnull(max(id), 0) FROM run").getInt64();
  book_.reset();
  say_("running the command on " + named(commit));
  const ProgramEnd end = command_.run(commit);
  if (cannot_be_tested(end)) {
    note_skip(commit, "exit status 125", true);
    return std::nullopt;
  }
  CommitVerdict verdict = answers().of(commit);
  if (verdict.state == State::kNoRun) refuse_runs(commit, before, end);
  if (verdict.decided()) return verdict;
  const bool disputed = verdict.state == State::kDisputed;
  note_skip(commit,
            disputed ? "its runs disagree: " + verdict.text : verdict.run + " is " + verdict.text,
            true);
  return std::nullopt;
}

/// The verdict of an end, by the gate: of its runs, else of a run of the command.
CommitVerdict Search::end_verdict(const std::string& commit) {
  CommitVerdict verdict = answers().of(commit);
  if (verdict.decided() || verdict.state == State::kDisputed || !command_.is_given()) {
    return verdict;
  }
  return run_command(commit).value_or(CommitVerdict{});
}

std::optional<Conclusion> Search::judge_ends() {
  for (const auto& [commit, verdict, what] :
       {std::tuple{&question_.good, &good_, "good"}, std::tuple{&question_.bad, &bad_, "bad"}}) {
    *verdict = end_verdict(*commit);
    if (verdict->decided()) continue;
    const std::string end = "the " + std::string(what) + " end " + named(*commit);
    if (verdict->state == State::kDisputed) {
      return nothing("runs of " + end + " disagree: " + utf8::printable(verdict->text));
    }
    if (skipped_.contains(*commit)) {
      return nothing(end + " cannot be tested: " + utf8::printable(probes_.back().text) +
                     "; name another commit");
    }
    return Conclusion{Conclusion::Kind::kNext,
                      *commit,
                      verdict->state == State::kNoRun
                          ? end + " has no run"
                          : end + " has no verdict: " + utf8::printable(verdict->run) + " is " +
                                utf8::printable(verdict->text),
                      {}};
  }
  if (good_.state == State::kBad && bad_.state == State::kGood) {
    throw UsageError("the " + verdict_name(question_) + " of the good end " +
                         short_sha(question_.good) + " is FAIL, and of the bad end " +
                         short_sha(question_.bad) + " PASS: they are the wrong way round",
                     {question_.fix ? "  to find what broke it, swap them and leave --fix out"
                                    : "  to find what mended it, swap them and add --fix"});
  }
  by_values_ = good_.state == bad_.state;
  return by_values_ ? compare_ends() : std::nullopt;
}

/// Ends of one verdict are told apart by their values.
std::optional<Conclusion> Search::compare_ends() {
  answers().compare_with(good_.run_id, good_.run);
  const std::string verdict = good_.state == State::kGood ? "PASS" : "FAIL";
  good_ = answers().of(question_.good);
  bad_ = answers().of(question_.bad);
  if (bad_.state == State::kGood) {
    return nothing("both ends have the " + verdict_name(question_) + " " + verdict + ", and " +
                   utf8::printable(bad_.run) + " " + utf8::printable(bad_.text) +
                   ": there is nothing to bisect");
  }
  if (good_.decided() && bad_.decided()) return std::nullopt;
  const CommitVerdict& which = bad_.decided() ? good_ : bad_;
  return nothing("the ends cannot be told apart: " + utf8::printable(which.run) + " is " +
                 utf8::printable(which.text));
}

/// Where the old end is no ancestor of the new one, the history that they share must be as the old
/// end is: else it turned on the way to that one.
std::optional<Conclusion> Search::judge_merge_bases() {
  const std::vector<std::string> bases =
      repository_.merge_bases(old_end(question_), new_end(question_));
  if (bases.front() == old_end(question_)) return std::nullopt;
  for (const std::string& base : bases) {
    std::optional<CommitVerdict> verdict;
    bool asked = false;
    if (!skipped_.contains(base)) verdict = known(base);
    if (!verdict && !skipped_.contains(base)) {
      if (!command_.is_given()) {
        return Conclusion{Conclusion::Kind::kNext,
                          base,
                          "the ends have parted there, so it has to be tested first",
                          {}};
      }
      verdict = run_command(base);
      asked = true;
    }
    if (!verdict) {
      say_("the merge base " + named(base) +
           " cannot be tested: what turned before it would not be found");
      continue;
    }
    note(base, *verdict, asked);
    if (!is_after(verdict->state)) continue;
    const std::string word = question_.fix ? "good" : "bad";
    return Conclusion{
        Conclusion::Kind::kNothing,
        "",
        "the merge base " + named(base) + " is " + word + ": what turned lies between it and " +
            short_sha(old_end(question_)) +
            (question_.fix ? ", and was broken there" : ", and was mended there (--fix)"),
        {}};
  }
  return std::nullopt;
}

/// Those of the log, and those that are named.
void Search::take_skips() {
  for (const BisectAnswer& answer : log_.answers()) {
    if (answer.word == "skip") skipped_.insert(answer.commit);
  }
  std::vector<std::string> named_now;
  for (const std::string& revision : request_.skip) {
    named_now.push_back(repository_.commit(revision));
    skipped_.insert(named_now.back());
  }
  for (const std::string& end : {question_.good, question_.bad}) {  // before it is in the log
    if (skipped_.contains(end)) {
      throw UsageError("the end " + short_sha(end) + " cannot be skipped: name another commit");
    }
  }
  if (!log_.begun()) log_.begin(question_);
  for (const std::string& commit : named_now) {
    log_.add({"skip", commit, "by hand"}, facts(commit).subject);
  }
}

Conclusion Search::conclude() {
  check_ancestry(question_, repository_);
  command_.remove_left();
  begin_with_a_run();
  question_.lineage = lineage_of(request_.database, question_);
  take_skips();
  if (auto conclusion = judge_ends()) return *conclusion;
  note(question_.good, good_, false);
  note(question_.bad, bad_, false);
  if (auto conclusion = judge_merge_bases()) return *conclusion;
  const Conclusion conclusion = halve();
  if (conclusion.kind == Conclusion::Kind::kFound || !conclusion.possible.empty()) {
    if (auto cut = at_the_cut(conclusion)) return *cut;
  }
  if (conclusion.kind == Conclusion::Kind::kFound) {
    log_.found(conclusion.commit, facts(conclusion.commit).subject);
  }
  return conclusion;
}

/// What came before a commit whose parents a shallow clone left out is not known to be otherwise.
std::optional<Conclusion> Search::at_the_cut(const Conclusion& conclusion) const {
  const std::set<std::string> cut = repository_.cut();
  std::vector<std::string> possible = conclusion.possible;
  if (!conclusion.commit.empty()) possible.push_back(conclusion.commit);
  for (const std::string& commit : possible) {
    if (!cut.contains(commit)) continue;
    return nothing("undecided: the search came to " + short_sha(commit) +
                   ", and what came before it is not there; " + kUnshallow +
                   ", and the same call goes on");
  }
  return std::nullopt;
}

Conclusion Search::halve() {
  std::vector<std::string> range{new_end(question_), "^" + old_end(question_)};
  if (question_.first_parent) range.emplace_back("--first-parent");
  const CommitLog log = repository_.log(range);
  const std::vector<GitCommit>& commits = log.commits();
  for (const GitCommit& one : commits) {
    facts_[std::string(one.sha)] = facts_of(one);
  }
  Bisection bisection(commits, question_.first_parent);
  say_((by_values_ ? "by values: both ends have the same " + verdict_name(question_)
                   : "by the " + verdict_name(question_)) +
       "; " + left_text(bisection.candidates()));
  std::vector<bool> looked_at(commits.size(), false);
  const auto sha = [&](size_t i) { return std::string(commits[i].sha); };
  const auto has_answer = [&](size_t i) {
    if (looked_at[i] || skipped_.contains(sha(i))) return false;
    if (answers().has_runs(commits[i].sha)) return true;
    return std::any_of(log_.answers().begin(), log_.answers().end(), [&](const BisectAnswer& one) {
      return one.commit == commits[i].sha && one.word != "skip";
    });
  };
  const auto take = [&](size_t i, const CommitVerdict& verdict, bool asked) {
    if (is_after(verdict.state)) {
      bisection.set_after(i);
    } else {
      bisection.set_before(i);
    }
    note(sha(i), verdict, asked, bisection.candidates());
  };
  while (bisection.candidates() > 1) {
    throw_if_stopped();
    if (const auto i = bisection.halving(has_answer)) {
      looked_at[*i] = true;
      if (const auto verdict = known(sha(*i))) take(*i, *verdict, false);
      continue;
    }
    const auto i = bisection.halving([&](size_t k) { return !skipped_.contains(sha(k)); });
    if (!i) {
      Conclusion conclusion{Conclusion::Kind::kOnlySkipped, "", "", {}};
      for (size_t k = 0; k < commits.size(); ++k) {
        if (bisection.is_candidate(k)) conclusion.possible.push_back(sha(k));
      }
      return conclusion;
    }
    if (!command_.is_given()) {
      return {Conclusion::Kind::kNext, sha(*i), left_text(bisection.candidates()), {}};
    }
    looked_at[*i] = true;
    if (const auto verdict = run_command(sha(*i))) take(*i, *verdict, true);
  }
  say_contradictions(commits, bisection);
  return {Conclusion::Kind::kFound, sha(bisection.last()), "", {}};
}

/// Recorded runs that the search had no need of, and that say otherwise than it concludes: good
/// again after the first bad commit, or bad before the last good one. By verdicts alone, which are
/// kept.
void Search::say_contradictions(std::span<const GitCommit> commits, const Bisection& bisection) {
  if (by_values_) return;
  constexpr size_t kMostSaid = 5;
  std::vector<size_t> known_before;
  for (size_t i = 0; i < commits.size(); ++i) {
    const CommitVerdict* said = answer(std::string(commits[i].sha));
    if (said != nullptr && !is_after(said->state)) known_before.push_back(i);
  }
  const std::vector<uint8_t> after = bisection.descendants(bisection.last());
  const std::vector<uint8_t> before = bisection.ancestors(known_before);
  size_t n = 0;
  for (size_t i = 0; i < commits.size(); ++i) {
    if ((!after[i] && !before[i]) || !answers().has_runs(commits[i].sha)) continue;
    const std::string commit(commits[i].sha);
    const CommitVerdict verdict = answers().of(commit);
    if (!verdict.decided() || is_after(verdict.state) == (after[i] != 0) || ++n > kMostSaid)
      continue;
    say_("but    " + named(commit) + " is " + (verdict.state == State::kGood ? "good" : "bad") +
         ": " + utf8::printable(verdict.text) + " (" + utf8::printable(verdict.run) +
         "), so it turned more than once between the ends; this is one place");
  }
  if (n > kMostSaid) say_("but    " + to_string(n - kMostSaid) + " more commits say otherwise");
}

/// A parent of it that is as the old end is; "" when none was asked.
std::string Search::last_before(const std::string& commit) {
  const std::string parents = facts(commit).parents;
  for (size_t begin = 0; begin < parents.size();) {
    const size_t end = std::min(parents.find(' ', begin), parents.size());
    const std::string parent = parents.substr(begin, end - begin);
    const auto found = answered_.find(parent);
    if (found != answered_.end() && !is_after(found->second.state)) return parent;
    begin = end + 1;
  }
  return "";
}

}  // namespace greta
