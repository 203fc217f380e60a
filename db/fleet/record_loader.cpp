#include "db/fleet/record_loader.h"

#include <algorithm>

#include "db/clickhouse/error.h"
#include "db/fleet/run_tables.h"
#include "db/run_name.h"
#include "db/schema.h"

namespace greta {
namespace {

/// Where a table stands among those of a run: what others refer to comes first.
size_t place_of(const std::string& table) {
  const auto tables = run_tables();
  const auto found = std::find_if(tables.begin(), tables.end(),
                                  [&](const RunTable& one) { return table == one.name; });
  return static_cast<size_t>(found - tables.begin());
}

}  // namespace

RecordLoader::Table& RecordLoader::table(const std::string& name) {
  Table& to = tables_[name];
  if (to.insert) return to;
  const std::string columns = columns_of(db_, name);
  to.columns = split_columns(columns);
  to.types = column_types(db_, name);
  for (const std::string& column : to.columns) {
    to.references.push_back(reference_of(column));
    to.has_run = to.has_run || column == "run_id";
  }
  to.has_id = to.columns.front() == "id";
  to.insert = std::make_unique<SQLite::Statement>(
      db_, "INSERT OR IGNORE INTO " + name + "(" + columns + ") VALUES (" +
               parameter_marks(to.columns.size()) + ")");
  return to;
}

/// Returns the id that SQLite gave it, 0 when it was there.
int64_t RecordLoader::put_row(const PushedRun& run, const std::string& name,
                              const std::vector<CellText>& cells, std::optional<int64_t> own_id) {
  Table& to = table(name);
  if (cells.size() < to.types.size())
    throw clickhouse::Error("a record of " + name + " lacks columns: its push is damaged");
  to.insert->reset();
  for (size_t i = 0; i < to.types.size(); ++i) {
    const int parameter = static_cast<int>(i) + 1;
    const Reference reference = to.references[i];
    const bool not_fetched = reference == Reference::kContext && run.contexts.empty();
    if (i == 0 && to.has_id) {
      bind_optional(*to.insert, parameter, own_id);
    } else if (reference == Reference::kVector || not_fetched) {
      to.insert->bind(parameter);
    } else if (reference != Reference::kNone && cells[i]) {
      to.insert->bind(parameter, run.mapped(reference, integer_of(cells[i])));
    } else {
      bind_cell(*to.insert, parameter, cells[i], to.types[i]);
    }
  }
  return to.insert->exec() > 0 ? db_.getLastInsertRowid() : 0;
}

void RecordLoader::put(PushedRun& run, std::vector<Record>& records) {
  std::sort(records.begin(), records.end(), [](const Record& a, const Record& b) {
    return std::pair(place_of(a.kind), a.ord) < std::pair(place_of(b.kind), b.ord);
  });
  for (const Record& record : records) put_record(run, record);
}

void RecordLoader::put_shared(const Record& record) { put_row({}, record.kind, record.cells); }

void RecordLoader::put_record(PushedRun& run, const Record& record) {
  const std::vector<CellText>& cells = record.cells;
  if (record.kind == "run") {
    put_run(run, cells);
  } else if (record.kind == "prompt") {
    const int64_t id = put_row(run, record.kind, cells);
    run.prompts[integer_of(cells.at(0))] = id != 0 ? id : find_prompt(run, cells);
  } else if (record.kind == "source") {
    put_source(run, cells);
  } else if (record.kind == "row_context") {
    const int64_t id = put_row(run, record.kind, cells);
    run.contexts[integer_of(cells.at(0))] = id;
  } else if (record.kind == "kept_diff") {
    comparisons_.emplace_back(&run, record);
  } else if (record.kind == "noise_floor") {
    put_noise(run, cells);
  } else if (!came_with_another(run, table(record.kind), cells)) {
    put_row(run, record.kind, cells);
  }
}

/// Whether a row is of a directory level that is here already.
bool RecordLoader::came_with_another(const PushedRun& run, const Table& to,
                                     const std::vector<CellText>& cells) const {
  for (size_t i = 0; i < std::min(to.references.size(), cells.size()); ++i) {
    if (!cells[i]) continue;
    const Reference reference = to.references[i];
    if (reference == Reference::kRun && run.known_runs.contains(integer_of(cells[i]))) return true;
    if (!to.has_run && reference == Reference::kSource &&
        run.known_sources.contains(integer_of(cells[i])))
      return true;
  }
  return false;
}

void RecordLoader::put_run(PushedRun& run, const std::vector<CellText>& cells) {
  const int64_t there = integer_of(cells.at(0));
  const bool is_it = there == run.published->origin;
  std::vector<CellText> named = cells;
  if (is_it) {
    named.at(1) = free_run_name(db_, run.published->run);
  } else if (const auto known = statements_.find_id("SELECT id FROM run WHERE name = ?",
                                                    cells.at(1).value_or(""))) {
    run.runs[there] = *known;
    run.known_runs.insert(there);
    return;
  }
  // its own where that is free: runs of one file stay in their order
  const bool is_free = !statements_.find_id("SELECT 1 FROM run WHERE id = ?", there);
  const int64_t id = put_row(run, "run", named, is_free ? std::optional(there) : std::nullopt);
  run.runs[there] = id;
  if (!is_it) return;
  run.run_id = id;
  run_of_identity_[run.published->identity] = id;
}

int64_t RecordLoader::find_prompt(const PushedRun& run, const std::vector<CellText>& cells) {
  return statements_
      .find_id("SELECT id FROM prompt WHERE run_id = ? AND name = ?",
               run.mapped(Reference::kRun, integer_of(cells.at(1))), cells.at(2).value_or(""))
      .value_or(0);
}

void RecordLoader::put_source(PushedRun& run, const std::vector<CellText>& cells) {
  const int64_t there = integer_of(cells.at(0));
  int64_t id = put_row(run, "source", cells);
  if (id == 0) {
    id = statements_
             .find_id(
                 "SELECT id FROM source WHERE run_id = ? AND leg = ? AND prompt = ? AND sha256 = ?",
                 run.mapped(Reference::kRun, integer_of(cells.at(1))), cells.at(2).value_or(""),
                 cells.at(3).value_or(""), cells.at(4).value_or(""))
             .value_or(0);
    run.known_sources.insert(there);
  }
  run.sources[there] = id;
}

/// The latest measurement of a place stands.
void RecordLoader::put_noise(PushedRun& run, const std::vector<CellText>& cells) {
  statements_(
      "DELETE FROM noise_floor WHERE tensor_id = ? AND layer = ? AND model_sha256 = ?"
      " AND dtype = ? AND backend = ? AND measured_at < ?",
      run.mapped(Reference::kTensor, integer_of(cells.at(0))), integer_of(cells.at(1)),
      cells.at(2).value_or(""), cells.at(3).value_or(""), cells.at(4).value_or(""),
      cells.at(8).value_or(""))
      .exec();
  put_row(run, "noise_floor", cells);
}

void RecordLoader::put_comparisons() {
  for (auto& [run, record] : comparisons_) put_comparison(*run, record.cells);
  comparisons_.clear();
}

/// Cells are the table's columns, run a by its identity and prompts, which are run a's, by name;
/// then what told its content when they were compared.
void RecordLoader::put_comparison(const PushedRun& run, std::vector<CellText>& cells) {
  Table& to = table("kept_diff");
  if (cells.size() != to.columns.size() + 1 || !cells[0]) return;
  const auto a = run_of_identity_.find(*cells[0]);
  if (a == run_of_identity_.end()) return;
  const bool is_as_it_was =
      statements_
          .find_id(
              "SELECT 1 FROM (SELECT count(*) || ':' || ifnull(sum(s.rows), 0) AS x FROM"
              " source s WHERE s.run_id = ?) WHERE x = ?",
              a->second, cells.back().value_or(""))
          .has_value();
  if (!is_as_it_was) return;
  to.insert->reset();
  to.insert->bind(1, a->second);
  for (size_t i = 1; i < to.columns.size(); ++i) {
    const int parameter = static_cast<int>(i) + 1;
    const Reference reference = to.references[i];
    if (reference == Reference::kPrompt && cells[i]) {
      const auto prompt = statements_.find_id("SELECT id FROM prompt WHERE run_id = ? AND name = ?",
                                              a->second, *cells[i]);
      if (!prompt) return;
      to.insert->bind(parameter, *prompt);
    } else if (reference != Reference::kNone && cells[i]) {
      to.insert->bind(parameter, run.mapped(reference, integer_of(cells[i])));
    } else {
      bind_cell(*to.insert, parameter, cells[i], to.types[i]);
    }
  }
  to.insert->exec();
}

}  // namespace greta
