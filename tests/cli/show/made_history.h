// A history for its page: lineages of two experiments, with places where it turned for the worse.
#pragma once
#include <string>

#include "tests/judged.h"

namespace greta {

/// "2026-01-05": the n-th day, 0 the first of January.
inline std::string day(int n) {
  const std::string month = std::to_string(1 + n / 28), of_month = std::to_string(1 + n % 28);
  return std::to_string(2026 + n / 336) + "-" + (month.size() < 2 ? "0" : "") + month + "-" +
         (of_month.size() < 2 ? "0" : "") + of_month;
}

/// Experiments toy (of two modes) and other, a run a day of each. toy breaks at attn_out of layer 1
/// on the fourth day and is mended on the seventh; on the ninth it breaks at mlp_out of layer 1 for
/// good. attn_out of layer 0 differs by rounding where the mode is as_designed.
inline void fill_rows(Warehouse& w, int days) {
  const auto run = [&](const std::string& experiment, const std::string& mode, int n) {
    w.run({.name = day(n) + "/" + experiment + "/" + mode,
           .experiment = experiment,
           .mode = mode,
           .date = day(n),
           .commit = std::to_string(n % 90 + 10) + std::string(38, 'a'),
           .status = "complete"});
  };
  for (int n = 0; n < days; ++n) {
    for (const char* mode : {"as_designed", "batch_invariant"}) {
      run("toy", mode, n);
      w.match("x_in", 0);
      mode == std::string("as_designed") ? w.rounding("attn_out", 0) : w.match("attn_out", 0);
      n >= 3 && n < 6 ? w.divergent("attn_out", 1) : w.match("attn_out", 1);
      n >= 8 ? w.divergent("mlp_out", 1) : w.match("mlp_out", 1);
    }
    run("other", "as_designed", n);
    w.match("x_in", 0);
  }
}

/// The same, judged.
inline void fill_history(Warehouse& w, int days) {
  fill_rows(w, days);
  judge_all(w);
}

}  // namespace greta
