#include "common/sha256.h"

#include <gtest/gtest.h>

namespace greta {
namespace {

TEST(Sha256, MatchesThePublishedVectors) {
  Sha256 hash;
  EXPECT_EQ(hash.hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  hash.update("a", 1);
  EXPECT_NE(hash.hex(), "");
  hash.update("bc", 2);
  EXPECT_EQ(hash.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256::hex_of("abc"), hash.hex());
}

}  // namespace
}  // namespace greta
