// Contents that a test makes, and a folder of its own to put them in.
#pragma once
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "common/temporary_folder.h"
#include "ingest/content/reader.h"
#include "tests/ingest/made_archive.h"

namespace greta {

namespace fs = std::filesystem;

inline const std::string kText = "one\ntwo\nthree\n";

// Bytes that deflate can hardly shrink, so that a cut in the middle loses some of them.
inline std::string noise(size_t size) {
  std::string text(size, '\0');
  uint32_t state = 1;
  for (char& c : text) {
    state = state * 1664525U + 1013904223U;
    c = static_cast<char>(state >> 24);
  }
  return text;
}

inline std::string with_flipped_byte(std::string bytes, size_t from_end) {
  bytes[bytes.size() - from_end] = static_cast<char>(bytes[bytes.size() - from_end] ^ 0x40);
  return bytes;
}

class ContentTest : public testing::Test {
 protected:
  fs::path write(const std::string& name, const std::string& bytes) const {
    return directory_.write(name, bytes);
  }

  TemporaryFolder directory_;
};

inline std::string read_all(ContentReader& reader, size_t buffer_bytes = 4096) {
  std::string text, buffer(buffer_bytes, '\0');
  while (const size_t count = reader.read(buffer.data(), buffer.size())) {
    text.append(buffer, 0, count);
  }
  EXPECT_EQ(reader.read(buffer.data(), buffer.size()), 0U) << "the end is final";
  return text;
}

}  // namespace greta
