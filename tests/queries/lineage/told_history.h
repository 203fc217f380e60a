// Runs across commits and dates as a test tells them: plain values, which a warehouse is filled
// with and an oracle works from.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace greta::lineage {

struct ToldRow {
  std::string prompt, phase, tensor;  ///< tensor as the tool writes it
  int64_t layer = 0, pos = 0, step = 0;
  std::optional<int64_t> token;
  int64_t n = 4;
  double value = 1;  ///< the first of the row's values; the others are 2, 3, 4, ...
  int64_t bits = 0;  ///< rows of equal values and other bits differ by what no sketch shows
  bool has_hash = true, has_sketch = true, is_nan = false;
  std::optional<double> max = {};  ///< a statistic that is written beside the rest

  std::vector<float> values() const;
  uint64_t hash() const;
};

struct ToldRun {
  std::string name, experiment, status = "complete";
  std::optional<std::string> mode, dtype, date, started_at, commit;
  std::optional<int64_t> seed;
  bool synthetic = false;
  std::map<std::string, std::string> attributes;     ///< by dim
  std::map<std::string, std::string> prompt_tokens;  ///< token_ids by prompt, where known
  std::vector<ToldRow> rows;
};

struct ToldCommit {
  std::string sha;
  std::vector<size_t> parents;  ///< of lower index: a commit's index is its place in the order
};

struct ToldHistory {
  std::vector<ToldCommit> commits;
  std::vector<ToldRun> runs;           ///< in the order in which they arrive
  std::map<std::string, size_t> pins;  ///< run by lineage
};

/// "experiment/mode/backend/dtype/model/suite", '-' where the run does not say, and
/// "/kv_cache=TYPE" where it says one that is not f32.
std::string lineage_of(const ToldRun& run);

/// A history made up from a seed, of which its experiments are named.
ToldHistory random_history(uint64_t seed);

/// Histories of other seeds side by side, as one.
ToldHistory together(const std::vector<ToldHistory>& histories);

/// All of it, for whoever wants to see why a test fails.
std::string text_of(const ToldHistory& history);

}  // namespace greta::lineage
