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

TEST(Text, ACrAloneEndsALine) {
  EXPECT_EQ(text::with_line_ends("a\rb\r\nc\r\r\nd\r"), "a\nb\r\nc\r\r\nd\n");
  EXPECT_EQ(text::with_line_ends("\r\r"), "\n\n");
  EXPECT_EQ(text::with_line_ends("a\n"), "a\n");
  EXPECT_EQ(text::with_line_ends(""), "");
}

}  // namespace
}  // namespace greta
