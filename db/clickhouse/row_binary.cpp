#include "db/clickhouse/row_binary.h"

namespace greta::clickhouse {

uint64_t RowReader::length() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const uint8_t byte = u8();
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  throw NoMoreBytes();  // no length has more than ten bytes
}

}  // namespace greta::clickhouse
