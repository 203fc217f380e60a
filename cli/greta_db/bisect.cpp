#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "cli/commits/search.h"
#include "cli/greta_db/commands.h"
#include "cli/output/files.h"
#include "common/completion.h"
#include "common/json_text.h"
#include "common/shell_word.h"
#include "common/trouble.h"
#include "common/utf8.h"

namespace greta {
namespace {

/// State of the commit that is looked for.
std::string wanted(const Conclusion& said) { return said.question.fix ? "good" : "bad"; }

std::string found_text(const Conclusion& said) {
  const GitCommit& commit = said.commits.front();
  std::string text = "\nfirst " + wanted(said) + " commit  " + commit.sha + "\n  subject  " +
                     utf8::printable(commit.subject) + "\n  date     " +
                     utf8::printable(commit.committed_at) + "\n  authored " +
                     utf8::printable(commit.authored_at) + "\n";
  if (const std::string where = place_text(said.verdict.place); !where.empty()) {
    text += (said.question.fix ? "  parted   " : "  parts    ") +
            std::string(said.by_values ? "values " : "prefill and decode ") + where + "\n";
  }
  const std::string& run = said.verdict.run;
  return text + "  run      " + utf8::printable(run.empty() ? said.verdict.text : run) + "\n";
}

std::string next_text(const Conclusion& said) {
  const GitCommit& commit = said.commits.front();
  return "\nnext     " + commit.sha + " " + utf8::printable(commit.subject) + "\n  " + said.text +
         "\n  probe it as the other runs of " + utf8::printable(said.question.lineage) +
         ", into --db " + shell_word(said.question.database) + " with --commit " +
         short_sha(commit.sha) +
         ", and call this again;\n"
         "  or let this do it: --run COMMAND runs in a work tree of the commit, with "
         "$GRETA_BISECT_COMMIT and $GRETA_DB;\n"
         "  or leave it out: --skip " +
         short_sha(commit.sha) + "\n";
}

std::string text_of(const Conclusion& said) {
  std::string text;
  switch (said.kind) {
    case Conclusion::Kind::kFound:
      text = found_text(said);
      break;
    case Conclusion::Kind::kNext:
      text = next_text(said);
      break;
    case Conclusion::Kind::kOnlySkipped:
      text = "\nonly skipped commits are left to test; the first " + wanted(said) +
             " commit is one of\n";
      for (const GitCommit& commit : said.commits) {
        text += "  " + commit.sha + " " + utf8::printable(commit.subject) + "\n";
      }
      break;
    case Conclusion::Kind::kNothing:
      text = said.text + "\n";
      break;
  }
  const std::string& log = said.question.log;
  return log.empty() ? text : text + "  log      " + utf8::printable(log) + "\n";
}

JsonObject commit_object(const GitCommit& commit) {
  JsonObject object;
  object.add("commit", commit.sha).add("subject", commit.subject);
  object.add("committed_at", commit.committed_at).add("authored_at", commit.authored_at);
  return object;
}

std::string json_of(const Conclusion& said) {
  static constexpr const char* kKinds[] = {"found", "next", "only_skipped", "nothing"};
  const std::string kind = kKinds[static_cast<size_t>(said.kind)];
  const SearchRequest& question = said.question;
  JsonObject object;
  object.add("status", kind).add("by", std::string(said.by_values ? "values" : "verdict"));
  object.add("gate", std::string(gate_name(question.gate))).add("lineage", question.lineage);
  object.add("repo", question.repository).add("good", question.good).add("bad", question.bad);
  object.add("fix", question.fix);
  if (!said.text.empty()) object.add("text", said.text);
  std::vector<std::string> commits, probes;
  for (const GitCommit& one : said.commits) {
    JsonObject commit = commit_object(one);
    if (said.kind == Conclusion::Kind::kFound) {
      const FailPlace& place = said.verdict.place;
      commit.add("run", said.verdict.run).add("verdict", said.verdict.text);
      if (!place.prompt.empty()) commit.add("prompt", place.prompt);
      if (!place.tensor.empty()) commit.add("tensor", place.tensor);
      commit.add("layer", place.layer).add("pos_id", place.pos);
    }
    commits.push_back(commit.take());
  }
  if (said.kind == Conclusion::Kind::kOnlySkipped) {
    object.raw("possible", json_array(commits));
  } else if (!commits.empty()) {
    object.raw(kind, commits.front());
  }
  int64_t asked = 0;
  for (const ProbedCommit& probe : said.probes) {
    asked += probe.asked ? 1 : 0;
    JsonObject one;
    one.add("commit", probe.commit.sha).add("subject", probe.commit.subject);
    one.add("answer", probe.word).add("verdict", probe.text).add("run", probe.run);
    probes.push_back(one.add("asked", probe.asked).add("candidates", probe.left).take());
  }
  object.add("asked", asked).raw("probes", json_array(probes));
  if (!question.log.empty()) object.add("log", question.log);
  return object.take() + "\n";
}

void add_question(CLI::App& command, SearchRequest& request) {
  const auto add = [&](const char* name, std::string& value, const char* type, const char* help) {
    return command.add_option(name, value, help)->option_text(type);
  };
  add("--repo", request.repository, "DIR",
      "A clone of the engine's repository (default: the current folder)");
  add("--good", request.good, "REV", "A commit that is as it should be");
  add("--bad", request.bad, "REV", "A commit that is not");
  command.add_flag("--fix", request.fix, "Find the commit that fixed it: --bad comes before");
  command.add_flag("--first-parent", request.first_parent,
                   "Follow only the first parent of merges");
  add("--lineage", request.lineage, "NAME",
      "Whose runs answer (default: the only one that both ends have)")
      ->check(offers_rows("SELECT DISTINCT lineage FROM lineage"));
  add_gate_option(command, request.gate);
}

/// The question of a log: its first line, without what could be run.
SearchRequest question_of(const std::string& log) {
  std::ifstream in(log, std::ios::binary);
  std::string line;
  std::getline(in, line);
  if (!line.starts_with(kLogStart)) {
    throw UsageError(
        "bisect needs --good REV and --bad REV, or --log FILE of a search that was begun");
  }
  CLI::App words;
  SearchRequest question;
  add_question(words, question);
  words.parse(line.substr(kLogStart.size()));
  return question;
}

int bisect(Options& options, SearchRequest request) {
  const bool json = options.format == Format::kJson;
  if (!json && options.format != Format::kTable) {
    throw UsageError("bisect prints text, or --format json");
  }
  if (request.good.empty() && request.bad.empty()) {
    SearchRequest question = question_of(request.log);
    question.command = request.command;
    question.log = request.log;
    question.skip = request.skip;
    request = std::move(question);
  }
  request.database = options.database;
  if (!request.log.empty()) refuse_database_file("--log", request.log, options.database);
  // Beside JSON it is told on standard error.
  const Conclusion said =
      search_commits(std::move(request), [&options, json](const std::string& line) {
        if (json) return complain("greta-db", line);
        options.out.write(line + "\n");
        options.out.flush();
      });
  options.out.write(json ? json_of(said) : text_of(said));
  return said.kind == Conclusion::Kind::kFound ? kExitDone : kExitNoVerdict;
}

}  // namespace

void add_bisect_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "bisect", "Find the commit that broke it, or changed what is computed, by git bisect");
  auto request = std::make_shared<SearchRequest>();
  add_question(*command, *request);
  command
      ->add_option("--run", request->command,
                   "Command line of sh that builds and probes a commit; exits with 125 where that "
                   "cannot be done")
      ->option_text("COMMAND");
  command->add_option("--skip", request->skip, "A commit that cannot be tested. Repeatable")
      ->allow_extra_args(false)
      ->option_text("REV");
  command
      ->add_option("--log", request->log,
                   "Keep what was asked and answered, as git bisect log does; a later call with it "
                   "goes on")
      ->option_text("FILE");
  command->footer(
      "Example:\n"
      "  greta-db bisect --good v1.4 --bad main --log search.log \\\n"
      "    --run 'make -s || exit 125; ./probe --commit \"$GRETA_BISECT_COMMIT\"'\n"
      "A git bisect of your own asks recorded runs:\n"
      "  git bisect run greta-db --db \"$PWD/greta.db\" gate --commit HEAD --recorded");
  command->callback([&options, request] {
    options.action = [&options, request] { return bisect(options, *request); };
  });
}

}  // namespace greta
