#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/warehouse/verdict.h"

namespace greta {

/// The verdicts of many runs as a table for readers: a line per run, those that fail first, then
/// those without a verdict, then those that pass; no wider than the terminal, and 80 columns where
/// there is none. Names that do not fit are shortened in the middle, which a line below says.
class RunLines {
 public:
  explicit RunLines(Output& out) : out_(out) {}
  void add(const RunVerdict& run, const Headline& head);
  void print();

 private:
  struct Line {
    int rank;
    std::string run, verdict, cause, prompt;
    std::optional<int64_t> layer;
    int64_t pairs;
  };

  Output& out_;
  std::vector<Line> lines_;
  size_t with_texts_ = 0;  ///< runs beside which texts were not judged
};

}  // namespace greta
