#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/commits/recorded_answers.h"
#include "cli/commits/repository.h"
#include "cli/greta_db/commands.h"
#include "cli/output/files.h"
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

namespace fs = std::filesystem;
using State = CommitVerdict::State;
using std::to_string;

/// Start of a log; the options that go on from it follow.
constexpr std::string_view kLogStart = "# greta-db bisect ";
constexpr int kCannotBeTested = 125;  // as for git bisect run
constexpr int kCannotBeRun = 126;     // from here on a shell's statuses say nothing of the commit

/// A question to the history of a repository.
struct BisectArguments {
  std::string repository = ".", good, bad;  ///< revisions
  std::string lineage;  ///< "": the only one that has runs of both ends, else of one, else at all
  std::string command;  ///< line of sh that probes a commit; "": the next one is named
  std::string log;      ///< file; "": none
  std::vector<std::string> skip;
  Gate gate = Gate::kVerdict;
  bool first_parent = false;
  bool fix = false;  ///< the good end comes after the bad one: what fixed it is looked for
};

/// The end of a search, or the point where it waits.
struct Conclusion {
  const char* status = "nothing";       ///< found, next, only_skipped, nothing
  std::string text = {};                ///< why a commit is to be run next, or there is nothing
  std::vector<GitCommit> commits = {};  ///< found, or next; those that it may be
  CommitVerdict verdict = {};           ///< of what is found
};

/// "30 candidates left, about 5 steps".
std::string left_text(size_t n) {
  const int steps = n < 2 ? 0 : static_cast<int>(std::bit_width(n - 1));
  return counted(static_cast<int64_t>(n), "candidate") + " left, about " + counted(steps, "step");
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
void check_ancestry(const Repository& repository, const BisectArguments& q) {
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
std::string lineage_of(const BisectArguments& q, const std::string& database) {
  SQLite::Database db = open_for_reading(database);
  const std::vector<std::string> likely =
      q.lineage.empty() ? likely_lineages(db, q.good, q.bad) : likely_lineages(db, "", "");
  if (std::find(likely.begin(), likely.end(), q.lineage) != likely.end()) return q.lineage;
  if (!q.lineage.empty()) {
    throw unknown_name("lineage", q.lineage, likely,
                       "`greta-db query \"SELECT DISTINCT lineage FROM lineage\"`");
  }
  if (likely.size() == 1) return likely.front();
  if (likely.empty()) {
    throw UsageError(database +
                     " has no runs: probe the good and the bad end first, with --commit");
  }
  std::vector<std::string> lines;
  for (const std::string& one : likely) lines.push_back("  --lineage " + shell_word(one));
  throw UsageError("several lineages could be meant; say which:", lines);
}

/// A search for the commit that broke something, changed what is computed, or fixed it: by git
/// bisect, in a work tree of its own. A recorded run answers first, then the command. Two ends of
/// different verdicts are told apart by it, ends of the same one by whether commits compute what
/// the good end does. The log is git's, behind a line that says what is searched for.
class Search {
 public:
  Search(Options& options, BisectArguments q)
      : options_(options), repository_(q.repository), q_(std::move(q)) {}

  int run() {
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
    q_.lineage = lineage_of(q_, options_.database);
    const bool goes_on = has_log();
    Conclusion said;
    if (judge_ends(said)) {
      goes_on ? tree_->replay(q_.log) : tree_->start(new_end(), old_end());
      for (const std::string& commit : q_.skip) tree_->tell("skip", commit);
      write_log();
      halve(said);
    }
    options_.out.write(is_json() ? json_of(said) : text_of(said));
    return said.status == std::string_view("found") ? kExitDone : kExitNoVerdict;
  }

 private:
  /// The end that came first in history, and the one that came after it.
  const std::string& old_end() const { return q_.fix ? q_.bad : q_.good; }
  const std::string& new_end() const { return q_.fix ? q_.good : q_.bad; }
  bool is_json() const { return options_.format == Format::kJson; }

  /// Says what goes on; next to JSON on standard error.
  void say(const std::string& line) {
    if (is_json()) return complain("greta-db", line);
    options_.out.write(line + "\n");
    options_.out.flush();
  }

  RecordedAnswers& answers() {
    if (answers_ == nullptr) {
      answers_ =
          std::make_unique<RecordedAnswers>(options_.database, repository_, q_.lineage, q_.gate);
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

  /// Notes what is known of a commit: good, bad, skip. `left`: candidates after it.
  void note(const std::string& commit, const std::string& word, const CommitVerdict& verdict,
            bool asked, std::optional<size_t> left = {}) {
    std::string line = word + (word == "bad" ? "   " : "  ") + named(commit) + ": " +
                       utf8::printable(verdict.text);
    if (!verdict.run.empty() && word != "skip") line += " (" + utf8::printable(verdict.run) + ")";
    if (left && *left > 1) line += "; " + left_text(*left);
    say(line);
    asked_ += asked ? 1 : 0;
    JsonObject one;
    one.add("commit", commit).add("subject", facts(commit).subject).add("answer", word);
    one.add("verdict", verdict.text).add("run", word == "skip" ? "" : verdict.run);
    probes_.push_back(one.add("asked", asked).add("candidates", left).take());
  }

  void tell(const std::string& commit, CommitVerdict verdict, bool asked) {
    const bool decided = verdict.decided(), good = verdict.state == State::kGood;
    if (!decided) verdict.text = why_undecided(verdict);
    tree_->tell(!decided ? "skip" : good == q_.fix ? tree_->new_term() : tree_->old_term(), commit);
    write_log();
    note(commit,
         !decided ? "skip"
         : good   ? "good"
                  : "bad",
         verdict, asked, decided ? std::optional(tree_->candidates().size()) : std::nullopt);
  }

  /// The command that is searched by, but for what may differ from call to call.
  std::string log_start() const {
    return std::string(kLogStart) + "--repo " + shell_word(q_.repository) + " --good " + q_.good +
           " --bad " + q_.bad + " --lineage " + shell_word(q_.lineage) +
           (q_.gate == Gate::kVerdict ? "" : " --gate " + std::string(gate_name(q_.gate))) +
           (q_.first_parent ? " --first-parent" : "") + (q_.fix ? " --fix" : "");
  }

  /// True where the log says how to go on. Throws UsageError for what is no log of this search.
  bool has_log() const {
    std::error_code error;
    if (!fs::exists(q_.log, error)) return false;
    if (!fs::is_regular_file(q_.log)) throw UsageError(q_.log + " is no file");
    if (fs::is_empty(q_.log)) return false;
    std::ifstream in(q_.log, std::ios::binary);
    std::string line;
    std::getline(in, line);
    if (line == log_start()) return true;
    throw UsageError(q_.log + " is not the log of this search, but begins with: " + line,
                     {"  give its options, or name another file with --log"});
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
    program.variables.emplace_back("GRETA_DB", fs::absolute(options_.database).string());
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
    if (has_runs(open_for_writing(options_.database))) return;
    say("there are no runs yet: running the command on the good end " + named(q_.good));
    const int status = run_command(q_.good);
    if (has_runs(open_for_reading(options_.database))) return;
    if (status != kCannotBeTested) refuse(q_.good, status);
    throw UsageError("the good end " + short_sha(q_.good) +
                     " cannot be tested (exit status 125): name another commit");
  }

  /// Runs the command on a commit and reads its run.
  CommitVerdict answer_of_command(const std::string& commit) {
    say("running the command on " + named(commit));
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

  /// What is recorded of a commit, else what the command finds; `asked`: it ran.
  CommitVerdict answer_of(const std::string& commit, bool& asked) {
    const CommitVerdict verdict = answers().of(commit);
    asked = !verdict.decided() && verdict.state != State::kDisputed && !q_.command.empty();
    return asked ? answer_of_command(commit) : verdict;
  }

  /// True where the ends can be told apart; else `said` says why not.
  bool judge_ends(Conclusion& said) {
    bool asked[2] = {};
    for (const bool good : {true, false}) {
      const std::string& commit = good ? q_.good : q_.bad;
      CommitVerdict& verdict = good ? good_ : bad_;
      verdict = answer_of(commit, asked[good]);
      if (verdict.decided()) continue;
      said.text =
          "the " + std::string(good ? "good" : "bad") + " end " + named(commit) +
          (verdict.text.empty() ? " has no run"
                                : " has no verdict: " + utf8::printable(why_undecided(verdict)));
      if (verdict.state == State::kDisputed || verdict.text == "exit status 125") return false;
      said.status = "next";
      said.commits = {facts(commit)};
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
    if (by_values_) {
      const std::string verdict = good_.state == State::kGood ? "PASS" : "FAIL";
      answers().compare_with({good_.run_id, good_.run});
      good_ = answers().of(q_.good);
      bad_ = answers().of(q_.bad);
      if (bad_.state == State::kGood) {
        said.text = "both ends have the " + gate_text(q_.gate) + " " + verdict + ", and " +
                    utf8::printable(bad_.run + " " + bad_.text) + ": there is nothing to bisect";
      } else if (!good_.decided() || !bad_.decided()) {
        said.text = "the ends cannot be told apart: " +
                    utf8::printable(why_undecided(bad_.decided() ? good_ : bad_));
      }
      if (!said.text.empty()) return false;
    }
    note(q_.good, "good", good_, asked[true]);
    note(q_.bad, "bad", bad_, asked[false]);
    return true;
  }

  void halve(Conclusion& said) {
    say((by_values_ ? "by values: both ends have the same " : "by the ") + gate_text(q_.gate) +
        "; " + left_text(tree_->candidates().size()));
    while (tree_->asks()) {
      throw_if_stopped();
      const std::string commit = tree_->next();
      bool asked = false;
      const CommitVerdict verdict = answer_of(commit, asked);
      if (!verdict.decided() && verdict.state != State::kDisputed && q_.command.empty()) {
        const std::vector<std::string> left = tree_->candidates();
        const bool is_base = std::find(left.begin(), left.end(), commit) == left.end();
        said = {"next",
                is_base ? "the ends have parted there, so it has to be tested first"
                        : left_text(left.size()),
                {facts(commit)}};
        return;
      }
      tell(commit, verdict, asked);
    }
    conclude(said);
  }

  /// Nothing is left to ask for: one candidate, or more that are skipped, or none at all.
  void conclude(Conclusion& said) {
    if (tree_->base_is_new()) {
      said.text = "the merge base " + named(tree_->next()) + " is " + (q_.fix ? "good" : "bad") +
                  ": what turned lies between it and " + short_sha(old_end()) +
                  (q_.fix ? ", and was broken there" : ", and was fixed there (--fix)");
      return;
    }
    const std::vector<std::string> candidates = tree_->candidates();
    const std::set<std::string> cut = repository_.cut();
    for (const std::string& commit : candidates) {
      if (!cut.contains(commit)) continue;
      // Its parents are not known to be otherwise.
      said.text = "undecided: the search came to " + short_sha(commit) +
                  ", and what came before it is not there; " + kUnshallow +
                  ", and the same call goes on";
      return;
    }
    std::vector<std::string> words{"--no-walk"};
    words.insert(words.end(), candidates.begin(), candidates.end());
    repository_.log(words, [&](const GitCommit& one) { said.commits.push_back(one); });
    said.status = candidates.size() > 1 ? "only_skipped" : "found";
    if (candidates.size() > 1) return;
    said.verdict = answers().of(candidates.front());
    if (said.verdict.state == State::kNoRun) said.verdict.text = "as the log says";
    if (q_.fix) said.verdict.place = bad_.place;
  }

  // ---- What is said at the end.
  std::string found_text(const Conclusion& said) const {
    const GitCommit& commit = said.commits.front();
    std::string text = "\nfirst " + wanted() + " commit  " + commit.sha + "\n  subject  " +
                       utf8::printable(commit.subject) + "\n  date     " +
                       utf8::printable(commit.committed_at) + "\n  authored " +
                       utf8::printable(commit.authored_at) + "\n";
    if (const std::string where = place_text(said.verdict.place); !where.empty()) {
      text += (q_.fix ? "  parted   " : "  parts    ") +
              std::string(by_values_ ? "values " : "prefill and decode ") + where + "\n";
    }
    const std::string& run = said.verdict.run;
    return text + "  run      " + utf8::printable(run.empty() ? said.verdict.text : run) + "\n";
  }

  std::string next_text(const Conclusion& said) const {
    const GitCommit& commit = said.commits.front();
    return "\nnext     " + commit.sha + " " + utf8::printable(commit.subject) + "\n  " + said.text +
           "\n  probe it as the other runs of " + utf8::printable(q_.lineage) + ", into --db " +
           shell_word(options_.database) + " with --commit " + short_sha(commit.sha) +
           ", and call this again;\n"
           "  or let this do it: --run COMMAND runs in a work tree of the commit, with "
           "$GRETA_BISECT_COMMIT and $GRETA_DB;\n"
           "  or leave it out: --skip " +
           short_sha(commit.sha) + "\n";
  }

  /// State of the commit that is looked for.
  std::string wanted() const { return q_.fix ? "good" : "bad"; }

  std::string text_of(const Conclusion& said) const {
    const std::string_view status = said.status;
    std::string text = status == "found"  ? found_text(said)
                       : status == "next" ? next_text(said)
                                          : said.text + "\n";
    if (status == "only_skipped") {
      text =
          "\nonly skipped commits are left to test; the first " + wanted() + " commit is one of\n";
      for (const GitCommit& commit : said.commits)
        text += "  " + commit.sha + " " + utf8::printable(commit.subject) + "\n";
    }
    return q_.log.empty() ? text : text + "  log      " + utf8::printable(q_.log) + "\n";
  }

  std::string json_of(const Conclusion& said) const {
    const std::string status = said.status;
    JsonObject object;
    object.add("status", status).add("by", std::string(by_values_ ? "values" : "verdict"));
    object.add("gate", std::string(gate_name(q_.gate))).add("lineage", q_.lineage);
    object.add("repo", q_.repository).add("good", q_.good).add("bad", q_.bad).add("fix", q_.fix);
    if (!said.text.empty()) object.add("text", said.text);
    std::vector<std::string> commits;
    for (const GitCommit& one : said.commits) {
      JsonObject commit;
      commit.add("commit", one.sha).add("subject", one.subject);
      commit.add("committed_at", one.committed_at).add("authored_at", one.authored_at);
      if (status == "found") {
        const FailPlace& place = said.verdict.place;
        commit.add("run", said.verdict.run).add("verdict", said.verdict.text);
        if (!place.prompt.empty()) commit.add("prompt", place.prompt);
        if (!place.tensor.empty()) commit.add("tensor", place.tensor);
        commit.add("layer", place.layer).add("pos_id", place.pos);
      }
      commits.push_back(commit.take());
    }
    if (status == "only_skipped") {
      object.raw("possible", json_array(commits));
    } else if (!commits.empty()) {
      object.raw(status, commits.front());
    }
    object.add("asked", asked_).raw("probes", json_array(probes_));
    if (!q_.log.empty()) object.add("log", q_.log);
    return object.take() + "\n";
  }

  Options& options_;
  Repository repository_;
  BisectArguments q_;
  std::unique_ptr<BisectTree> tree_;
  std::unique_ptr<RecordedAnswers> answers_;  // closed while the command runs
  bool by_values_ = false;
  CommitVerdict good_, bad_;  // of the ends
  int64_t asked_ = 0;
  std::vector<std::string> probes_;  // JSON objects
  std::map<std::string, GitCommit> facts_;
};

void add_question(CLI::App& command, BisectArguments& q) {
  add_option(command, "--repo DIR", q.repository,
             "A clone of the engine's repository (default: the current folder)");
  add_option(command, "--good REV", q.good, "A commit that is as it should be");
  add_option(command, "--bad REV", q.bad, "A commit that is not");
  command.add_flag("--fix", q.fix, "Find the commit that fixed it: --bad comes before");
  command.add_flag("--first-parent", q.first_parent, "Follow only the first parent of merges");
  add_option(command, "--lineage NAME", q.lineage,
             "Whose runs answer (default: the only one that both ends have)")
      ->check(offers_rows("SELECT DISTINCT lineage FROM lineage"));
  add_gate_option(command, q.gate);
}

/// Fills a question from the first line of its log.
void read_question(BisectArguments& q) {
  std::ifstream in(q.log, std::ios::binary);
  std::string line;
  std::getline(in, line);
  if (!line.starts_with(kLogStart)) {
    throw UsageError(
        "bisect needs --good REV and --bad REV, or --log FILE of a search that was begun");
  }
  CLI::App words;
  add_question(words, q);
  words.parse(line.substr(kLogStart.size()));
}

int bisect(Options& options, BisectArguments& q) {
  if (options.format != Format::kJson && options.format != Format::kTable)
    throw UsageError("bisect prints text, or --format json");
  if (q.good.empty() && q.bad.empty()) read_question(q);
  if (!q.log.empty()) refuse_database_file("--log", q.log, options.database);
  return Search(options, q).run();
}

}  // namespace

void add_bisect_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "bisect", "Find the commit that broke it, or changed what is computed, by git bisect");
  BisectArguments& q = add_action(*command, options, bisect);
  add_question(*command, q);
  add_option(*command, "--run COMMAND", q.command,
             "Command line of sh that builds and probes a commit; exits with 125 where that "
             "cannot be done");
  add_option(*command, "--skip REV", q.skip, "A commit that cannot be tested. Repeatable")
      ->allow_extra_args(false);
  add_option(*command, "--log FILE", q.log,
             "Keep what was asked and answered, as git bisect log does; a later call with it "
             "goes on");
  command->footer(
      "Example:\n"
      "  greta-db bisect --good v1.4 --bad main --log search.log \\\n"
      "    --run 'make -s || exit 125; ./probe --commit \"$GRETA_BISECT_COMMIT\"'\n"
      "A git bisect of your own asks recorded runs:\n"
      "  git bisect run greta-db --db \"$PWD/greta.db\" gate --commit HEAD --recorded");
}

}  // namespace greta
