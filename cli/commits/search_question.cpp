#include "cli/commits/search_question.h"

#include <algorithm>
#include <map>

#include "cli/commits/recorded_answers.h"
#include "common/exit_status.h"
#include "common/near_words.h"
#include "common/shell_word.h"
#include "db/database.h"

namespace greta {
namespace {

/// `value`, of the log if that was begun, becomes what is given, with which it must agree.
void settle(const std::string& given, std::string& value, const BisectLog& log, const char* what) {
  if (given.empty() || given == value) return;
  if (log.begun()) {
    throw UsageError(log.file() + " is the log of another search: its " + what + " is " + value +
                     ", not " + given + "; leave the option out, or name another file with --log");
  }
  value = given;
}

void settle_flag(bool given, bool& value, const BisectLog& log, const char* what) {
  if (given && log.begun() && !value) {
    throw UsageError(log.file() + " is the log of a search without " + what +
                     ": leave it out, or name another file with --log");
  }
  value |= given;
}

/// Lineages that have runs of both ends, else of one.
std::vector<std::string> likely_lineages(SQLite::Database& db, const BisectQuestion& question) {
  const std::map<std::string, int> counts = lineages_of(db, {question.good, question.bad});
  std::vector<std::string> likely;
  for (int least = 2; least > 0 && likely.empty(); --least) {
    for (const auto& [lineage, n] : counts) {
      if (n >= least) likely.push_back(lineage);
    }
  }
  return likely;
}

}  // namespace

std::string folder_of(const SearchRequest& request, const BisectLog& log) {
  if (!request.repository.empty()) return request.repository;
  return log.begun() ? log.question().repository : ".";
}

BisectQuestion question_of(const SearchRequest& request, const BisectLog& log,
                           const Repository& repository) {
  BisectQuestion question;
  if (log.begun()) question = log.question();
  settle(repository.folder(), question.repository, log, "repository");
  const auto settle_end = [&](const std::string& given, std::string& value, const char* what) {
    if (given.empty() && value.empty()) {
      throw UsageError(std::string("bisect needs --") + what +
                       " REV, or --log FILE of a search that was begun");
    }
    settle(given.empty() ? "" : repository.commit(given), value, log,
           (std::string(what) + " end").c_str());
  };
  settle_end(request.good, question.good, "good");
  settle_end(request.bad, question.bad, "bad");
  if (request.gate != Gate::kVerdict || !log.begun()) {
    settle(std::string(gate_name(request.gate)), question.gate, log, "gate");
  }
  settle_flag(request.first_parent, question.first_parent, log, "--first-parent");
  settle_flag(request.fix, question.fix, log, "--fix");
  settle(request.lineage, question.lineage, log, "lineage");
  return question;
}

std::string lineage_of(const std::string& database, const BisectQuestion& question) {
  SQLite::Database db = open_for_reading(database);
  std::vector<std::string> all;
  for (Query query(db, "SELECT DISTINCT lineage FROM lineage WHERE NOT injected ORDER BY 1");
       query.step();) {
    all.push_back(query.text(0));
  }
  if (!question.lineage.empty()) {
    if (std::find(all.begin(), all.end(), question.lineage) != all.end()) return question.lineage;
    throw unknown_name("lineage", question.lineage, all,
                       "`greta-db query \"SELECT DISTINCT lineage FROM lineage\"`");
  }
  std::vector<std::string> likely = likely_lineages(db, question);
  if (likely.empty()) likely = all;
  if (likely.size() == 1) return likely.front();
  if (likely.empty()) {
    throw UsageError(database +
                     " has no runs: probe the good and the bad end first, with --commit");
  }
  std::vector<std::string> lines;
  for (const std::string& lineage : likely) lines.push_back("  --lineage " + shell_word(lineage));
  throw UsageError("several lineages could be meant; say which:", lines);
}

void check_ancestry(const BisectQuestion& question, const Repository& repository) {
  if (question.good == question.bad) {
    throw UsageError("--good and --bad name the same commit, " + short_sha(question.good));
  }
  const std::vector<std::string> bases =
      repository.merge_bases(old_end(question), new_end(question));
  if (bases.empty()) {
    throw UsageError(
        short_sha(question.good) + " and " + short_sha(question.bad) +
        " have no history in common" +
        (repository.is_shallow() ? ", as far as this clone goes: git fetch --unshallow" : ""));
  }
  if (bases.front() != new_end(question)) return;
  throw UsageError(question.fix ? "the bad end " + short_sha(question.bad) +
                                      " comes after the good one: without --fix " +
                                      "the commit is looked for that broke it"
                                : "the bad end " + short_sha(question.bad) +
                                      " comes before the good one: swap them, or " +
                                      "look for what mended it with --fix");
}

}  // namespace greta
