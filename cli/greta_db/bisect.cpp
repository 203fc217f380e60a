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

/// "bad", of a search for a fix "good": what the commit is that is looked for.
std::string wanted(const Search& search) { return search.question().fix ? "good" : "bad"; }

void print_found(Output& out, Search& search, const std::string& commit) {
  const CommitFacts& facts = search.facts(commit);
  out.write("\nfirst " + wanted(search) + " commit  " + commit + "\n");
  out.write("  subject  " + utf8::printable(facts.subject) + "\n");
  out.write("  date     " + utf8::printable(facts.committed_at) + "\n");
  out.write("  authored " + utf8::printable(facts.authored_at) + "\n");
  if (const std::string where = place_text(search.place(commit)); !where.empty()) {
    out.write((search.question().fix ? "  parted   " : "  parts    ") +
              std::string(search.by_values() ? "values " : "prefill and decode ") + where + "\n");
  }
  out.write("  run      " + utf8::printable(search.answer(commit)->run) + "\n");
  if (const std::string before = search.last_before(commit); !before.empty()) {
    out.write("  before   " + utf8::printable(search.answer(before)->run) + " of " +
              short_sha(before) + "\n");
  }
}

void print_next(Options& options, Search& search, const Conclusion& conclusion) {
  const std::string& commit = conclusion.commit;
  options.out.write("\nnext     " + commit + " " + utf8::printable(search.facts(commit).subject) +
                    "\n  " + conclusion.text + "\n  probe it as the other runs of " +
                    utf8::printable(search.question().lineage) + ", into --db " +
                    shell_word(options.database) + " with --commit " + short_sha(commit) +
                    ", and call this again;\n"
                    "  or let this do it: --run COMMAND runs in a work tree of the commit, with "
                    "$GRETA_BISECT_COMMIT and $GRETA_DB;\n"
                    "  or leave it out: --skip " +
                    short_sha(commit) + "\n");
}

void print_text(Options& options, Search& search, const Conclusion& conclusion) {
  Output& out = options.out;
  switch (conclusion.kind) {
    case Conclusion::Kind::kFound:
      print_found(out, search, conclusion.commit);
      break;
    case Conclusion::Kind::kNext:
      print_next(options, search, conclusion);
      break;
    case Conclusion::Kind::kOnlySkipped:
      out.write("\nonly skipped commits are left to test; the first " + wanted(search) +
                " commit is one of\n");
      for (const std::string& commit : conclusion.possible) {
        out.write("  " + commit + " " + utf8::printable(search.facts(commit).subject) + "\n");
      }
      break;
    case Conclusion::Kind::kNothing:
      out.write(conclusion.text + "\n");
      break;
  }
  if (!search.log_file().empty()) {
    out.write("  log      " + utf8::printable(search.log_file()) + "\n");
  }
}

JsonObject commit_object(Search& search, const std::string& commit) {
  const CommitFacts& facts = search.facts(commit);
  JsonObject object;
  object.add("commit", commit).add("subject", facts.subject);
  object.add("committed_at", facts.committed_at).add("authored_at", facts.authored_at);
  return object;
}

std::string probes_json(const std::vector<ProbedCommit>& probes) {
  std::vector<std::string> all;
  for (const ProbedCommit& probe : probes) {
    JsonObject one;
    one.add("commit", probe.commit).add("subject", probe.subject).add("answer", probe.word);
    one.add("verdict", probe.text).add("run", probe.run).add("asked", probe.asked);
    one.add("candidates", probe.left);
    all.push_back(one.take());
  }
  return json_array(all);
}

void print_json(Output& out, Search& search, const Conclusion& conclusion) {
  const BisectQuestion& question = search.question();
  JsonObject object;
  object.add("status", std::string(kind_name(conclusion.kind)));
  object.add("by", std::string(search.by_values() ? "values" : "verdict"));
  object.add("gate", question.gate).add("lineage", question.lineage);
  object.add("repo", question.repository).add("good", question.good).add("bad", question.bad);
  object.add("fix", question.fix);
  if (!conclusion.text.empty()) object.add("text", conclusion.text);
  if (!conclusion.commit.empty()) {
    JsonObject commit = commit_object(search, conclusion.commit);
    if (const CommitVerdict* verdict = search.answer(conclusion.commit)) {
      const FailPlace& place = search.place(conclusion.commit);
      commit.add("run", verdict->run).add("verdict", verdict->text);
      if (!place.prompt.empty()) commit.add("prompt", place.prompt);
      if (!place.tensor.empty()) commit.add("tensor", place.tensor);
      commit.add("layer", place.layer).add("pos_id", place.pos);
    }
    object.raw(kind_name(conclusion.kind), commit.take());
  }
  std::vector<std::string> possible;
  for (const std::string& commit : conclusion.possible) {
    possible.push_back(commit_object(search, commit).take());
  }
  if (!possible.empty()) object.raw("possible", json_array(possible));
  int64_t asked = 0;
  for (const ProbedCommit& probe : search.probes()) asked += probe.asked ? 1 : 0;
  object.add("asked", asked).raw("probes", probes_json(search.probes()));
  if (!search.log_file().empty()) object.add("log", search.log_file());
  out.write(object.take() + "\n");
}

int bisect(Options& options, SearchRequest request) {
  const bool json = options.format == Format::kJson;
  if (!json && options.format != Format::kTable) {
    throw UsageError("bisect prints text, or --format json");
  }
  request.database = options.database;
  if (!request.log.empty()) refuse_database_file("--log", request.log, options.database);
  // Beside JSON it is told on standard error.
  Search search(std::move(request), [&options, json](const std::string& line) {
    if (json) return complain("greta-db", line);
    options.out.write(line + "\n");
    options.out.flush();
  });
  const Conclusion conclusion = search.conclude();
  if (json) {
    print_json(options.out, search, conclusion);
  } else {
    print_text(options, search, conclusion);
  }
  return conclusion.kind == Conclusion::Kind::kFound ? kExitDone : kExitNoVerdict;
}

void add_what_is_searched(CLI::App& command, SearchRequest& request) {
  command
      .add_option("--repo", request.repository,
                  "A clone of the engine's repository (default: the current folder)")
      ->option_text("DIR");
  command.add_option("--good", request.good, "A commit that is as it should be")
      ->option_text("REV");
  command.add_option("--bad", request.bad, "A commit that is not")->option_text("REV");
  command.add_flag("--fix", request.fix, "Find the commit that mended it: --bad comes before");
  command.add_flag("--first-parent", request.first_parent,
                   "Follow only the first parent of merges");
  command
      .add_option("--lineage", request.lineage,
                  "Whose runs answer (default: the only one that both ends have)")
      ->check(offers_answer("query 'SELECT DISTINCT lineage FROM lineage'"))
      ->option_text("NAME");
}

}  // namespace

void add_bisect_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "bisect", "Which commit broke it, or changed what is computed: a search of the history");
  auto request = std::make_shared<SearchRequest>();
  add_what_is_searched(*command, *request);
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
                   "Keep what was asked and answered; a later call with it goes on")
      ->option_text("FILE");
  add_gate_option(*command, request->gate);
  command->callback([&options, request] {
    options.action = [&options, request] { return bisect(options, *request); };
  });
}

}  // namespace greta
