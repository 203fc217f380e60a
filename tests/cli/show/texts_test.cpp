#include "cli/show/texts.h"

#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "tests/cli/program.h"
#include "tests/cli/show/report_rows.h"

namespace greta {
namespace {

std::set<std::string> slots(std::string_view text) {
  std::set<std::string> found;
  for (size_t i = 0; i + 2 < text.size(); i++) {
    if (text[i] == '{') found.insert(std::string(text.substr(i, 3)));
  }
  return found;
}

TEST(ReportTexts, EveryTextHasBothLanguagesAndTheSameValues) {
  std::set<std::string_view> ids;
  std::vector<ReportText> all(std::begin(kTexts), std::end(kTexts));
  all.insert(all.end(), std::begin(kTextsOfFindings), std::end(kTextsOfFindings));
  for (const ReportText& text : all) {
    EXPECT_TRUE(ids.insert(text.id).second) << text.id << " is there twice";
    EXPECT_FALSE(text.en.empty()) << text.id;
    EXPECT_FALSE(text.es.empty()) << text.id;
    EXPECT_EQ(slots(text.en), slots(text.es)) << text.id;
    EXPECT_FALSE(has(std::string(text.en) + std::string(text.es), "TBD")) << text.id;
  }
}

TEST(ReportTexts, EveryRootCauseOfTheDictionaryIsExplained) {
  Warehouse warehouse;
  SQLite::Statement causes(warehouse.db, "SELECT name, root_cause FROM cause");
  while (causes.executeStep()) {
    std::string cause = causes.getColumn(0), root = causes.getColumn(1);
    EXPECT_TRUE(find_report_text("analysis." + root)) << root;
    EXPECT_TRUE(find_report_text("advice." + root + ".1")) << root;
    if (root == "ATTENTION_COMPUTATION_MISMATCH" || root == "PAIRING_MISMATCH") {
      EXPECT_TRUE(find_report_text("stage." + cause)) << cause;
    }
  }
}

TEST(ReportTexts, EveryFindingOfTheDictionaryIsWorded) {
  std::set<std::string_view> worded, explained;
  for (const ReportText& text : kTextsOfFindings) {
    worded.insert(text.id.substr(0, text.id.find('.')));
  }
  for (const FindingMeaning& one : kSpanishMeanings) explained.insert(one.name);
  Warehouse warehouse;
  SQLite::Statement findings(warehouse.db, "SELECT name FROM finding");
  size_t n = 0;
  for (; findings.executeStep(); ++n) {
    const std::string name = findings.getColumn(0);
    EXPECT_TRUE(worded.contains(name)) << name;
    EXPECT_TRUE(explained.contains(name)) << name;
  }
  EXPECT_EQ(explained.size(), n);
}

TEST(ReportTexts, ValuesAreNotReadAsSlots) {
  EXPECT_EQ(fill_text("{0} {1} {2} {x} {", {"{1}", "b"}).text(), "{1} b {2} {x} {");
  EXPECT_EQ(Wording(Language::kBoth)("date"), "Date / Fecha");
  EXPECT_EQ(Wording(Language::kBoth)("host"), "Host");
}

}  // namespace
}  // namespace greta
