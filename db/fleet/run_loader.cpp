#include "db/fleet/run_loader.h"

#include <algorithm>
#include <utility>

#include "db/clickhouse/error.h"
#include "db/run_records.h"

namespace greta {
namespace {

int64_t mapped_id(const Ids& ids, int64_t id, const char* what) {
  const auto found = ids.find(id);
  if (found != ids.end()) return found->second;
  throw clickhouse::Error("a run refers to a " + std::string(what) +
                          " that did not come with it: its push is damaged");
}

/// Its own id where that is free.
constexpr const char* kAddTensor =
    "INSERT INTO tensor(id, ord, name, stage) SELECT CASE WHEN EXISTS (SELECT 1 FROM tensor"
    " WHERE id = ?1) THEN NULL ELSE ?1 END, ?2, ?3, ?4";
constexpr const char* kAddName =
    "INSERT INTO tensor_name(id, name, tensor_id, cause) SELECT CASE WHEN EXISTS (SELECT 1 FROM"
    " tensor_name WHERE id = ?1) THEN NULL ELSE ?1 END, ?2, ?3, ?4";

/// Position of a table in the order of loading: after the tables that it refers to.
size_t place_of(const std::string& table) {
  const std::vector<RecordTable>& tables = record_tables();
  const auto found = std::find_if(tables.begin(), tables.end(),
                                  [&](const RecordTable& one) { return table == one.name; });
  return static_cast<size_t>(found - tables.begin());
}

}  // namespace

int64_t PushedRun::mapped(Reference reference, int64_t id) const {
  if (rules == nullptr) return id;  // of this database already
  switch (reference) {
    case Reference::kOwn:
      return id + offset;
    case Reference::kRun:
      return mapped_id(runs, id, "run");
    case Reference::kSource: {
      const auto known = known_sources.find(id);
      return known == known_sources.end() ? id + offset : known->second;
    }
    case Reference::kTensor:
      return mapped_id(rules->tensors, id, "trace point");
    case Reference::kName:
      return mapped_id(rules->names, id, "name of a trace point");
    case Reference::kPhase:
      return mapped_id(rules->phases, id, "phase");
    case Reference::kNone:
      break;
  }
  return id;
}

RunLoader::Insert::Insert(SQLite::Database& db, const std::string& table, Columns of)
    : columns(std::move(of)),
      has_run(std::any_of(columns.begin(), columns.end(),
                          [](const Column& c) { return c.reference == Reference::kRun; })),
      statement(db, "INSERT OR IGNORE INTO " + table + "(" + names_of(columns) + ") VALUES (" +
                        parameter_marks(columns.size()) + ")") {}

RunLoader::Insert& RunLoader::insert(const std::string& table) {
  std::unique_ptr<Insert>& to = inserts_[table];
  if (!to) to = std::make_unique<Insert>(db_, table, table_columns(db_, table));
  return *to;
}

void RunLoader::bind(Insert& to, const PushedRun& run, const Column& column,
                     const FetchedValue& value) {
  const auto* id = std::get_if<int64_t>(&value);
  bind_value(to.statement, id ? FetchedValue(run.mapped(column.reference, *id)) : value,
             column.type);
}

void RunLoader::put_row(const PushedRun& run, size_t table, std::span<const FetchedValue> row) {
  Insert& to = insert(fleet_tables()[table].name);
  size_t next = 0;
  for (const Column& column : to.columns) {
    if (column.reference == Reference::kRun) {
      to.statement.bind(run.run_id);
    } else {
      bind(to, run, column, row[next++]);
    }
  }
  to.statement.run();
}

void RunLoader::put_change(const PushedRun& run, std::span<const FetchedValue> row) {
  const auto baseline = run_of_identity_.find(std::get<std::string_view>(row[0]));
  if (baseline == run_of_identity_.end()) return;
  static const std::string is_as_it_was = "SELECT " + extent_sql("?1") + " = ?2";
  const std::string extent(std::get<std::string_view>(row[1]));
  if (statements_.find_id(is_as_it_was.c_str(), baseline->second, extent) != 1) return;
  Insert& to = insert("run_change");
  to.statement.bind(run.run_id);
  to.statement.bind(baseline->second);
  for (size_t i = 2; i < row.size(); ++i) bind(to, run, to.columns[i], row[i]);
  to.statement.run();
}

void RunLoader::put(PushedRun& run, std::vector<Record>& records) {
  std::sort(records.begin(), records.end(), [](const Record& a, const Record& b) {
    return std::pair(place_of(a.kind), a.ord) < std::pair(place_of(b.kind), b.ord);
  });
  for (const Record& record : records) put_record(run, record);
}

void RunLoader::put_shared(const Record& record) { put_plainly({}, record); }

void RunLoader::put_record(PushedRun& run, const Record& record) {
  if (record.kind == "run") return put_run(run, record);
  if (record.kind == "source") return put_source(run, record);
  if (record.kind == "noise_floor") {  // the latest measurement of a place stands
    statements_(
        "DELETE FROM noise_floor WHERE tensor_id = ? AND layer = ? AND model_sha256 = ?"
        " AND dtype = ? AND backend = ? AND measured_at < ?",
        run.mapped(Reference::kTensor, record.integer(0)), record.integer(1), record.text(2),
        record.text(3), record.text(4), record.text(8))
        .exec();
  } else if (came_with_another(run, record)) {
    return;
  }
  put_plainly(run, record);
}

void RunLoader::put_plainly(const PushedRun& run, const Record& record) {
  Insert& to = insert(record.kind);
  if (record.cells.size() != to.columns.size())
    throw clickhouse::Error("a record of " + record.kind +
                            " has other columns: its push is damaged");
  for (size_t i = 0; i < to.columns.size(); ++i)
    bind(to, run, to.columns[i], record.value(i, to.columns[i].type));
  to.statement.run();
}

/// True if the row belongs to a directory level that is here already.
bool RunLoader::came_with_another(const PushedRun& run, const Record& record) {
  const Insert& to = insert(record.kind);
  for (size_t i = 0; i < std::min(to.columns.size(), record.cells.size()); ++i) {
    if (!record.cells[i]) continue;
    const Reference reference = to.columns[i].reference;
    if (reference == Reference::kRun && run.known_runs.contains(record.integer(i))) return true;
    if (!to.has_run && reference == Reference::kSource &&
        run.known_sources.contains(record.integer(i)))
      return true;
  }
  return false;
}

void RunLoader::put_run(PushedRun& run, const Record& record) {
  const int64_t there = record.integer(0);
  const bool is_it = there == run.published->origin;
  Record named = record;
  if (is_it) {
    named.cells.at(1) = free_run_name(db_, run.published->run);
  } else if (const auto known =
                 statements_.find_id("SELECT id FROM run WHERE name = ?", record.text(1))) {
    run.runs[there] = *known;
    run.known_runs.insert(there);
    return;
  }
  // its own where that is free: runs of one file stay in their order
  const bool is_free = !statements_.find_id("SELECT 1 FROM run WHERE id = ?", there);
  const int64_t id =
      is_free ? there : statements_.find_id("SELECT max(id) + 1 FROM run").value_or(1);
  run.runs[there] = id;
  named.cells.at(0) = std::to_string(id);
  put_shared(named);
  if (!is_it) return;
  run.run_id = id;
  run_of_identity_[run.published->identity] = id;
}

/// A source of a directory level may be here already.
void RunLoader::put_source(PushedRun& run, const Record& record) {
  put_plainly(run, record);
  const int64_t there = record.integer(0);
  const auto here = statements_.find_id(
      "SELECT id FROM source WHERE run_id = ? AND leg = ? AND prompt = ? AND sha256 = ?",
      run.mapped(Reference::kRun, record.integer(1)), record.text(2), record.text(3),
      record.text(4));
  if (here && *here != there + run.offset) run.known_sources[there] = *here;
}

int64_t RunLoader::id_of_name(const char* find, const std::string& name, SQLite::Statement& add) {
  if (const auto here = statements_.find_id(find, name)) return *here;
  add.exec();
  return db_.getLastInsertRowid();
}

Rules RunLoader::put_rules(const std::vector<Record>& records) {
  Rules rules;
  const auto with = [&](const std::string& kind, const auto& put) {
    for (const Record& record : records) {
      if (record.kind == kind) put(record);
    }
  };
  with("cause", [&](const Record& cause) { put_shared(cause); });
  with("phase", [&](const Record& phase) {
    rules.phases[phase.integer(0)] =
        id_of_name("SELECT id FROM phase WHERE name = ?", phase.text(1),
                   statements_("INSERT INTO phase(name, side) VALUES (?, ?)", phase.text(1),
                               phase.integer(2)));
  });
  with("tensor", [&](const Record& tensor) {
    rules.tensors[tensor.integer(0)] =
        id_of_name("SELECT id FROM tensor WHERE name = ?", tensor.text(2),
                   statements_(kAddTensor, tensor.integer(0), tensor.integer(1), tensor.text(2),
                               tensor.text(3)));
  });
  with("tensor_name", [&](const Record& name) {
    rules.names[name.integer(0)] = id_of_name(
        "SELECT id FROM tensor_name WHERE name = ?", name.text(1),
        statements_(kAddName, name.integer(0), name.text(1),
                    mapped_id(rules.tensors, name.integer(2), "trace point"), name.text(3)));
  });
  with("tolerance", [&](Record tolerance) {
    if (tolerance.cells.at(0)) {
      tolerance.cells[0] =
          std::to_string(mapped_id(rules.tensors, tolerance.integer(0), "trace point"));
    }
    rules.tolerances.push_back(std::move(tolerance.cells));
  });
  return rules;
}

void RunLoader::use_tolerances(const Rules& rules) {
  db_.exec("DELETE FROM tolerance");
  for (const auto& cells : rules.tolerances) {
    Record tolerance;
    tolerance.kind = "tolerance";
    tolerance.cells = cells;
    put_shared(tolerance);
  }
}

}  // namespace greta
