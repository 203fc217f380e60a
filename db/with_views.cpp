#include "db/with_views.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "db/definitions.h"
#include "db/sql_text.h"

namespace greta {
namespace {

/// Where what begins at `at` ends, if that is a comment or a text in quotes; else `at`.
size_t passed_over(std::string_view sql, size_t at) {
  switch (sql[at]) {
    case '-':
    case '/':
      return comment_end(sql, at);
    case '\'':
    case '"':
      return quoted_end(sql, at);
    default:
      return at;
  }
}

/// Without the comments that it begins with.
std::string_view without_title(std::string_view sql) {
  while (sql.starts_with("--")) sql.remove_prefix(std::min(sql.find('\n') + 1, sql.size()));
  return sql;
}

/// Views that a statement reads by FROM or JOIN.
class Views {
 public:
  /// Those below a view before it.
  void add_of(std::string_view sql) {
    std::string_view before;
    for (size_t at = 0; at < sql.size();) {
      const size_t begin = at;
      at = passed_over(sql, at);
      if (at > begin) continue;
      while (at < sql.size() && is_of_word(sql[at])) ++at;
      if (at == begin) {
        if (sql[at++] == '(') before = {};
        continue;
      }
      const std::string_view word = sql.substr(begin, at - begin);
      if (before == "FROM" || before == "JOIN") add(word);
      before = word;
    }
  }

  std::string text() const {
    std::string all;
    for (const Definition* view : views_) {
      all += (all.empty() ? "" : ", ") + view->name + " AS NOT MATERIALIZED (" +
             body_of(view->name) + ")";
    }
    return all;
  }

 private:
  void add(std::string_view name) {
    const Definition* view = find_definition(name);
    if (view == nullptr || view->type != "view" || !seen_.insert(view).second) return;
    add_of(view->sql);
    views_.push_back(view);
  }

  std::unordered_set<const Definition*> seen_;
  std::vector<const Definition*> views_;
};

}  // namespace

std::string with_views(std::string_view sql) {
  Views views;
  views.add_of(sql);
  const std::string text = views.text();
  if (text.empty()) return std::string(sql);
  sql = without_title(sql);
  for (const std::string_view own : {"WITH RECURSIVE ", "WITH "}) {
    if (sql.starts_with(own)) {
      return "WITH RECURSIVE " + text + ", " + std::string(sql.substr(own.size()));
    }
  }
  return "WITH " + text + " " + std::string(sql);
}

}  // namespace greta
