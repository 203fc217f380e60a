#include "db/run_name.h"

#include <cstdint>

namespace greta {

std::string free_run_name(SQLite::Database& db, const std::string& name) {
  SQLite::Statement taken(db, "SELECT 1 FROM run WHERE name = ?");
  const auto is_free = [&taken](const std::string& candidate) {
    taken.reset();
    taken.bind(1, candidate);
    return !taken.executeStep();
  };
  if (is_free(name)) return name;
  size_t end = name.find_last_not_of("0123456789");
  bool numbered = end != std::string::npos && name[end] == '#' && end + 1 < name.size();
  std::string base = name.substr(0, numbered ? end : name.size());
  for (int64_t i = 2;; ++i) {
    std::string candidate = base + "#" + std::to_string(i);
    if (is_free(candidate)) return candidate;
  }
}

}  // namespace greta
