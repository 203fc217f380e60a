#include "cli/commits/repository.h"

#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/exit_status.h"
#include "common/near_words.h"
#include "common/process.h"
#include "common/trouble.h"

namespace greta {
namespace {

namespace fs = std::filesystem;

/// Variables by which git looks elsewhere than in the folder that it is given; hooks and rebases
/// set them.
constexpr const char* kElsewhere[] = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE",
                                      "GIT_COMMON_DIR", "GIT_PREFIX"};

/// First words of the reason for which a tree of ours is locked; then host, process and its start.
constexpr std::string_view kOurs = "greta-db bisect ";

/// Twice --force: whatever was changed in it, and though it is locked.
void remove_tree(const Repository& repository, const std::string& path) noexcept {
  try {
    repository.git({"worktree", "remove", "--force", "--force", path});
  } catch (const std::exception&) {
    complain("greta-db", "git could not remove the work tree " + path +
                             ": `git worktree remove --force --force` does it");
  }
}

/// Removes the trees of processes that were killed.
void remove_left(const Repository& repository) {
  std::string path;
  for (const std::string& line : repository.lines({"worktree", "list", "--porcelain"})) {
    if (line.starts_with("worktree ")) path = line.substr(9);
    if (!line.starts_with("locked " + std::string(kOurs))) continue;
    std::istringstream reason(line.substr(7 + kOurs.size()));
    Process user;
    if (!(reason >> user.host >> user.pid)) continue;
    std::getline(reason >> std::ws, user.start);
    if (may_be_running(user)) continue;
    remove_tree(repository, path);
    std::error_code error;
    fs::remove(fs::path(path).parent_path(), error);  // it was alone there
  }
}

}  // namespace

const char* const kUnshallow = "this clone is shallow: `git fetch --unshallow` brings the rest";

std::string short_sha(const std::string& sha) { return sha.substr(0, 12); }

Repository::Repository(std::string folder) : folder_(std::move(folder)) {
  std::error_code error;
  if (!fs::is_directory(folder_, error)) {
    throw UsageError(folder_ + " is no folder: name a clone of the engine's repository");
  }
  folder_ = fs::canonical(folder_).string();
  try {
    git({"rev-parse", "--git-dir"});
  } catch (const std::system_error& failed) {
    if (failed.code() != std::errc::no_such_file_or_directory) throw;
    throw UsageError("git is not installed, or not in $PATH: commits are read with it");
  } catch (const ProgramFailed&) {
    throw UsageError("git finds no repository in " + folder_ +
                     ": name a clone of the engine's repository");
  }
}

Program Repository::program(std::vector<std::string> words) const {
  // nothing that the repository is set up to run
  Program program{.command = {"git", "-C", folder_, "-c", "core.hooksPath=/dev/null", "-c",
                              "core.fsmonitor=false"}};
  program.command.insert(program.command.end(), std::make_move_iterator(words.begin()),
                         std::make_move_iterator(words.end()));
  for (const char* name : kElsewhere) program.variables.emplace_back(name, std::nullopt);
  return program;
}

std::string Repository::git(std::vector<std::string> words) const {
  return output_of(program(std::move(words)));
}

std::vector<std::string> Repository::lines(std::vector<std::string> words) const {
  std::istringstream text(git(std::move(words)));
  std::vector<std::string> all;
  for (std::string line; std::getline(text, line);) all.push_back(line);
  return all;
}

std::string Repository::commit_of_digits(const std::string& digits) const {
  try {
    return lines({"rev-parse", "--verify", "--quiet", "--end-of-options", digits + "^{commit}"})
        .at(0);
  } catch (const ProgramFailed&) {
    return "";
  }
}

std::string Repository::commit(const std::string& revision) const {
  if (std::string sha = commit_of_digits(revision); !sha.empty()) return sha;
  if (!cut().empty()) {
    throw UsageError("git in " + folder_ + " has no commit " + revision + ", and " + kUnshallow);
  }
  throw unknown_name(
      "commit", revision,
      lines({"for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/tags"}),
      "git in " + folder_);
}

std::vector<std::string> Repository::merge_bases(const std::string& a, const std::string& b) const {
  try {
    return lines({"merge-base", "--all", a, b});
  } catch (const ProgramFailed&) {  // status 1: there is none
    return {};
  }
}

std::set<std::string> Repository::cut() const {
  const std::string file = lines({"rev-parse", "--git-path", "shallow"}).at(0);
  std::ifstream in(fs::path(folder_) / file);
  std::set<std::string> all;
  for (std::string sha; std::getline(in, sha);) all.insert(sha);
  return all;
}

void Repository::log(const std::vector<std::string>& which,
                     const std::function<void(const GitCommit&)>& each) const {
  // -z: a NUL behind each commit
  std::vector<std::string> words{"-c", "log.showSignature=false", "-c",
                                 "i18n.logOutputEncoding=UTF-8"};
  words.insert(words.end(), {"log", "-z", "--topo-order", "--reverse", "--no-color", "--no-notes",
                             "--format=%H%x00%P%x00%cI%x00%aI%x00%s"});
  words.insert(words.end(), which.begin(), which.end());
  words.emplace_back("--");
  std::istringstream text(git(std::move(words)));
  const auto next = [&text](std::string& field) {
    return static_cast<bool>(std::getline(text, field, '\0'));
  };
  for (GitCommit one; next(one.sha) && next(one.parents) && next(one.committed_at) &&
                      next(one.authored_at) && next(one.subject);) {
    each(one);
  }
}

BisectTree::BisectTree(const Repository& repository, const std::string& commit, bool first_parent,
                       bool fix)
    : repository_(repository),
      path_((folder_ / "bisect").string()),
      old_(fix ? "broken" : "good"),
      new_(fix ? "fixed" : "bad"),
      first_parent_(first_parent) {
  remove_left(repository);
  const Process user = this_process();
  const std::string reason =
      std::string(kOurs) + user.host + " " + std::to_string(user.pid) + " " + user.start;
  repository_.git({"worktree", "add", "--quiet", "--detach", "--no-checkout", "--lock", "--reason",
                   reason, path_, commit});
}

BisectTree::~BisectTree() { remove_tree(repository_, path_); }

std::string BisectTree::git(std::vector<std::string> words) const {
  words.insert(words.begin(), {"-C", path_});
  return repository_.git(std::move(words));
}

void BisectTree::bisect(std::vector<std::string> words) {
  words.insert(words.begin(), "bisect");
  status_ = 0;
  try {
    git(std::move(words));
  } catch (const ProgramFailed& failed) {
    if (failed.status != kOnlySkipped && failed.status != kBaseIsNew) throw;
    status_ = failed.status;
  }
}

void BisectTree::start(const std::string& new_end, const std::string& old_end) {
  std::vector<std::string> words{"start", "--no-checkout"};
  if (first_parent_) words.emplace_back("--first-parent");
  if (old_ != "good") words.insert(words.end(), {"--term-old=" + old_, "--term-new=" + new_});
  words.insert(words.end(), {new_end, old_end});
  bisect(std::move(words));
}

void BisectTree::replay(const std::string& file) {
  bisect({"replay", fs::absolute(file).string()});
}

void BisectTree::tell(const std::string& term, const std::string& commit) {
  bisect({term, commit});
}

bool BisectTree::asks() const {
  return status_ == 0 && log().find("\n# first " + new_ + " commit: [") == std::string::npos;
}

std::vector<std::string> BisectTree::candidates() const {
  std::vector<std::string> words{"rev-list", "--bisect-all"};
  if (first_parent_) words.emplace_back("--first-parent");
  words.insert(words.end(), {"refs/bisect/" + new_, "--not", "--glob=refs/bisect/" + old_ + "-*"});
  std::istringstream text(git(std::move(words)));
  std::vector<std::string> all;  // of lines "SHA (REFS, dist=N)"
  for (std::string line; std::getline(text, line);) all.push_back(line.substr(0, line.find(' ')));
  return all;
}

std::string BisectTree::next() const {
  const std::string sha = git({"rev-parse", "--verify", "BISECT_HEAD"});
  return sha.substr(0, sha.find('\n'));
}

void BisectTree::check_out(const std::string& commit) const {
  git({"checkout", "--quiet", "--force", "--detach", commit});
  git({"clean", "--quiet", "--force", "--force", "-d", "-x"});
}

}  // namespace greta
