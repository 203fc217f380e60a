#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

namespace greta {

/// How connections wait for others that hold a database. Everyone asks for a lock often, and nobody
/// holds one for long (give_way), so that writers take turns: who waits is as likely to be next as
/// anybody else who does. Outlives its connections; patience may change while they wait.
class LockWait {
 public:
  explicit LockWait(std::chrono::milliseconds patience) : patience_(patience) {}

  /// That of every connection that is not given another: ten minutes are longer than a large
  /// ingest.
  static LockWait& usual();

  void set_patience(std::chrono::milliseconds patience) { patience_.store(patience); }
  std::chrono::milliseconds patience() const { return patience_.load(); }

  /// Told what is waited for, once in a wait that takes longer than `is_long`. Set before the first
  /// connection.
  void (*on_long_wait)(const std::string& what) = nullptr;
  std::chrono::milliseconds is_long{5'000};
  bool ends_on_stop = true;  ///< a stop signal (common/stop_signal.h) ends waits and statements

  /// Makes `db`, a connection to `file`, wait so.
  void attend(SQLite::Database& db, const std::filesystem::path& file);

 private:
  std::atomic<std::chrono::milliseconds> patience_;
};

/// While it lives, connections of this thread wait no longer than so.
class ShortPatience {
 public:
  explicit ShortPatience(std::chrono::milliseconds patience);
  ~ShortPatience();
  ShortPatience(const ShortPatience&) = delete;
  ShortPatience& operator=(const ShortPatience&) = delete;

 private:
  std::chrono::milliseconds before_;
};

/// After a transaction that held the write lock: once this thread has held it for a while, waits a
/// moment, in which everybody who polls for it asks.
void give_way(std::chrono::steady_clock::duration held);

/// Who holds a lock on the database that others wait for: "greta-db (process 4711)"; else "another
/// program". The kernel tells, where /proc is.
std::string lock_holder(const std::filesystem::path& file);

/// "90 s", "10 min".
std::string duration_text(std::chrono::milliseconds duration);

/// Of "500ms", "90s" or "90", "10m", "2h"; nothing for another text or more than a year.
std::optional<std::chrono::milliseconds> parse_duration(const std::string& text);

}  // namespace greta
