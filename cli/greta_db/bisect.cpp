#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cli/commits/bisect_log.h"
#include "cli/commits/bisection.h"
#include "cli/commits/recorded_answers.h"
#include "cli/commits/repository.h"
#include "cli/commits/work_tree.h"
#include "cli/greta_db/commands.h"
#include "cli/warehouse/sql_query.h"
#include "common/completion.h"
#include "common/json_text.h"
#include "common/near_words.h"
#include "common/shell_word.h"
#include "common/stop_signal.h"
#include "common/trouble.h"
#include "common/utf8.h"
#include "db/database.h"

namespace greta {
namespace {

using State = CommitVerdict::State;
using std::to_string;

constexpr int kCannotBeTested = 125;  // as for `git bisect run`
constexpr int kCannotBeRun = 126;     // from here on a shell's statuses say nothing of the commit
constexpr size_t kShownDigits = 12;

struct BisectArguments {
  std::string repository, good, bad, lineage, command, log;
  std::vector<std::string> skip;
  Gate gate = Gate::kNumeric;
  bool gate_given = false, first_parent = false, fix = false;
};

/// What is said of a commit, once.
struct Probe {
  std::string commit, subject;
  std::string word;  ///< good, bad, skip
  std::string text;  ///< verdict, or why it is skipped
  std::string run;
  bool asked = false;          ///< COMMAND ran
  std::optional<size_t> left;  ///< candidates after it
};

/// Where a search ends, or waits.
struct Conclusion {
  enum class Kind { kFound, kNext, kOnlySkipped, kNothing };
  Kind kind;
  std::string commit;                 ///< found, or to be run next
  std::string text;                   ///< why there is nothing
  std::vector<std::string> possible;  ///< the commits that it may be
};

const char* kind_name(Conclusion::Kind kind) {
  switch (kind) {
    case Conclusion::Kind::kFound:
      return "found";
    case Conclusion::Kind::kNext:
      return "next";
    case Conclusion::Kind::kOnlySkipped:
      return "only_skipped";
    default:
      return "nothing";
  }
}

std::string short_sha(const std::string& sha) { return sha.substr(0, kShownDigits); }

/// "30 candidates left, about 5 steps".
std::string left_text(size_t n) {
  const int steps = Bisection::steps(n);
  return to_string(n) + " candidate" + (n == 1 ? "" : "s") + " left, about " + to_string(steps) +
         " step" + (steps == 1 ? "" : "s");
}

/// The value of an option, else that of the log; both must be one.
void settle(const std::string& given, std::string& value, const BisectLog& log, const char* what) {
  if (given.empty() || given == value) return;
  if (log.begun()) {
    throw UsageError(log.file() + " is the log of another search: its " + what + " is " + value +
                     ", not " + given + "; leave the option out, or name another file with --log");
  }
  value = given;
}

/// One call of `bisect`.
class Search {
 public:
  Search(Options& options, const BisectArguments& arguments)
      : options_(options),
        arguments_(arguments),
        log_(arguments.log),
        repository_(folder_of(arguments, log_)) {
    set_question();
  }

  int run() {
    const Conclusion conclusion = conclude();
    if (conclusion.kind == Conclusion::Kind::kFound) {
      log_.found(conclusion.commit, subject_of(conclusion.commit));
    }
    if (is_json()) {
      print_json(conclusion);
    } else {
      print(conclusion);
    }
    return conclusion.kind == Conclusion::Kind::kFound ? kExitDone : kExitNoVerdict;
  }

 private:
  /// A connection, and what it says. Closed while COMMAND runs, which may bring the file forward.
  struct Book {
    Book(const Search& search, const std::string& lineage, Gate gate)
        : db(open_for_reading(search.options_.database)),
          answers(db, search.repository_, lineage, gate) {}
    SQLite::Database db;
    RecordedAnswers answers;
  };

  static std::string folder_of(const BisectArguments& arguments, const BisectLog& log) {
    if (!arguments.repository.empty()) return arguments.repository;
    return log.begun() ? log.question().repository : ".";
  }

  void set_question();
  void set_lineage();
  void check_ancestry() const;
  RecordedAnswers& answers();
  CommitVerdict end_verdict(const std::string& commit);
  std::optional<Conclusion> judge_ends();
  std::optional<Conclusion> judge_merge_bases();
  Conclusion conclude();
  Conclusion halve();

  const std::string& old_end() const { return question_.fix ? question_.bad : question_.good; }
  const std::string& new_end() const { return question_.fix ? question_.good : question_.bad; }
  /// Whether it is on the side of the end that came later.
  bool is_after(State state) const { return (state == State::kBad) != question_.fix; }

  std::optional<CommitVerdict> known(const std::string& commit);
  std::optional<CommitVerdict> run_command(const std::string& commit);
  [[noreturn]] void refuse_runs(const std::string& commit, int64_t before, const ProgramEnd& end);
  void note(const std::string& commit, const CommitVerdict& verdict, bool asked);
  void note_skip(const std::string& commit, const std::string& why, bool asked);

  const std::string& subject_of(const std::string& commit);
  std::string last_before(const std::string& commit);
  std::string named(const std::string& commit) {
    return short_sha(commit) + " " + utf8::printable(subject_of(commit));
  }
  bool is_json() const { return options_.format == Format::kJson; }
  void say(const std::string& line);
  void show(const Probe& probe);
  void print(const Conclusion& conclusion);
  void print_found(const Conclusion& conclusion);
  void print_next(const Conclusion& conclusion);
  void print_json(const Conclusion& conclusion);
  JsonObject commit_json(const std::string& commit);

  Options& options_;
  const BisectArguments& arguments_;
  BisectLog log_;
  Repository repository_;
  BisectQuestion question_;
  Gate gate_ = Gate::kNumeric;
  std::unique_ptr<Book> book_;
  bool by_values_ = false;
  CommitVerdict good_, bad_;  ///< of the ends
  std::set<std::string> skipped_;
  std::map<std::string, CommitVerdict> answered_;
  std::vector<Probe> probes_;
  std::map<std::string, std::vector<std::string>> facts_;  ///< subject, dates and parents by commit
};

void Search::set_question() {
  if (log_.begun()) question_ = log_.question();
  settle(repository_.folder(), question_.repository, log_, "repository");
  const auto end = [&](const std::string& given, std::string& value, const char* what) {
    if (given.empty() && value.empty()) {
      throw UsageError(std::string("bisect needs --") + what +
                       " REV, or --log FILE of a search that was begun");
    }
    settle(given.empty() ? "" : repository_.commit(given), value, log_,
           (std::string(what) + " end").c_str());
  };
  end(arguments_.good, question_.good, "good");
  end(arguments_.bad, question_.bad, "bad");
  settle(arguments_.gate_given || !log_.begun() ? std::string(gate_name(arguments_.gate)) : "",
         question_.gate, log_, "gate");
  gate_ = question_.gate == "strict" ? Gate::kStrict : Gate::kNumeric;
  const auto flag = [&](bool given, bool& value, const char* what) {
    if (given && log_.begun() && !value) {
      throw UsageError(log_.file() + " is the log of a search without " + what +
                       ": leave it out, or name another file with --log");
    }
    value |= given;
  };
  flag(arguments_.first_parent, question_.first_parent, "--first-parent");
  flag(arguments_.fix, question_.fix, "--fix");
  settle(arguments_.lineage, question_.lineage, log_, "lineage");
}

/// That which is named, else the only one that has runs of both ends, else of one, else at all.
void Search::set_lineage() {
  SQLite::Database db = open_for_reading(options_.database);
  std::vector<std::string> all;
  for (Query query(db, "SELECT DISTINCT lineage FROM lineage WHERE NOT injected ORDER BY 1");
       query.step();) {
    all.push_back(query.text(0));
  }
  if (!question_.lineage.empty()) {
    if (std::find(all.begin(), all.end(), question_.lineage) != all.end()) return;
    throw unknown_name("lineage", question_.lineage, all,
                       "`greta-db query \"SELECT DISTINCT lineage FROM lineage\"`");
  }
  const std::map<std::string, int> counts = lineages_of(db, {question_.good, question_.bad});
  std::vector<std::string> likely;
  for (int least = 2; least > 0 && likely.empty(); --least) {
    for (const auto& [lineage, n] : counts) {
      if (n >= least) likely.push_back(lineage);
    }
  }
  if (likely.empty()) likely = all;
  if (likely.size() == 1) {
    question_.lineage = likely.front();
    return;
  }
  if (likely.empty()) {
    throw UsageError(options_.database +
                     " has no runs: probe the good and the bad end first, with --commit");
  }
  std::vector<std::string> lines;
  for (const std::string& lineage : likely) lines.push_back("  --lineage " + shell_word(lineage));
  throw UsageError("several lineages could be meant; say which:", lines);
}

void Search::check_ancestry() const {
  if (question_.good == question_.bad) {
    throw UsageError("--good and --bad name the same commit, " + short_sha(question_.good));
  }
  const std::vector<std::string> bases = repository_.merge_bases(old_end(), new_end());
  if (bases.empty()) {
    throw UsageError(
        short_sha(question_.good) + " and " + short_sha(question_.bad) +
        " have no history in common" +
        (repository_.is_shallow() ? ", as far as this clone goes: git fetch --unshallow" : ""));
  }
  if (bases.front() != new_end()) return;
  throw UsageError(question_.fix ? "the bad end " + short_sha(question_.bad) +
                                       " comes after the good one: without --fix " +
                                       "the commit is looked for that broke it"
                                 : "the bad end " + short_sha(question_.bad) +
                                       " comes before the good one: swap them, or " +
                                       "look for what mended it with --fix");
}

RecordedAnswers& Search::answers() {
  if (book_ == nullptr) {
    book_ = std::make_unique<Book>(*this, question_.lineage, gate_);
    if (by_values_) book_->answers.compare_with(good_.run_id, good_.run);
  }
  return book_->answers;
}

const std::string& Search::subject_of(const std::string& commit) {
  auto [found, is_new] = facts_.try_emplace(commit);
  if (is_new) {
    const CommitLog log = repository_.log({"--no-walk", commit});
    const GitCommit& one = log.commits().at(0);
    found->second = {std::string(one.subject), std::string(one.committed_at),
                     std::string(one.authored_at), std::string(one.parents)};
  }
  return found->second.front();
}

void Search::note(const std::string& commit, const CommitVerdict& verdict, bool asked) {
  answered_[commit] = verdict;
  const char* word = verdict.state == State::kGood ? "good" : "bad";
  log_.add({word, commit, verdict.run}, subject_of(commit));
  probes_.push_back({commit, subject_of(commit), word, verdict.text, verdict.run, asked, {}});
}

void Search::note_skip(const std::string& commit, const std::string& why, bool asked) {
  skipped_.insert(commit);
  if (asked) log_.add({"skip", commit, why}, subject_of(commit));
  probes_.push_back({commit, subject_of(commit), "skip", why, "", asked, {}});
}

/// What runs say, or said when the log was written.
std::optional<CommitVerdict> Search::known(const std::string& commit) {
  CommitVerdict verdict = answers().of(commit);
  if (verdict.decided()) return verdict;
  if (verdict.state == State::kDisputed) {
    note_skip(commit, "its runs disagree: " + verdict.text, false);
    show(probes_.back());
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

/// COMMAND in a work tree of the commit, and what its run says; nothing where it cannot be tested.
std::optional<CommitVerdict> Search::run_command(const std::string& commit) {
  answers();
  const int64_t before = book_->db.execAndGet("SELECT ifnull(max(id), 0) FROM run").getInt64();
  book_.reset();
  options_.out.flush();
  ProgramEnd end;
  {
    const WorkTree tree(repository_, commit);
    Program program{.command = {"sh", "-c", arguments_.command}, .folder = tree.path()};
    program.variables = repository_.program({}).variables;
    program.variables.emplace_back("GRETA_BISECT_COMMIT", commit);
    program.variables.emplace_back("GRETA_BISECT_TREE", tree.path());
    program.variables.emplace_back("GRETA_DB",
                                   std::filesystem::absolute(options_.database).string());
    end = end_of(program);
  }
  const std::string which = "the command, run on " + short_sha(commit) + ", ";
  const std::string nothing = "; nothing is concluded from it, and calling this again goes on here";
  if (end.signal != 0) {
    throw std::runtime_error(which + "was ended by signal " + to_string(end.signal) + " (" +
                             strsignal(end.signal) + ")" + nothing);
  }
  if (end.status >= kCannotBeRun) {
    throw std::runtime_error(which + "ended with exit status " + to_string(end.status) +
                             (end.status == 126   ? ": it cannot be run"
                              : end.status == 127 ? ": it was not found"
                                                  : "") +
                             nothing);
  }
  if (end.status == kCannotBeTested) {
    note_skip(commit, "exit status 125", true);
    return std::nullopt;
  }
  CommitVerdict verdict = answers().of(commit);
  if (verdict.state == State::kNoRun) refuse_runs(commit, before, end);
  if (verdict.decided()) return verdict;
  note_skip(commit,
            verdict.state == State::kDisputed ? "its runs disagree: " + verdict.text
                                              : verdict.run + " is " + verdict.text,
            true);
  return std::nullopt;
}

/// COMMAND left no run that answers: says which ones it did leave.
void Search::refuse_runs(const std::string& commit, int64_t before, const ProgramEnd& end) {
  std::vector<std::string> lines;
  Query query(book_->db,
              "SELECT run, commit_sha, lineage, injected FROM lineage WHERE run_id > ? LIMIT 5");
  for (query.bind(1, before); query.step();) {
    lines.push_back("  it left " + query.text(0) + " of commit " +
                    (query.is_null(1) ? "unknown" : query.text(1)) + ", lineage " + query.text(2) +
                    (query.integer(3) != 0 ? ", with a fault injected" : ""));
  }
  throw UsageError(
      "the command, run on " + short_sha(commit) + ", ended with exit status " +
          to_string(end.status) + " and left no run of that commit in lineage " +
          question_.lineage +
          ": it has to probe with --commit \"$GRETA_BISECT_COMMIT\" into \"$GRETA_DB\", "
          "or to exit with 125 where that cannot be done",
      std::move(lines));
}

/// The verdict of an end, by the gate: of its runs, else of a run of COMMAND.
CommitVerdict Search::end_verdict(const std::string& commit) {
  CommitVerdict verdict = answers().of(commit);
  if (verdict.decided() || verdict.state == State::kDisputed || arguments_.command.empty()) {
    return verdict;
  }
  say("running the command on " + named(commit));
  return run_command(commit).value_or(CommitVerdict{});
}

std::optional<Conclusion> Search::judge_ends() {
  const auto nothing = [](std::string text) {
    return Conclusion{Conclusion::Kind::kNothing, "", std::move(text), {}};
  };
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
    throw UsageError("the " + question_.gate + " verdict of the good end " +
                         short_sha(question_.good) + " is FAIL, and of the bad end " +
                         short_sha(question_.bad) + " PASS: they are the wrong way round",
                     {question_.fix ? "  to find what broke it, swap them and leave --fix out"
                                    : "  to find what mended it, swap them and add --fix"});
  }
  by_values_ = good_.state == bad_.state;
  if (!by_values_) return std::nullopt;
  book_->answers.compare_with(good_.run_id, good_.run);
  const CommitVerdict bad = answers().of(question_.bad);
  if (bad.state == State::kGood) {
    return nothing("both ends have the " + question_.gate + " verdict " +
                   (bad_.state == State::kGood ? "PASS" : "FAIL") + ", and " +
                   utf8::printable(bad.run) + " " + utf8::printable(bad.text) +
                   ": there is nothing to bisect");
  }
  if (bad.state != State::kBad) {
    return nothing("the ends cannot be told apart: " + utf8::printable(bad.run) + " is " +
                   utf8::printable(bad.text));
  }
  good_ = answers().of(question_.good);
  bad_ = bad;
  return std::nullopt;
}

/// Where the old end is no ancestor of the new one, the history that they share must be as the old
/// end is: else it turned on the way to that one.
std::optional<Conclusion> Search::judge_merge_bases() {
  const std::vector<std::string> bases = repository_.merge_bases(old_end(), new_end());
  if (bases.front() == old_end()) return std::nullopt;
  for (const std::string& base : bases) {
    std::optional<CommitVerdict> verdict;
    bool asked = false;
    if (!skipped_.contains(base)) verdict = known(base);
    if (!verdict && !skipped_.contains(base)) {
      if (arguments_.command.empty()) {
        return Conclusion{Conclusion::Kind::kNext,
                          base,
                          "the ends have parted there, so it has to be tested first",
                          {}};
      }
      say("running the command on the merge base " + named(base));
      verdict = run_command(base);
      asked = true;
    }
    if (!verdict) {
      say("the merge base " + named(base) +
          " cannot be tested: what turned before it would not be found");
      continue;
    }
    note(base, *verdict, asked);
    show(probes_.back());
    if (!is_after(verdict->state)) continue;
    const std::string word = question_.fix ? "good" : "bad";
    return Conclusion{
        Conclusion::Kind::kNothing,
        "",
        "the merge base " + named(base) + " is " + word + ": what turned lies between it and " +
            short_sha(old_end()) +
            (question_.fix ? ", and was broken there" : ", and was mended there (--fix)"),
        {}};
  }
  return std::nullopt;
}

Conclusion Search::conclude() {
  check_ancestry();
  set_lineage();
  if (!log_.begun()) log_.begin(question_);
  for (const BisectAnswer& answer : log_.answers()) {
    if (answer.word == "skip") skipped_.insert(answer.commit);
  }
  for (const std::string& revision : arguments_.skip) {
    const std::string commit = repository_.commit(revision);
    skipped_.insert(commit);
    log_.add({"skip", commit, "by hand"}, subject_of(commit));
  }
  for (const std::string& end : {question_.good, question_.bad}) {
    if (skipped_.contains(end)) {
      throw UsageError("the end " + short_sha(end) + " cannot be skipped: name another commit");
    }
  }
  if (auto conclusion = judge_ends()) return *conclusion;
  note(question_.good, good_, false);
  show(probes_.back());
  note(question_.bad, bad_, false);
  show(probes_.back());
  if (auto conclusion = judge_merge_bases()) return *conclusion;
  return halve();
}

Conclusion Search::halve() {
  std::vector<std::string> range{new_end(), "^" + old_end()};
  if (question_.first_parent) range.emplace_back("--first-parent");
  const CommitLog log = repository_.log(range);
  const std::vector<GitCommit>& commits = log.commits();
  for (const GitCommit& one : commits) {
    facts_[std::string(one.sha)] = {std::string(one.subject), std::string(one.committed_at),
                                    std::string(one.authored_at), std::string(one.parents)};
  }
  Bisection bisection(commits, question_.first_parent);
  say((by_values_ ? "by values: both ends have the same " + question_.gate + " verdict"
                  : "by the " + question_.gate + " verdict") +
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
    note(sha(i), verdict, asked);
    probes_.back().left = bisection.candidates();
    show(probes_.back());
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
    if (arguments_.command.empty()) {
      return {Conclusion::Kind::kNext, sha(*i), left_text(bisection.candidates()), {}};
    }
    looked_at[*i] = true;
    say("running the command on " + named(sha(*i)));
    if (const auto verdict = run_command(sha(*i))) {
      take(*i, *verdict, true);
    } else {
      show(probes_.back());
    }
  }
  return {Conclusion::Kind::kFound, sha(bisection.last()), "", {}};
}

/// A parent of it that is as the old end is; "" when none was asked.
std::string Search::last_before(const std::string& commit) {
  subject_of(commit);
  const std::string& parents = facts_[commit][3];
  for (size_t begin = 0; begin < parents.size();) {
    const size_t end = std::min(parents.find(' ', begin), parents.size());
    const std::string parent = parents.substr(begin, end - begin);
    const auto found = answered_.find(parent);
    if (found != answered_.end() && !is_after(found->second.state)) return parent;
    begin = end + 1;
  }
  return "";
}

/// What goes on, for people: beside JSON on standard error.
void Search::say(const std::string& line) {
  if (is_json()) {
    complain("greta-db", line);
  } else {
    options_.out.write(line + "\n");
    options_.out.flush();
  }
}

void Search::show(const Probe& probe) {
  std::string line = probe.word + (probe.word == "bad" ? "   " : "  ") + named(probe.commit) +
                     ": " + utf8::printable(probe.text);
  if (!probe.run.empty() && probe.text != probe.run)
    line += " (" + utf8::printable(probe.run) + ")";
  if (probe.left && *probe.left > 1) {
    line += "; " + left_text(*probe.left);
  }
  say(line);
}

void Search::print_found(const Conclusion& conclusion) {
  const std::string& commit = conclusion.commit;
  Output& out = options_.out;
  const CommitVerdict& verdict = answered_.at(commit);
  subject_of(commit);
  const std::vector<std::string>& facts = facts_[commit];
  out.write("\nfirst " + std::string(question_.fix ? "good" : "bad") + " commit  " + commit + "\n");
  out.write("  subject  " + utf8::printable(facts[0]) + "\n");
  out.write("  date     " + utf8::printable(facts[1]) + "\n");
  out.write("  authored " + utf8::printable(facts[2]) + "\n");
  const std::string where = place_text(question_.fix ? bad_.place : verdict.place);
  if (!where.empty()) {
    out.write((question_.fix ? "  parted   " : "  parts    ") +
              (by_values_ ? "values " : std::string("prefill and decode ")) + where + "\n");
  }
  out.write("  run      " + utf8::printable(verdict.run) + "\n");
  if (const std::string before = last_before(commit); !before.empty()) {
    out.write("  before   " + utf8::printable(answered_.at(before).run) + " of " +
              short_sha(before) + "\n");
  }
}

void Search::print_next(const Conclusion& conclusion) {
  Output& out = options_.out;
  out.write("\nnext     " + conclusion.commit + " " +
            utf8::printable(subject_of(conclusion.commit)) + "\n");
  out.write("  " + conclusion.text + "\n");
  out.write("  probe it as the other runs of " + utf8::printable(question_.lineage) +
            ", into --db " + shell_word(options_.database) + " with --commit " +
            short_sha(conclusion.commit) + ", and call this again;\n");
  out.write(
      "  or let this do it: --run COMMAND runs in a work tree of the commit, with"
      " $GRETA_BISECT_COMMIT and $GRETA_DB;\n");
  out.write("  or leave it out: --skip " + short_sha(conclusion.commit) + "\n");
}

void Search::print(const Conclusion& conclusion) {
  Output& out = options_.out;
  switch (conclusion.kind) {
    case Conclusion::Kind::kFound:
      print_found(conclusion);
      break;
    case Conclusion::Kind::kNext:
      print_next(conclusion);
      break;
    case Conclusion::Kind::kOnlySkipped:
      out.write("\nonly skipped commits are left to test; the first " +
                std::string(question_.fix ? "good" : "bad") + " commit is one of\n");
      for (const std::string& commit : conclusion.possible) {
        out.write("  " + commit + " " + utf8::printable(subject_of(commit)) + "\n");
      }
      break;
    case Conclusion::Kind::kNothing:
      out.write(conclusion.text + "\n");
      break;
  }
  if (!log_.file().empty()) out.write("  log      " + utf8::printable(log_.file()) + "\n");
}

JsonObject Search::commit_json(const std::string& commit) {
  subject_of(commit);
  const std::vector<std::string>& facts = facts_[commit];
  JsonObject object;
  object.add("commit", commit).add("subject", facts[0]);
  object.add("committed_at", facts[1]).add("authored_at", facts[2]);
  return object;
}

void Search::print_json(const Conclusion& conclusion) {
  JsonObject object;
  object.add("status", std::string(kind_name(conclusion.kind)));
  object.add("by", std::string(by_values_ ? "values" : "verdict")).add("gate", question_.gate);
  object.add("lineage", question_.lineage).add("repo", question_.repository);
  object.add("good", question_.good).add("bad", question_.bad).add("fix", question_.fix);
  if (!conclusion.text.empty()) object.add("text", conclusion.text);
  if (!conclusion.commit.empty()) {
    JsonObject commit = commit_json(conclusion.commit);
    if (const auto found = answered_.find(conclusion.commit); found != answered_.end()) {
      const FailPlace& place = question_.fix ? bad_.place : found->second.place;
      commit.add("run", found->second.run).add("verdict", found->second.text);
      if (!place.prompt.empty()) commit.add("prompt", place.prompt);
      if (!place.tensor.empty()) commit.add("tensor", place.tensor);
      commit.add("layer", place.layer).add("pos_id", place.pos);
    }
    object.raw(kind_name(conclusion.kind), commit.take());
  }
  std::vector<std::string> possible, probes;
  for (const std::string& commit : conclusion.possible) {
    possible.push_back(commit_json(commit).take());
  }
  if (!possible.empty()) object.raw("possible", json_array(possible));
  int64_t asked = 0;
  for (const Probe& probe : probes_) {
    asked += probe.asked;
    JsonObject one;
    one.add("commit", probe.commit).add("subject", probe.subject).add("answer", probe.word);
    one.add("verdict", probe.text).add("run", probe.run).add("asked", probe.asked);
    if (probe.left) one.add("candidates", static_cast<int64_t>(*probe.left));
    probes.push_back(one.take());
  }
  object.add("asked", asked).raw("probes", json_array(probes));
  if (!log_.file().empty()) object.add("log", log_.file());
  options_.out.write(object.take() + "\n");
}

int bisect(Options& options, const BisectArguments& arguments) {
  if (options.format != Format::kTable && options.format != Format::kJson) {
    throw UsageError("bisect prints text, or --format json");
  }
  return Search(options, arguments).run();
}

}  // namespace

void add_bisect_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "bisect",
      "Which commit broke it, or changed what is computed: searches the engine's history");
  auto arguments = std::make_shared<BisectArguments>();
  command
      ->add_option("--repo", arguments->repository,
                   "A clone of the engine's repository (default: the current folder)")
      ->option_text("DIR");
  command->add_option("--good", arguments->good, "A commit that is as it should be")
      ->option_text("REV");
  command->add_option("--bad", arguments->bad, "A commit that is not")->option_text("REV");
  command
      ->add_option("--lineage", arguments->lineage,
                   "Whose runs answer (default: the one that both ends have)")
      ->check(offers_answer("query 'SELECT DISTINCT lineage FROM lineage'"))
      ->option_text("NAME");
  command
      ->add_option("--run", arguments->command,
                   "Command line of sh that builds and probes a commit; exits with 125 where that "
                   "cannot be done")
      ->option_text("COMMAND");
  command->add_option("--skip", arguments->skip, "A commit that cannot be tested. Repeatable")
      ->allow_extra_args(false)
      ->option_text("REV");
  command->add_flag("--first-parent", arguments->first_parent,
                    "Follow only the first parent of merges");
  command->add_flag("--fix", arguments->fix,
                    "Find the commit that mended it: --bad comes before --good");
  command
      ->add_option("--log", arguments->log,
                   "Keep what was asked and answered; a later call with it goes on")
      ->option_text("FILE");
  const CLI::Option* gate = add_gate_option(
      *command, arguments->gate, "Verdict that tells good from bad: strict or numeric (default)");
  command->callback([&options, arguments, gate] {
    arguments->gate_given = gate->count() > 0;
    options.action = [&options, arguments] { return bisect(options, *arguments); };
  });
}

}  // namespace greta
