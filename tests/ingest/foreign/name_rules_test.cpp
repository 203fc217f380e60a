#include "ingest/foreign/name_rules.h"

#include <stdexcept>

#include "tests/ingest/foreign/made_files.h"

namespace greta {
namespace {

TEST(NameRule, TheFirstThatFitsTheWholeNameDecides) {
  NameRules rules;
  rules.add(R"(layers\.(\d+)\.mlp)", "mlp_out");
  rules.add(R"(layers\.(\d+)\..*)", "x_out");
  rules.add("embed", "embed_out");
  EXPECT_EQ(rules.place_of("layers.7.mlp"), (TracePlace{"mlp_out", 7}));
  EXPECT_EQ(rules.place_of("layers.7.mlp.x"), (TracePlace{"x_out", 7}));
  EXPECT_EQ(rules.place_of("embed"), (TracePlace{"embed_out", 0}));
  EXPECT_EQ(rules.place_of("embedding"), (TracePlace{"embedding", -1}));
}

TEST(NameRule, ANameThatNoRuleKnowsKeepsItselfWithoutTheNumberOfItsLayer) {
  const NameRules rules;
  EXPECT_EQ(rules.place_of("model.layers.31.experts.4"),
            (TracePlace{"model.layers.N.experts.4", 31}));
  EXPECT_EQ(rules.place_of("h.3"), (TracePlace{"h.N", 3}));
  EXPECT_EQ(rules.place_of("Kcur-11 (view) VIEW"), (TracePlace{"Kcur-N (view) VIEW", 11}));
  EXPECT_EQ(rules.place_of("cache_k_l9 (view) VIEW"), (TracePlace{"cache_k_lN (view) VIEW", 9}));
  EXPECT_EQ(rules.place_of("layers.99999.x"), (TracePlace{"layers.99999.x", -1}))
      << "no row has that layer";
  EXPECT_EQ(rules.place_of(""), (TracePlace{"", -1}));
}

TEST(NameRule, WhatIsNoPatternIsRefused) {
  for (const char* pattern : {"(", "a{2,1}", "[z-a]"}) {
    EXPECT_THROW(NamePattern{pattern}, std::invalid_argument) << pattern;
  }
  EXPECT_THROW(NamePattern(std::string(5000, 'a')), std::invalid_argument);
}

TEST(NameRule, APatternThatWouldTakeForeverFitsNothing) {
  const NamePattern pattern("(a+)+b");
  EXPECT_FALSE(pattern.matches(std::string(60, 'a')));
}

struct ShippedRules : Importing {};

TEST_F(ShippedRules, AreOfTracePointsThatThereAre) {
  EXPECT_EQ(
      rows("SELECT count(*) FROM name_rule WHERE tensor NOT IN (SELECT name FROM tensor_name)"),
      "0");
  EXPECT_EQ(rows("SELECT DISTINCT rule_set FROM name_rule ORDER BY ord"),
            "huggingface\nmsprobe\nsglang\nllama.cpp");
}

TEST_F(ShippedRules, AnOwnRuleComesBeforeThem) {
  folder.write("in/model.layers.2.mlp.npy",
               made::npy("'<f4'", "(1,)", made::bytes_of_values<float>({1})));
  db.exec(
      R"(INSERT INTO name_rule(ord, pattern, tensor, rule_set) VALUES (0, '.*\.(\d+)\.mlp', 'x_out', 'own'))");
  take("in");
  EXPECT_EQ(rows("SELECT layer, tensor FROM trace"), "2|x_out");
}

}  // namespace
}  // namespace greta
