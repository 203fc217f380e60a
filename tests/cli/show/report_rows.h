// Rows of a known report, and what its text says.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/queries/warehouse.h"

namespace greta {

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The text has these parts, and not those.
inline void expect_parts(const std::string& text, const std::vector<std::string>& parts,
                         const std::vector<std::string>& absent = {}) {
  for (const std::string& part : parts) EXPECT_TRUE(has(text, part)) << part << "\n" << text;
  for (const std::string& part : absent) EXPECT_FALSE(has(text, part)) << part << "\n" << text;
}

/// The table of the B3.66 probe: 48 pairs of 3 prompts, reported without hashes.
inline void add_b3_66(Warehouse& warehouse) {
  warehouse.run({.name = "2026-02-07/b3_66", .experiment = "b3_66", .date = "2026-02-07"});
  std::vector<ReportRow> rows;
  for (const char* prompt : {"p0_short", "p6_len_16", "p6_len_32"}) {
    auto add = [&](int64_t layer, const char* tensor, const char* cause) {
      ReportRow row{
          .prompt = prompt, .layer = layer, .tensor = tensor, .status = cause ? "DRIFT" : "MATCH"};
      if (cause) row.cause = cause;
      rows.push_back(row);
    };
    add(0, "embed_out", nullptr);
    for (int64_t layer : {0, 1, 2, 4, 8}) {
      add(layer, "x_in", layer == 0 ? nullptr : "X_IN_DRIFT");
      add(layer, "attn_out", "ATTN_OUT_DRIFT");
      add(layer, "mlp_out", "MLP_OUT_DRIFT");
    }
  }
  warehouse.report("a/2026-02-07/b3_66/b3_66_final.tsv", 1000000, rows);
}

}  // namespace greta
