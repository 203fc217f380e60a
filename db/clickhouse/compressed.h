#pragma once
#include <string>
#include <string_view>

namespace greta::clickhouse {

/// Appends `bytes` (at most 16 MiB) as one block of ClickHouse's native compression: method LZ4
/// behind a checksum of 16 bytes, which is left 0 (setting
/// http_native_compression_disable_checksumming_on_decompress): how many rows arrived is counted.
/// Throws std::length_error.
void append_compressed(std::string& to, std::string_view bytes);

}  // namespace greta::clickhouse
