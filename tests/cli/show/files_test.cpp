#include "cli/output/files.h"

#include <gtest/gtest.h>

#include <string>

namespace greta {
namespace {

TEST(Report, FileNamesAreSafe) {
  EXPECT_EQ(report_stem("b3_66_v2", "2026-02-07/b3_66_v2/kv_aligned", true), "B3_66_V2");
  EXPECT_EQ(report_stem("b3_67", "2026-02-07/b3_67/kv_aligned_0/seed_0", false),
            "B3_67_2026-02-07_kv_aligned_0_seed_0");
  EXPECT_EQ(report_stem("../../etc/passwd", "x", true), "_._.._ETC_PASSWD");
  EXPECT_EQ(report_stem("", "", true), "UNNAMED");
  EXPECT_LE(report_stem(std::string(5000, 'x'), std::string(5000, 'y'), false).size(), 200u);
}

}  // namespace
}  // namespace greta
