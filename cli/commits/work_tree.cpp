#include "cli/commits/work_tree.h"

#include <exception>

#include "common/trouble.h"

namespace greta {
WorkTree::WorkTree(const Repository& repository, const std::string& commit)
    : repository_(repository), path_((folder_ / ("bisect-" + short_sha(commit))).string()) {
  try {
    repository_.git({"-c", "core.hooksPath=/dev/null", "worktree", "add", "--quiet", "--detach",
                     "--end-of-options", path_, commit});
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

}  // namespace greta
