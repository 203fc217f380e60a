#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace greta {

/// Parameter of a canned query, bound as :name.
struct CannedParameter {
  std::string name;                          ///< without the colon
  std::optional<std::string> default_value;  ///< none: it must be given; "" binds NULL
  std::string explanation;
};

/// A query of queries/canned, by file name. Its header is comment lines: what it answers, then one
/// line per parameter, `-- :name (default) explanation`; `()` is a default of NULL, and without
/// parentheses the parameter must be given.
struct CannedQuery {
  std::string name;
  std::string description;  ///< first comment line
  std::vector<CannedParameter> parameters;
  std::string sql;
};

/// All of them, by name.
const std::vector<CannedQuery>& canned_queries();

/// Null when there is none of that name.
const CannedQuery* find_canned_query(std::string_view name);

/// Throws std::logic_error when there is none of that name.
const CannedQuery& canned_query(std::string_view name);

}  // namespace greta
