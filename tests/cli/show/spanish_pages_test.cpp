// Pages in Spanish: no sentence of them is English but what they quote of the views.
#include <algorithm>
#include <regex>
#include <set>

#include "tests/cli/program.h"
#include "tests/cli/show/made_history.h"
#include "tests/cli/show/page_html.h"

namespace greta {
namespace {

using nlohmann::json;

class SpanishPages : public ProgramTest {
 protected:
  SpanishPages() : w(database()) {}

  int64_t add(const std::string& name, int n) {
    return w.run({.name = name,
                  .experiment = "ci",
                  .mode = "as_designed",
                  .dtype = "f32",
                  .date = day(n),
                  .commit = "c" + std::to_string(n),
                  .status = "complete"});
  }

  /// A run that passes, and runs with what there is to say of one.
  void fill() {
    add("good", 0);
    w.match("x_in", 0);
    w.rounding("attn_out", 0);
    w.match("attn_out", 1);
    add("bad", 1);
    w.match("x_in", 0);
    w.rounding("attn_out", 0);
    w.divergent("attn_out", 1);
    w.add(prefill("attn_out", 1, 2).at(36).in("prefill"));  // the row of another position
    w.add(prefill("mlp_out", 1, 7).nans(2), decode("mlp_out", 1, 8));
    w.add(prefill("attn_out", 2, 1), decode("attn_out", 2, 1), decode("attn_out", 2, 2));
    w.add(prefill("q_post_rope", 3, 3));
    w.incomparable("k_post_rope", 3);
    w.claim(w.report("bad.md", 1000000, {}), 1, "PASS");
    add("unmeasured", 2);
    w.drift("x_in", 0);
    add("short", 3);
    w.match("x_in", 0);
    w.plan("p0", 0, 1, "attn_out");
    add("empty", 4);
    judge_all(w);
  }

  /// What views say in English, which pages quote.
  std::set<std::string> quoted_data() {
    std::set<std::string> all;
    SQLite::Statement rows(
        w.db,
        "SELECT details FROM pair UNION SELECT segment FROM pair UNION SELECT location FROM pair"
        " UNION SELECT message FROM gate_case UNION SELECT conflict FROM report_conflict UNION "
        "SELECT incomplete_why FROM gate"
        " UNION SELECT no_baseline_why FROM gate UNION SELECT why_not FROM gate");
    while (rows.executeStep()) {
      if (!rows.getColumn(0).isNull()) all.insert(rows.getColumn(0).getString());
    }
    return all;
  }

  /// What English and Spanish page have in common: data, and words that are the same in both.
  void expect_spanish(const std::string& english, const std::string& spanish) {
    ASSERT_NE(spanish.find("<html lang=\"es\""), std::string::npos);
    const auto all_of = [](const std::string& page) {
      std::vector<std::string> texts = texts_of(page);
      const json data = data_of(page);
      for (const json& map : data.value("maps", json::array()))
        for (const json& text : map["map"]["texts"]) texts.push_back(text);
      for (const json& word : data["words"]) texts.push_back(word);
      return texts;
    };
    const std::vector<std::string> texts = all_of(english);
    const std::set<std::string> known(texts.begin(), texts.end());
    const std::regex words("[a-z]{2,}[^A-Za-z]* [^A-Za-z]*[a-z]{2,}");  // two in a row
    // what names the run, a caption of only that, hashes and counts
    const std::regex data_alone("ci[,:] .*|(: )?prefill [0-9]+, decode [0-9]+.*|prefill nan=.*");
    const std::set<std::string> quoted = quoted_data();
    int sentences = 0;
    for (const std::string& text : all_of(spanish)) {
      if (!std::regex_search(text, words)) continue;
      const bool quotes = std::any_of(quoted.begin(), quoted.end(), [&](const std::string& said) {
        return !said.empty() && text.find(said) != std::string::npos;
      });
      if (quotes) continue;
      ++sentences;
      EXPECT_TRUE(std::regex_match(text, data_alone) || !known.contains(text)) << text;
    }
    EXPECT_GT(sentences, 10);
  }

  std::string page(std::vector<std::string> words, const std::string& language) const {
    std::string line = "$G";
    words.insert(words.end(), {"--format", "html", "--lang", language});
    for (const std::string& word : words) line += " " + quoted(word);
    return shell(line).out;
  }
  void check(const std::vector<std::string>& words) {
    SCOPED_TRACE(words.front());
    expect_spanish(page(words, "en"), page(words, "es"));
  }

  Warehouse w;
};

TEST_F(SpanishPages, SayNothingInEnglishButWhatTheyQuote) {
  fill();
  check({"report", "--run", "bad"});
  check({"compare", "good", "bad"});
  check({"gate", "--experiment", "ci"});
  check({"history"});
}

TEST_F(SpanishPages, OfAGateLeaveWhatIsWrittenBesideThemInEnglish) {
  add("bad", 1);
  w.rounding("attn_out", 0);  // of f32 it is none
  judge_all(w);
  EXPECT_TRUE(run({"gate", "--run", "bad", "--lang", "es", "--html", "es.html", "--junit",
                   "junit.xml", "--json", "gate.json"})
                  .says("looks like SCALED: decode's row is 0.999 times prefill's"));
  EXPECT_NE(read(path("junit.xml")).find("SCALED: decode&#39;s row is 0.999 times prefill&#39;s"),
            std::string::npos);
  EXPECT_NE(read(path("es.html")).find("SCALED: la fila de decode es 0.999 veces la de prefill"),
            std::string::npos);
}

}  // namespace
}  // namespace greta
