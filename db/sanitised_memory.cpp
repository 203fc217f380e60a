// SQLite's memory under AddressSanitizer. It prepares a view by very many allocations, of which
// each costs more there than all else that SQLite does: from here they take a tenth. What is looked
// at stays: whoever reads beyond what SQLite handed out, or what it took back and has not handed
// out again, is stopped, and what only SQLite knows of is no leak.
#include <sanitizer/asan_interface.h>
#include <sanitizer/lsan_interface.h>
#include <sqlite3.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>

namespace greta {
namespace {

/// Before what SQLite gets, poisoned for all others.
struct Block {
  Block* next;     ///< of those that are free
  uint32_t bytes;  ///< that SQLite asked for
  uint32_t kind;   ///< of its size
};

constexpr size_t kReserved = size_t{64} << 30, kStep = size_t{1} << 20, kRedzone = 16;

/// Four sizes of blocks from each power of two to the next; what is free is kept by size. Pages are
/// the kernel's until they are touched, and ours from then on.
class Memory {
 public:
  void* take(size_t bytes) {
    const size_t needed = std::max(sizeof(Block) + bytes + kRedzone, size_t{64});
    const size_t shift = std::bit_width(needed - 1) - 3;
    const size_t units = ((needed - 1) >> shift) + 1;  // 5 to 8
    const size_t kind = shift * 4 + units - 5;
    const std::lock_guard lock(mutex_);
    Block* block = free_[kind];
    if (block != nullptr) {
      free_[kind] = block->next;
    } else {
      block = cut(units << shift);
      if (block == nullptr) return nullptr;
      block->kind = static_cast<uint32_t>(kind);
    }
    block->bytes = static_cast<uint32_t>(bytes);
    __asan_unpoison_memory_region(block + 1, bytes);
    return block + 1;
  }

  void give_back(void* memory) {
    Block* block = static_cast<Block*>(memory) - 1;
    const std::lock_guard lock(mutex_);
    __asan_poison_memory_region(memory, block->bytes);
    block->next = free_[block->kind];
    free_[block->kind] = block;
  }

  static size_t bytes_of(const void* memory) {
    return (static_cast<const Block*>(memory) - 1)->bytes;
  }

 private:
  Block* cut(size_t bytes) {
    if (begin_ == nullptr) {
      void* all = mmap(nullptr, kReserved, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (all == MAP_FAILED) return nullptr;
      begin_ = static_cast<std::byte*>(all);
    }
    if (kReserved - cut_ < bytes) return nullptr;
    if (known_ - cut_ < bytes) make_known((cut_ + bytes + kStep - 1) / kStep * kStep);
    cut_ += bytes;
    return reinterpret_cast<Block*>(begin_ + cut_ - bytes);
  }

  /// Poisons what is new, and has it looked through for pointers, but for what is poisoned then.
  void make_known(size_t bytes) {
    __asan_poison_memory_region(begin_ + known_, bytes - known_);
    if (known_ > 0) __lsan_unregister_root_region(begin_, known_);
    __lsan_register_root_region(begin_, bytes);
    known_ = bytes;
  }

  std::mutex mutex_;
  std::byte* begin_ = nullptr;
  size_t cut_ = 0, known_ = 0;  ///< bytes
  std::array<Block*, 128> free_{};
};

constinit Memory memory;

void* take(int bytes) { return memory.take(static_cast<size_t>(bytes)); }

void give_back(void* at) { memory.give_back(at); }

void* resize(void* at, int bytes) {
  void* other = take(bytes);
  if (other == nullptr) return nullptr;
  std::memcpy(other, at, std::min(Memory::bytes_of(at), static_cast<size_t>(bytes)));
  give_back(at);
  return other;
}

int bytes_of(void* at) { return at == nullptr ? 0 : static_cast<int>(Memory::bytes_of(at)); }

int as_asked(int bytes) { return bytes; }

int begin(void* /*unused*/) { return SQLITE_OK; }

void end(void* /*unused*/) {}

}  // namespace
}  // namespace greta

/// Before any connection of the program. Where another library has some by now, it is too late, and
/// all stays as it is. By its name a program's linker asks for this file.
extern "C" __attribute__((constructor)) void greta_use_sanitised_memory() {
  sqlite3_mem_methods methods{greta::take,     greta::give_back, greta::resize, greta::bytes_of,
                              greta::as_asked, greta::begin,     greta::end,    nullptr};
  sqlite3_config(SQLITE_CONFIG_MALLOC, &methods);
}
