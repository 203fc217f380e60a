#include "ingest/text.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace greta {
namespace {

TEST(Text, FencesCloseOnlyWithTheirOwnMark) {
  text::FenceTracker fences;
  using Kind = text::FenceTracker::Kind;
  const std::vector<std::pair<const char*, Kind>> lines = {
      {"a", Kind::kOutside},       {"```json", Kind::kFence}, {"~~~", Kind::kInside},
      {"``` x", Kind::kInside},    {"```", Kind::kFence},     {"``x``", Kind::kOutside},
      {"```x```", Kind::kOutside}, {"~~~", Kind::kFence},     {"```", Kind::kInside}};
  for (const auto& [line, kind] : lines) EXPECT_EQ(fences.next(line), kind) << line;
}

}  // namespace
}  // namespace greta
