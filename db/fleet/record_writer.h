#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/sha256.h"
#include "db/clickhouse/row_binary.h"
#include "db/fleet/row_sum.h"
#include "db/fleet/row_text.h"
#include "db/fleet/run_tables.h"
#include "db/row_statement.h"

namespace greta {

/// Columns of the table of records, as they are sent.
inline constexpr const char* kRecordColumnsThere = "shard, push, kind, ord, cells";

/// The first 64 bits of a digest.
uint64_t number_of(const Sha256::Digest& digest);

/// Selects a table's rows of a run as records hold them: a run of another push by its identity, and
/// prompts of that run by name. Parameters are those of RunTable::condition.
std::string record_select(SQLite::Database& db, const RunTable& table);

/// Rows of tables as they travel, one push after the other, and the digest of what they say.
class RecordWriter {
 public:
  void begin(uint64_t shard, uint64_t push) {
    shard_ = shard;
    push_ = push;
    sum_ = {};
    content_ = Sha256();
  }

  /// Rows of a statement, all of its columns; answers that are kept are no part of the content.
  void add(RowStatement& rows, const std::string& kind, bool is_content) {
    const int columns = rows.columns();
    for (uint64_t ord = 0; rows.step(); ++ord) {
      cells_.clear();
      for (int i = 0; i < columns; ++i) cells_.push_back(cell_text(rows, i));
      add_row(kind, ord, is_content);
    }
    rows.reset();
  }

  void add_row(const std::string& kind, uint64_t ord, const std::vector<CellText>& cells) {
    cells_ = cells;
    add_row(kind, ord, true);
  }
  /// An answer: no part of the content.
  void add_kept(const std::string& kind, uint64_t ord, const std::vector<CellText>& cells) {
    cells_ = cells;
    add_row(kind, ord, false);
  }

  uint64_t count() const { return sum_.n; }
  const RowSum& sum() const { return sum_; }
  const clickhouse::RowWriter& rows() const { return rows_; }
  Sha256& content() { return content_; }
  void clear() { rows_.clear(); }

 private:
  void add_row(const std::string& kind, uint64_t ord, bool is_content) {
    rows_.u64(shard_).u64(push_);
    const size_t from = rows_.size();
    rows_.text(kind).u64(ord).length(cells_.size());
    for (const CellText& cell : cells_) {
      rows_.null(!cell);
      if (cell) rows_.text(*cell);
    }
    if (is_content) content_.update(rows_.bytes().data() + from, rows_.size() - from);
    sum_.add(hash_of_cells(kind, ord, cells_));
  }

  clickhouse::RowWriter rows_;
  std::vector<CellText> cells_;
  uint64_t shard_ = 0, push_ = 0;
  RowSum sum_;
  Sha256 content_;
};

}  // namespace greta
