#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <string>

#include "ingest/content_kind.h"
#include "ingest/foreign/bytes.h"
#include "ingest/foreign/name_rules.h"
#include "ingest/foreign/rows.h"
#include "ingest/run_identity.h"

namespace greta {

/// True if a file of another tool is a run by itself: it names its tensors by key, so that two of
/// them in one folder may name the same ones. Others are parts of the run that their folder is.
bool is_own_run(ContentKind kind, const std::string& path);

/// True if it may be read piece by piece: it need not be in memory.
bool is_read_in_pieces(ContentKind kind);

/// What `source.shape` says of it.
std::string shape_of(ContentKind kind);

/// The rules of a database, in their order. Throws std::invalid_argument, naming it, for a rule
/// that is no pattern.
NameRules load_name_rules(SQLite::Database& db);

/// Reads one into `rows`. `path` says which step and rank it is of; beside a msprobe dump on the
/// disk its construct.json is read too. Throws ForeignError when the file as a whole cannot be
/// taken; what was read before is in `rows`.
void read_foreign(ContentKind kind, const std::string& path, Bytes& bytes, ForeignRows& rows);

/// The run of such a file: what the path above steps and ranks says; where it says nothing, its
/// folder, told from others of that name by a hash. With is_own_run, the file is a run by itself.
/// `path` is absolute.
RunIdentity identify_foreign(const std::string& path, bool is_own_run);

/// Key that tells a file from others of its run: its directories of steps and ranks, and its name.
std::string place_in_run(const std::string& path);

}  // namespace greta
