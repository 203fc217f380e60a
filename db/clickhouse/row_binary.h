#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

// Rows in ClickHouse's format RowBinary.

static_assert(std::endian::native == std::endian::little, "RowBinary is little-endian");

namespace greta::clickhouse {

/// The low `width` bytes as a number of their own.
inline int64_t sign_extended(int64_t value, size_t width) {
  const size_t unused = 64 - 8 * width;
  return static_cast<int64_t>(static_cast<uint64_t>(value) << unused) >> unused;
}

/// Writes values as ClickHouse's format RowBinary has them, one after the other.
class RowWriter {
 public:
  template <class T>
  RowWriter& number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  RowWriter& u8(uint8_t value) { return number(value); }
  RowWriter& u64(uint64_t value) { return number(value); }
  RowWriter& i64(int64_t value) { return number(value); }
  RowWriter& f64(double value) { return number(value); }
  /// The low `width` bytes of an integer. False if they are not all of it.
  bool integer(int64_t value, size_t width) {
    bytes_.append(reinterpret_cast<const char*>(&value), width);
    return value == sign_extended(value, width);
  }
  RowWriter& length(uint64_t value) {  ///< of a text or an array
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
    return *this;
  }
  RowWriter& text(std::string_view value) {
    length(value.size());
    bytes_ += value;
    return *this;
  }
  /// What a value of type Nullable begins with.
  RowWriter& null(bool is_null) { return u8(is_null ? 1 : 0); }

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  void clear() { bytes_.clear(); }

 private:
  std::string bytes_;
};

/// Thrown where an answer ends within a row.
struct NoMoreBytes {};

/// Reads them again, from borrowed bytes. A row that is not there as a whole throws NoMoreBytes.
class RowReader {
 public:
  explicit RowReader(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  uint8_t u8() { return number<uint8_t>(); }
  uint64_t u64() { return number<uint64_t>(); }
  int64_t i64() { return number<int64_t>(); }
  double f64() { return number<double>(); }
  int64_t integer(size_t width) {
    int64_t value = 0;
    std::memcpy(&value, take(width).data(), width);
    return sign_extended(value, width);
  }
  uint64_t length() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = u8();
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    throw NoMoreBytes();  // no length has more than ten bytes
  }
  std::string_view text() { return take(length()); }
  bool null() { return u8() != 0; }
  std::optional<std::string> text_or_null() {
    return null() ? std::nullopt : std::optional(std::string(text()));
  }

  bool at_end() const { return bytes_.empty(); }

 private:
  std::string_view take(uint64_t n) {
    if (n > bytes_.size()) throw NoMoreBytes();
    const std::string_view taken = bytes_.substr(0, n);
    bytes_.remove_prefix(n);
    return taken;
  }

  std::string_view bytes_;  ///< those that are left
};

}  // namespace greta::clickhouse
