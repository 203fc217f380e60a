// Runs that pass by their rows, and what else is said of them.
#pragma once
#include <gtest/gtest.h>

#include <span>
#include <string>

#include "tests/ingest/importing.h"

namespace greta {

inline std::string passing_row(const char* phase, const char* tensor) {
  return std::string(R"({"event":"stage_trace","phase":")") + phase +
         R"(","prompt_id":"p0","pos_id":3,"step":0,"layer":0,"point":")" + tensor +
         R"(","hash_algo":"greta-1","n":4,"hash":1})"
         "\n";
}

/// A file beside a trace that passes.
struct Claim {
  const char* file;
  const char* text;
};

struct Verdict : Importing {
  const std::string root = "artifacts_remote/2026-02-07/";

  /// A run of that name with a document, and a trace that passes if one is asked for.
  void write_run(const std::string& run, const std::string& file, const std::string& document,
                 bool has_trace = true) {
    folder.write(root + run + "/" + file, document);
    if (!has_trace) return;
    folder.write(root + run + "/traces/p0_trace.jsonl",
                 passing_row("prefill_last", "attn_out") + passing_row("decode0", "attn_out"));
  }
  std::string of_run(const std::string& run, const std::string& column = "verdict") {
    return rows("SELECT " + column + " FROM run_verdict WHERE run = ?", "2026-02-07/" + run);
  }

  /// Each in a run of its own: b3_100, b3_101 and so on, or from `first` on.
  void write_claims(std::span<const Claim> claims, size_t first = 100) {
    for (size_t i = 0; i < claims.size(); ++i)
      write_run("b3_" + std::to_string(first + i), claims[i].file, claims[i].text);
  }
  void expect_no_verdict_beside(std::span<const Claim> claims) {
    for (size_t i = 0; i < claims.size(); ++i) {
      SCOPED_TRACE(std::string(claims[i].file) + ": " + claims[i].text);
      EXPECT_EQ(of_run("b3_" + std::to_string(100 + i), "verdict || ' ' || numeric_verdict"),
                "INCOMPARABLE INCOMPARABLE");
    }
  }
  void expect_all_pass(std::span<const Claim> claims) {
    for (size_t i = 0; i < claims.size(); ++i) {
      SCOPED_TRACE(std::string(claims[i].file) + ": " + claims[i].text);
      EXPECT_EQ(of_run("b3_" + std::to_string(100 + i)), "PASS");
    }
  }
};

}  // namespace greta
