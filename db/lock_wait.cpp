#include "db/lock_wait.h"

#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <random>
#include <string_view>
#include <thread>
#include <utility>

#include "common/stop_signal.h"

namespace greta {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A poll takes some 5 us, and a turn passes to somebody who polls within kGiveWay.
constexpr int kMinPollUs = 200, kMaxPollUs = 400;
constexpr milliseconds kTurn{50};
constexpr milliseconds kGiveWay{1};
constexpr int kStepsPerLook = 100'000;  // of SQLite's virtual machine: some milliseconds

thread_local milliseconds longest_patience = milliseconds::max();
thread_local Clock::duration held_in_turn{};

/// The wait of one connection, which owns it.
struct ConnectionWait {
  const LockWait& how;
  std::filesystem::path file;
  Clock::time_point since{};
  bool told = false;
  std::minstd_rand random{std::random_device()()};

  bool go_on(int times);
};

bool ConnectionWait::go_on(int times) {
  if (times == 0) {
    since = Clock::now();
    told = false;
  }
  if (how.ends_on_stop && stop_signal() != 0) return false;
  const Clock::duration waited = Clock::now() - since;
  if (waited >= std::min(how.patience(), longest_patience)) return false;
  if (!told && waited >= how.is_long && how.on_long_wait) {
    told = true;
    how.on_long_wait("waiting for " + lock_holder(file) + ", which holds " + file.string() +
                     ", for up to " + duration_text(how.patience()) + " (--wait)");
  }
  std::this_thread::sleep_for(std::chrono::microseconds(
      std::uniform_int_distribution<int>(kMinPollUs, kMaxPollUs)(random)));
  return true;
}

int on_busy(void* wait, int times) { return static_cast<ConnectionWait*>(wait)->go_on(times); }

int on_steps(void*) { return stop_signal() != 0; }

uint64_t inode_of(const std::string& file) {
  struct stat status {};
  return ::stat(file.c_str(), &status) == 0 ? status.st_ino : 0;
}

std::string program_of(long pid) {
  std::string name;
  std::ifstream in("/proc/" + std::to_string(pid) + "/comm");
  std::getline(in, name);
  return name.empty() ? "a program" : name;
}

}  // namespace

LockWait& LockWait::usual() {
  static LockWait usual(std::chrono::minutes(10));
  return usual;
}

/// The busy handler's state lives as long as the connection: SQLite deletes what a function has.
void LockWait::attend(SQLite::Database& db, const std::filesystem::path& file) {
  auto wait = std::unique_ptr<ConnectionWait>(new ConnectionWait{*this, file});
  sqlite3* const handle = db.getHandle();
  sqlite3_busy_handler(handle, on_busy, wait.get());
  if (ends_on_stop) sqlite3_progress_handler(handle, kStepsPerLook, on_steps, nullptr);
  // Deletes it also when it fails.
  sqlite3_create_function_v2(
      handle, "greta_lock_wait", 0, SQLITE_UTF8, wait.release(),
      [](sqlite3_context*, int, sqlite3_value**) {}, nullptr, nullptr,
      [](void* owned) { delete static_cast<ConnectionWait*>(owned); });
}

ShortPatience::ShortPatience(milliseconds patience) : before_(longest_patience) {
  longest_patience = std::min(before_, patience);
}

ShortPatience::~ShortPatience() { longest_patience = before_; }

void give_way(Clock::duration held) {
  held_in_turn += held;
  if (held_in_turn < kTurn) return;
  held_in_turn = {};
  std::this_thread::sleep_for(kGiveWay);
}

// The files are only looked up: to open and close one would drop the locks of this process on it.
std::string lock_holder(const std::filesystem::path& file) {
  constexpr uint64_t kWalWriteLock = 120;          // of -shm; others are of checkpoints, recovery
  constexpr uint64_t kFirstFileLock = 0x40000000;  // of the file, where it has no -shm
  const uint64_t shm = inode_of(file.string() + "-shm"), own = inode_of(file.string());
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    // "1: POSIX  ADVISORY  WRITE 4711 fe:01:1234 120 120": process, inode, first byte
    long pid = 0;
    unsigned long long inode = 0, first = 0;
    if (std::sscanf(line.c_str(), "%*d: POSIX %*s WRITE %ld %*x:%*x:%llu %llu", &pid, &inode,
                    &first) != 3 ||
        pid <= 0 || pid == ::getpid()) {
      continue;
    }
    const bool holds = (inode == shm && shm != 0 && first == kWalWriteLock) ||
                       (inode == own && own != 0 && first >= kFirstFileLock);
    if (holds) return program_of(pid) + " (process " + std::to_string(pid) + ")";
  }
  return "another program";
}

std::string duration_text(milliseconds duration) {
  const long long ms = duration.count();
  if (ms >= 120'000 && ms % 60'000 == 0) return std::to_string(ms / 60'000) + " min";
  if (ms >= 1'000 && ms % 1'000 == 0) return std::to_string(ms / 1'000) + " s";
  return std::to_string(ms) + " ms";
}

std::optional<milliseconds> parse_duration(const std::string& text) {
  constexpr std::pair<std::string_view, int64_t> kUnits[] = {
      {"", 1'000}, {"ms", 1}, {"s", 1'000}, {"m", 60'000}, {"min", 60'000}, {"h", 3'600'000}};
  constexpr int64_t kYear = int64_t{366} * 24 * 3'600'000;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  for (const auto& [name, ms] : kUnits) {
    if (unit == name && number <= kYear / ms) return milliseconds(number * ms);
  }
  return std::nullopt;
}

}  // namespace greta
