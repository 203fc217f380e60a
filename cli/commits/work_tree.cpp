#include "cli/commits/work_tree.h"

#include <exception>
#include <filesystem>
#include <system_error>

#include "common/trouble.h"

namespace greta {
WorkTree::WorkTree(const Repository& repository, const std::string& commit)
    : repository_(repository), path_((folder_ / ("bisect-" + short_sha(commit))).string()) {
  try {
    repository_.git({"worktree", "add", "--quiet", "--detach", "--end-of-options", path_, commit});
  } catch (...) {
    remove();
    throw;
  }
}

WorkTree::~WorkTree() {
  if (remove()) return;
  complain("greta-db",
           "git goes on listing the work tree " + path_ + " until `git worktree prune`");
}

// Twice --force: whatever was changed in it, and though it were locked.
bool WorkTree::remove() noexcept {
  try {
    repository_.git({"worktree", "remove", "--force", "--force", path_});
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void WorkTree::remove_left(const Repository& repository, const std::string& path) {
  const std::filesystem::path tree(path), folder = tree.parent_path();
  std::error_code error;
  const bool is_ours = tree.filename().string().starts_with("bisect-") &&
                       folder.filename().string().starts_with("greta_");
  if (!is_ours || !std::filesystem::exists(tree, error)) return;
  try {
    repository.git({"worktree", "remove", "--force", "--force", path});
    std::filesystem::remove(folder, error);  // it was alone there
  } catch (const std::exception&) {
    complain("greta-db", "the work tree " + path + " of a bisect that was killed is still there");
  }
}

}  // namespace greta
