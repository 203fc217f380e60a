#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/forward/forward.h"
#include "engine/run/trace_sink.h"
#include "engine/session/session.h"

// Makes the record of a run: what was asked, and on which build, machine and model.

namespace greta {

/// What this build was made of.
struct BuildInfo {
  std::string_view version;   ///< 0.1.0
  std::string_view commit;    ///< full hash; empty when it was not built from a git checkout
  std::optional<bool> dirty;  ///< the checkout had changes; nothing when there was no checkout
};

BuildInfo build_info();

/// What was decided about a run before it starts.
struct RunSetup {
  std::string experiment;
  std::string date;        ///< YYYY-MM-DD; empty: today, UTC
  std::string mode;        ///< empty for a run that compares nothing
  std::string label = {};  ///< as RunRecord's
  int64_t seed = 0;
  std::string name = {};  ///< as RunRecord's
  bool replaces_failed = false;
  std::string commit = {};  ///< of the engine; empty: that of this build
  std::string suite = {};   ///< whose prompts; empty for others
  int64_t max_seq_len = 0;  ///< positions in use of the model's context
};

/// The record of a run of `session`: what it was asked, and on which build, machine and model it
/// ran. environment: name and value of the variables in force. What identifies the model is not in
/// it: it takes too long to wait for.
RunRecord make_run_record(const RunSetup& setup, const Session& session,
                          const ForwardOptions& forward, const TraceSelection& selection,
                          const std::vector<std::pair<std::string, std::string>>& environment);

/// The record of a run that could not begin: what was asked, of which build, and why not.
RunRecord make_failed_record(const RunSetup& setup, const std::filesystem::path& model,
                             std::string_view backend, std::string_view error);

}  // namespace greta
