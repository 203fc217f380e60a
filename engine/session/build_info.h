#pragma once

#include <optional>
#include <string_view>

namespace greta {

/// What this build was made of.
struct BuildInfo {
  std::string_view version;   ///< 0.1.0
  std::string_view commit;    ///< full hash; empty when it was not built from a git checkout
  std::optional<bool> dirty;  ///< the checkout had changes; nothing when there was no checkout
};

BuildInfo build_info();

}  // namespace greta
