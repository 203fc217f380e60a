#include "db/clickhouse/compressed.h"

#include <lz4.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace greta::clickhouse {
namespace {

constexpr size_t kChecksumBytes = 16, kHeaderBytes = 9;
constexpr char kLz4 = static_cast<char>(0x82);
constexpr size_t kMostBytes = size_t{16} << 20;

}  // namespace

void append_compressed(std::string& to, std::string_view bytes) {
  if (bytes.size() > kMostBytes) throw std::length_error("a block of more than 16 MiB");
  const int size = static_cast<int>(bytes.size());
  const int bound = LZ4_compressBound(size);
  const size_t at = to.size(), data = at + kChecksumBytes + kHeaderBytes;
  to.resize(data + static_cast<size_t>(bound));
  const int n = LZ4_compress_default(bytes.data(), to.data() + data, size, bound);
  if (n <= 0) throw std::length_error("LZ4 could not compress a block");
  to.resize(data + static_cast<size_t>(n));
  std::memset(to.data() + at, 0, kChecksumBytes);
  to[at + kChecksumBytes] = kLz4;
  const auto compressed = static_cast<uint32_t>(kHeaderBytes + static_cast<size_t>(n));
  const auto plain = static_cast<uint32_t>(size);
  std::memcpy(to.data() + at + kChecksumBytes + 1, &compressed, sizeof compressed);
  std::memcpy(to.data() + at + kChecksumBytes + 5, &plain, sizeof plain);
}

}  // namespace greta::clickhouse
