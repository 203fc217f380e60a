#include "engine/forward/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>
#include <vector>

namespace greta {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<int32_t> draw(SamplerOptions options, const std::vector<float>& logits, int n) {
  Sampler sampler(options);
  std::vector<int32_t> ids;
  for (int i = 0; i < n; ++i) ids.push_back(sampler.sample(logits));
  return ids;
}

std::set<int32_t> drawn(SamplerOptions options, const std::vector<float>& logits, int n) {
  const std::vector<int32_t> ids = draw(options, logits, n);
  return {ids.begin(), ids.end()};
}

TEST(Sampler, GreedyTakesTheGreatestAndOfTiesTheLowerIndex) {
  EXPECT_EQ(draw({}, {0.5f, 3, -1, 3}, 3), (std::vector<int32_t>{1, 1, 1}));
  EXPECT_TRUE(Sampler({}).is_greedy());
}

TEST(Sampler, NanIsNeverChosen) {
  EXPECT_EQ(draw({}, {kNan, -4, kNan}, 1), (std::vector<int32_t>{1}));
  EXPECT_EQ(drawn({.temperature = 1}, {kNan, -4, kNan, -4}, 200), (std::set<int32_t>{1, 3}));
}

TEST(Sampler, LogitsWithoutANumberAreAnError) {
  const std::vector<float> none{kNan, -kInf};
  EXPECT_THROW(draw({}, none, 1), std::runtime_error);
  EXPECT_THROW(draw({.temperature = 1}, none, 1), std::runtime_error);
  EXPECT_THROW(draw({}, {}, 1), std::runtime_error);
}

TEST(Sampler, InfiniteLogitsShareTheProbability) {
  EXPECT_EQ(drawn({.temperature = 1}, {1, kInf, 2, kInf}, 200), (std::set<int32_t>{1, 3}));
  EXPECT_EQ(drawn({.temperature = 1}, {0, -kInf, 0}, 200), (std::set<int32_t>{0, 2}));
}

// The first draws of seed 1, so that another compiler or C library is noticed.
TEST(Sampler, ASeedGivesTheSameTokensEverywhere) {
  const std::vector<float> logits{0.1f, 1.7f, -0.3f, 2.2f, 0.9f, 1.1f, -2.5f, 0.4f};
  EXPECT_EQ(draw({.temperature = 0.8, .seed = 1}, logits, 16),
            (std::vector<int32_t>{4, 3, 3, 7, 1, 3, 3, 1, 3, 5, 3, 3, 5, 1, 1, 3}));
  EXPECT_EQ(draw({.temperature = 0.8, .top_k = 5, .top_p = 0.9, .seed = 1}, logits, 16),
            (std::vector<int32_t>{3, 1, 1, 3, 5, 3, 1, 5, 1, 3, 3, 3, 3, 5, 5, 3}));
}

TEST(Sampler, SeedsDiffer) {
  const std::vector<float> logits(64, 0);
  EXPECT_EQ(draw({.temperature = 1, .seed = 5}, logits, 20),
            draw({.temperature = 1, .seed = 5}, logits, 20));
  EXPECT_NE(draw({.temperature = 1, .seed = 5}, logits, 20),
            draw({.temperature = 1, .seed = 6}, logits, 20));
}

TEST(Sampler, FrequenciesAreThoseOfTheSoftmax) {
  const std::vector<float> logits{0, 1, 2, -1};
  constexpr int kDraws = 40000;
  for (const double temperature : {0.5, 1.0, 2.0}) {
    std::vector<double> counts(logits.size());
    for (const int32_t id : draw({.temperature = temperature, .seed = 9}, logits, kDraws)) {
      ++counts[static_cast<size_t>(id)];
    }
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit) / temperature);
    for (size_t i = 0; i < logits.size(); ++i) {
      const double p = std::exp(static_cast<double>(logits[i]) / temperature) / sum;
      EXPECT_NEAR(counts[i] / kDraws, p, 5 * std::sqrt(p * (1 - p) / kDraws)) << i;
    }
  }
}

TEST(Sampler, TopKKeepsTheMostLikely) {
  const std::vector<float> logits{1, 5, 4, 5, 2};
  EXPECT_EQ(drawn({.temperature = 10, .top_k = 2}, logits, 300), (std::set<int32_t>{1, 3}));
  EXPECT_EQ(drawn({.temperature = 10, .top_k = 3}, logits, 300), (std::set<int32_t>{1, 2, 3}));
  EXPECT_EQ(drawn({.temperature = 10, .top_k = 99}, logits, 300).size(), logits.size());
  EXPECT_EQ(drawn({.temperature = 10, .top_k = 1}, logits, 50), (std::set<int32_t>{1}));
}

TEST(Sampler, TopPKeepsTheFewestThatReachIt) {
  // Probabilities 0.5, 0.25, 0.125, 0.125.
  const float step = std::log(2.0f);
  const std::vector<float> logits{0, 2 * step, step, 0};
  EXPECT_EQ(drawn({.temperature = 1, .top_p = 0.4}, logits, 300), (std::set<int32_t>{1}));
  EXPECT_EQ(drawn({.temperature = 1, .top_p = 0.6}, logits, 300), (std::set<int32_t>{1, 2}));
  EXPECT_EQ(drawn({.temperature = 1, .top_p = 0.8}, logits, 300), (std::set<int32_t>{0, 1, 2}));
  EXPECT_EQ(drawn({.temperature = 1, .top_p = 1}, logits, 300).size(), logits.size());
}

TEST(Sampler, TopPIsOfWhatTopKLeft) {
  const float step = std::log(2.0f);
  const std::vector<float> logits{0, 2 * step, step, 0};  // of the first two: 2/3 and 1/3
  EXPECT_EQ(drawn({.temperature = 1, .top_k = 2, .top_p = 0.66}, logits, 300),
            (std::set<int32_t>{1}));
}

TEST(Sampler, AVerySmallTemperatureIsGreedy) {
  EXPECT_EQ(drawn({.temperature = 1e-300}, {1, 2, 3, 2.999f}, 100), (std::set<int32_t>{2}));
}

TEST(Sampler, OptionsThatMeanNothingAreRefused) {
  EXPECT_THROW(Sampler({.temperature = -1}), std::invalid_argument);
  EXPECT_THROW(Sampler({.temperature = std::nan("")}), std::invalid_argument);
  EXPECT_THROW(Sampler({.temperature = HUGE_VAL}), std::invalid_argument);
  EXPECT_THROW(Sampler({.top_k = -1}), std::invalid_argument);
  EXPECT_THROW(Sampler({.top_p = 0}), std::invalid_argument);
  EXPECT_THROW(Sampler({.top_p = 1.5}), std::invalid_argument);
}

}  // namespace
}  // namespace greta
