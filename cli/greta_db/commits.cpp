#include <sstream>
#include <string>

#include "cli/commits/repository.h"
#include "cli/greta_db/commands.h"
#include "cli/warehouse/sql_query.h"
#include "common/trouble.h"
#include "db/database.h"
#include "db/judge.h"
#include "db/transaction.h"

namespace greta {
namespace {

/// Keeps the commits of `clone` in place of those of before. Returns how many.
int64_t store(SQLite::Database& db, const Repository& clone) {
  db.exec("DELETE FROM commit_parent; DELETE FROM commit_node");
  Query node(db,
             "INSERT INTO commit_node(sha, ord, committed_at, subject) VALUES (?, ?,"
             " ifnull(strftime('%Y-%m-%dT%H:%M:%SZ', ?), ''), ?)");
  Query parent(db, "INSERT INTO commit_parent(sha, nth, parent) VALUES (?, ?, ?)");
  int64_t ord = 0;
  clone.log({"--all"}, [&](const GitCommit& commit) {
    node.bind(1, commit.sha).bind(2, ord++).bind(3, commit.committed_at).bind(4, commit.subject);
    node.step();
    node.reset();
    std::istringstream parents(commit.parents);
    int64_t nth = 0;
    for (std::string sha; parents >> sha;) {
      parent.bind(1, commit.sha).bind(2, nth++).bind(3, sha).step();
      parent.reset();
    }
  });
  return ord;
}

int read_commits(Options& options, const std::string& repository) {
  const Repository clone(repository);
  if (clone.lines({"rev-list", "--all", "--max-count=1"}).empty()) {
    throw UsageError(repository + " has no commits");
  }
  SQLite::Database db = open_for_writing(options.database);
  int64_t commits = 0;
  in_transaction(db, [&] { commits = store(db, clone); });
  judge_rest(db);
  Query known(db, "SELECT count(*), count(commit_ord) FROM lineage");
  known.step();
  options.out.write(std::to_string(commits) + " commits; those of " +
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
      "Read the commits of the engine's git repository, so that runs stand in their order");
  add_option(*command, "repository DIR", add_action(*command, options, read_commits),
             "A clone, or a folder in one")
      ->required();
}

}  // namespace greta
