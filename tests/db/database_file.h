#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <type_traits>

#include "common/temporary_folder.h"
#include "db/database.h"
#include "tests/query_text.h"

namespace greta {

/// A place for a database file, which a test creates.
struct DatabaseFile : testing::Test {
  /// What opening says, "" when it succeeds.
  template <class Open>
  std::string error_of(Open open) const {
    try {
      if constexpr (std::is_invocable_v<Open, const std::filesystem::path&>) {
        open(file);
      } else {
        open(file, nullptr);  // open_for_reading, with nothing to prepare
      }
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }

  TemporaryFolder folder;
  std::filesystem::path file = folder / "g.db";
};

}  // namespace greta
