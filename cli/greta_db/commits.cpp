#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/greta_db/commands.h"
#include "cli/warehouse/sql_query.h"
#include "common/child_process.h"
#include "db/database.h"
#include "db/kept_diff.h"
#include "db/transaction.h"

namespace greta {
namespace {

struct Commit {
  std::string_view sha, parents, committed_at, subject;
};

/// The next field of git's output, which ends with a NUL.
std::string_view next_field(std::string_view& text) {
  const size_t end = text.find('\0');
  if (end == std::string_view::npos) throw UsageError("git printed half a commit");
  const std::string_view field = text.substr(0, end);
  text.remove_prefix(end + 1);
  return field;
}

/// Parents before children.
std::vector<Commit> commits_of(std::string_view log) {
  std::vector<Commit> commits;
  while (!log.empty()) {
    Commit& commit = commits.emplace_back();
    commit.sha = next_field(log);
    commit.parents = next_field(log);
    commit.committed_at = next_field(log);
    commit.subject = next_field(log);
    if (!log.empty() && log.front() == '\n') log.remove_prefix(1);
  }
  return commits;
}

void store(SQLite::Database& db, const std::vector<Commit>& commits) {
  db.exec("DELETE FROM commit_parent; DELETE FROM commit_node");
  Query node(db,
             "INSERT INTO commit_node(sha, ord, committed_at, subject) VALUES (?, ?,"
             " ifnull(strftime('%Y-%m-%dT%H:%M:%SZ', ?), ''), ?)");
  Query parent(db, "INSERT INTO commit_parent(sha, nth, parent) VALUES (?, ?, ?)");
  int64_t ord = 0;
  for (const Commit& commit : commits) {
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
  std::error_code error;
  if (!std::filesystem::is_directory(repository, error)) {
    throw UsageError(repository + " is no folder: name a clone of the engine's repository");
  }
  const std::string log =
      output_of({"git", "-C", repository, "-c", "log.showSignature=false", "log", "--all",
                 "--topo-order", "--reverse", "--no-color", "--format=%H%x00%P%x00%cI%x00%s%x00"});
  const std::vector<Commit> commits = commits_of(log);
  if (commits.empty()) throw UsageError(repository + " has no commits");
  SQLite::Database db = open_for_writing(options.database);
  in_transaction(db, [&] { store(db, commits); });
  keep_all_diffs(db);
  Query known(db, "SELECT count(*), count(commit_ord) FROM lineage");
  known.step();
  options.out.write(std::to_string(commits.size()) + " commits; those of " +
                    std::to_string(known.integer(1)) + " of " + std::to_string(known.integer(0)) +
                    " runs are among them\n");
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
