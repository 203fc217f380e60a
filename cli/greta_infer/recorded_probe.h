#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/forward/fault.h"
#include "engine/forward/route.h"
#include "engine/probe/pair_watch.h"
#include "engine/probe/probe.h"

namespace greta {

/// A pair of a probe, as the database has it.
struct RecordedPair {
  int64_t pos = 0;
  uint64_t prefill_hash = 0, decode_hash = 0;
  double tolerance = 0;  ///< relative L2 that is rounding; 0 where bits are to be equal
};

/// All that it takes to run a prompt of a probe again.
struct RecordedProbe {
  std::string run;  ///< its name
  std::string model_file, backend;
  std::string model_root, model_sha256;  ///< one of them may be empty
  Mode mode{};
  std::vector<RouteChoice> routes;
  std::vector<Fault> faults;
  int64_t batch = 0;
  KvType kv_cache = KvType::kF32;
  std::vector<ProbePrompt> together;  ///< the prompts computed together, with their decode steps
  size_t which = 0;                   ///< the one of the pair
  RecordedPair pair;
};

/// The probe `run`, and of the pairs at `place` the first that fails, else the first, of `prompt`
/// and at `pos` where they are given. Throws UsageError, DatabaseError, SQLite::Exception,
/// std::invalid_argument when no engine of today can have left such a run, or it has no such pair.
RecordedProbe read_probe(const std::filesystem::path& database, const std::string& run,
                         const std::string& prompt, const PairPlace& place,
                         std::optional<int64_t> pos);

}  // namespace greta
