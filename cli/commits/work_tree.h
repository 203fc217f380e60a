#pragma once
#include <string>

#include "cli/commits/repository.h"
#include "common/temporary_folder.h"

namespace greta {

/// A commit checked out in a temporary folder, beside the user's work tree, of which nothing is
/// touched: neither files nor index, HEAD or refs. No hook runs. Removed with what was put into it.
class WorkTree {
 public:
  /// Throws as output_of does when git cannot.
  WorkTree(const Repository& repository, const std::string& commit);
  ~WorkTree();
  WorkTree(const WorkTree&) = delete;
  WorkTree& operator=(const WorkTree&) = delete;

  const std::string& path() const { return path_; }

  /// Removes what a process that was killed has left of one; nothing where it is no such tree.
  static void remove_left(const Repository& repository, const std::string& path);

 private:
  bool remove() noexcept;  ///< false: git could not

  const Repository& repository_;
  TemporaryFolder folder_;
  std::string path_;
};

}  // namespace greta
