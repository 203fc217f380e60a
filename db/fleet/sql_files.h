#pragma once
#include "db/sql_files.h"

namespace greta {

/// All of queries/clickhouse/.
const std::vector<SqlFile>& clickhouse_sql_files();

}  // namespace greta
