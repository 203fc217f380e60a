#pragma once
#include <string_view>
#include <vector>

namespace greta {

/// A .sql file of the project, embedded at build time.
struct SqlFile {
  std::string_view path;  ///< from the repository root: "queries/pair.sql"
  std::string_view text;
};

/// All of db/, queries/, queries/internal/ and queries/canned/.
const std::vector<SqlFile>& sql_files();

}  // namespace greta
