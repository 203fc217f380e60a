// The databases that earlier versions left, packed beside the tests.
#pragma once
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace greta {

/// The oldest that is brought forward.
inline constexpr int kOldestVersion = 8;

/// Writes the database that the last build of a version made.
inline void unpack_version(int version, const std::filesystem::path& file) {
  const std::string packed =
      std::string(GRETA_SOURCE_DIR) + "/tests/data/version_" + std::to_string(version) + ".db.gz";
  gzFile in = gzopen(packed.c_str(), "rb");
  if (in == nullptr) throw std::runtime_error("no " + packed);
  std::ofstream out(file, std::ios::binary);
  char buffer[65536];
  for (int n; (n = gzread(in, buffer, sizeof buffer)) > 0;) out.write(buffer, n);
  gzclose(in);
  if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
}

}  // namespace greta
