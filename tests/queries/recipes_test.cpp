#include <gtest/gtest.h>

#include <fstream>

#include "db/database.h"
#include "tests/judged.h"

namespace {

/// The statements in the ```sql fences of docs/queries.md.
std::vector<std::string> documented_recipes() {
  std::ifstream file(GRETA_SOURCE_DIR "/docs/queries.md");
  std::vector<std::string> recipes;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    size_t text = line.find_first_not_of(' ');
    if (text == std::string::npos) continue;
    if (line.compare(text, 6, "```sql") == 0) {
      inside = true;
      recipes.emplace_back();
    } else if (line.compare(text, 3, "```") == 0) {
      inside = false;
    } else if (inside) {
      recipes.back() += line.substr(text) + "\n";
    }
  }
  return recipes;
}

TEST(Recipes, EveryOneRuns) {
  auto recipes = documented_recipes();
  ASSERT_EQ(recipes.size(), 10u);
  SQLite::Database db = greta::open_for_writing(":memory:");
  for (const std::string& sql : recipes) {
    SCOPED_TRACE(sql);
    SQLite::Statement statement(db, sql);
    while (statement.executeStep()) {
    }
  }
}

TEST(Recipes, TheFirstNamesWhatFailsAndNotTheRoundingBeforeIt) {
  greta::Warehouse w;
  w.run({.name = "healthy", .mode = "as_designed", .date = "2026-01-01"});
  w.rounding("x_in", 0);
  w.run({.name = "buggy", .mode = "as_designed", .date = "2026-01-02"});
  w.rounding("x_in", 0);
  w.divergent("mlp_out", 3);
  greta::judge_all(w);
  EXPECT_EQ(w.rows(documented_recipes().front()), "2026-01-02|buggy|MLP_OUT_DRIFT|3|mlp_out|p0");
}

}  // namespace
