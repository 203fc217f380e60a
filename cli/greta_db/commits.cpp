#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commits/repository.h"
#include "cli/greta_db/commands.h"
#include "cli/warehouse/sql_query.h"
#include "common/trouble.h"
#include "db/database.h"
#include "db/judge.h"
#include "db/transaction.h"

namespace greta {
namespace {

void store(SQLite::Database& db, const std::vector<GitCommit>& commits) {
  db.exec("DELETE FROM commit_parent; DELETE FROM commit_node");
  Query node(db,
             "INSERT INTO commit_node(sha, ord, committed_at, subject) VALUES (?, ?,"
             " ifnull(strftime('%Y-%m-%dT%H:%M:%SZ', ?), ''), ?)");
  Query parent(db, "INSERT INTO commit_parent(sha, nth, parent) VALUES (?, ?, ?)");
  int64_t ord = 0;
  for (const GitCommit& commit : commits) {
    const std::string sha(commit.sha);
    node.bind(1, sha).bind(2, ord++).bind(3, std::string(commit.committed_at));
    node.bind(4, std::string(commit.subject)).step();
    node.reset();
    int64_t nth = 0;
    for (std::string_view left = commit.parents; !left.empty();) {
      const size_t end = std::min(left.find(' '), left.size());
      parent.bind(1, sha).bind(2, nth++).bind(3, std::string(left.substr(0, end))).step();
      parent.reset();
      left.remove_prefix(std::min(end + 1, left.size()));
    }
  }
}

int read_commits(Options& options, const std::string& repository) {
  const Repository clone(repository);
  const CommitLog log = clone.log({"--all"});
  const std::vector<GitCommit>& commits = log.commits();
  if (commits.empty()) throw UsageError(repository + " has no commits");
  SQLite::Database db = open_for_writing(options.database);
  in_transaction(db, [&] { store(db, commits); });
  judge_rest(db);
  Query known(db, "SELECT count(*), count(commit_ord) FROM lineage");
  known.step();
  options.out.write(std::to_string(commits.size()) + " commits; those of " +
                    std::to_string(known.integer(1)) + " of " + std::to_string(known.integer(0)) +
                    " runs are among them\n");
  if (const size_t cut = clone.cut().size(); cut > 0) {
    complain("greta-db", "what came before " + std::to_string(cut) +
                             (cut == 1 ? " of them" : " of these") +
                             " is not known, so runs may lack their baselines: " + kUnshallow);
  }
  return kExitDone;
}

}  // namespace

void add_commits_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "commits",
      "Reads the commits of the engine's git repository, so that runs stand in their order");
  auto repository = std::make_shared<std::string>();
  command->add_option("repository", *repository, "A clone, or a folder in one")
      ->required()
      ->option_text("DIR");
  command->callback([&options, repository] {
    options.action = [&options, repository] { return read_commits(options, *repository); };
  });
}

}  // namespace greta
