#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/fingerprint/fingerprint.h"
#include "tests/kernels/fingerprint/rows.h"

// The test vectors of docs/fingerprint.md.

namespace greta {
namespace {

using namespace fingerprint_rows;

struct Vector {
  const char* name;
  Row row;
  std::uint64_t hash;
  int scale;
  std::int64_t sum;
  std::uint64_t abs_sum, sum_sq;
  std::array<std::int64_t, 4> buckets;  // 0, 15, 16, 31
};

std::vector<Vector> published_vectors() {
  return {
      {"empty", {}, 0u, 0, 0, 0u, 0u, {0, 0, 0, 0}},
      {"zeros", Row(4096, 0.0f), 11863710481300728160u, 0, 0, 0u, 0u, {0, 0, 0, 0}},
      {"minus_zero", {-0.0f}, 17010196902690978975u, 0, 0, 0u, 0u, {0, 0, 0, 0}},
      {"one",
       {1.0f},
       3052579836232902212u,
       40,
       1099511627776,
       1099511627776u,
       1099511627776u,
       {0, 0, 1099511627776, 0}},
      {"least",
       {kDenormal},
       6238072747940578789u,
       189,
       1099511627776,
       1099511627776u,
       1099511627776u,
       {0, 0, 1099511627776, 0}},
      {"specials",
       {1, kInf, -kInf, kNan, -2, 0},
       8573773520935762972u,
       39,
       -549755813888,
       1649267441664u,
       1374389534720u,
       {0, 0, 549755813888, 0}},
      {"denormals",
       make_row(256, denormal_value),
       16776190707494424695u,
       167,
       -13540462952448,
       276074736648192u,
       363033337149945u,
       {-1143074455552, -5126997147648, -2515162890240, -5029976604672}},
      {"wide",
       make_row(251, wide_value),
       15430985846474398986u,
       -84,
       733007751851,
       2199023255551u,
       1466015503702u,
       {-2122309616, -68718428160, -1099578736832, -137967435264}},
      {"any_bits",
       make_row(1000, any_bits),
       17455888992678825791u,
       -87,
       1915513117707,
       16916300285357u,
       19126554145843u,
       {42725066898, -156732488393, 993783667695, 120962664515}},
      {"dense",
       make_row(4096, dense_value),
       4972220954847842073u,
       38,
       41891500392448,
       4586321193467904u,
       6162188269862071u,
       {1860930633728, 9536932151296, -3678550097920, -15547025326080}},
      {"long",
       make_row(2097152, dense_value),
       7025954170562494527u,
       38,
       -1282601056731136,
       2305885003796971520u,
       3073980760245610524u,
       {689677604225024, 423012808523776, -212582685736960, -289108415741952}},
      {"greatest",
       Row(2097152, kFloatMax),
       9655932004978733412u,
       -87,
       4611685743549480960,
       4611685743549480960u,
       9223372036854775808u,
       {182518919331840, -356241746165760, -749866885447680, 417814393651200}},
  };
}

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
  std::ifstream file(GRETA_SOURCE_DIR "/docs/fingerprint.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  for (const Vector& v : published_vectors()) {
    EXPECT_NE(text.find("\n" + document_line(v) + "\n"), std::string::npos) << document_line(v);
  }
}

}  // namespace
}  // namespace greta
