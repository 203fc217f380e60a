#include "ingest/content_name.h"

#include "ingest/text.h"

namespace greta {

std::string lower_extension(const std::string& path) {
  std::string name = text::to_lower(path.substr(path.find_last_of('/') + 1));
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  size_t dot = name.find_last_of('.');
  return dot == std::string::npos ? "" : name.substr(dot);
}

std::string file_stem(const std::string& path) {
  std::string name = path.substr(path.find_last_of('/') + 1);
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  return name.substr(0, name.find_last_of('.'));
}

}  // namespace greta
