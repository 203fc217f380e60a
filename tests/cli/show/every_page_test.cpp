// Structure, policy and language of every kind of page, with any names in it.

#include "cli/show/page.h"
#include "common/utf8.h"
#include "tests/cli/program.h"
#include "tests/cli/show/hostile_names.h"
#include "tests/cli/show/page_html.h"
#include "tests/judged.h"

namespace greta {
namespace {

class EveryPage : public ProgramTest {
 protected:
  /// Two runs in a database of their own: what names them has the one name, all that is in them the
  /// other.
  void fill(const std::string& run, const std::string& name) {
    std::filesystem::remove(database());
    Warehouse w(database());
    w.db.exec("BEGIN");
    for (const std::string number : {"1", "2"}) {
      names_[number[0] - '1'] = number + run;
      w.run({.name = number + run,
             .experiment = run,
             .mode = name,
             .dtype = name,
             .date = "2026-01-0" + number,
             .commit = name + number,
             .status = "complete"});
      w.use_prompt(name);
      w.match("x_in", 0);
      number == "2" ? w.divergent("attn_out", 0) : w.match("attn_out", 0);
      w.divergent("t" + name, 1);
      w.drift("mlp_out", 1);
      SQLite::Statement attribute(
          w.db,
          "INSERT INTO attribute(run_id, dim, value, rank, source_id) VALUES (?, ?, ?, 0, ?)");
      attribute.bind(1, w.current_run());
      attribute.bind(2, "d" + name);
      attribute.bind(3, name + number);
      attribute.bind(4, w.add_source(number + name, "stage_trace"));
      attribute.exec();
      w.claim(w.report("r" + number + name, 1000000, {}), 1, "PASS");
    }
    w.db.exec("COMMIT");
    judge_all(w);
  }

  std::vector<std::string> pages() const {
    std::vector<std::string> pages;
    const std::string format = "$G --format html ";
    const std::string a = quoted(names_[0]), b = quoted(names_[1]);
    for (const std::string& command :
         {"report --run " + b, "compare " + a + " " + b, "gate --run " + b, std::string("history"),
          std::string("history --with-runs site --force && cat site/history.html")}) {
      pages.push_back(shell(format + command).out);
    }
    return pages;
  }

  std::string names_[2];
};

TEST_F(EveryPage, HostileNamesChangeNothingInItsStructure) {
  fill("plain", "plain");
  const std::vector<std::string> plain = pages();
  const std::vector<std::string> names = hostile_names();
  for (size_t n = 0; n < names.size(); ++n) {
    fill(names[n], names[names.size() - 1 - n]);
    const std::vector<std::string> hostile = pages();
    for (size_t i = 0; i < plain.size(); ++i) {
      SCOPED_TRACE("name " + std::to_string(n) + ", page " + std::to_string(i));
      EXPECT_EQ(structure_of(hostile[i]), structure_of(plain[i]));
      EXPECT_TRUE(utf8::is_valid(hostile[i]));
      EXPECT_NO_THROW(data_of(hostile[i]));
      for (const char* hidden : {"\u202e", "\x1b", "\u200b", "\u2066", "\x07"})
        EXPECT_EQ(hostile[i].find(hidden), std::string::npos);
    }
  }
}

TEST_F(EveryPage, ItsPolicyAllowsItsOwnScriptAndNothingElse) {
  fill("plain", "plain");
  for (const std::string& page : pages()) {
    const std::string script = script_of(page);
    EXPECT_NE(
        page.find("default-src 'none'; script-src '" + source_hash(script) + "'; style-src '" +
                  source_hash(page_style()) + "'; base-uri 'none'; form-action 'none'"),
        std::string::npos);
    int scripts = 0;
    for (const Tag& tag : tags_of(page)) {
      scripts += tag.name == "script" ? 1 : 0;
      for (const char* name : {"src", "style", "onclick", "onload", "action"})
        EXPECT_FALSE(tag.attributes.contains(name)) << tag.name;
      if (!tag.attributes.contains("href")) continue;
      const std::string& address = tag.attributes.at("href");
      EXPECT_TRUE(address.starts_with("#") || address.ends_with(".html")) << address;
      EXPECT_EQ(address.find(':'), std::string::npos) << address;
    }
    EXPECT_EQ(scripts, 2);
    for (const char* word : {"eval", "innerHTML"}) EXPECT_EQ(script.find(word), std::string::npos);
  }
}

}  // namespace
}  // namespace greta
