#include "db/fleet/row_sum.h"

#include "db/clickhouse/row_binary.h"
#include "db/clickhouse/row_hash.h"

namespace greta {
namespace {

using clickhouse::RowHash;
using clickhouse::RowReader;

/// Reads a row, value by value, into its hash: values first, then which of them are NULL.
class HashedRow {
 public:
  explicit HashedRow(std::string_view row) : row_(row) {}

  void take(SentType type) {
    switch (type) {
      case SentType::kUInt8:
        hash_.number(row_.u8());
        break;
      case SentType::kInt32:
        hash_.number(static_cast<uint64_t>(int64_t{row_.number<int32_t>()}));
        break;
      case SentType::kInt64:
      case SentType::kFloat64:
        hash_.number(row_.u64());
        break;
      case SentType::kInt64OrNull:
      case SentType::kFloat64OrNull: {
        const bool is_null = row_.null();
        if (is_null) nulls_ |= next_null_;
        next_null_ <<= 1;
        hash_.number(is_null ? 0 : row_.u64());
        break;
      }
      case SentType::kFloats:
        take_floats();
        break;
      case SentType::kFloatsOrNulls:
        take_floats_or_nulls();
        break;
      case SentType::kText:
        hash_.text(row_.text());
        break;
    }
  }

  uint64_t hash() { return hash_.number(nulls_).value(); }

 private:
  void take_floats() {
    const uint64_t n = row_.length();
    hash_.number(n);
    for (uint64_t i = 0; i < n; ++i) hash_.number(row_.u64());
  }

  void take_floats_or_nulls() {
    const RowReader from = row_;
    for (const bool is_nulls : {false, true}) {
      row_ = from;
      const uint64_t n = row_.length();
      hash_.number(n);
      for (uint64_t i = 0; i < n; ++i) {
        const bool is_null = row_.null();
        const uint64_t bits = is_null ? 0 : row_.u64();
        hash_.number(is_nulls ? uint64_t{is_null} : bits);
      }
    }
  }

  RowReader row_;
  RowHash hash_;
  uint64_t nulls_ = 0, next_null_ = 1;
};

/// As HashedRow::take.
std::string value_sql(const SentColumn& column) {
  const std::string name = column.name;
  switch (column.type) {
    case SentType::kInt32:
      return "toInt64(" + name + ")";
    case SentType::kInt64OrNull:
      return "ifNull(" + name + ", 0)";
    case SentType::kFloat64OrNull:
      return "ifNull(" + name + ", 0.)";
    case SentType::kFloatsOrNulls:
      return "arrayMap(v -> ifNull(v, 0.), " + name + "), arrayMap(v -> isNull(v), " + name + ")";
    case SentType::kText:
      return "sipHash64(" + name + ")";
    case SentType::kUInt8:
    case SentType::kInt64:
    case SentType::kFloat64:
    case SentType::kFloats:
      break;
  }
  return name;
}

}  // namespace

std::string names_of(std::span<const SentColumn> columns) {
  std::string names;
  for (const SentColumn& column : columns)
    names += (names.empty() ? "" : ", ") + std::string(column.name);
  return names;
}

uint64_t hash_of_row(std::span<const SentColumn> columns, std::string_view row) {
  HashedRow hashed(row);
  for (const SentColumn& column : columns) hashed.take(column.type);
  return hashed.hash();
}

std::string hash_sql(std::span<const SentColumn> columns) {
  std::string values, nulls;
  uint64_t next_null = 1;
  for (const SentColumn& column : columns) {
    values += value_sql(column) + ", ";
    if (column.type != SentType::kInt64OrNull && column.type != SentType::kFloat64OrNull) continue;
    nulls += (nulls.empty() ? "" : " + ") + ("isNull(" + std::string(column.name) + ") * ") +
             std::to_string(next_null);
    next_null <<= 1;
  }
  return "cityHash64(" + values + (nulls.empty() ? "0" : nulls) + ")";
}

}  // namespace greta
