#include "engine/gguf/mapping_guard.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <stdexcept>

namespace greta {
namespace {

/// What the signal handler reads: no lock, no allocation. end is 0 where nothing is guarded.
struct GuardSlot {
  std::atomic<bool> taken{false};
  std::atomic<uintptr_t> begin{0}, end{0};
  std::atomic<bool> hit{false};
};
static_assert(std::atomic<uintptr_t>::is_always_lock_free);

GuardSlot guard_slots[MappingGuard::kMaxGuards];
struct sigaction default_action;
uintptr_t page_bytes;

/// Zeros from the page at `at` to the end: behind a hole there is nothing but hole.
bool fill_hole(GuardSlot& slot, uintptr_t at, uintptr_t end) {
  const uintptr_t page = at & ~(page_bytes - 1);
  slot.hit.store(true);
  return ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED;
}

void on_bus_error(int, siginfo_t* info, void*) {
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  const bool sent = info->si_code <= 0;  // by a program, and not by reading
  for (GuardSlot& slot : guard_slots) {
    const uintptr_t end = slot.end.load();
    if (!sent && at >= slot.begin.load() && at < end && fill_hole(slot, at, end)) return;
  }
  // Not ours: it comes again, and is met as before.
  ::sigaction(SIGBUS, &default_action, nullptr);
  if (sent) ::raise(SIGBUS);
}

void install() {
  page_bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, &default_action);
}

}  // namespace

MappingGuard::MappingGuard(void* address, size_t size_bytes) : slot_(0) {
  static std::once_flag installed;
  std::call_once(installed, install);
  while (slot_ < kMaxGuards && guard_slots[slot_].taken.exchange(true)) ++slot_;
  if (slot_ == kMaxGuards) throw std::runtime_error("too many model files are open");
  GuardSlot& slot = guard_slots[slot_];
  slot.hit.store(false);
  slot.begin.store(reinterpret_cast<uintptr_t>(address));
  slot.end.store(slot.begin.load() + size_bytes);
}

MappingGuard::~MappingGuard() {
  guard_slots[slot_].end.store(0);
  guard_slots[slot_].taken.store(false);
}

bool MappingGuard::was_hit() const { return guard_slots[slot_].hit.load(); }

}  // namespace greta
