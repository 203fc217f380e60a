#pragma once
#include <string>
#include <string_view>

namespace greta::clickhouse {

/// A text as ClickHouse reads it in a statement, whatever its bytes: 'it\'s'. The only way by which
/// a value gets into one; all others travel as data (RowBinary, external tables).
std::string quote_text(std::string_view text);

/// A name of a database, table or column, in `back quotes`.
std::string quote_name(std::string_view name);

}  // namespace greta::clickhouse
