// What the views say, in Spanish: every sentence of theirs, with the same values, and nothing else.
#include "cli/report/spanish_views.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "common/temporary_folder.h"
#include "db/definitions.h"
#include "db/with_views.h"
#include "tests/queries/warehouse.h"

namespace greta {
namespace {

/// What connections say, in English or in Spanish: one of each language, because SQLite works out
/// the columns of all views anew for every connection.
class TwoTongues : public testing::Test {
 protected:
  std::string said(const std::string& sql, Language language) {
    auto db = speaking_.find(language);
    if (db == speaking_.end()) {
      db = speaking_.emplace(language, open_for_reading(folder_ / "greta.db")).first;
      speak(db->second, language);
    }
    return text_of(db->second, sql);
  }
  std::string spanish(const std::string& sql) { return said(sql, Language::kSpanish); }

  TemporaryFolder folder_;
  Warehouse w_{folder_ / "greta.db"};
  std::map<Language, SQLite::Database> speaking_;
};

/// Words that both languages have.
const std::set<std::string> kNeutral = {"prefill", "decode", "prompt", "pos",
                                        "nan",     "inf",    "rel_l2"};

bool is_sentence(const std::string& text) {
  if (text.find(' ') == std::string::npos) return false;
  const std::string words = std::regex_replace(text, std::regex("%[-.0-9]*l*[a-z]"), " ");
  const std::regex word("[A-Za-z_0-9]+");
  return std::any_of(std::sregex_iterator(words.begin(), words.end(), word), std::sregex_iterator(),
                     [](const std::smatch& one) {
                       const std::string name = one.str();
                       return name.size() > 1 && std::islower(name[0]) && !kNeutral.contains(name);
                     });
}

std::set<std::string> texts_of_views() {
  std::set<std::string> texts;
  for (const Definition& ours : definitions()) {
    if (ours.type != "view") continue;
    for (const std::string& text : quoted_texts(ours.sql)) texts.insert(text);
  }
  return texts;
}

std::set<std::string> meanings() {
  Warehouse w;
  std::set<std::string> texts;
  SQLite::Statement rows(w.db, "SELECT meaning FROM finding");
  while (rows.executeStep()) texts.insert(rows.getColumn(0).getString());
  return texts;
}

std::vector<std::string> values_in(std::string_view text) {
  const std::regex value("%%|%[-.0-9]*[a-z]");
  std::vector<std::string> all;
  for (std::cregex_iterator one(text.begin(), text.end(), value); one != std::cregex_iterator();
       ++one)
    all.push_back(one->str());
  return all;
}

TEST(SpanishViews, HaveEverySentenceOfTheViewsAndOfTheFindings) {
  std::set<std::string> known;
  for (const ViewText& text : spanish_view_texts()) known.emplace(text.said);
  int sentences = 0;
  for (const std::string& text : texts_of_views()) {
    if (!is_sentence(text)) continue;
    ++sentences;
    EXPECT_TRUE(known.contains(text)) << text;
  }
  EXPECT_GT(sentences, 80);
  for (const std::string& text : meanings()) EXPECT_TRUE(known.contains(text)) << text;
}

TEST(SpanishViews, HaveNothingThatNoViewSaysAndTheSameValues) {
  std::set<std::string> views = texts_of_views(), seen;
  views.merge(meanings());
  for (const ViewText& text : spanish_view_texts()) {
    EXPECT_TRUE(views.contains(std::string(text.said))) << text.said;
    EXPECT_TRUE(seen.emplace(text.said).second) << text.said << " is there twice";
    EXPECT_NE(text.said, text.instead);
    EXPECT_EQ(values_in(text.said), values_in(text.instead)) << text.said;
  }
}

TEST_F(TwoTongues, LeaveNoEnglishSentenceToWhoAsksInSpanish) {
  w_.run();
  std::set<std::string> english;
  for (const ViewText& text : spanish_view_texts()) english.emplace(text.said);
  SQLite::Database db = open_for_reading(folder_ / "greta.db");
  speak(db, Language::kSpanish);
  std::set<std::string> views;
  SQLite::Statement all(db, "SELECT name, sql FROM sqlite_temp_schema");
  while (all.executeStep()) {
    const std::string name = all.getColumn(0).getString();
    views.insert(name);
    if (name == "finding" || name == "kept_diff") continue;  // which look for what is kept
    for (const std::string& text : quoted_texts(all.getColumn(1).getString())) {
      EXPECT_FALSE(english.contains(text)) << text;
    }
  }
  for (const Definition& ours : definitions()) {
    if (ours.type != "view") continue;
    const std::vector<std::string> texts = quoted_texts(ours.sql);
    const bool says = std::any_of(texts.begin(), texts.end(),
                                  [&](const std::string& text) { return english.contains(text); });
    EXPECT_TRUE(!says || views.contains(ours.name)) << ours.name;
  }
  SQLite::Statement findings(db, "SELECT meaning FROM finding");
  while (findings.executeStep()) EXPECT_FALSE(english.contains(findings.getColumn(0).getString()));
}

TEST_F(TwoTongues, SayTheSameWithTheSameNumbers) {
  w_.run({.name = "nan"});
  w_.add(prefill("attn_out", 3, 1), decode("attn_out", 3, 2).nans(3));
  w_.run({.name = "moved", .dtype = "f32"});
  w_.add(prefill("q_post_rope", 2, 100).sketched({5, 0, 0, 1}),
         decode("q_post_rope", 2, 101).sketched({1, 2, 4, 0}));
  w_.add(prefill("q_post_rope", 2, 101).at(36).in("prefill"));
  const auto evidence = [](const std::string& run) {
    return "SELECT finding, evidence, meaning FROM diagnosis WHERE run = '" + run + "'";
  };
  EXPECT_EQ(said(evidence("nan"), Language::kEnglish),
            "SOME_NAN|3 of 4 values of decode's row are NaN or infinite|an overflow, as of an"
            " exponential without its maximum, or single rows or heads that nobody wrote");
  EXPECT_EQ(spanish(evidence("nan")),
            "SOME_NAN|3 de 4 valores de la fila de decode son NaN o infinitos|un desbordamiento,"
            " como el de una exponencial sin su máximo, o filas o cabezas sueltas que nadie"
            " escribió");
  EXPECT_EQ(spanish(evidence("moved")),
            "OTHER_POSITION|la fila de decode de la posición 37 es la de prefill de la posición 36"
            "|una posición desplazada en uno, o una fila obsoleta");
  EXPECT_EQ(
      spanish("SELECT details FROM pair WHERE run = 'moved' AND pos_id = 37"),
      said("SELECT details FROM pair WHERE run = 'moved' AND pos_id = 37", Language::kEnglish))
      << "hashes are hashes";
  EXPECT_EQ(said("SELECT evidence FROM diagnosis WHERE run = 'nan'", Language::kBoth),
            "3 of 4 values of decode's row are NaN or infinite");
}

TEST_F(TwoTongues, OfAComparisonThatIsKeptToo) {
  const auto add = [&](const char* name, int64_t token) {
    w_.run({.name = name, .experiment = "e", .mode = "m", .date = "2026-01-0" + std::string(name)});
    w_.add(prefill("x_in", 0, 1).token(token), decode("x_in", 0, 1).token(token));
  };
  add("1", 5);
  add("2", 6);
  w_.db.exec(
      "INSERT INTO attribute(run_id, dim, value, rank, source_id) SELECT r.id, 'trace.layers', "
      "r.id,"
      " 0, min(s.id) FROM run r CROSS JOIN source s GROUP BY r.id");
  w_.db.exec(
      "INSERT INTO kept_diff(run_a_id, run_b_id, why_not, pairs, compared, match, rounding,"
      " divergent, unknown, nonfinite, incomparable, alike, only_a, only_b, caused_by)"
      " VALUES (1, 2, 'traced otherwise: trace.layers 1, not 2', 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0,"
      " 'another token at position 7')");
  const std::string sql = "SELECT why_not, caused_by FROM kept_diff_verdict WHERE run_a_id = 1";
  EXPECT_EQ(said(with_views(sql), Language::kEnglish),
            "traced otherwise: trace.layers 1, not 2|another token at position 7");
  EXPECT_EQ(spanish(sql), "trazada de otro modo: trace.layers 1, no 2|otro token en la posición 7");
}

TEST_F(TwoTongues, ChangesNothingButTheWords) {
  w_.run({.name = "a", .experiment = "e", .date = "2026-01-01", .commit = "1"});
  w_.match("x_in", 0);
  w_.rounding("attn_out", 0);
  w_.run({.name = "b", .experiment = "e", .date = "2026-01-02", .commit = "2"});
  w_.match("x_in", 0);
  w_.divergent("attn_out", 0);
  w_.add(prefill("mlp_out", 1, 3));
  w_.add(prefill("x_in", 1, 1), decode("x_in", 1, 2).nans(4));
  w_.claim(w_.report("b.md", 1000000, {}), 1, "PASS");
  const std::set<std::string> worded = {
      "evidence", "meaning",         "details",   "segment", "location",       "conflict",
      "message",  "numeric_message", "caused_by", "why_not", "incomplete_why", "no_baseline_why"};
  for (const char* view :
       {"pair", "diagnosis", "first_fail", "run_verdict", "gate", "gate_case", "change", "history",
        "drift", "propagation", "report_conflict", "kv_alignment", "lm_head_delta", "tally"}) {
    std::string columns;
    SQLite::Statement info(w_.db,
                           "SELECT name FROM pragma_table_info('" + std::string(view) + "')");
    while (info.executeStep()) {
      const std::string column = info.getColumn(0).getString();
      if (!worded.contains(column) || std::string(view) == "run_verdict")
        columns += (columns.empty() ? "" : ", ") + column;
    }
    const std::string sql = "SELECT " + columns + " FROM " + view + " ORDER BY " + columns;
    EXPECT_EQ(spanish(sql), said(sql, Language::kEnglish)) << view;
  }
  EXPECT_NE(spanish("SELECT conflict FROM report_conflict"),
            said("SELECT conflict FROM report_conflict", Language::kEnglish));
}

}  // namespace
}  // namespace greta
