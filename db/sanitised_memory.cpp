// SQLite's memory under AddressSanitizer. It prepares a view by very many allocations, each of
// which costs more there than what SQLite does with it: here the C library makes them, as in any
// other build. What is looked at stays: whoever reads beyond what SQLite handed out, or what it
// took back and has not handed out again, is stopped, and what only SQLite knows of is no leak.
#include <dlfcn.h>
#include <malloc.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/lsan_interface.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>

// What malloc and free are without a sanitizer, which nobody else calls in a program that has one.
extern "C" void* __libc_malloc(size_t bytes);
extern "C" void __libc_free(void* memory);

namespace greta {
namespace {

/// Before what SQLite gets, poisoned for all others: bytes that it asked for.
using Head = uint64_t;
/// Of the heap, as far as there is any.
constexpr size_t kLookedThrough = size_t{64} << 30;

/// How much is poisoned behind so many bytes: what is left of eight, and eight more, which alone
/// can be poisoned from their first.
size_t redzone_of(size_t bytes) { return 8 + -bytes % 8; }

Head* head_of(void* memory) { return static_cast<Head*>(memory) - 1; }

void* take(int n) {
  const auto bytes = static_cast<size_t>(n);
  auto* head = static_cast<Head*>(__libc_malloc(sizeof(Head) + bytes + redzone_of(bytes)));
  if (head == nullptr) return nullptr;
  *head = bytes;
  auto* memory = reinterpret_cast<std::byte*>(head + 1);
  __asan_poison_memory_region(head, sizeof(Head));
  __asan_unpoison_memory_region(memory, bytes);
  __asan_poison_memory_region(memory + bytes, redzone_of(bytes));
  return memory;
}

void give_back(void* memory) {
  __asan_poison_memory_region(memory, *head_of(memory));
  __libc_free(head_of(memory));
}

int bytes_of(void* memory) { return memory == nullptr ? 0 : static_cast<int>(*head_of(memory)); }

void* resize(void* memory, int n) {
  void* other = take(n);
  if (other == nullptr) return nullptr;
  std::memcpy(other, memory, static_cast<size_t>(std::min(bytes_of(memory), n)));
  give_back(memory);
  return other;
}

int as_asked(int bytes) { return bytes; }

int begin(void* /*unused*/) { return SQLITE_OK; }

void end(void* /*unused*/) {}

/// One heap, of which nothing goes back to the system: what is poisoned there is ours for good. The
/// sanitizer's own mallopt does nothing.
bool keep_heap() {
  void* library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return false;
  const auto set = reinterpret_cast<decltype(&mallopt)>(dlsym(library, "mallopt"));
  return set != nullptr && set(M_ARENA_MAX, 1) != 0 && set(M_MMAP_MAX, 0) != 0 &&
         set(M_TRIM_THRESHOLD, INT_MAX) != 0;
}

}  // namespace
}  // namespace greta

/// Before any connection of the program. Where another library has some by now, it is too late, and
/// all stays as it is. By its name a program's linker asks for this file.
extern "C" __attribute__((constructor)) void greta_use_sanitised_memory() {
  if (!greta::keep_heap()) return;
  sqlite3_mem_methods methods{greta::take,     greta::give_back, greta::resize, greta::bytes_of,
                              greta::as_asked, greta::begin,     greta::end,    nullptr};
  if (sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) != SQLITE_OK) return;
  __lsan_register_root_region(sbrk(0), greta::kLookedThrough);
}
