#include "engine/session/background_digest.h"

#include <gtest/gtest.h>

#include <string>

#include "common/sha256.h"

namespace greta {
namespace {

// FIPS 180-4 example.
constexpr const char* kOfNothing =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

TEST(Digest, InTheBackgroundIsTheSame) {
  const std::string bytes((size_t{9} << 20) + 5, 'x');  // several pieces and a rest
  BackgroundDigest digest(std::as_bytes(std::span(bytes)));
  EXPECT_EQ(digest.hex(), Sha256::hex_of(bytes));
  EXPECT_EQ(digest.done_bytes(), digest.size_bytes());
  EXPECT_TRUE(digest.ready(0));
  EXPECT_EQ(digest.hex(), Sha256::hex_of(bytes));  // again
}

TEST(Digest, OfNothingInTheBackground) {
  BackgroundDigest digest({});
  EXPECT_EQ(digest.hex(), kOfNothing);
}

TEST(Digest, CanBeGivenUp) {
  const std::string bytes(size_t{64} << 20, 'x');
  BackgroundDigest digest(std::as_bytes(std::span(bytes)));
}

}  // namespace
}  // namespace greta
