#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

// Removes runs with all that belongs to them.

namespace greta {

/// A run to forget, as somebody saw it: one that has got another name since is left alone.
struct RunToForget {
  int64_t id = 0;
  std::string name;
};

/// What stands before the SHA-256 of a source that no longer has all that its content states.
inline constexpr const char* kForgottenInPart = "forgotten in part: ";

/// What becomes of a run that run_being_written() names: to forget one that is written on leaves
/// rows of nothing.
enum class WrittenRuns { kRefuse, kForget };

/// What was forgotten.
struct ForgetSummary {
  int64_t runs = 0;     ///< asked for
  int64_t levels = 0;   ///< directory levels that had attributes for these runs only
  int64_t rows = 0;     ///< trace rows
  int64_t sources = 0;  ///< contents
};

/// Told what is done at the moment, and how many runs of how many it is done with.
using ForgetProgress = std::function<void(const char* what, int64_t done, int64_t all)>;

/// The first of these runs that somebody may still be writing to: its engine has not said that it
/// ended, or an ingest whose process may live has written to it. Nothing when there is none.
std::optional<std::string> run_being_written(SQLite::Database& db,
                                             const std::vector<RunToForget>& runs);

/// Removes runs with all that belongs to them, in one transaction: rows, prompts, plans, readouts,
/// differences, what is kept, sources with their locations and errors; samples, sketches, contexts
/// and trace points unknown to greta that nobody else uses; directory levels above them that have
/// no other run. A run that has others below it stays as their directory level, with what its path
/// and its metadata say. A source of another run that states something of these is marked, so that
/// it is read again when it is next ingested. What is kept of other runs stays. Throws Stopped,
/// DatabaseError (a run may still be written to; rows that are left would refer to what is gone, in
/// a file that was not sound) or SQLite::Exception; then nothing has changed.
ForgetSummary forget_runs(SQLite::Database& db, const std::vector<RunToForget>& runs,
                          ForgetProgress progress = nullptr,
                          WrittenRuns written = WrittenRuns::kRefuse);

/// The run of this name if it failed, or was left running by a process that is gone, and nothing
/// writes to it.
std::optional<RunToForget> left_behind_run(SQLite::Database& db, const std::string& name);

/// Removes it, as forget_runs does. Inside the transaction in which it was found.
void forget_left_behind(SQLite::Database& db, const RunToForget& run);

/// Removes the source of this identity that was marked by forget_runs, with all that it stated, so
/// that it can be stored anew. Inside the caller's transaction. False when there is none.
bool forget_marked_source(SQLite::Database& db, int64_t run_id, const std::string& leg,
                          const std::string& prompt, const std::string& sha256);

/// Gives the space that was freed back to the file system: rewrites the file, which needs as much
/// room again meanwhile.
void give_back_space(SQLite::Database& db);

}  // namespace greta
