#include "tests/kernels/fingerprint/published_vectors.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <sstream>
#include <string>

#include "kernels/fingerprint/fingerprint.h"
#include "tests/file_bytes.h"
#include "tests/kernels/fingerprint/rows.h"

// The published vectors by the functions of the host, and as docs/fingerprint.md lists them.

namespace greta {
namespace {

using namespace test_rows;

std::string document_line(const Vector& v) {
  std::ostringstream line;
  line << "| " << v.name << " | " << v.row.size() << " | " << v.hash << " | " << v.scale << " | "
       << v.sum << " | " << v.abs_sum << " | " << v.sum_sq;
  for (std::int64_t bucket : v.buckets) line << " | " << bucket;
  line << " |";
  return line.str();
}

TEST(Fingerprint, PublishedTestVectors) {
  for (const Vector& v : published_vectors()) {
    SCOPED_TRACE(v.name);
    const FingerprintSums sums = fingerprint_sums(v.row);
    EXPECT_EQ(sums.hash, v.hash);
    EXPECT_EQ(sums.scale, v.scale);
    EXPECT_EQ(sums.sum, v.sum);
    EXPECT_EQ(sums.abs_sum, v.abs_sum);
    EXPECT_EQ(sums.sum_sq, v.sum_sq);
    const auto& b = sums.buckets;
    EXPECT_EQ((std::array{b[0], b[15], b[16], b[31]}), v.buckets);
    EXPECT_EQ(sums, sums_in_order(v.row, natural_order(v.row.size())));
    expect_reference(v.row, sums);
  }
}

TEST(Fingerprint, DocumentListsThePublishedTestVectors) {
  const std::string text = bytes_of(GRETA_SOURCE_DIR "/docs/fingerprint.md");
  for (const Vector& v : published_vectors()) {
    EXPECT_NE(text.find("\n" + document_line(v) + "\n"), std::string::npos) << document_line(v);
  }
}

}  // namespace
}  // namespace greta
