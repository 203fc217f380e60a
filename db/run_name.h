#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <string>

namespace greta {

/// `name`, or NAME#2, NAME#3, ... when a run has it. For use in the transaction that adds the run.
std::string free_run_name(SQLite::Database& db, const std::string& name);

}  // namespace greta
