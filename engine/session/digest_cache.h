#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "engine/gguf/file.h"

// Keeps the digests of model files between programs.

namespace greta {

/// What identifies a model. Digests are 64 lower-case hex digits.
struct ModelDigests {
  std::string root;         ///< ModelRoot
  std::string file_sha256;  ///< empty when it was not asked for and is not kept
};

/// Keeps the digests of model files between programs, a small text file for each path. They are
/// believed as long as the file system says the same of the file: size, times of the last change to
/// its content and to what is said of it, inode, device. A cache that cannot be read or written is
/// an empty one: no member throws but for want of memory.
class DigestCache {
 public:
  /// Nowhere: keeps nothing.
  DigestCache() = default;
  explicit DigestCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// $XDG_CACHE_HOME/greta/models, else $HOME/.cache/greta/models; nowhere when neither is an
  /// absolute path.
  static DigestCache usual();

  std::optional<ModelDigests> find(const std::filesystem::path& file, const FileStamp& stamp) const;

  /// stamp: as it was when the digests were begun, and is still. One of a file that changed less
  /// than kSettledNs before is not kept: another change within the same tick of the file system's
  /// clock would not show.
  void keep(const std::filesystem::path& file, const FileStamp& stamp,
            const ModelDigests& digests) const;

  /// 2 s, the longest tick that a file system has.
  static constexpr int64_t kSettledNs = 2'000'000'000;

 private:
  std::filesystem::path folder_;
};

}  // namespace greta
