#include "cli/commits/search.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "cli/warehouse/sql_query.h"
#include "common/exit_status.h"
#include "common/near_words.h"
#include "common/shell_word.h"
#include "common/stop_signal.h"
#include "common/utf8.h"
#include "db/database.h"

namespace greta {
namespace {

namespace fs = std::filesystem;
using State = CommitVerdict::State;
using Kind = Conclusion::Kind;
using std::to_string;

constexpr int kCannotBeTested = 125;  // as for git bisect run
constexpr int kCannotBeRun = 126;     // from here on a shell's statuses say nothing of the commit

/// "30 candidates left, about 5 steps".
std::string left_text(size_t n) {
  const int steps = n < 2 ? 0 : static_cast<int>(std::bit_width(n - 1));
  return to_string(n) + " candidate" + (n == 1 ? "" : "s") + " left, about " + to_string(steps) +
         " step" + (steps == 1 ? "" : "s");
}

/// The reason to pass a commit over.
std::string why_undecided(const CommitVerdict& verdict) {
  if (verdict.state == State::kDisputed) return "its runs disagree: " + verdict.text;
  return (verdict.run.empty() ? "" : verdict.run + " is ") + verdict.text;
}

std::string gate_text(Gate gate) {
  return gate == Gate::kVerdict ? "verdict" : std::string(gate_name(gate)) + " verdict";
}

/// Throws UsageError where one end cannot have come from the other, or they are the wrong way
/// round.
void check_ancestry(const Repository& repository, const SearchRequest& q) {
  const std::string good = short_sha(q.good), bad = short_sha(q.bad);
  if (q.good == q.bad) throw UsageError("--good and --bad name the same commit, " + good);
  const std::vector<std::string> bases = repository.merge_bases(q.good, q.bad);
  if (bases.empty()) {
    throw UsageError(
        good + " and " + bad + " have no history in common" +
        (!repository.cut().empty() ? ", as far as this clone goes: git fetch --unshallow" : ""));
  }
  if (bases.front() != (q.fix ? q.good : q.bad)) return;
  throw UsageError("the bad end " + bad +
                   (q.fix ? " comes after the good one: without --fix the commit is looked for "
                            "that broke it"
                          : " comes before the good one: swap them, or look for what fixed it with "
                            "--fix"));
}

/// The lineage that is named, else the only likely one. Throws UsageError.
std::string lineage_of(const SearchRequest& q) {
  SQLite::Database db = open_for_reading(q.database);
  const std::vector<std::string> likely =
      q.lineage.empty() ? likely_lineages(db, q.good, q.bad) : likely_lineages(db, "", "");
  if (std::find(likely.begin(), likely.end(), q.lineage) != likely.end()) return q.lineage;
  if (!q.lineage.empty()) {
    throw unknown_name("lineage", q.lineage, likely,
                       "`greta-db query \"SELECT DISTINCT lineage FROM lineage\"`");
  }
  if (likely.size() == 1) return likely.front();
  if (likely.empty()) {
    throw UsageError(q.database +
                     " has no runs: probe the good and the bad end first, with --commit");
  }
  std::vector<std::string> lines;
  for (const std::string& one : likely) lines.push_back("  --lineage " + shell_word(one));
  throw UsageError("several lineages could be meant; say which:", lines);
}

class Search {
 public:
  Search(SearchRequest request, std::function<void(const std::string&)> say)
      : repository_(request.repository), q_(std::move(request)), say_(std::move(say)) {}

  Conclusion conclude() {
    if (q_.good.empty() || q_.bad.empty())
      throw UsageError("bisect needs --good REV and --bad REV");
    q_.repository = repository_.folder();
    for (std::string* end : {&q_.good, &q_.bad}) *end = repository_.commit(*end);
    check_ancestry(repository_, q_);
    for (std::string& commit : q_.skip) {
      commit = repository_.commit(commit);
      if (commit != q_.good && commit != q_.bad) continue;
      throw UsageError("the end " + short_sha(commit) + " cannot be skipped: name another commit");
    }
    tree_ = std::make_unique<BisectTree>(repository_, old_end(), q_.first_parent, q_.fix);
    if (!q_.command.empty()) begin_with_a_run();
    q_.lineage = lineage_of(q_);
    begin();
    Conclusion conclusion;
    if (judge_ends(conclusion)) {
      if (tree_->told(tree_->old_term()).empty()) {  // else the log had them
        tell(q_.good, good_, false);
        tell(q_.bad, bad_, false);
      }
      halve(conclusion);
    }
    conclusion.by_values = by_values_;
    conclusion.probes = std::move(probes_);
    conclusion.question = std::move(q_);
    return conclusion;
  }

 private:
  /// The end that came first in history, and the one that came after it.
  const std::string& old_end() const { return q_.fix ? q_.bad : q_.good; }
  const std::string& new_end() const { return q_.fix ? q_.good : q_.bad; }
  bool is_new(State state) const { return (state == State::kBad) != q_.fix; }

  RecordedAnswers& answers() {
    if (answers_ == nullptr) {
      answers_ = std::make_unique<RecordedAnswers>(q_.database, repository_, q_.lineage, q_.gate);
      if (by_values_) answers_->compare_with({good_.run_id, good_.run});
    }
    return *answers_;
  }

  const GitCommit& facts(const std::string& commit) {
    if (!facts_.contains(commit)) {
      repository_.log({"--no-walk", commit}, [&](const GitCommit& one) { facts_[commit] = one; });
    }
    return facts_.at(commit);
  }

  std::string named(const std::string& commit) {
    return short_sha(commit) + " " + utf8::printable(facts(commit).subject);
  }

  void show(const ProbedCommit& probe) {
    std::string line = probe.word + (probe.word == "bad" ? "   " : "  ") + named(probe.commit.sha) +
                       ": " + utf8::printable(probe.text);
    if (!probe.run.empty()) line += " (" + utf8::printable(probe.run) + ")";
    if (probe.left && *probe.left > 1) line += "; " + left_text(*probe.left);
    say_(line);
    probes_.push_back(probe);
  }

  void tell(const std::string& commit, const CommitVerdict& verdict, bool asked) {
    tree_->tell(is_new(verdict.state) ? tree_->new_term() : tree_->old_term(), commit);
    write_log();
    ProbedCommit probe{facts(commit), verdict.state == State::kGood ? "good" : "bad", verdict.text,
                       verdict.run, asked};
    if (commit != q_.good && commit != q_.bad) probe.left = tree_->candidates().size();
    show(probe);
  }

  void skip(const std::string& commit, const std::string& why, bool asked) {
    tree_->tell("skip", commit);
    write_log();
    show({facts(commit), "skip", why, "", asked});
  }

  /// The command that is searched by, but for what may differ from call to call.
  std::string log_start() const {
    return std::string(kLogStart) + "--repo " + shell_word(q_.repository) + " --good " + q_.good +
           " --bad " + q_.bad + " --lineage " + shell_word(q_.lineage) +
           (q_.gate == Gate::kVerdict ? "" : " --gate " + std::string(gate_name(q_.gate))) +
           (q_.first_parent ? " --first-parent" : "") + (q_.fix ? " --fix" : "");
  }

  /// Begins as the log says, or anew, with what is skipped by hand.
  void begin() {
    std::error_code error;
    if (fs::exists(q_.log, error) && !fs::is_regular_file(q_.log)) {
      throw UsageError(q_.log + " is no file");
    }
    if (fs::exists(q_.log, error) && !fs::is_empty(q_.log)) {
      std::ifstream in(q_.log, std::ios::binary);
      std::string line;
      std::getline(in, line);
      if (line != log_start()) {
        throw UsageError(q_.log + " is not the log of this search, but begins with: " + line,
                         {"  give its options, or name another file with --log"});
      }
      tree_->replay(q_.log);
    } else {
      tree_->start();
    }
    for (const std::string& commit : q_.skip) tree_->tell("skip", commit);
    write_log();
  }

  /// Written as a whole into a file beside it that then takes its name.
  void write_log() const {
    if (q_.log.empty()) return;
    const std::string beside = q_.log + ".new";
    std::ofstream out(beside, std::ios::binary);
    out << log_start() << "\n";
    std::istringstream lines(tree_->log());  // with subjects, which may hold anything
    for (std::string line; std::getline(lines, line);) out << utf8::printable(line) << "\n";
    out.close();
    if (!out || std::rename(beside.c_str(), q_.log.c_str()) != 0) {
      throw std::system_error(errno, std::generic_category(), "cannot write " + q_.log);
    }
  }

  /// The command in the work tree, with the files of the commit. Returns its exit status.
  int run_command(const std::string& commit) {
    answers_.reset();  // it would keep the command from writing
    tree_->check_out(commit);
    Program program{.command = {"sh", "-c", q_.command}, .folder = tree_->path()};
    program.variables = repository_.program({}).variables;
    program.variables.emplace_back("GRETA_BISECT_COMMIT", commit);
    program.variables.emplace_back("GRETA_BISECT_TREE", tree_->path());
    program.variables.emplace_back("GRETA_DB", fs::absolute(q_.database).string());
    const ProgramEnd end = end_of(program);
    if (end.signal == 0 && end.status < kCannotBeRun) return end.status;
    throw std::runtime_error("the command, run on " + short_sha(commit) +
                             (end.signal != 0
                                  ? ", was ended by signal " + to_string(end.signal)
                                  : ", ended with exit status " + to_string(end.status)) +
                             "; nothing is concluded from it, and the same call goes on here");
  }

  [[noreturn]] void refuse(const std::string& commit, int status) const {
    throw UsageError("the command, run on " + short_sha(commit) + ", ended with exit status " +
                         to_string(status) + " and left no run" +
                         (q_.lineage.empty() ? "" : " of that commit in lineage " + q_.lineage) +
                         ": it has to probe with --commit \"$GRETA_BISECT_COMMIT\" into "
                         "\"$GRETA_DB\", or to exit with 125 where that cannot be done",
                     {"  `greta-db runs` shows what it left"});
  }

  /// A database without runs has none of the ends, and no lineage: the command makes the first.
  void begin_with_a_run() {
    const auto has_runs = [](SQLite::Database db) { return !likely_lineages(db, "", "").empty(); };
    if (has_runs(open_for_writing(q_.database))) return;
    say_("there are no runs yet: running the command on the good end " + named(q_.good));
    const int status = run_command(q_.good);
    if (has_runs(open_for_reading(q_.database))) return;
    if (status != kCannotBeTested) refuse(q_.good, status);
    throw UsageError("the good end " + short_sha(q_.good) +
                     " cannot be tested (exit status 125): name another commit");
  }

  /// Runs the command on a commit and reads its run.
  CommitVerdict answer_of_command(const std::string& commit) {
    say_("running the command on " + named(commit));
    const int status = run_command(commit);
    CommitVerdict verdict;
    if (status == kCannotBeTested) {
      verdict.text = "exit status 125";
      return verdict;
    }
    verdict = answers().of(commit);
    if (verdict.state == State::kNoRun) refuse(commit, status);
    return verdict;
  }

  /// True where the ends can be told apart; else `conclusion` says why not.
  bool judge_ends(Conclusion& conclusion) {
    for (const bool good : {true, false}) {
      const std::string& commit = good ? q_.good : q_.bad;
      CommitVerdict& verdict = good ? good_ : bad_;
      verdict = answers().of(commit);
      if (verdict.decided()) continue;
      if (verdict.state != State::kDisputed && !q_.command.empty()) {
        verdict = answer_of_command(commit);
        if (verdict.decided()) continue;
      }
      conclusion.text =
          "the " + std::string(good ? "good" : "bad") + " end " + named(commit) +
          (verdict.text.empty() ? " has no run"
                                : " has no verdict: " + utf8::printable(why_undecided(verdict)));
      if (verdict.state == State::kDisputed || verdict.text == "exit status 125") return false;
      conclusion.kind = Kind::kNext;
      conclusion.commits = {facts(commit)};
      return false;
    }
    if (good_.state == State::kBad && bad_.state == State::kGood) {
      throw UsageError("the " + gate_text(q_.gate) + " of the good end " + short_sha(q_.good) +
                           " is FAIL, and of the bad end " + short_sha(q_.bad) +
                           " PASS: they are the wrong way round",
                       {q_.fix ? "  to find what broke it, swap them and leave --fix out"
                               : "  to find what fixed it, swap them and add --fix"});
    }
    by_values_ = good_.state == bad_.state;
    if (!by_values_) return true;
    const std::string verdict = good_.state == State::kGood ? "PASS" : "FAIL";
    answers().compare_with({good_.run_id, good_.run});
    good_ = answers().of(q_.good);
    bad_ = answers().of(q_.bad);
    if (bad_.state == State::kGood) {
      conclusion.text = "both ends have the " + gate_text(q_.gate) + " " + verdict + ", and " +
                        utf8::printable(bad_.run + " " + bad_.text) +
                        ": there is nothing to bisect";
    } else if (!good_.decided() || !bad_.decided()) {
      conclusion.text = "the ends cannot be told apart: " +
                        utf8::printable(why_undecided(bad_.decided() ? good_ : bad_));
    }
    return conclusion.text.empty();
  }

  void halve(Conclusion& conclusion) {
    std::vector<std::string> words{new_end(), "^" + old_end()};
    if (q_.first_parent) words.emplace_back("--first-parent");
    std::set<std::string> range;
    repository_.log(words, [&](const GitCommit& one) {
      range.insert(one.sha);
      facts_[one.sha] = one;
    });
    std::set<std::string> recorded = answers().runs().among(range), bases;
    std::vector<std::string> candidates = tree_->candidates();
    say_((by_values_ ? "by values: both ends have the same " : "by the ") + gate_text(q_.gate) +
         "; " + left_text(candidates.size()));
    for (;; candidates = tree_->candidates()) {
      throw_if_stopped();
      std::set<std::string> known = tree_->told("");
      known.insert(old_end());
      const auto may_be_asked = [&](const std::string& one) { return !known.contains(one); };
      // The last one that git asked for, if it asks for none.
      std::string commit = tree_->next();
      const bool is_base = may_be_asked(commit) && !range.contains(commit);
      if (is_base && bases.insert(commit).second) recorded.insert(commit);
      if (!is_base && std::none_of(candidates.begin(), candidates.end(), may_be_asked)) {
        return conclude_from(candidates, conclusion);
      }
      const auto best = std::find_if(candidates.begin(), candidates.end(), [&](const auto& one) {
        return may_be_asked(one) && recorded.contains(one);
      });
      if (!is_base && best != candidates.end()) commit = *best;
      const bool is_recorded = recorded.erase(commit) > 0;
      if (!is_recorded && q_.command.empty()) {
        conclusion.kind = Kind::kNext;
        conclusion.commits = {facts(commit)};
        conclusion.text = is_base ? "the ends have parted there, so it has to be tested first"
                                  : left_text(candidates.size());
        return;
      }
      const CommitVerdict verdict = is_recorded ? answers().of(commit) : answer_of_command(commit);
      if (verdict.decided()) {
        tell(commit, verdict, !is_recorded);
        if (!is_base || !is_new(verdict.state)) continue;
        conclusion.text = "the merge base " + named(commit) + " is " + probes_.back().word +
                          ": what turned lies between it and " + short_sha(old_end()) +
                          (q_.fix ? ", and was broken there" : ", and was fixed there (--fix)");
        return;
      }
      if (!is_recorded || verdict.state == State::kDisputed) {
        skip(commit, why_undecided(verdict), !is_recorded);
      }
    }
  }

  /// Nothing is left to ask for: one candidate, or more that are skipped.
  void conclude_from(const std::vector<std::string>& candidates, Conclusion& conclusion) {
    const std::set<std::string> cut = repository_.cut();
    for (const std::string& commit : candidates) {
      if (!cut.contains(commit)) continue;
      // Its parents are not known to be otherwise.
      conclusion.text = "undecided: the search came to " + short_sha(commit) +
                        ", and what came before it is not there; " + kUnshallow +
                        ", and the same call goes on";
      return;
    }
    conclusion.kind = candidates.size() > 1 ? Kind::kOnlySkipped : Kind::kFound;
    std::vector<std::string> words{"--no-walk"};
    words.insert(words.end(), candidates.begin(), candidates.end());
    repository_.log(words, [&](const GitCommit& one) { conclusion.commits.push_back(one); });
    if (candidates.size() > 1) return;
    conclusion.verdict = answers().of(candidates.front());
    if (conclusion.verdict.state == State::kNoRun) conclusion.verdict.text = "as the log says";
    if (q_.fix) conclusion.verdict.place = bad_.place;
  }

  Repository repository_;
  SearchRequest q_;
  std::function<void(const std::string&)> say_;
  std::unique_ptr<BisectTree> tree_;
  std::unique_ptr<RecordedAnswers> answers_;  // closed while the command runs
  bool by_values_ = false;
  CommitVerdict good_, bad_;  // of the ends
  std::vector<ProbedCommit> probes_;
  std::map<std::string, GitCommit> facts_;
};

}  // namespace

Conclusion search_commits(SearchRequest request, std::function<void(const std::string&)> say) {
  return Search(std::move(request), std::move(say)).conclude();
}

}  // namespace greta
