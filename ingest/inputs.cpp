#include "ingest/inputs.h"

#include <algorithm>
#include <system_error>

namespace greta {
namespace {

namespace fs = std::filesystem;

/// Files below a directory; what is passed over is listed too, with the reason.
void list_directory(const fs::path& directory, std::vector<Input>& found) {
  std::error_code error, ignored;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (!it->is_directory(ignored)) {
      found.push_back({it->path()});
    } else if (it->is_symlink(ignored)) {
      found.push_back({it->path(), 0, "a link to a directory is not followed"});
    } else {
      list_directory(it->path(), found);
    }
  }
  if (error)
    found.push_back({directory, 0, "cannot read this directory: " + error.message(), true});
}

}  // namespace

std::vector<Input> list_inputs(const std::vector<fs::path>& paths) {
  std::vector<Input> inputs;
  for (const fs::path& given : paths) {
    fs::path path = fs::absolute(given).lexically_normal();
    if (!fs::exists(path)) {
      throw std::system_error(std::make_error_code(std::errc::no_such_file_or_directory),
                              given.string());
    }
    if (!fs::is_directory(path)) {
      inputs.push_back({path});
      continue;
    }
    std::vector<Input> found;
    list_directory(path, found);
    std::sort(found.begin(), found.end(),
              [](const Input& a, const Input& b) { return a.path < b.path; });
    inputs.insert(inputs.end(), found.begin(), found.end());
  }
  for (Input& input : inputs) {
    std::error_code ignored;
    auto size = fs::file_size(input.path, ignored);
    input.bytes = ignored || !input.not_read.empty() ? 0 : static_cast<int64_t>(size);
  }
  return inputs;
}

}  // namespace greta
