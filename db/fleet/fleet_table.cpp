#include "db/fleet/fleet_table.h"

#include <sqlite3.h>

#include <array>
#include <bit>
#include <charconv>
#include <stdexcept>
#include <utility>

#include "db/clickhouse/quote.h"
#include "db/clickhouse/row_hash.h"
#include "db/definitions.h"

namespace greta {
namespace {

using clickhouse::quote_name;
using clickhouse::RowHash;
using clickhouse::RowReader;
using clickhouse::RowWriter;

Reference reference_of(const std::string& column) {
  constexpr std::pair<const char*, Reference> kReferences[] = {
      {"id", Reference::kOwn},           {"prompt_id", Reference::kOwn},
      {"context_id", Reference::kOwn},   {"sketch_id", Reference::kOwn},
      {"sample_id", Reference::kOwn},    {"difference_id", Reference::kOwn},
      {"run_id", Reference::kRun},       {"source_id", Reference::kSource},
      {"tensor_id", Reference::kTensor}, {"report_source_id", Reference::kSource},
      {"name_id", Reference::kName},     {"phase_id", Reference::kPhase},
  };
  for (const auto& [name, reference] : kReferences) {
    if (column == name) return reference;
  }
  return Reference::kNone;
}

ColumnType type_of(const std::string& sql) {
  if (sql == "INTEGER") return ColumnType::kInteger;
  if (sql == "REAL") return ColumnType::kReal;
  return sql == "BLOB" ? ColumnType::kBlob : ColumnType::kText;
}

/// Name of a column in ClickHouse, which reads `nan` as a number where a shard is asked.
std::string name_there(const Column& column) {
  const bool is_number = column.name == "nan" || column.name == "inf";
  return quote_name(is_number ? column.name + "_count" : column.name);
}

/// Columns of small numbers, which a server takes in faster.
ColumnType narrowed(const std::string& table, const Column& column) {
  constexpr std::string_view k8Bits =
      " side stands stands_in_phase ambiguous ambiguous_in_phase flags derived segment ";
  constexpr std::string_view k32Bits = " pos_id layer share_ppm ";
  const std::string word = " " + column.name + " ";
  if (k8Bits.find(word) != std::string_view::npos) return ColumnType::kInt8;
  const bool is_bucket = table == "sketch" && column.name.starts_with('b');
  return is_bucket || k32Bits.find(word) != std::string_view::npos ? ColumnType::kInt32
                                                                   : column.type;
}

std::string type_sql(const Column& column) {
  constexpr const char* kTypes[] = {"Int8", "Int32", "Int64", "Float64", "String", "String"};
  const std::string type = kTypes[static_cast<size_t>(column.type)];
  return column.nullable ? "Nullable(" + type + ")" : type;
}

bool is_text(ColumnType type) { return type == ColumnType::kText || type == ColumnType::kBlob; }

/// Bytes of an integer of that type.
size_t width_of(ColumnType type) {
  return type == ColumnType::kInt8 ? 1 : type == ColumnType::kInt32 ? 4 : 8;
}

/// SQL of a value in the form that hash_of hashes.
std::string value_sql(const Column& column) {
  const std::string name = name_there(column);
  const auto or_else = [&](const char* value) {
    return column.nullable ? "ifNull(" + name + ", " + value + ")" : name;
  };
  if (is_text(column.type)) return "sipHash64(" + or_else("''") + ")";
  if (column.type == ColumnType::kReal) return or_else("0.");
  return "toInt64(" + or_else("0") + ")";
}

/// Values first, then which of them are NULL.
std::string hash_sql(const Columns& columns) {
  std::string values, nulls;
  uint64_t next = 1;
  for (const Column& column : columns) {
    values += value_sql(column) + ", ";
    if (!column.nullable) continue;
    nulls += (nulls.empty() ? "" : " + ") + ("isNull(" + name_there(column) + ") * ") +
             std::to_string(next);
    next <<= 1;
  }
  return "cityHash64(" + values + (nulls.empty() ? "0" : nulls) + ")";
}

/// The hash of hash_sql, value by value.
class ValuesHash {
 public:
  void null(const Column& column) {
    is_text(column.type) ? hash_.text("") : hash_.number(0);
    nulls_ |= next_;
    next_ <<= 1;
  }
  void number(const Column& column, uint64_t bits) {
    hash_.number(bits);
    if (column.nullable) next_ <<= 1;
  }
  void text(const Column& column, std::string_view bytes) {
    hash_.text(bytes);
    if (column.nullable) next_ <<= 1;
  }
  uint64_t value() { return hash_.number(nulls_).value(); }

 private:
  RowHash hash_;
  uint64_t nulls_ = 0, next_ = 1;
};

template <class Number>
std::string digits_of(Number value) {
  std::array<char, 64> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return {digits.data(), end.ptr};
}

template <class Number>
Number number_in(std::string_view text) {
  Number value{};
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size())
    throw std::runtime_error("a record has a text where a number belongs");
  return value;
}

FleetTable table_of(const char* name, const char* what, const Columns& columns, const char* key,
                    const std::string& select) {
  FleetTable table{name, what, columns, "", "", key, hash_sql(columns), select};
  for (const Column& column : columns) {
    const std::string comma = table.names.empty() ? "" : ", ";
    table.names += comma + name_there(column);
    table.declaration += comma + name_there(column) + " " + type_sql(column);
  }
  return table;
}

std::vector<FleetTable> make_tables() {
  SQLite::Database db(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  for (const Definition& ours : definitions()) {
    if (ours.type == "table") db.exec(ours.sql);
  }
  std::vector<FleetTable> tables;
  const auto add = [&](const char* name, const char* what, const char* key,
                       const std::string& condition) {
    Columns columns = table_columns(db, name);
    std::erase_if(columns, [](const Column& column) { return column.name == "run_id"; });
    for (Column& column : columns) column.type = narrowed(name, column);
    tables.push_back(
        table_of(name, what, columns, key,
                 "SELECT " + names_of(columns) + " FROM " + name + " WHERE " + condition));
  };
  add("trace_row", "trace rows", "prompt_id, side, pos_id, layer, tensor_id, nth", "run_id = ?1");
  add("sketch", "sketches", "id",
      "id IN (SELECT sketch_id FROM trace_row WHERE run_id = ?1 AND sketch_id IS NOT NULL)");
  add("sample", "samples", "id",
      "id IN (SELECT sample_id FROM trace_row WHERE run_id = ?1 AND sample_id IS NOT NULL)");
  add("difference", "differences", "id", "run_id = ?1");
  add("difference_part", "parts of differences", "difference_id, segment",
      "difference_id IN (SELECT id FROM difference WHERE run_id = ?1)");
  // what is waived follows from waivers, which stay with their file
  add("verdict", "verdict rows", "level, item", "run_id = ?1 AND level <> 'gate'");
  Columns change = table_columns(db, "run_change");
  change.erase(change.begin(), change.begin() + 2);  // run_id, baseline_id
  Columns named{{"baseline"}, {"baseline_extent"}};
  named.insert(named.end(), change.begin(), change.end());
  tables.push_back(table_of("run_change", "changes", named, "baseline, level",
                            "SELECT " + identity_sql("baseline_id") + ", " +
                                extent_sql("baseline_id") + ", " + names_of(change) +
                                " FROM run_change WHERE run_id = ?1 AND level = 'run'"));
  tables.push_back({"record",
                    "records",
                    {},
                    "kind, ord, cells",
                    "kind String, ord UInt64, cells Array(Nullable(String))",
                    "kind, ord",
                    "cityHash64(sipHash64(kind), ord, arrayMap(c -> sipHash64(ifNull(c, '')),"
                    " cells), arrayMap(c -> isNull(c), cells))",
                    ""});
  return tables;
}

}  // namespace

Columns table_columns(SQLite::Database& db, const std::string& table) {
  Columns columns;
  SQLite::Statement info(
      db, "SELECT name, type, \"notnull\" OR pk FROM pragma_table_info(?) ORDER BY cid");
  info.bind(1, table);
  while (info.executeStep()) {
    const std::string name = info.getColumn(0);
    columns.push_back(
        {name, type_of(info.getColumn(1)), info.getColumn(2).getInt() == 0, reference_of(name)});
  }
  return columns;
}

std::string names_of(const Columns& columns) {
  std::string names;
  for (const Column& column : columns) names += (names.empty() ? "" : ", ") + column.name;
  return names;
}

void bind_value(RowStatement& to, const FetchedValue& value, ColumnType type) {
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    to.bind(*integer);
  } else if (const auto* real = std::get_if<double>(&value)) {
    to.bind(*real);
  } else if (const auto* text = std::get_if<std::string_view>(&value)) {
    type == ColumnType::kBlob ? to.bind_bytes(*text) : to.bind(*text);
  } else {
    to.bind_null();
  }
}

uint64_t write_row(RowStatement& row, const Columns& columns, RowWriter& to) {
  ValuesHash hash;
  int i = 0;
  for (const Column& column : columns) {
    if (column.nullable) {
      const bool is_null = row.is_null(i);
      to.null(is_null);
      if (is_null) {
        hash.null(column);
        ++i;
        continue;
      }
    }
    if (is_text(column.type)) {
      const std::string_view bytes = row.bytes(i++);
      to.text(bytes);
      hash.text(column, bytes);
    } else if (column.type == ColumnType::kReal) {
      const double real = row.real(i++);
      to.f64(real);
      hash.number(column, std::bit_cast<uint64_t>(real));
    } else {
      const int64_t integer = row.integer(i++);
      if (!to.integer(integer, width_of(column.type))) {
        throw std::runtime_error("the file has a " + column.name + " of " +
                                 std::to_string(integer) +
                                 ", which greta does not write: `greta-db check` says more");
      }
      hash.number(column, static_cast<uint64_t>(integer));
    }
  }
  return hash.value();
}

uint64_t read_row(RowReader& from, const Columns& columns, std::vector<FetchedValue>& row) {
  ValuesHash hash;
  row.clear();
  for (const Column& column : columns) {
    if (column.nullable && from.null()) {
      row.emplace_back();
      hash.null(column);
    } else if (is_text(column.type)) {
      hash.text(column, std::get<std::string_view>(row.emplace_back(from.text())));
    } else if (column.type == ColumnType::kReal) {
      hash.number(column, std::bit_cast<uint64_t>(std::get<double>(row.emplace_back(from.f64()))));
    } else {
      const int64_t integer = from.integer(width_of(column.type));
      row.emplace_back(integer);
      hash.number(column, static_cast<uint64_t>(integer));
    }
  }
  return hash.value();
}

Record::Record(std::string table, uint64_t number, RowStatement& row)
    : kind(std::move(table)), ord(number) {
  for (int i = 0; i < row.columns(); ++i) {
    if (row.is_null(i)) {
      cells.emplace_back();
    } else if (row.type(i) == SQLITE_INTEGER) {
      cells.emplace_back(digits_of(row.integer(i)));
    } else if (row.type(i) == SQLITE_FLOAT) {
      cells.emplace_back(digits_of(row.real(i)));
    } else {
      cells.emplace_back(std::string(row.bytes(i)));
    }
  }
}

Record::Record(RowReader& row) : kind(row.text()), ord(row.u64()) {
  const uint64_t n = row.length();
  for (uint64_t i = 0; i < n; ++i) cells.push_back(row.text_or_null());
}

void Record::write(RowWriter& to) const {
  to.text(kind).u64(ord).length(cells.size());
  for (const auto& cell : cells) {
    to.null(!cell);
    if (cell) to.text(*cell);
  }
}

uint64_t Record::hash() const {
  RowHash hash;
  hash.text(kind).number(ord).number(cells.size());
  for (const auto& cell : cells) hash.text(cell ? *cell : "");
  hash.number(cells.size());
  for (const auto& cell : cells) hash.number(cell ? 0 : 1);
  return hash.value();
}

FetchedValue Record::value(size_t cell, ColumnType type) const {
  const auto& text = cells.at(cell);
  if (!text) return {};
  if (type == ColumnType::kInteger) return number_in<int64_t>(*text);
  if (type == ColumnType::kReal) return number_in<double>(*text);
  return std::string_view(*text);
}

int64_t Record::integer(size_t cell) const {
  const FetchedValue found = value(cell, ColumnType::kInteger);
  return std::holds_alternative<int64_t>(found) ? std::get<int64_t>(found) : 0;
}

const std::string& Record::text(size_t cell) const {
  static const std::string none;
  return cells.at(cell) ? *cells[cell] : none;
}

const std::vector<FleetTable>& fleet_tables() {
  static const std::vector<FleetTable> tables = make_tables();
  return tables;
}

std::string identity_sql(const std::string& run_id) {
  return "coalesce('source:' || (SELECT min(s.sha256) FROM source s WHERE s.run_id = " + run_id +
         " AND s.shape IN ('engine', 'row') AND s.sha256 <> 'being read' AND NOT EXISTS (SELECT 1"
         " FROM source o WHERE o.sha256 = s.sha256 AND o.shape = s.shape AND o.run_id <> "
         "s.run_id)),"
         " 'name:' || (SELECT own.name FROM run own WHERE own.id = " +
         run_id + "))";
}

std::string extent_sql(const std::string& run_id) {
  return "(SELECT count(*) || ':' || ifnull(sum(e.rows), 0) FROM source e WHERE e.run_id = " +
         run_id + ")";
}

const std::vector<RecordTable>& record_tables() {
  constexpr const char* kOfLevels = "run_id IN (SELECT value FROM json_each(?2))";
  constexpr const char* kOfSources = "source_id IN (SELECT value FROM json_each(?3))";
  static const std::vector<RecordTable> tables{
      {"run", "id IN (SELECT value FROM json_each(?2))", true},
      {"prompt", kOfLevels, true},
      {"source", "id IN (SELECT value FROM json_each(?3))", true},
      {"source_location", kOfSources, true},
      {"row_context",
       "id IN (SELECT x.context_id FROM trace_row x WHERE x.run_id = ?1 AND x.context_id IS NOT "
       "NULL)",
       false},
      {"trace_repeat", "run_id = ?1", false},
      {"readout", "run_id = ?1", false},
      {"plan", kOfLevels, false},
      {"attribute", kOfLevels, true},
      {"run_event", kOfLevels, true},
      {"run_metric", kOfLevels, true},
      {"log_event", kOfLevels, false},
      {"document_row", kOfSources, false},
      {"report", kOfLevels, true},
      {"report_pair", kOfLevels, true},
      {"report_claim", kOfLevels, true},
      // what a file of no source counts for: as in view run_state
      {"ingest_error",
       "source_id IN (SELECT value FROM json_each(?3)) OR source_id IS NULL AND ("
       " EXISTS (SELECT 1 FROM run r WHERE r.id = ?1 AND (ingest_error.about = r.name"
       "   OR r.name > ingest_error.about || '/' AND r.name < ingest_error.about || '0'))"
       " OR line = 0 AND file IN (SELECT substr(l.path, 1, instr(l.path, '!') - 1)"
       "   FROM source_location l WHERE instr(l.path, '!') > 0"
       "   AND l.source_id IN (SELECT value FROM json_each(?3))))",
       true},
      {"noise_floor",
       "model_sha256 IN (SELECT a.value FROM attribute a WHERE a.run_id = ?1"
       " AND a.dim IN ('model_root', 'model_sha256'))",
       false},
  };
  return tables;
}

std::string parameter_marks(size_t n) {
  std::string text;
  for (size_t i = 0; i < n; ++i) text += i == 0 ? "?" : ", ?";
  return text;
}

}  // namespace greta
