#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/warehouse/run_name.h"

// Names that options take, checked against the names that a database has.

namespace greta {

/// What a name of an option is the name of.
enum class NameOf { kExperiment, kMode, kTensor, kPhase, kPrompt, kCause };

/// Throws UsageError that says which names there are, the nearest first, unless the database has
/// this one or greta knows it. "" is no name, and passes.
void check_known(SQLite::Database& db, NameOf what, const std::string& name);

/// Throws UsageError that says which layers there are, unless a row of these runs is of this one,
/// or they have no rows.
void check_layer(SQLite::Database& db, const std::vector<Run>& runs, std::optional<int64_t> layer);

}  // namespace greta
