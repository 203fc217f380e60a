#include "cli/greta_infer/environment.h"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>
#include <string>

namespace greta {
namespace {

Environment with(std::map<std::string, std::string> variables) {
  return Environment([variables = std::move(variables)](const char* name) -> std::string {
    const auto found = variables.find(name);
    return found == variables.end() ? "" : found->second;
  });
}

TEST(Environment, NothingSetGivesNothing) {
  const Environment none = with({});
  EXPECT_EQ(none.text("GRETA_DB"), std::nullopt);
  EXPECT_EQ(none.number("GRETA_SEED", 0), std::nullopt);
  EXPECT_FALSE(none.flag("GRETA_TRACE_B3_66"));
  EXPECT_TRUE(none.in_force().empty());
}

TEST(Environment, AnEmptyVariableIsNotSet) {
  const Environment empty = with({{"GRETA_DB", ""}, {"GRETA_SEED", ""}});
  EXPECT_EQ(empty.text("GRETA_DB"), std::nullopt);
  EXPECT_EQ(empty.number("GRETA_SEED", 0), std::nullopt);
  EXPECT_TRUE(empty.in_force().empty());
}

TEST(Environment, NumbersAreWholeAndInRange) {
  EXPECT_EQ(with({{"GRETA_SEED", "17"}}).number("GRETA_SEED", 0), 17);
  for (const char* bad : {"x", "1x", "1.5", " 1", "-1", "99999999999999999999"}) {
    EXPECT_THROW(with({{"GRETA_SEED", bad}}).number("GRETA_SEED", 0), std::invalid_argument) << bad;
  }
  EXPECT_THROW(with({{"GRETA_MAX_SEQ_LEN", "0"}}).number("GRETA_MAX_SEQ_LEN", 1),
               std::invalid_argument);
}

TEST(Environment, ErrorsNameVariableAndValue) {
  try {
    with({{"GRETA_SEED", "many"}}).number("GRETA_SEED", 0);
    FAIL() << "accepted";
  } catch (const std::invalid_argument& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("GRETA_SEED"), std::string::npos) << what;
    EXPECT_NE(what.find("'many'"), std::string::npos) << what;
  }
}

TEST(Environment, FlagsAreOnOrOff) {
  for (const char* on : {"1", "on", "true", "yes"}) {
    EXPECT_TRUE(with({{"GRETA_TRACE_B3_66", on}}).flag("GRETA_TRACE_B3_66")) << on;
  }
  for (const char* off : {"0", "off", "false", "no"}) {
    EXPECT_FALSE(with({{"GRETA_TRACE_B3_66", off}}).flag("GRETA_TRACE_B3_66")) << off;
  }
  EXPECT_THROW(with({{"GRETA_TRACE_B3_66", "2"}}).flag("GRETA_TRACE_B3_66"), std::invalid_argument);
}

TEST(Environment, OnlyListedVariablesCanBeAskedFor) {
  EXPECT_THROW(with({{"HOME", "/"}}).text("HOME"), std::logic_error);
}

TEST(Environment, InForceHoldsWhatIsSetInOrder) {
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  const Environment some = with({{"HSA_ENABLE_SDMA", "0"}, {"GRETA_SEED", "1"}, {"HOME", "/"}});
  EXPECT_EQ(some.in_force(), (Pairs{{"GRETA_SEED", "1"}, {"HSA_ENABLE_SDMA", "0"}}));
}

TEST(Environment, NamesAreListedOnceWithADescription) {
  std::map<std::string_view, int> seen;
  for (const EnvironmentVariable& variable : environment_variables()) {
    EXPECT_EQ(++seen[variable.name], 1) << variable.name;
    EXPECT_FALSE(variable.description.empty()) << variable.name;
  }
  EXPECT_TRUE(seen.contains("GRETA_TRACE_LAYERS"));
}

}  // namespace
}  // namespace greta
