#include "ingest/inputs.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <algorithm>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "ingest/content_name.h"

namespace greta {
namespace {

namespace fs = std::filesystem;

bool is_below(const fs::path& path, const fs::path& root) {
  return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

/// Of a path without links. /dev/shm holds files as /tmp does.
bool is_of_kernel(const fs::path& path) {
  if (is_below(path, "/dev/shm")) return false;
  for (const char* root : {"/proc", "/sys", "/dev"}) {
    if (is_below(path, root)) return true;
  }
  struct statfs there {};
  return statfs(path.c_str(), &there) == 0 &&
         (there.f_type == PROC_SUPER_MAGIC || there.f_type == SYSFS_MAGIC);
}

/// Why what lies at a path without links is not read; "" for a file or a directory.
std::string obstacle(const fs::path& path, const fs::file_status& status) {
  if (is_of_kernel(path)) return "what the kernel shows as files is not read";
  switch (status.type()) {
    case fs::file_type::regular:
    case fs::file_type::directory:
      return "";
    case fs::file_type::fifo:
      return "a FIFO is not read";
    case fs::file_type::socket:
      return "a socket is not read";
    case fs::file_type::block:
    case fs::file_type::character:
      return "a device is not read";
    default:
      return "neither a file nor a directory";
  }
}

/// What lies below one directory that was named.
/// Whether what is not read behind it would be missed in a verdict.
bool is_called_a_trace(const fs::path& path) {
  const std::string extension = lower_extension(path.string());
  return extension == ".jsonl" || extension == ".ndjson" || extension == ".tgz" ||
         extension == ".tar";
}

class Tree {
 public:
  Tree(const fs::path& root, Links links) : root_(fs::canonical(root)), links_(links) {
    list_directory(root);
    std::sort(found_.begin(), found_.end(),
              [](const Input& a, const Input& b) { return a.path < b.path; });
  }

  const std::vector<Input>& found() const { return found_; }

 private:
  void pass_over(const fs::path& path, const std::string& why, bool is_error) {
    found_.push_back({path, 0, why, is_error});
  }

  void list_directory(const fs::path& directory) {
    struct stat there {};
    if (stat(directory.c_str(), &there) == 0 && !seen_.emplace(there.st_dev, there.st_ino).second) {
      return pass_over(directory, "a directory that is read elsewhere in the tree", false);
    }
    std::error_code error;
    std::vector<fs::directory_entry> entries;
    for (fs::directory_iterator it(directory, error), end; !error && it != end;
         it.increment(error)) {
      entries.push_back(*it);
    }
    if (error) pass_over(directory, "cannot read this directory: " + error.message(), true);
    std::sort(entries.begin(), entries.end());
    for (const fs::directory_entry& entry : entries) list_entry(entry);
  }

  void list_entry(const fs::directory_entry& entry) {
    std::error_code error;
    if (entry.is_symlink(error)) return list_link(entry.path());
    const fs::file_status status = entry.symlink_status(error);
    if (status.type() == fs::file_type::regular) {
      found_.push_back({entry.path()});
    } else if (const std::string why = obstacle(entry.path(), status); !why.empty()) {
      pass_over(entry.path(), why, true);
    } else {
      list_directory(entry.path());
    }
  }

  void list_link(const fs::path& link) {
    std::error_code error;
    const fs::path target = fs::canonical(link, error);
    if (error) return pass_over(link, "cannot follow this link: " + error.message(), true);
    const fs::file_status status = fs::status(target, error);
    if (const std::string why = obstacle(target, status); !why.empty()) {
      return pass_over(link, "a link; " + why, true);
    }
    const bool within = is_below(target, root_);
    if (!within && links_ == Links::kWithin) {
      return pass_over(link, "a link out of the directory given is not followed without --follow",
                       !fs::is_directory(status) && is_called_a_trace(link));
    }
    if (!fs::is_directory(status)) {
      found_.push_back({link});
    } else if (within) {
      pass_over(link, "a link to a directory is not followed: it is read where it lies", false);
    } else {
      list_directory(link);
    }
  }

  fs::path root_;
  Links links_;
  std::set<std::pair<dev_t, ino_t>> seen_;  // directories
  std::vector<Input> found_;
};

}  // namespace

std::vector<Input> list_inputs(const std::vector<fs::path>& paths, Links links) {
  std::vector<Input> inputs;
  for (const fs::path& given : paths) {
    fs::path path = fs::absolute(given).lexically_normal();
    if (!fs::exists(path)) {
      throw std::system_error(std::make_error_code(std::errc::no_such_file_or_directory),
                              given.string());
    }
    const std::string why = obstacle(fs::canonical(path), fs::status(path));
    if (!why.empty() || !fs::is_directory(path)) {
      inputs.push_back({path, 0, why, !why.empty()});
      continue;
    }
    const Tree tree(path, links);
    inputs.insert(inputs.end(), tree.found().begin(), tree.found().end());
  }
  for (Input& input : inputs) {
    if (!input.not_read.empty()) continue;
    std::error_code ignored;
    auto size = fs::file_size(input.path, ignored);
    input.bytes = ignored ? 0 : static_cast<int64_t>(size);
  }
  return inputs;
}

void pass_over_database(std::vector<Input>& inputs, const fs::path& database) {
  std::set<std::pair<dev_t, ino_t>> own;
  struct stat status {};
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
    const std::string file = database.string() + suffix;
    if (::stat(file.c_str(), &status) == 0) own.insert({status.st_dev, status.st_ino});
  }
  for (Input& input : inputs) {
    if (::stat(input.path.c_str(), &status) != 0) continue;
    if (own.contains({status.st_dev, status.st_ino})) {
      input.not_read = "of the database that is written to: not read";
    }
  }
}

}  // namespace greta
