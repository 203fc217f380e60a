#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace greta {

/// How many rows there are, and what they say, whatever their order: the sum of a hash of each.
struct RowSum {
  uint64_t n = 0, sum = 0;

  void add(uint64_t hash) {
    ++n;
    sum += hash;
  }
};

/// Types of columns of a warehouse.
enum class SentType : uint8_t {
  kUInt8,
  kInt32,
  kInt64,
  kFloat64,
  kInt64OrNull,  ///< or UInt64
  kFloat64OrNull,
  kFloats,  ///< an array
  kFloatsOrNulls,
  kText,
};

/// A column of rows that are hashed, here and there.
struct SentColumn {
  const char* name;
  SentType type;
};

/// "prompt_id, pos_id"
std::string names_of(std::span<const SentColumn> columns);

/// The hash of a row that RowBinary has these columns of, and no others. Of two NULLs, two zeros or
/// two NaNs only those of the same bits are equal. Throws clickhouse::NoMoreBytes.
uint64_t hash_of_row(std::span<const SentColumn> columns, std::string_view row);

/// The same as an expression of ClickHouse, over columns of these names.
std::string hash_sql(std::span<const SentColumn> columns);

}  // namespace greta
