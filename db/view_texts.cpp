#include "db/view_texts.h"

#include <algorithm>
#include <map>
#include <set>

#include "db/definitions.h"
#include "db/schema.h"
#include "db/sql_text.h"

namespace greta {
namespace {

/// A column of a table `k` that keeps what views say: it begins with one of their texts, or a view
/// says it anew.
struct KeptText {
  const char *table, *column, *anew;
};
constexpr KeptText kKeptTexts[] = {
    {"finding", "meaning", nullptr},
    {"kept_diff", "caused_by", nullptr},
    {"kept_diff", "why_not",
     "CASE WHEN k.why_not IS NOT NULL THEN (SELECT p.why_not FROM run_pair p"
     " WHERE p.run_a_id = k.run_a_id AND p.run_b_id = k.run_b_id) END"}};

/// Where the text between quotes that begins at `at` ends; a quote that stands twice is in it.
size_t text_end(std::string_view sql, size_t at) {
  size_t end = quoted_end(sql, at);
  while (end < sql.size() && sql[end] == '\'') end = quoted_end(sql, end);
  return end;
}

std::string unquoted(std::string_view quoted) {
  std::string text;
  for (size_t i = 1; i + 1 < quoted.size(); ++i) {
    text += quoted[i];
    if (quoted[i] == '\'') ++i;
  }
  return text;
}

std::string in_sql_quotes(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("''") : std::string(1, c);
  return quoted + "'";
}

/// Calls take(text) for a text between quotes, else(char) for all else but comments.
template <class Text, class Other>
void for_each_text(std::string_view sql, Text&& take, Other&& other) {
  for (size_t at = 0; at < sql.size();) {
    if (const size_t end = comment_end(sql, at); end > at) {
      at = end;
      other('\n');
    } else if (sql[at] == '\'') {
      const size_t behind = text_end(sql, at);
      take(sql.substr(at, behind - at));
      at = behind;
    } else {
      other(sql[at++]);
    }
  }
}

/// A view while it is looked at.
struct Reworded {
  std::string sql;              ///< without comments
  std::set<std::string> words;  ///< names in it
  bool changed = false;
};

Reworded reworded(const std::string& sql, const std::map<std::string_view, std::string_view>& by) {
  Reworded view;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) view.words.insert(std::move(word));
    word.clear();
  };
  for_each_text(
      sql,
      [&](std::string_view quoted) {
        end_word();
        const auto found = by.find(unquoted(quoted));
        view.changed = view.changed || found != by.end();
        view.sql += found == by.end() ? std::string(quoted) : in_sql_quotes(found->second);
      },
      [&](char c) {
        if (is_of_word(c)) {
          word += c;
        } else {
          end_word();
        }
        view.sql += c;
      });
  end_word();
  return view;
}

/// What a column begins with, said otherwise.
std::string said_otherwise(const std::string& column, std::span<const ViewText> texts) {
  std::vector<ViewText> longest_first(texts.begin(), texts.end());
  std::stable_sort(longest_first.begin(), longest_first.end(),
                   [](const auto& a, const auto& b) { return a.said.size() > b.said.size(); });
  std::string sql = "CASE";
  for (const ViewText& text : longest_first) {
    const std::string size = "length(" + in_sql_quotes(text.said) + ")";
    sql += " WHEN substr(" + column + ", 1, " + size + ") = " + in_sql_quotes(text.said) +
           " THEN " + in_sql_quotes(text.instead) + " || substr(" + column + ", 1 + " + size + ")";
  }
  return sql + " ELSE " + column + " END";
}

/// A view before a table that keeps what views say.
std::string view_of_table(SQLite::Database& db, const std::string& table,
                          std::span<const ViewText> texts) {
  std::string columns = ", " + columns_of(db, table) + ",";
  for (const KeptText& kept : kKeptTexts) {
    if (kept.table != table) continue;
    const std::string name = kept.column;
    const std::string sql = kept.anew ? kept.anew : said_otherwise("k." + name, texts);
    const size_t at = columns.find(", " + name + ",");
    columns.replace(at + 2, name.size(), sql + " AS " + name);
  }
  return "CREATE TEMP VIEW " + table + " AS SELECT " + columns.substr(2, columns.size() - 3) +
         " FROM main." + table + " k";
}

}  // namespace

std::vector<std::string> quoted_texts(std::string_view sql) {
  std::vector<std::string> all;
  for_each_text(
      sql, [&](std::string_view quoted) { all.push_back(unquoted(quoted)); }, [](char) {});
  return all;
}

void say_otherwise(SQLite::Database& db, std::span<const ViewText> texts) {
  std::map<std::string_view, std::string_view> by;
  for (const ViewText& text : texts) by.emplace(text.said, text.instead);
  std::set<std::string> names;  // of what says something otherwise
  std::map<std::string, Reworded> views;
  for (const Definition& ours : definitions()) {
    if (ours.type != "view") continue;
    const Reworded& view = views[ours.name] = reworded(ours.sql, by);
    if (view.changed || !ours.in_file) names.insert(ours.name);
  }
  std::set<std::string> tables;
  for (const KeptText& kept : kKeptTexts) tables.insert(kept.table);
  names.insert(tables.begin(), tables.end());
  const auto reads_one = [&](const Reworded& view) {
    return std::any_of(view.words.begin(), view.words.end(),
                       [&](const std::string& word) { return names.contains(word); });
  };
  for (size_t before = 0; before != names.size();) {
    before = names.size();
    for (const auto& [name, view] : views) {
      if (!names.contains(name) && reads_one(view)) names.insert(name);
    }
  }
  const int64_t only_reads = pragma(db, "query_only");
  db.exec("PRAGMA query_only = OFF");  // of what is not temporary nothing is written
  db.exec("SAVEPOINT said");
  for (const std::string& table : tables) db.exec(view_of_table(db, table, texts));
  for (const auto& [name, view] : views) {
    if (names.contains(name)) db.exec("CREATE TEMP " + view.sql.substr(sizeof "CREATE"));
  }
  db.exec("RELEASE said");
  db.exec("PRAGMA query_only = " + std::to_string(only_reads));
}

bool says_otherwise(SQLite::Database& db) {
  return SQLite::Statement(db, "SELECT 1 FROM temp.sqlite_schema WHERE type = 'view' LIMIT 1")
      .executeStep();
}

}  // namespace greta
