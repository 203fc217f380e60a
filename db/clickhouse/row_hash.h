#pragma once
#include <cstdint>
#include <string_view>

namespace greta::clickhouse {

/// SipHash-2-4 of bytes with a key of zeros: ClickHouse's sipHash64 of a String.
uint64_t sip_hash64(std::string_view bytes);

/// ClickHouse's cityHash64(a, b, ...) of numbers and arrays of numbers: the finaliser of
/// MurmurHash3 of each, joined as in CityHash 1.0.2.
class RowHash {
 public:
  /// An integer, as UInt64 or Int64, or the bits of a Float64; the length of an array, then each of
  /// its elements.
  RowHash& number(uint64_t bits) {
    const uint64_t hash = mixed(bits);
    value_ = is_first_ ? hash : joined(value_, hash);
    is_first_ = false;
    return *this;
  }
  /// sipHash64(text).
  RowHash& text(std::string_view bytes) { return number(sip_hash64(bytes)); }

  uint64_t value() const { return value_; }

 private:
  /// intHash64
  static uint64_t mixed(uint64_t x) {
    x ^= 0x4cf2d2baae6da887;
    x = (x ^ x >> 33) * 0xff51afd7ed558ccd;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53;
    return x ^ x >> 33;
  }
  static uint64_t joined(uint64_t a, uint64_t b) {
    constexpr uint64_t kMultiplier = 0x9ddfea08eb382d69;
    a = (a ^ b) * kMultiplier;
    a = (b ^ a ^ a >> 47) * kMultiplier;
    return (a ^ a >> 47) * kMultiplier;
  }

  uint64_t value_ = 0;
  bool is_first_ = true;
};

}  // namespace greta::clickhouse
