#pragma once

#include <cstddef>

namespace greta {

/// While it lives, pages of a private file mapping that the file no longer has read as zeros,
/// instead of ending the process by SIGBUS. At most kMaxGuards at a time; throws std::runtime_error
/// beyond. For any thread, and so is what reads the mapping.
class MappingGuard {
 public:
  MappingGuard(void* address, size_t size_bytes);
  ~MappingGuard();
  MappingGuard(const MappingGuard&) = delete;
  MappingGuard& operator=(const MappingGuard&) = delete;

  bool was_hit() const;  ///< somebody read what is not there

  static constexpr int kMaxGuards = 64;

 private:
  int slot_;
};

}  // namespace greta
