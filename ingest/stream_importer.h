#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include "ingest/importer.h"

namespace greta {

/// Ingests the row format (docs/traces.md) from a pipe, while its other end still writes: rows are
/// committed within some 20 ms of their arrival, so that others see them, and no lock is held while
/// nothing comes. A run whose stream ends before its run_end is INCOMPLETE. Findings name the file
/// "-". What does not begin with such a run_start is a finding, and is not read on.
///
/// descriptor: of the pipe, or of a file; borrowed. Throws SQLite::Exception, std::system_error
/// (it cannot be read) and Stopped.
IngestSummary ingest_stream(SQLite::Database& db, int descriptor, const IngestOptions& options);

}  // namespace greta
