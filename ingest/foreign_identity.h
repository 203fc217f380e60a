#pragma once
#include <string>

#include "ingest/run_identity.h"

namespace greta {

/// The run of such a file: what the path above steps and ranks says; where it says nothing, its
/// folder, told from others of that name by a hash. With is_own_run, the file is a run by itself.
/// `path` is absolute.
RunIdentity identify_foreign(const std::string& path, bool is_own_run);

/// What tells a file from others of its run: its directories of steps and ranks, and its name.
std::string place_in_run(const std::string& path);

}  // namespace greta
